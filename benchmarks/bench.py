"""Every measurement by one command: python benchmarks/bench.py [--quick] [--parts engine,peers] [--service] [--out DIR].

Each part is a module here with a function ``measured(quick) -> dict`` and runs in a process of its own: one that fails,
or takes too long, is reported with its reason, the rest goes on, and the exit code is 1. Writes bench.json (the numbers,
the machine, the versions), bench.md (tables, and targets met or missed) and bench.svg. ``--show`` writes the latter two
anew from bench.json.

A part may return anything that JSON holds; lists of rows, and dictionaries, become tables. Four keys mean more:
``targets`` (``measuring.target``), ``charts`` (``shown.py``), ``notes``, and ``raw``, which is kept but not shown.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring
import shown

HERE = Path(__file__).resolve().parent
PARTS = (
    *("engine", "arms", "growth", "online", "large", "candidates", "peers"),
    *("accounting", "cores", "starting"),
)
"""In the order in which they run; one whose module is not there (yet) is left out."""
SERVICE = ("service_load",)
"""With --service: minutes, on a machine with nothing else to do."""
LIMIT = 900
"""Seconds that a part may take: many times what it takes on an idle machine."""
SAID = ("scale", "commit")
"""What is said of each part beside its date: one that is measured alone stands beside older ones."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def scale_of(asked):
    return "tiny" if asked.tiny else "quick" if asked.quick else "full"


def measure(name, scale, into):
    """In this process: one part. ``TINY`` of its module are arguments that make it small."""
    sys.path.insert(0, str(HERE))
    module = importlib.import_module(name)
    small = getattr(module, "TINY", {}) if scale == "tiny" else {}
    found = module.measured(scale != "full", **small)
    title = (module.__doc__ or name).strip().partition("\n")[0].partition(": ")[0].rstrip(".")
    Path(into).write_text(json.dumps({"title": title, "found": found}))


def run(name, scale):
    """A part in a process of its own: what it found, or why it failed, and how long it took."""
    command = [sys.executable, str(HERE / "bench.py"), "--measure", name, "--scale", scale]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        into, log = Path(folder) / "found.json", Path(folder) / "log"
        with open(log, "w") as output:
            process = subprocess.Popen(
                [*command, "--into", str(into)],
                stdout=sys.stderr,
                stderr=output,
                env=ONE_THREAD | os.environ,
                start_new_session=True,
            )
            try:
                process.wait(LIMIT)
                reason = None if process.returncode == 0 and into.exists() else last_line(log, process.returncode)
            except subprocess.TimeoutExpired:
                reason = f"took longer than {LIMIT} s"
            finally:
                if process.poll() is None:  # with what it started itself
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        seconds = {"seconds": round(time.perf_counter() - began, 1)}
        if reason is not None:
            sys.stderr.write(log.read_text()[-4000:])
            return {"failed": reason} | seconds
        return json.loads(into.read_text()) | seconds


def last_line(log, code):
    """What an exception said last, or how the process ended."""
    lines = [line for line in log.read_text().splitlines() if line.strip()]
    return lines[-1].strip() if lines and code > 0 else f"ended with code {code}"


def commit():
    """What is measured, as git names it."""
    asked = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=10"]
    answer = subprocess.run(asked, capture_output=True, text=True)
    return answer.stdout.strip() or "unknown"


def begun(earlier, scale, names):
    """What is said of a run, and the parts measured before on this machine with these versions, if they are to be kept."""
    results = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "scale": scale,
        "commit": commit(),
        "machine": measuring.machine(),
        "versions": measuring.versions(),
        "asked": list(names),
        "parts": {},
    }
    if earlier is not None and earlier.exists():
        known = json.loads(earlier.read_text())
        results["asked"] = list(dict.fromkeys([*known.get("asked", ()), *names]))  # what is dropped below is missed
        same = {key: value for key, value in known["machine"].items() if key != "load before"}
        if same.items() <= results["machine"].items() and known["versions"] == results["versions"]:
            results["parts"] = known["parts"]
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a first look: smaller sizes, fewer repeats")
    parser.add_argument("--tiny", action="store_true", help="sizes to test this command with; the numbers mean nothing")
    parser.add_argument("--parts", help=f"only these, beside what was measured before: {','.join((*PARTS, *SERVICE))}")
    parser.add_argument("--service", action="store_true", help="measure the service under load too")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--show", action="store_true", help="measure nothing: tables and picture anew from bench.json")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--scale", help=argparse.SUPPRESS)
    parser.add_argument("--into", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure, asked.scale, asked.into)
        return 0
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / "bench.json"
    if asked.show:
        results = {"asked": list(PARTS)} | json.loads(file.read_text())
        file.write_text(json.dumps(results, indent=1) + "\n")
        names = list(results["parts"])
    else:
        there = [name for name in PARTS if (HERE / f"{name}.py").exists()] + list(SERVICE if asked.service else ())
        names = asked.parts.split(",") if asked.parts else there
        results = begun(file if asked.parts else None, scale_of(asked), names)
        for name in names:
            sys.stderr.write(f"{name} ... ")
            sys.stderr.flush()
            results["parts"][name] = found = run(name, scale_of(asked)) | {key: results[key] for key in ("date", *SAID)}
            sys.stderr.write(f"{found['seconds']} s{', FAILED: ' + found['failed'] if 'failed' in found else ''}\n")
            file.write_text(json.dumps(results, indent=1) + "\n")
    shown.write(results, asked.out)
    if asked.out == HERE / "results":
        shown.include(results, HERE / "README.md")
    sys.stdout.write("\n\n".join(filter(None, [shown.changed(results), shown.verdicts(results)])) + "\n")
    return int(any("failed" in results["parts"][name] for name in names))


if __name__ == "__main__":
    raise SystemExit(main())
