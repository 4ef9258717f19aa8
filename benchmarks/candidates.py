"""Choices among very many candidates: python benchmarks/candidates.py [--quick] [--json FILE].

Microseconds of processor time per decision and reward by the number of candidates K, from Python, with the candidates as an
array and as a catalogue; how they grow with K; and what bounds a choice among 100,000: the same scores from rows in double
precision, from columns in single precision, and from the catalogue's coarse copy. Items that are compared take turns.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np

import adaprivate as ap
from adaprivate.compiled import _FAST, borrowed, entry
from adaprivate.policies.core.linear import highest, most_optimistic
from adaprivate.policies.core.stock import WIDE, stocked
from measuring import target

POLICIES = {"Thompson": "noise-aware-ts", "UCB": "noise-aware-ucb", "greedy": "noise-aware-greedy"}
MOST = 100_000


@entry
def by_score(candidates, theta):
    return highest(borrowed(candidates), borrowed(theta))


@entry
def by_bound(root, w, width, phi, candidates):
    return most_optimistic(borrowed(root), borrowed(w), width, borrowed(phi), borrowed(candidates))


@numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")
def by_columns(blocks, theta, scores):
    """The choice by single precision alone, from blocks of columns: not always the right one."""
    best, top = 0, np.float32(-np.inf)
    for n in range(blocks.shape[0]):
        scores[:] = 0.0
        for k in range(blocks.shape[1]):
            for b in range(WIDE):
                scores[b] += blocks[n, k, b] * theta[k]
        peak = scores[0]
        for b in range(1, WIDE):
            peak = max(peak, scores[b])
        if peak > top:
            for b in range(WIDE):
                if scores[b] > top:
                    best, top = n * WIDE + b, scores[b]
    return best


def items(count: int, dimension: int) -> np.ndarray:
    rows = np.random.default_rng([count, dimension]).normal(size=(count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def in_turns(work: dict, repeats: int, each: int) -> dict[str, float]:
    """The best time of each, in microseconds a call."""
    best = dict.fromkeys(work, math.inf)
    for function in work.values():
        function()
    for _ in range(repeats):
        for name, function in work.items():
            started = time.process_time()
            for _ in range(each):
                function()
            best[name] = min(best[name], (time.process_time() - started) / each * 1e6)
    return best


def a_round(name: str, dimension: int, candidates: object):
    policy = ap.policy(name, dimension=dimension, rounds=10_000, epsilon=1.0, seed=1)
    rng = np.random.default_rng(1)

    def play() -> None:
        decision = policy.decide(candidates)
        policy.learn(decision, float(rng.random() < 0.5 + 0.4 * decision.features[0]))

    for _ in range(20):  # the first choices are among ties
        play()
    return play


def decisions(dimension: int, counts: list[int], repeats: int) -> dict:
    found: dict[str, dict[int, dict[str, float]]] = {}
    for label, name in POLICIES.items():
        found[label] = {}
        for count in counts:
            rows = items(count, dimension)
            work = {"array": a_round(name, dimension, rows), "catalogue": a_round(name, dimension, ap.Catalogue(rows))}
            found[label][count] = in_turns(work, repeats, max(5, min(200, 20_000 // count)))
    return found


def exponent(by_count: dict[int, dict[str, float]], kind: str) -> float:
    """Of K between its two largest values: what a time grows like."""
    few, many = sorted(by_count)[-2:]
    return math.log(by_count[many][kind] / by_count[few][kind]) / math.log(many / few)


def scoring(dimension: int, count: int, repeats: int) -> dict:
    """The choice alone, compiled: microseconds, and GB/s where it reads the table once."""
    rows = items(count, dimension)
    stock = stocked(rows, coarse=True)
    padded = np.zeros((len(stock.coarse) * WIDE, dimension), np.float32)
    padded[:count] = rows
    blocks = np.ascontiguousarray(padded.reshape(-1, WIDE, dimension).transpose(0, 2, 1))
    rng = np.random.default_rng(2)
    theta = rng.normal(size=dimension)
    theta32, scores = theta.astype(np.float32), np.zeros(WIDE, np.float32)
    seen = rng.normal(size=(300, dimension)) / math.sqrt(dimension)
    root = np.linalg.cholesky(np.linalg.inv(np.eye(dimension) + seen.T @ seen))
    w, phi = np.linalg.solve(root, theta / 4), np.zeros(dimension)
    assert by_score(rows, theta) == by_score(stock, theta)
    assert by_bound(root, w, 1.0, phi, rows) == by_bound(root, w, 1.0, phi, stock)
    times = in_turns(
        {
            "score, rows of float64": lambda: by_score(rows, theta),
            "score, columns of float32": lambda: by_columns(blocks, theta32, scores),
            "score, coarse and exact": lambda: by_score(stock, theta),
            "bound, rows of float64": lambda: by_bound(root, w, 1.0, phi, rows),
            "bound, coarse and exact": lambda: by_bound(root, w, 1.0, phi, stock),
        },
        repeats,
        1,
    )
    read = dict(zip(times, (rows.nbytes, blocks.nbytes, stock.coarse.nbytes), strict=False))
    return {"us": times, "GB/s": {name: size / times[name] / 1e3 for name, size in read.items()}}


def measured(quick: bool = False) -> dict:
    """Everything, as numbers: by dimension, policy and K."""
    repeats = 3 if quick else 9
    counts = [5, 1000, MOST] if quick else [5, 25, 1000, 10_000, MOST]
    found: dict = {}
    for dimension in (20,) if quick else (20, 50):
        by_policy = decisions(dimension, counts, repeats)
        found[f"d {dimension}"] = {
            "us per decision and reward": by_policy,
            "exponent of K": {
                label: {kind: exponent(by_count, kind) for kind in ("array", "catalogue")}
                for label, by_count in by_policy.items()
            },
            f"one choice among {MOST:,}, compiled": scoring(dimension, MOST, repeats),
        }
    return found | {"targets": list(goals(found))}


def goals(found: dict) -> Iterator[dict]:
    """A catalogue's growth, and a Thompson decision among the most of them."""
    for size, parts in found.items():
        for label, slopes in parts["exponent of K"].items():
            yield target(f"{size}, {label}: exponent in K, catalogue", slopes["catalogue"], most=1.05)
    for label, by_count in found["d 20"]["us per decision and reward"].items():
        yield target(f"d 20, {label}: us among {MOST:,}, catalogue", by_count[MOST]["catalogue"], most=1000.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = measured(asked.quick)
    for dimension, parts in found.items():
        if dimension == "targets":
            continue
        for label, by_count in parts["us per decision and reward"].items():
            for kind in ("array", "catalogue"):
                line = ", ".join(f"{count:,}: {times[kind]:,.1f}" for count, times in by_count.items())
                print(f"{dimension}, {label}, {kind}, us by K: {line}; K^{parts['exponent of K'][label][kind]:.2f}")
        choice = parts[f"one choice among {MOST:,}, compiled"]
        for name, time_ in choice["us"].items():
            speed = f" ({choice['GB/s'][name]:.0f} GB/s)" if name in choice["GB/s"] else ""
            print(f"{dimension}, {name}: {time_:,.0f} us{speed}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
