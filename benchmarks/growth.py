"""How time and memory grow: with the dimension, candidates, rounds, batches and people.

Exponents are slopes of log time on log size by least squares over the upper range, with their standard errors. Sizes that
are compared take turns. Memory: what a run's state holds, and by how much the largest resident memory during a run, with
its noise tables, is above that of the process before (a process of its own for each policy).
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import people
from adaprivate import environments, mechanisms, policies
from adaprivate.compiled import streams
from adaprivate.mechanisms.units.ledger import followed
from adaprivate.people.ledger import empty_ledger
from adaprivate.people.shares import WAYS, gram, shares
from adaprivate.simulation import policy_settings, run_one
from engine import SEED, settings, world
from measuring import exponent, target, turns

POLICIES = ("adaprivate-ts", "linucb", "noise-aware-ts", "noise-aware")
DIMENSIONS, CANDIDATES = (5, 10, 20, 35, 50, 70, 100, 140, 200, 300), (5, 20, 100, 300, 1_000, 3_000, 10_000)
UPPER = {"d": 70, "K": 100, "T": 1e5, "batches": 100, "people": 1e5}
"""Where the upper range begins: below, what every round costs anyhow weighs too much."""
MEMORY = {"thompson": "bernoulli-arms", "lints": "synthetic", "rr-linucb": "synthetic", "noise-aware-ts": "synthetic"}
TINY = {
    "dimensions": (3, 6, 70, 80),
    "candidates": (2, 4, 100, 120),
    "rounds": (1_000, 100_000, 120_000),
    "batches": (10, 100, 120),
    "crowds_of": (100, 100_000),
    "names": ("linucb",),
    "repeats": 1,
    "budget": 0.002,
    "played": 400,
}


def by_size(cases, names, repeats, budget, played=None):
    """Nanoseconds a round, for every policy and (size, d, K), of ``played`` rounds, or about ``budget`` seconds of them."""
    items, rounds = {}, {}
    for name in names:
        for size, d, k in cases:
            place = world(d, k)
            policy = settings(name, place, budget) if played is None else policy_settings(name, place, played, {})
            noise = policy.noise_tables([SEED])[0]
            run_one(policy, place, SEED, noise)
            given = policy, place, SEED, noise
            items[name, size] = lambda g=given: run_one(*g).seconds
            rounds[name, size] = policy.rounds
    return {item: 1e9 * seconds / rounds[item] for item, seconds in turns(items, repeats).items()}


def fitted(found, sizes, names, what):
    """A row for every policy: its times, and how they grow."""
    for name in names:
        times = [found[name, size] for size in sizes]
        slope, error = exponent(sizes, times, UPPER[what])
        columns = {f"{what} {size:,}": round(value) for size, value in zip(sizes, times, strict=True)}
        yield {"policy": name, **columns, f"exponent from {what} {UPPER[what]:g}": slope, "standard error": error}


def size_of(part):
    """The bytes of an array, or of everything in a state."""
    return sum(map(size_of, part)) if isinstance(part, tuple) else getattr(part, "nbytes", 0)


def from_now_on():
    """Have :func:`largest_resident` begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def largest_resident():
    """MB resident at most since :func:`from_now_on`; Linux alone says."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def over_rounds(rounds, names):
    """Time and memory of one run of every length, shortest first."""
    for name in names:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            yield from alone.submit(lengths_of, name, rounds).result()


def lengths_of(name, rounds):
    """The same of one policy."""
    known = environments.options(MEMORY[name])
    small = {key: value for key, value in {"dimension": 5, "candidates": 5}.items() if key in known}
    place = environments.environment(MEMORY[name], small)
    policy = policy_settings(name, place, 1_000, {})
    run_one(policy, place, SEED, policy.noise_tables([SEED])[0])
    rows = []
    for count in rounds:
        gc.collect()
        from_now_on()
        before = largest_resident()
        policy = policy_settings(name, place, count, {})
        run = run_one(policy, place, SEED, policy.noise_tables([SEED])[0])
        rows.append(
            {
                "policy": name,
                "T": count,
                "ns a round": 1e9 * run.seconds / count,
                "state bytes": size_of(run.state),
                "resident MB more": round(largest_resident() - before, 1),
            }
        )
    return rows


def planning(batches):
    """Seconds of processor time to plan Gaussian sums for so many batches, and in the usual way (a growing schedule)."""
    for count in batches:
        options = {"dimension": 20, "channel": "gaussian", "rounds": 10 * count, "batch_size": 10, "growth": 1.0}
        started = time.process_time()
        made = policies.settings("noise-aware", options)
        made.extended(made.learner()).learner()  # as after the first offers: rows are fitted, and how they are read
        yield {"batches": count, "seconds": time.process_time() - started}


def crowds(counts, visits=3):
    """Nanoseconds to count a visit, and bytes, of so many people who come three times each."""
    strategy = mechanisms.strategy("sqrt", people.BATCHES)
    products = gram(followed(strategy.matrix() / strategy.sensitivity()))
    aim, way = np.zeros(people.SIZE), WAYS.index("scalar")
    people.visit_all(empty_ledger(people.SIZE, 100, 100), products, shares("scalar", 3), 0, 10, 50, streams(0, 1, 2), aim)
    people.draw_all(10, 50, streams(0, 1, 2), aim)
    for count in counts:
        rounds = visits * count
        started = time.process_time()
        people.draw_all(count, rounds, streams(1, 1, 2), aim)
        drawing = time.process_time() - started
        book = empty_ledger(people.SIZE, count, rounds)
        started = time.process_time()
        people.visit_all(book, products, shares("scalar", people.VISITS), way, count, rounds, streams(1, 1, 2), aim)
        seconds = time.process_time() - started - drawing
        seen, _, held = people.used(book)
        yield {"people": count, "ns a visit": 1e9 * seconds / rounds, "bytes a person": held / seen}


def measured(
    quick,
    *,
    dimensions=DIMENSIONS,
    candidates=None,
    rounds=None,
    batches=None,
    crowds_of=None,
    names=POLICIES,
    repeats=None,
    budget=None,
    played=None,
):
    candidates = candidates or (CANDIDATES[:-1] if quick else CANDIDATES)
    rounds = rounds or ((10**4, 10**5, 10**6, 10**7) if quick else (10**4, 10**5, 10**6, 10**7, 10**8))
    batches = batches or ((33, 100, 150, 250) if quick else (33, 100, 250, 500, 1_000, 2_000))
    crowds_of = crowds_of or ((10**4, 10**5, 10**6) if quick else (10**4, 10**5, 10**6, 3 * 10**6))
    repeats, budget = repeats or (3 if quick else 5), budget or (0.02 if quick else 0.05)
    played = played or (4_000 if quick else 10_000)
    found, charts, targets = {}, [], []
    for what, sizes, case, most in (
        ("d", dimensions, lambda d: (d, d, 5), 2.0),
        ("K", candidates, lambda k: (k, 20, k), 1.05),
    ):
        same = {"played": played, "repeats": min(repeats, 3)} if what == "d" else {"repeats": repeats}
        times = by_size([case(size) for size in sizes], names, budget=budget, **same)
        rows = list(fitted(times, sizes, names, what))
        found[f"nanoseconds a round by {what} ({f'K 5, T {played:,}' if what == 'd' else 'd 20'})"] = rows
        for row in rows:
            slope, error = row[f"exponent from {what} {UPPER[what]:g}"], row["standard error"]
            targets.append(target(f"{row['policy']}: exponent in {what} (+- {error:.2f})", slope, most=most))
        series = {name: [times[name, size] for size in sizes] for name in names}
        over = "dimension" if what == "d" else "candidates"
        charts.append({"title": f"growth in {what}", "x": sizes, "series": series, "over": over, "label": "ns a round"})
    lengths = list(over_rounds(rounds, [name for name in MEMORY if name in names or names is POLICIES or name == "lints"]))
    found["by rounds T (d 5, K 5; thompson: five arms)"] = lengths
    for name in dict.fromkeys(row["policy"] for row in lengths):
        of = [row for row in lengths if row["policy"] == name]
        ratio = of[-1]["state bytes"] / of[0]["state bytes"]
        most = 1.0
        if name.startswith("noise-aware"):  # batches grow: what is kept of them, with the logarithm of T
            most = 2 * math.log(of[-1]["T"]) / math.log(of[0]["T"])
        targets.append(target(f"{name}: state at T {of[-1]['T']:.0e} / at {of[0]['T']:.0e}", ratio, most=most))
        more = of[-1]["resident MB more"]
        targets.append(
            target(f"{name}: largest resident MB of a run of T {of[-1]['T']:.0e} more than before", more, most=8.0)
        )
    plans = list(planning(batches))
    slope, error = exponent([row["batches"] for row in plans], [row["seconds"] for row in plans], UPPER["batches"])
    found["planning, by batches (Gaussian sums, d 20)"] = plans
    found["exponent of planning in batches, from 100"] = {"exponent": slope, "standard error": error}
    found["people who come three times each (a ledger of 60 batches, 21 numbers)"] = list(crowds(crowds_of))
    return {**found, "targets": targets, "charts": charts, "notes": __doc__.partition("\n\n")[2].replace("\n", " ").strip()}
