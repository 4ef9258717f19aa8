"""Two threads beside one, and the paper's tables on all cores.

By the wall clock a ratio of 2 is perfect, on a machine with nothing else to do; by processor time 1: nothing is lost to
the other thread.
"""

from __future__ import annotations

import time

from adaprivate import environments
from adaprivate.simulation import policy_settings, run_all
from adaprivate_papers import ts_tables
from measuring import target, timed, turns

TINY = {"repeats": 1, "runs": 2, "rounds": 600, "seeds": 1, "settings": 2}


def measured(quick, *, repeats=None, runs=60, rounds=10_000, seeds=None, settings=None):
    repeats, seeds = repeats or (3 if quick else 10), seeds or (5 if quick else 25)
    place = environments.environment("synthetic")
    policy = policy_settings("adaprivate-ts", place, rounds, {})
    run_all([policy], place, range(runs), jobs=2)

    def both(jobs, clock):
        return timed(lambda: run_all([policy], place, range(runs), jobs=jobs), clock=clock)

    clocks = (time.perf_counter, time.process_time)
    best = turns({(jobs, clock): both(jobs, clock) for jobs in (1, 2) for clock in clocks}, repeats)
    wall, processor = ({jobs: best[jobs, clock] for jobs in (1, 2)} for clock in clocks)
    unique = {
        (s["policy"], tuple(s.get("options", {}).items())) for s in [*ts_tables.Table1.SETTINGS, *ts_tables.Table2.SETTINGS]
    }
    chosen = [policy_settings(name, place, rounds, dict(options)) for name, options in sorted(unique, key=str)[:settings]]
    run_all(chosen, place, [0])
    started = time.process_time()
    run_all(chosen, place, range(seeds))
    seconds = time.process_time() - started
    return {
        f"seconds for {runs} runs, by threads": {f"{jobs}": value for jobs, value in wall.items()},
        "Tables 1 and 2": {
            "settings": len(chosen),
            "million rounds a second of processor": len(chosen) * seeds * rounds / seconds / 1e6,
            "processor seconds for 1,000 seeds (estimate)": seconds * 1000 / seeds,
        },
        "targets": [
            target("wall clock, one thread / two (idle machine)", wall[1] / wall[2], least=1.8),
            target("processor time, two threads / one", processor[2] / processor[1], most=1.1),
        ],
        "notes": __doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    }
