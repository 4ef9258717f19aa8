"""The engine beside other ways to run the same simulation: NumPy, loops fused by hand, C++.

Items take turns, several times over, and each keeps its best time; compiling is done before the clock starts. The engine
runs any policy in any world; the others are one algorithm and one world each, with the same random numbers where they can
be (hand-fused, C++), and must then end with the same regret.
"""

from __future__ import annotations

import importlib.util
import math
import subprocess

import numpy as np

import fused
import literal
from adaprivate import environments
from adaprivate.check import InputError
from adaprivate.simulation import policy_settings, run_one
from measuring import target, timed, turns, worst

SEED = 1
FAMILIES = (
    *("adaprivate-ts", "lints", "rr-lints", "noise-aware-ts", "noise-aware-greedy"),
    *("adaprivate-ucb", "linucb", "rr-linucb", "noise-aware-ucb", "noise-aware", "jdp-linucb-gaussian"),
)
SAMPLING = ("adaprivate-ts", "lints", "rr-lints", "noise-aware-ts", "noise-aware-greedy")
"""They score a candidate with d numbers; the others with d squared."""
COUNTERPARTS = {"noise-aware-ts": "lints", "noise-aware-ucb": "linucb", "noise-aware": "linucb"}
"""Ours, releases included, in at most 1.3 of the time of who chooses alike without privacy,"""
BESIDE, HORIZONS = ((5, 25), (20, 5), (50, 20)), (1_000, 10_000, 50_000)
"""at these sizes, in this many rounds: releases take as long in few rounds as in many, so that 1,000 are only shown."""
MOST_BESIDE = 1.3
QUICK = ((5, 25), (20, 5), (50, 20), (50, 1_000), (100, 10), (300, 5))
FULL = (*((d, k) for d in (5, 20, 50, 100, 300) for k in (5, 25, 1_000, 10_000)), (50, 20), (100, 10))
LONGEST = 2.0
"""Seconds that a run may take; what would take longer is left out, and listed."""
OPTIONS = {"jdp-linucb-gaussian": {"neighbours": "replace"}}
TINY = {"cells": ((5, 5), (8, 30)), "families": ("adaprivate-ts", "linucb"), "repeats": 1, "budget": 0.002, "beside": ()}


def nanoseconds(name, d, k):
    """About what a round takes: to choose how many to play."""
    each = 300 + 1.2 * d * d + 0.8 * d * k
    each += 0 if name in SAMPLING else 0.4 * d * d * k
    return each * (2 if name.startswith(("noise-aware", "jdp")) else 1)


def fewest(name):
    """Rounds that are played at least."""
    return 100 if name.startswith("noise-aware") else 40


AGAINST_CPP = {
    "adaprivate-ts": {(20, 5): 1.0, (5, 25): 1.2, (50, 20): 1.2, (50, 1_000): 1.3},
    "linucb": {size: 1.3 for size in FULL if fewest("linucb") * nanoseconds("linucb", *size) <= 1e9 * LONGEST},
}
"""Our time over C++, at most; of linucb in every size that is played."""


def world(d, k):
    return environments.environment("synthetic", {"dimension": d, "candidates": k, "arms": max(100, k)})


def settings(name, place, budget):
    """The policy for as many rounds as take about this many seconds."""
    expected = nanoseconds(name, place.dimension, place.candidates) / 1e9
    rounds = int(min(50_000, max(fewest(name), budget / expected)))
    if rounds * expected > LONGEST:
        raise InputError(f"a run of {rounds} rounds would take about {rounds * expected:.0f} s")
    batch = {"batch_size": min(300, rounds // 2)} if name.startswith("adaprivate") else {}
    return policy_settings(name, place, rounds, batch | OPTIONS.get(name, {}))


def others(name):
    """Who else plays this policy: functions of (policy, place, seed, noise) that give seconds and regret."""
    found = {"hand-fused": fused.play} if name in fused.KINDS else {}
    if importlib.util.find_spec("cpp"):
        import cpp

        known = {"adaprivate-ts": cpp.thompson, "linucb": cpp.optimistic}
        found |= {"C++": known[name]} if name in known else {}
    return found


def cell(d, k, families, repeats, budget):
    """Nanoseconds a round of every item of one size; how far regrets are apart; what was left out."""
    place = world(d, k)
    items, rounds, apart, left = {}, {}, {}, []
    arms, means = place.world(SEED).arms, place.world(SEED).means
    for name in families:
        try:
            policy = settings(name, place, budget)
            noise = policy.noise_tables([SEED])[0]
            regret = run_one(policy, place, SEED, noise).regret
        except InputError as error:
            left.append({"policy": name, "engine": "ours", "d": d, "K": k, "why": str(error)})
            continue
        given = policy, place, SEED, noise
        items[name, "engine"], rounds[name, "engine"] = lambda g=given: run_one(*g).seconds, policy.rounds
        for other, play in others(name).items():
            try:
                _, same = play(*given)
            except (OSError, subprocess.CalledProcessError) as error:  # no compiler, or none that can
                left.append({"policy": name, "engine": other, "d": d, "K": k, "why": str(error)})
                continue
            apart[name, other] = abs(regret - same) / max(1e-12, abs(regret))
            items[name, other], rounds[name, other] = lambda p=play, g=given: p(*g)[0], policy.rounds
        if name in fused.KINDS:
            slow = max(20, policy.rounds // 100)
            batch = getattr(policy, "batch_size", 0)
            asked = arms, means, fused.KINDS[name], slow, k, batch, np.zeros((slow, d))
            literal.play(*asked)
            items[name, "NumPy"], rounds[name, "NumPy"] = timed(literal.play, *asked), slow
    best = turns(items, repeats)
    return {item: 1e9 * seconds / rounds[item] for item, seconds in best.items()}, apart, left


def pivot(rows, value, every=None):
    """A row for every policy and d, a column for every K."""
    table = {}
    for row in sorted(rows, key=lambda row: row["K"]):
        if row.get(value) is not None and (every is None or row["policy"] in every):
            line = table.setdefault((row["policy"], row["d"]), {"policy": row["policy"], "d": row["d"]})
            line[f"K {row['K']:,}"] = row[value]
    columns = {column: None for line in table.values() for column in line}
    columns = sorted(columns, key=lambda column: (column[:2] == "K ", len(column), column))
    lines = [table[key] for key in sorted(table, key=lambda key: (FAMILIES.index(key[0]), key[1]))]
    return [{column: line.get(column) for column in ("policy", *(c for c in columns if c != "policy"))} for line in lines]


def companions(sizes, repeats):
    """The noise-aware policies beside who chooses alike without privacy, over equally many rounds."""
    rows = []
    for d, k in sizes:
        place = world(d, k)
        for rounds in HORIZONS:
            items = {}
            for name in dict.fromkeys((*COUNTERPARTS, *COUNTERPARTS.values())):
                policy = policy_settings(name, place, rounds, {})
                noise = policy.noise_tables([SEED])[0]
                run_one(policy, place, SEED, noise)
                items[name] = lambda p=policy, w=place, n=noise: run_one(p, w, SEED, n).seconds
            best = turns(items, repeats)
            rows += [
                {
                    "policy": ours,
                    "beside": other,
                    "d": d,
                    "K": k,
                    "rounds": rounds,
                    "time over its": best[ours] / best[other],
                }
                for ours, other in COUNTERPARTS.items()
            ]
    return rows


def measured(quick, *, cells=None, families=FAMILIES, repeats=None, budget=None, beside=BESIDE):
    rows, left, apart = [], [], {}
    repeats = repeats or (3 if quick else 5)
    private = companions(beside, repeats)
    for d, k in cells or (QUICK if quick else FULL):
        best, regrets, out = cell(d, k, families, repeats, budget or (0.03 if quick else 0.05))
        left += out
        apart |= {(*item, d, k): value for item, value in regrets.items()}
        for name in families:
            if (name, "engine") not in best:
                continue
            row = {"policy": name, "d": d, "K": k, "engine": best[name, "engine"]}
            for other in ("hand-fused", "C++", "NumPy"):
                row[other] = best.get((name, other))
                row[f"over {other}"] = row["engine"] / row[other] if row[other] else None
            rows.append(row)
    return {
        "nanoseconds a round": pivot(rows, "engine"),
        "our time over hand-fused numba": pivot(rows, "over hand-fused"),
        "our time over C++ with d and K known to the compiler": pivot(rows, "over C++"),
        "our time over NumPy, a Cholesky factor a round": pivot(rows, "over NumPy"),
        "noise-aware policies over who chooses alike without privacy, releases included": private,
        **({"left out": left} if left else {}),
        "raw": rows,
        "targets": list(goals(rows, apart, private)),
        "charts": [
            {
                "title": f"a round, K {k}",
                "x": sorted({row["d"] for row in rows if row["K"] == k}),
                "series": series(rows, k),
                "over": "dimension",
                "label": "ns",
            }
            for k in sorted({row["K"] for row in rows})
            if len({row["d"] for row in rows if row["K"] == k}) > 2
        ],
        "notes": __doc__.partition("\n\n")[2].replace("\n", " ").strip()
        + f" Noise-aware policies beside who chooses alike: {HORIZONS[0]:,} rounds are shown and not judged, as releases"
        " take as long in them as in many. A size left out, or not played by --quick, is not measured and meets no"
        " target.",
    }


def series(rows, k):
    sizes = sorted({row["d"] for row in rows if row["K"] == k})
    found = {(row["policy"], row["d"]): row["engine"] for row in rows if row["K"] == k}
    shown = ("adaprivate-ts", "linucb", "noise-aware-ts", "noise-aware")
    return {name: [found.get((name, d)) for d in sizes] for name in shown if any((name, d) in found for d in sizes)}


def goals(rows, apart, private):
    """All that are listed; what was not measured has no number, and meets none."""
    yield target("largest relative difference of regret to hand-fused and C++", worst(apart.values()), most=1e-9)
    at = {(row["policy"], row["d"], row["K"]): row for row in rows}

    def over(name, d, k, other):
        ratio = at.get((name, d, k), {}).get(f"over {other}")
        return math.nan if ratio is None else ratio

    main = ("adaprivate-ts", 20, 5)
    yield target("adaprivate-ts, d 20, K 5: hand-fused time / ours", 1 / over(*main, "hand-fused"), least=0.75)
    yield target("adaprivate-ts, d 20, K 5: NumPy's time / ours", 1 / over(*main, "NumPy"), least=100.0)
    for name, cells in AGAINST_CPP.items():
        for (d, k), most in cells.items():
            yield target(f"{name}, d {d}, K {k}: our time over C++", over(name, d, k, "C++"), most=most)
    beside = {(row["policy"], row["d"], row["K"], row["rounds"]): row["time over its"] for row in private}
    for d, k in BESIDE:
        for rounds in HORIZONS[1:]:
            for name, other in COUNTERPARTS.items():
                what = f"{name}, d {d}, K {k}, {rounds:,} rounds: time over {other}'s, releases included"
                yield target(what, beside.get((name, d, k, rounds), math.nan), most=MOST_BESIDE)
