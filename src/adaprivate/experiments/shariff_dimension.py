"""Experiment 1: regret of linear UCB without privacy, 1e5 rounds, K = d^2 actions, for d from 4 to 64.

The claim is a slope of "roughly 2" of log regret on log d; it is one printed digit, so a slope within 1/2 agrees. Rewards
are -1 or +1; the variant with Gaussian reward noise leaves the range of rewards here and is not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._gap import in_gap
from adaprivate.experiments._synthetic import growth_exponent
from adaprivate.simulation import mean_sem

SOURCE = "Shariff & Sheffet 2018, Section D.1 (Fig. 2, 3)"
QUESTION = "How does regret grow with the dimension?"
SEEDS = 4
KEPT = True
ROW, SLOPE = "LinUCB, not private", "slope of log regret on log d"
PAPER = {(ROW, SLOPE): 2.0}


def _settings(dimensions: Sequence[int], rounds: int) -> list[Mapping[str, Any]]:
    return [
        {"row": ROW, "policy": "oful", "rounds": rounds, "world": {"dimension": d, "candidates": d * d}} for d in dimensions
    ]


SETTINGS = _settings((4, 8, 16, 32, 64), 100_000)
QUICK = _settings((4, 6, 9), 3_000)
run = in_gap


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The slope, then the regret in every dimension."""
    dimensions = [row["world"]["dimension"] for row in rows]
    slope, sem = growth_exponent(dimensions, np.array([row["regrets"] for row in rows]).T)
    cells = [compared(ROW, SLOPE, PAPER[ROW, SLOPE], slope, sem, abs(slope - 2), 0.5)]
    for dimension, row in zip(dimensions, rows, strict=True):
        cells.append(Cell(ROW, f"regret, d = {dimension}", None, *mean_sem(row["regrets"]), "not-in-paper"))
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret against dimension, both logarithmic."""
    dimensions = np.array([row["world"]["dimension"] for row in rows])
    means = np.array([np.mean(row["regrets"]) for row in rows])
    axes.loglog(dimensions, means, "o-", label=ROW)
    axes.loglog(dimensions, means[-1] * (dimensions / dimensions[-1]) ** 2, "k:", lw=1, label="slope 2")
    axes.set(xlabel="dimension", ylabel=f"regret after {rows[0]['rounds']:,} rounds, rewards in [-1, 1]")
    axes.legend()
