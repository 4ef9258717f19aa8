"""What a large log costs: python benchmarks/log_stream.py [--rows 10000000] [--json FILE].

A log of uniform choice between ten items, with contexts of two fields and item features, is written in pieces and evaluated
from the file: features are built as they are needed. Processor time, and the largest memory of the process. The same for a
tenth of the rows first: memory that does not grow with the log is the same for both.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ITEMS, PIECE = 10, 500_000
DESCRIPTION = {
    "context": [
        {"name": "hour", "kind": "cyclic", "period": 24},
        {"name": "device", "kind": "category", "values": ["phone", "desktop", "tablet"], "other": False},
    ],
    "items": {"kind": "features", "length": 4, "norm": 1.0},
    "interactions": "products",
}


def catalogue() -> pl.DataFrame:
    rows = np.random.default_rng(1).standard_normal((ITEMS, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    features = np.hstack([np.ones((ITEMS, 1)), rows]) / np.sqrt(2)
    columns = {f"feature_{place}": features[:, place] for place in range(4)}
    return pl.DataFrame({"item": [f"item-{k}" for k in range(ITEMS)], **columns})


def write(path: Path, rows: int) -> None:
    """Clicks of 2 to 8 in a hundred: by item, by hour and item, and by device and item."""
    features = catalogue().drop("item").to_numpy()
    names = np.array([f"item-{k}" for k in range(ITEMS)])
    devices = np.array(["phone", "desktop", "tablet"])
    folder = path.parent / "pieces"
    folder.mkdir()
    for number, start in enumerate(range(0, rows, PIECE)):
        n = min(PIECE, rows - start)
        rng = np.random.default_rng([2, number])
        hour, device, action = rng.uniform(0, 24, n), rng.integers(3, size=n), rng.integers(ITEMS, size=n)
        z = features[action]
        rate = 0.05 + 0.03 * np.cos(2 * np.pi * hour / 24) * z[:, 1] + 0.02 * (device - 1) * z[:, 2]
        table = {
            "time": start + np.arange(n),
            "user": rng.integers(rows // 10, size=n),
            "hour": hour,
            "device": devices[device],
            "action": names[action],
            "propensity": np.full(n, 1 / ITEMS),
            "reward": (rng.random(n) < rate).astype(np.int8),
        }
        pl.DataFrame(table).write_parquet(folder / f"{number:05d}.parquet", row_group_size=65_536)
    pl.scan_parquet(folder / "*.parquet").sink_parquet(path, row_group_size=65_536)


def measure(path: Path, policy: str, estimators: list[str], rounds: int) -> dict[str, object]:
    """In this process: what evaluating the file takes."""
    import adaprivate as ap

    asked = {"items": catalogue(), "featuriser": DESCRIPTION, "time": "time", "rounds": rounds, "seeds": 1}
    ap.evaluate(pl.read_parquet(path, n_rows=20_000), policy, estimators, **{**asked, "rounds": 2_000})  # compiled now
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    found = ap.evaluate(path, policy, estimators, **asked)
    seconds = time.process_time() - began
    rows = found["log_rows"][0]
    values = {row["estimator"]: [row["value"], row["low"], row["high"]] for row in found.to_dicts()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "rows": rows,
        "people, about": found["log_people"][0],
        "dimension": found["log_dimension"][0],
        "as logged": found["log_value"][0],
        "values": values,
        "processor seconds": round(seconds, 1),
        "microseconds a row and estimator": round(1e6 * seconds / rows / len(estimators), 2),
        "peak MB": peak // 1024,
        "peak MB before, compiled": before // 1024,
        "file MB": path.stat().st_size >> 20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--policy", default="noise-aware-ucb")
    parser.add_argument("--estimators", default="snips,dr")
    parser.add_argument("--rounds", type=int, default=100_000, help="Rows to learn from.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    estimators = given.estimators.split(",")
    if given.measure:
        sys.stdout.write(json.dumps(measure(given.measure, given.policy, estimators, given.rounds)) + "\n")
        return
    results = []
    for rows in (given.rows // 10, given.rows):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / "log.parquet"
            write(path, rows)
            asked = ["--policy", given.policy, "--estimators", given.estimators, "--rounds", str(given.rounds)]
            command = [sys.executable, __file__, "--measure", str(path), *asked]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results.append(json.loads(done.stdout))
        for name, value in results[-1].items():
            print(f"{name}: {value}", flush=True)
        print(flush=True)
    if given.json:
        given.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
