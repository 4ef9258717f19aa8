"""Sec 4.5: how much batch size, exploration width and its decay matter to AdaPrivate-TS at epsilon 1.

A grid is claimed to stay above a value, or within a band: each claim is one cell, the values of the grid follow it. The
floors and the band reproduce. That batches of 300 are best does not: with enough seeds 500 is better, because the noise of
every batch stays in the sum and fewer batches bring less of it; at 1000 waiting for the first release costs more.

"Lowest" agrees unless it is below the printed floor by three standard errors (the paper's error taken to be like ours);
"best" unless another value beats the printed one by three standard errors of the paired difference; "half of the spread"
unless it exceeds the printed band by three standard errors of the paired difference of the extremes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._measured import beside_linucb, paired_points
from adaprivate.experiments._synthetic import PAPER_SEEDS, percent_cells

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 4.5"
QUESTION = "How much do batch size and exploration matter?"
SEEDS = PAPER_SEEDS
SIZE, WIDTH, DECAY = "batch size", "exploration v", "decay v0, gamma"
PRINTED = {(SIZE, "300"): (96.7, 1.7)}
FLOORS = {SIZE: 94.1, WIDTH: 95.8}
BAND = 0.4
PAPER = {
    (SIZE, "300"): 96.7,
    (SIZE, "best"): 300.0,
    **{(grid, "lowest"): floor for grid, floor in FLOORS.items()},
    (DECAY, "half of the spread"): BAND,
}
_GRIDS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    SIZE: ("adaprivate-ts", {f"{size}": {"batch_size": size} for size in (100, 300, 500, 1000)}),
    WIDTH: ("adaprivate-ts", {f"{v:g}": {"v": v} for v in (0.5, 1.0, 1.5, 2.0)}),
    DECAY: (
        "adaprivate-ts-adaptive",
        {f"{v:g}, {gamma:g}": {"v": v, "gamma": gamma} for v in (1.0, 1.5, 2.0) for gamma in (0.9, 0.95, 0.99)},
    ),
}
SETTINGS: list[Mapping[str, Any]] = [
    {"row": grid, "column": column, "policy": policy, "options": {"epsilon": 1.0, **options}}
    for grid, (policy, values) in _GRIDS.items()
    for column, options in values.items()
]
run = beside_linucb


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The claims about each grid, then its values."""
    cells: list[Cell] = []
    for grid in _GRIDS:
        values = [row for row in rows if row["row"] == grid]
        low, high = min(values, key=_percent), max(values, key=_percent)
        seeds = len(low["runs"])
        baseline = low["baseline"]
        if grid in FLOORS:
            error = (low["percent_sem"] or 0.0) * math.sqrt(1 + seeds / PAPER_SEEDS)
            below = FLOORS[grid] - low["percent"]
            cells.append(
                compared(grid, "lowest", PAPER[grid, "lowest"], low["percent"], low["percent_sem"], below, 3 * error)
            )
        if grid == SIZE:
            (printed,) = (row for row in values if row["column"] == "300")
            lead, sem = paired_points(high["runs"], printed["runs"], baseline)
            agrees = "agrees" if lead <= 3 * (sem or 0.0) else "differs"
            cells.append(Cell(grid, "best", PAPER[grid, "best"], float(high["column"]), None, agrees))
            cells.append(Cell(grid, "lead of the best over 300, points", None, lead, sem, "not-in-paper"))
        if grid == DECAY:
            spread, sem = paired_points(high["runs"], low["runs"], baseline)
            half = None if sem is None else sem / 2
            beyond, column = spread / 2 - BAND, "half of the spread"
            cells.append(compared(grid, column, PAPER[grid, column], spread / 2, half, beyond, 3 * (half or 0.0)))
        cells += percent_cells(values, PRINTED)
    return cells


def _percent(row: Row) -> float:
    return float(row["percent"])


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Percent of LinUCB for every value of every grid, with bars of two standard errors, and the printed floors."""
    for grid in _GRIDS:
        at = [i for i, row in enumerate(rows) if row["row"] == grid]
        bars = [2 * (rows[i]["percent_sem"] or 0.0) for i in at]
        axes.errorbar(at, [rows[i]["percent"] for i in at], yerr=bars, fmt="o-", capsize=3, label=grid)
        if grid in FLOORS:
            axes.hlines(FLOORS[grid], at[0], at[-1], colors="black", linestyles=":")
    axes.set_xticks(range(len(rows)), [row["column"] for row in rows], rotation=60, fontsize=8)
    axes.set_ylabel("% of LinUCB (bars: two standard errors; dotted: printed floor)")
    axes.legend(fontsize=8)
