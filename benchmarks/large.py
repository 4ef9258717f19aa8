"""Large problems for the noise-aware policies: memory, planning, time per round, and a catalogue of a million items.

    python benchmarks/large.py [--quick]

Processor time of this process, BLAS on one thread, the best of some; memory is the sum of all arrays of a state, counted.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adaprivate import blas, environments, plan, policies
from adaprivate.compiled import streams
from adaprivate.mechanisms import Shape
from adaprivate.purposes import Purpose
from adaprivate.simulation import episode
from measuring import target


def nbytes(state: Any) -> int:
    """Of all arrays of a state."""
    return sum(nbytes(part) if hasattr(part, "_fields") else part.nbytes for part in state)


def best(work: Callable[[], Any], times: int) -> float:
    """The least seconds of processor time."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def started(name: str, dimension: int, rounds: int, **options: Any) -> tuple[Any, Any]:
    """Settings that planned on after the first rounds, and their state; nothing is played."""
    settings: Any = policies.settings(name, {"dimension": dimension, "rounds": rounds, **options})
    state = settings.start(settings.noise_tables([0])[0])
    longer = settings.extended(state.learner)
    return longer, longer.carried(longer.start(longer.noise_tables([0])[0]), state)


def megabytes(dimensions: list[int], horizons: list[int]) -> dict[str, float]:
    """The state, learner and simulated book, of Gaussian sums."""
    return {
        f"d {dimension}, T {rounds:g}": round(
            nbytes(started("noise-aware", dimension, rounds, channel="gaussian")[1]) / 1e6, 2
        )
        for dimension in dimensions
        for rounds in horizons
    }


def planning(dimension: int, horizons: list[int]) -> dict[str, float]:
    """Seconds for settings, the choice after the first rounds and the learner that follows; each budget is new, so no fit
    is remembered. And for ``ap.plan`` at five budgets."""
    found = {}
    policies.settings("noise-aware", {"dimension": dimension, "rounds": 100})  # finds all policies, once
    budget = 1.0
    for rounds in horizons:
        for name, options in (
            ("noise-aware", {}),
            ("noise-aware-ts", {"channel": "gaussian"}),
            ("noise-aware-greedy", {}),
            ("noise-aware", {"unit": "user"}),
        ):
            budget += 1e-3

            def work(name: str = name, options: dict[str, Any] = options, rounds: int = rounds, at: float = budget) -> None:
                settings: Any = policies.settings(
                    name, {"dimension": dimension, "rounds": rounds, "epsilon": at, **options}
                )
                longer = settings.extended(settings.learner())
                longer.learner()
                longer.plan.price()

            words = " ".join([name, *options.values()])
            found[f"{words}, T {rounds:g}"] = round(best(work, 1), 4)
        found[f"plan, T {rounds:g}"] = round(
            best(lambda rounds=rounds: plan(dimension=dimension, candidates=10, rounds=rounds).rows, 2), 4
        )
    return found


def stretch(name: str, dimension: int, rounds: int, stops: list[int], **options: Any) -> tuple[list[float], list[int]]:
    """Microseconds a round between these stops of a run of so many rounds, and the bytes of its state at each."""
    world_of = environments.environment("synthetic", {"dimension": dimension, "candidates": 5})
    settings: Any = policies.settings(name, {"dimension": dimension, "rounds": rounds, **options})
    state, world = settings.start(settings.noise_tables([0])[0]), world_of.world(0)
    own, shared = streams(0, Purpose.EXPLORATION, Purpose.CHOICE), streams(0, Purpose.ROUNDS, Purpose.REWARDS)
    totals, curve = np.zeros(5), np.zeros(1)
    played, micro, sizes = 0, [], []
    for stop in stops:
        seconds, first = 0.0, played
        while played < stop:
            until = min(stop, getattr(settings, "planned", rounds))
            if until == played:
                settings = settings.extended(state.learner)
                state = settings.carried(settings.start(settings.noise_tables([0])[0]), state)
                continue
            start = time.thread_time()
            episode(state, world, played, until, rounds, 5, dimension, own, shared, totals, curve)
            seconds += time.thread_time() - start
            played = until
        micro.append(1e6 * seconds / (stop - first))
        sizes.append(nbytes(state))
    return micro, sizes


def by_dimension(dimensions: list[int]) -> dict[str, Any]:
    """Microseconds a round, releases included, over two batches after the first; how they grow, from last to last."""
    found: dict[str, Any] = {}
    for name, options in (
        ("noise-aware-ts", {"channel": "gaussian"}),
        ("noise-aware", {"channel": "gaussian"}),
        ("adaprivate-ts", {}),
        ("linucb", {}),
    ):
        times = []
        for dimension in dimensions:
            batch = 2 * dimension + 10
            private = {} if name == "linucb" else {"epsilon": 1.0}
            micro, _ = stretch(name, dimension, 100 * batch, [batch + 1, 4 * batch], **options, **private)
            times.append(micro[1])
        found[name] = {f"d {d}": round(value, 2) for d, value in zip(dimensions, times, strict=True)}
        found[name]["grows as d^"] = round(math.log(times[-1] / times[-2]) / math.log(dimensions[-1] / dimensions[-2]), 2)
    return found


def long_run(rounds: int, played: int) -> dict[str, Any]:
    """A run planned for so many rounds, of which some are played: microseconds a round and megabytes, by quarters."""
    stops = [played * k // 4 for k in (1, 2, 3, 4)]
    micro, sizes = stretch("noise-aware", 20, rounds, stops, epsilon=1.0)
    return {
        "rounds played": stops,
        "microseconds a round": [round(value, 3) for value in micro],
        "megabytes": [round(size / 1e6, 3) for size in sizes],
    }


def catalogue(counts: list[int], dimension: int = 20) -> dict[str, Any]:
    """Seconds to shape noise to so many items of a falling spectrum; the largest norm of any in its coordinates."""
    found = {}
    for count in counts:
        items = np.random.default_rng(0).standard_normal((count, dimension)) / np.arange(1, dimension + 1)
        items /= np.linalg.norm(items, axis=1).max()
        shapes: list[Shape] = []
        seconds = best(lambda items=items, shapes=shapes: shapes.append(Shape.for_catalogue(items)), 1)
        longest = max(
            float(np.linalg.norm(shapes[0].whiten_rows(items[k : k + 1]))) for k in range(0, count, max(1, count // 1000))
        )
        found[f"N {count:g}"] = {"seconds": round(seconds, 3), "gap": shapes[0].gap, "longest of a thousand": longest}
    return found


def measured(quick: bool) -> dict[str, Any]:
    """All of it; quick: smaller problems."""
    with blas.one_thread():
        found: dict[str, Any] = {
            "megabytes of a state": megabytes([20, 100, 300, 500, 1000][: 4 if quick else 5], [10**6, 10**8]),
            "seconds to plan": planning(20, [10**6, 10**8]),
            "microseconds a round": by_dimension([20, 50, 100, 200] if quick else [20, 100, 250, 500, 1000]),
            "planned for 1e8 rounds": long_run(10**8, 200_000 if quick else 2_000_000),
            "a catalogue": catalogue([10**4, 10**5] if quick else [10**4, 10**5, 10**6]),
        }
    return found | {"targets": list(goals(found))}


def goals(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What was asked of large problems."""
    megabytes = found.get("megabytes of a state", {}).get("d 500, T 1e+06", math.nan)
    yield target("noise-aware, d 500, T 1e+06: megabytes of its state", megabytes, most=30.0)
    for what, seconds in found.get("seconds to plan", {}).items():
        yield target(f"seconds to plan, {what}", seconds, most=1.0)


if __name__ == "__main__":
    print(json.dumps(measured("--quick" in sys.argv), indent=2))
