"""The worlds on which private policies are compared to choose a default, in two halves.

DEVELOPMENT worlds may be looked at while constants are chosen. SET_ASIDE worlds are of the same kinds with other parameters
and other seeds: they say whether the choice holds elsewhere, so nothing may be changed once they have been looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adaprivate.experiments._recorded import BEST_FEATURES, CENTRES


class World(NamedTuple):
    """An environment with its options, for so many rounds."""

    environment: str
    options: dict[str, Any]
    rounds: int
    base_rate: float | None = None
    """The mean reward of random play, where policies are told."""
    most_seeds: int | None = None
    """A cap where rounds are slow."""


FIRST_SEED, FIRST_SEED_SET_ASIDE = 0, 1_000_000

DEVELOPMENT: dict[str, World] = {
    "the paper's": World("synthetic", {}, 10_000),
    "linear": World("synthetic-linear", {}, 10_000),
    "short": World("synthetic", {}, 1_000),
    "d 3, K 10": World("synthetic", {"dimension": 3, "candidates": 10}, 10_000),
    "d 5, K 2, long": World("synthetic", {"dimension": 5, "candidates": 2}, 100_000),
    "d 50, K 20": World("synthetic", {"dimension": 50, "candidates": 20}, 10_000),
    "d 100, K 50": World("synthetic", {"dimension": 100, "arms": 400, "candidates": 50}, 10_000, most_seeds=6),
    "fresh, d 20": World("synthetic", {"arms": 0}, 10_000),
    "fresh, d 50": World("synthetic", {"dimension": 50, "arms": 0}, 10_000),
    "a shared component": World("synthetic", {"arms": 0, "shared": 3.0, "signal": 4.0}, 10_000),
    "5 fixed": World("synthetic", {"arms": 5}, 10_000),
    "20 fixed, d 5": World("synthetic", {"dimension": 5, "arms": 20, "candidates": 20}, 10_000),
    "one-hot, 5 of 20": World("synthetic", {"arms": 20, "features": "one-hot"}, 10_000),
    "one-hot, 10 of 100": World(
        "synthetic",
        {"dimension": 100, "arms": 100, "candidates": 10, "features": "one-hot", "signal": 5.0},
        10_000,
        None,
        6,
    ),
    "1 % clicks, known": World(
        "synthetic", {"dimension": 5, "arms": 40, "candidates": 8, "base_rate": 0.01}, 50_000, base_rate=0.01
    ),
    "3 % clicks, known": World(
        "synthetic", {"dimension": 12, "arms": 40, "candidates": 8, "base_rate": 0.03}, 50_000, base_rate=0.03
    ),
    "3 % clicks, not known": World("synthetic", {"dimension": 12, "arms": 40, "candidates": 8, "base_rate": 0.03}, 50_000),
    "90 % base rate": World("synthetic", {"dimension": 10, "base_rate": 0.9, "signal": 3.0}, 10_000),
    "norm 0.2": World("synthetic", {"norms": 0.2}, 10_000),
    "norms 0.05 to 1": World("synthetic", {"norms": (0.05, 1.0)}, 10_000),
    "falling spectrum": World("synthetic", {"decay": 1.0}, 10_000),
    "rank-deficient": World("rank-deficient", {}, 10_000),
    "needle": World("needle", {}, 10_000),
    "drifting": World("drifting", {}, 20_000),
    "made table, 10 columns, 5 classes": World("made-table", {}, 10_000),
    "made table, 30 columns, 3 classes": World("made-table", {"columns": 30, "classes": 3, "noise": 0.2}, 10_000, None, 6),
    "made table, 5 columns, 20 classes": World("made-table", {"columns": 5, "classes": 20}, 10_000, None, 4),
    "digits": World("classification", {"data": "sklearn:digits"}, 4_000, None, 2),
    "covtype": World("classification", {}, 10_000, None, 2),
    "jester": World("jester", BEST_FEATURES["jester"], 30_000, CENTRES["jester"]),
    "movielens": World("movielens", BEST_FEATURES["movielens"], 60_000, CENTRES["movielens"]),
}

SET_ASIDE: dict[str, World] = {
    "d 8, K 3": World("synthetic", {"dimension": 8, "candidates": 3}, 1_500),
    "d 35, K 8": World("synthetic", {"dimension": 35, "arms": 150, "candidates": 8}, 6_000),
    "d 70, K 30": World("synthetic", {"dimension": 70, "arms": 250, "candidates": 30}, 40_000, most_seeds=4),
    "linear, d 12": World("synthetic-linear", {"dimension": 12, "candidates": 4}, 6_000),
    "fresh, d 8": World("synthetic", {"dimension": 8, "arms": 0, "candidates": 8}, 6_000),
    "fresh, d 35": World("synthetic", {"dimension": 35, "arms": 0, "candidates": 3}, 40_000, most_seeds=6),
    "a shared component, d 12": World(
        "synthetic", {"dimension": 12, "arms": 0, "candidates": 8, "shared": 2.0, "signal": 3.0}, 6_000
    ),
    "6 fixed, d 8": World("synthetic", {"dimension": 8, "arms": 6, "candidates": 6}, 6_000),
    "40 fixed, d 35": World("synthetic", {"dimension": 35, "arms": 40, "candidates": 40}, 40_000, most_seeds=6),
    "one-hot, 3 of 12": World("synthetic", {"dimension": 12, "arms": 12, "candidates": 3, "features": "one-hot"}, 1_500),
    "one-hot, 8 of 60": World(
        "synthetic", {"dimension": 60, "arms": 60, "candidates": 8, "features": "one-hot", "signal": 4.0}, 6_000
    ),
    "2 % clicks, known": World(
        "synthetic", {"dimension": 8, "arms": 60, "candidates": 8, "base_rate": 0.02}, 40_000, base_rate=0.02
    ),
    "2 % clicks, not known": World("synthetic", {"dimension": 8, "arms": 60, "candidates": 8, "base_rate": 0.02}, 40_000),
    "80 % base rate": World("synthetic", {"dimension": 35, "base_rate": 0.8, "signal": 3.0}, 6_000),
    "norm 0.1": World("synthetic", {"dimension": 8, "norms": 0.1}, 6_000),
    "norms 0.02 to 0.4": World("synthetic", {"dimension": 12, "norms": (0.02, 0.4)}, 6_000),
    "falling spectrum, d 35": World("synthetic", {"dimension": 35, "decay": 0.7}, 6_000),
    "rank-deficient, d 12": World("rank-deficient", {"dimension": 12, "rank": 3, "candidates": 4}, 6_000),
    "needle, d 8": World("needle", {"dimension": 8, "arms": 12, "candidates": 4, "gap": 0.3}, 6_000),
    "drifting, d 8": World("drifting", {"dimension": 8, "candidates": 8, "period": 3_000}, 6_000),
    "made table, 20 columns, 4 classes": World(
        "made-table", {"columns": 20, "classes": 4, "separation": 2.5}, 6_000, None, 6
    ),
    "made table, 8 columns, 12 classes": World(
        "made-table", {"columns": 8, "classes": 12, "noise": 0.1, "separation": 4.0}, 6_000, None, 6
    ),
    "wine": World("classification", {"data": "sklearn:wine"}, 1_500),
    "breast_cancer": World("classification", {"data": "sklearn:breast_cancer"}, 6_000),
    "jester, d 20": World("jester", {"dimension": 20, "scaling": "clip"}, 6_000, CENTRES["jester"]),
    "movielens, d 20": World("movielens", {"dimension": 20, "scaling": "unit"}, 20_000, CENTRES["movielens"]),
}
