"""The privacy audit of the decision service, at length: python benchmarks/service_audit.py [--quick] [--timing].

Three parts. Canaries: every reward is a guess of its own. Whole runs: each is one guess, by everything that outsiders see
in it. With --timing: what a stopwatch tells after a reward, and around the closing of a batch, on SQLite and PostgreSQL;
no guarantee covers that. Bounds hold at 99.9 %; a bound above its claim ends
with exit code 1; --json FILE keeps the numbers. `tests/service/test_audit*.py` are the short version.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.service.conftest import new_database, running_postgresql
from tests.service.guessing import Canaries, ServiceTarget, neighbours

from adaprivate import policies
from adaprivate.audit import Claim, audited
from adaprivate.audit.bounds import best_rule, counted, epsilon_bound, mu_bound
from adaprivate.service.bandit import BanditSpec, settings_of

CONFIDENCE, EPSILON = 0.999, 2.0
MEMORY = Path("/dev/shm")
"""Where nothing waits for a disk, if there is such a place."""
WATCHED = 0.05
"""Seconds for which the stopwatch runs: two beats of the service, in which a reward is stored."""
TOGETHER, WINDOW = 200, 0.6
"""Rounds of the batches whose closing is watched, and the seconds for which they wait for rewards."""
AROUND = (0.02, 0.25)
"""Seconds for which the stopwatch runs before and after a batch is due: deletions are over by then."""
CANARIES = {"sums": 1_500, "flips": 400, "holdback": 250}
"""Runs of each kind."""
SUMS = {"policy": "adaprivate-ts", "rounds": 2, "batch_size": 2, "dimension": 2, "options": {"calibration": "exact"}}
GAUSSIAN = {"policy": "noise-aware-ts", "rounds": 2, "batch_size": 2, "dimension": 2, "options": {"channel": "gaussian"}}
PEOPLE = {"policy": "noise-aware-ts", "rounds": 3, "batch_size": 3, "dimension": 2, "unit": "user"}
WHOLE = {
    "sums, zero": (SUMS, neighbours(2, 0)["zero"], "policy"),
    "sums, missing": (SUMS, neighbours(2, 0)["missing"], "policy"),
    "sums, late": (SUMS, neighbours(2, 0)["late"], "policy"),
    "gaussian channel, zero": (GAUSSIAN, neighbours(2, 0)["zero"], "policy"),
    "flips, zero": (
        {"policy": "rr-linucb", "rounds": 40, "batch_size": 2, "dimension": 2},
        neighbours(2, 0)["zero"],
        "policy",
    ),
    "auto, zero": ({"policy": "noise-aware", "rounds": 40, "dimension": 2}, neighbours(2, 0)["zero"], "policy"),
    "holdback, missing": (SUMS | {"batch_size": 1, "holdback": 0.5}, neighbours(4, 0)["missing"], "holdback"),
    "a person, zero": (PEOPLE | {"options": {"counted_visits": 3}}, neighbours(3, 0, 1, 2)["zero"], "policy"),
}


def claim_of(spec: dict, rewarded: str) -> Claim:
    """What the service claims of such a bandit; of its holdback pure epsilon."""
    described = BanditSpec(name="page", epsilon=EPSILON, **spec)
    settings = settings_of(described, spec["dimension"])
    guarantee = settings.guarantee(exact_noise=True)
    if rewarded == "holdback":
        return Claim(guarantee.epsilon, 0.0, None, False)
    return Claim.of(guarantee, settings.plan, exact_noise=True)


def canaries(folder: Path, factor: float) -> list[dict]:
    found = []
    for kind, runs in CANARIES.items():
        (folder / kind).mkdir()
        with closing(Canaries(folder / kind, kind, EPSILON)) as birds:
            began = time.process_time()
            guessed = birds.guessed(max(2, int(runs * factor)), seed=1)
        measured = guessed.at(CONFIDENCE)
        row = {"what": f"canaries: {kind}", "guesses": guessed.guesses, "measure": "mu" if guessed.gaussian else "epsilon"}
        row |= {"claimed": guessed.claimed, "at least": measured, "share": measured / guessed.claimed}
        found.append(row | {"holds": measured <= guessed.claimed, "seconds": time.process_time() - began})
        show(found[-1])
    return found


def whole_runs(folder: Path, trials: int) -> list[dict]:
    found = []
    for what, (spec, pair, rewarded) in WHOLE.items():
        claim = claim_of(spec, rewarded)
        place = folder / what.replace(" ", "-")
        place.mkdir()
        began = time.process_time()
        with closing(ServiceTarget(place, {**spec, "epsilon": EPSILON}, pair, claim, rewarded)) as target:
            finding = audited(target, trials=trials, confidence=CONFIDENCE)
        gaussian = claim.gaussian and claim.mu is not None
        row = {"what": f"whole runs: {what}", "guesses": trials, "measure": "mu" if gaussian else "epsilon"}
        row |= {"claimed": claim.mu if gaussian else claim.epsilon, "share": finding.share, "attack": finding.attack}
        row |= {"at least": finding.measured_mu if gaussian else finding.direct_epsilon, "holds": finding.holds}
        found.append(row | {"seconds": time.process_time() - began})
        show(found[-1])
    return found


def told(what: str, scores: np.ndarray, two: np.ndarray) -> dict:
    """What a stopwatch proves: a threshold is chosen on the first third, and judged on the rest."""
    first = np.arange(len(scores)) < len(scores) // 3
    alpha, rest = 1 - CONFIDENCE, int((~first).sum())
    bounds = {
        "mu": lambda counts, how: mu_bound(counts, how, alpha / 2),
        "epsilon": lambda counts, how: epsilon_bound(counts, how, 1e-5, alpha / 2),
    }
    row: dict = {"what": what, "guesses": rest}
    for name, bound in bounds.items():
        rule = best_rule(scores[first], two[first], rest, bound)
        counts = counted(scores[~first], two[~first], np.array([rule.threshold]))
        row[f"at least, {name}"] = float(bound(counts, rule.how)[0])
    row |= {"mean without": float(scores[~two].mean()), "mean with": float(scores[two].mean())}
    show(row)
    return row


class Server:
    """`adaprivate serve` for this machine, with bandits of which `closing` alone closes batches."""

    def __init__(self, folder: Path, database: str | None = None) -> None:
        command = [sys.executable, "-m", "adaprivate", "serve", "--journal", str(folder / "journal")]
        command += ["--database", database or f"sqlite:///{folder / 'service.db'}"]
        self._process = subprocess.Popen(
            [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.address = json.loads(self._process.stdout.readline())["address"]
        with self.client() as http:
            spec = {"dimension": 2, "rounds": 10**6, "batch_size": 10**6, "policy": "adaprivate-ts"}
            short = {"batch_size": TOGETHER, "reward_window": WINDOW}
            for name, own in (("page", {}), ("other", {}), ("closing", short)):
                assert http.post("/bandits", json={**spec, **own, "name": name}).status_code == 201
                http.put(f"/bandits/{name}/items", json={"items": {"a": [1, 0], "b": [0, 1]}})

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, trust_env=False, timeout=60)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)


_VICTIM = """
import sys, httpx
with httpx.Client(base_url=sys.argv[1], trust_env=False, timeout=60) as http:
    http.get("/health")
    print(flush=True)
    for line in sys.stdin:
        if line.strip() != "none":
            http.put(f"/decisions/{line.strip()}/reward", json={"reward": 1})
        print(flush=True)
"""


def stopwatch(folder: Path, trials: int, disk: str) -> list[dict]:
    """How long decisions take in the moments after somebody's reward came, or did not; that somebody is another process."""
    with closing(Server(folder)) as server, server.client() as http:
        victim = subprocess.Popen(
            [sys.executable, "-c", _VICTIM, server.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert victim.stdin is not None
        assert victim.stdout is not None
        victim.stdout.readline()
        tokens: list[str] = []
        while len(tokens) < trials:
            many = {"decisions": [{"propensity": False}] * 1_000}
            answer = http.post("/bandits/page/decisions:batch", json=many)
            tokens += [one["decision_id"] for one in answer.json()["decisions"]]
        two = np.array([secrets.randbelow(2) for _ in range(trials)], dtype=bool)
        scores: dict[str, list[float]] = {"the first": [], "the longest": [], "how many": []}
        for n in range(trials):
            time.sleep(0.03 * secrets.randbelow(1000) / 1000)  # at any time of a beat
            victim.stdin.write(f"{tokens[n] if two[n] else 'none'}\n")
            victim.stdin.flush()
            times = [time.perf_counter()]
            while times[-1] - times[0] < WATCHED:
                http.post("/bandits/page/decisions", json={"propensity": False})
                times.append(time.perf_counter())
            victim.stdout.readline()
            took = np.diff(times)
            for name, value in zip(scores, (took[0], took.max(), len(took)), strict=True):
                scores[name].append(float(value))
        victim.stdin.close()
        victim.wait(60)
    what = f"a stopwatch, database on {disk}: decisions for {1e3 * WATCHED:.0f} ms after a reward"
    return [told(f"{what}, {name}", np.array(values), two) for name, values in scores.items()]


def closings(folder: Path, trials: int, where: str, database: str | None = None) -> list[dict]:
    """How long decisions of a bandit take while a batch of another closes for which rewards came, or none.

    As many rewards are sent, and stored, in both cases: to the batch, or to a bandit that closes none.
    """
    scores: dict[str, list[float]] = {"the longest": [], "the two longest": [], "how many": []}
    two: list[bool] = []
    many = {"decisions": [{"propensity": False}] * TOGETHER}
    with closing(Server(folder, database)) as server, server.client() as http:
        for _ in range(trials):
            ids, came = {}, bool(secrets.randbelow(2))
            for name in ("other", "closing"):
                answer = http.post(f"/bandits/{name}/decisions:batch", json=many)
                ids[name] = [one["decision_id"] for one in answer.json()["decisions"]]
            due = time.perf_counter() + WINDOW
            rewards = [{"decision_id": one, "reward": 1} for one in ids["closing" if came else "other"]]
            assert {*http.post("/rewards:batch", json={"rewards": rewards}).json()["statuses"]} == {"recorded"}
            early = due - AROUND[0] - time.perf_counter()
            if early < 0:  # the machine was busy elsewhere
                continue
            time.sleep(early)
            two.append(came)
            times = [time.perf_counter()]
            while times[-1] < due + AROUND[1]:
                http.post("/bandits/page/decisions", json={"propensity": False})
                times.append(time.perf_counter())
            took = np.sort(np.diff(times))
            for name, value in zip(scores, (took[-1], took[-2:].sum(), len(took)), strict=True):
                scores[name].append(float(value))
        batches = http.get("/bandits/closing").json()["version"]
        assert batches >= trials - 1, batches
    what = f"a stopwatch, {where}: decisions while a batch of {TOGETHER} rounds closes"
    return [told(f"{what}, {name}", np.array(values), np.array(two)) for name, values in scores.items()]


def show(row: dict) -> None:
    print(
        ", ".join(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}" for name, value in row.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth of the runs")
    parser.add_argument("--trials", type=int, default=4_000, help="whole runs of each kind")
    parser.add_argument("--timing", action="store_true", help="the stopwatch, too")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    chosen = parser.parse_args()
    factor = 0.05 if chosen.quick else 1.0
    assert "noise-aware" in policies.names()
    rows = []
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        rows += canaries(Path(folder), factor)
        rows += whole_runs(Path(folder), max(100, int(chosen.trials * factor)))
        if chosen.timing:
            timed = Path(folder, "timed")
            timed.mkdir()
            rows += stopwatch(timed, max(300, int(4_000 * factor)), "memory")
    if chosen.timing:
        looks = max(300, int(2_000 * factor))
        with tempfile.TemporaryDirectory() as folder:
            rows += stopwatch(Path(folder), max(300, int(4_000 * factor)), "disk")
        with tempfile.TemporaryDirectory() as folder:
            rows += closings(Path(folder), looks, "SQLite")
        with tempfile.TemporaryDirectory() as folder, running_postgresql() as address:
            rows += closings(Path(folder), looks, "PostgreSQL", new_database(address))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(0 if all(row.get("holds", True) for row in rows) else 1)


if __name__ == "__main__":
    main()
