"""The paper's synthetic experiments share this: printed values with deviations, ours beside them, and regret over rounds.

The paper does not say what its +- is; it is read as the standard deviation over its 12 seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._measured import plot_curves, tuned_cell

PAPER_SEEDS = 12
Printed = dict[tuple[str, str], tuple[float, float]]
"""{(row, column): (mean, deviation)}, as printed."""


def printed_levels(epsilons: Sequence[float], levels: Mapping[str, Sequence[tuple[float, float]]]) -> Printed:
    """The levels of a table with a column for each epsilon."""
    columns = [f"epsilon {epsilon:g}" for epsilon in epsilons]
    return {(row, column): value for row, values in levels.items() for column, value in zip(columns, values, strict=True)}


def means(printed: Printed) -> dict[tuple[str, str], float]:
    """What is printed without its deviations."""
    return {key: mean for key, (mean, _) in printed.items()}


def cell(row: str, column: str, printed: tuple[float, float] | None, ours: float, sem: float | None) -> Cell:
    """Ours beside a printed mean and standard deviation over the paper's 12 seeds.

    They agree when they differ by at most three standard errors of the difference (false alarm 0.3 %).
    """
    if printed is None:
        return Cell(row, column, None, ours, sem, "not-in-paper")
    mean, deviation = printed
    allowed = 3 * math.hypot(sem or 0.0, deviation / math.sqrt(PAPER_SEEDS))
    return compared(row, column, mean, ours, sem, abs(ours - mean), allowed)


def with_our_spread(mean: float, sem: float | None, seeds: int) -> tuple[float, float]:
    """A mean printed without its deviation: the paper's seeds are taken to spread as ours do."""
    return mean, (sem or 0.0) * math.sqrt(seeds)


def growth_exponent(sizes: Sequence[float], values: Floats) -> tuple[float, float | None]:
    """The slope of log mean(values) against log size, values (seeds, sizes), and its jackknife standard error over seeds.

    Means below 1 count as 1, so that a difference lost in noise does not break the fit.
    """
    spread = np.log(sizes) - np.mean(np.log(sizes))

    def slope(means: Floats) -> Floats:
        fitted: Floats = np.log(np.maximum(means, 1.0)) @ spread / (spread @ spread)
        return fitted

    n = len(values)
    if n < 2:
        return float(slope(values.mean(axis=0))), None
    left_out = slope((values.sum(axis=0) - values) / (n - 1))
    return float(slope(values.mean(axis=0))), float(math.sqrt((n - 1) * left_out.var()))


def percent_cells(rows: Sequence[Row], paper: Printed) -> list[Cell]:
    """Each row's percent of LinUCB, beside the printed one, and of tuned LinUCB."""
    cells = []
    for r in rows:
        cells.append(cell(r["row"], r["column"], paper.get((r["row"], r["column"])), r["percent"], r["percent_sem"]))
        cells.append(tuned_cell(r))
    return cells


def plot_regret(rows: Sequence[Row], axes: Any) -> None:
    """Regret over rounds with bands of two standard errors; a row may bring a ``label`` and a ``style`` of its own."""
    with_curves = [
        {"label": f"{row['row']}, {row.get('column')}", **row, "curves": [r.curve for r in row["runs"]]} for row in rows
    ]
    plot_curves(with_curves, axes, "regret against the best candidate")
