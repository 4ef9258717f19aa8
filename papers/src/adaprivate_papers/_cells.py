"""Cells: our number beside a printed one, and when the two agree.

The AdaPrivate-TS paper does not say what its +- is; it is read as the standard deviation over its 12 seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from adaprivate.check import Floats
from adaprivate.experiments import Cell, Row, compared
from adaprivate.simulation import Run, mean_sem

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
        return unprinted(row, column, ours, sem)
    mean, deviation = printed
    allowed = 3 * math.hypot(sem or 0.0, deviation / math.sqrt(PAPER_SEEDS))
    return compared(row, column, mean, ours, sem, abs(ours - mean), allowed)


def unprinted(row: str, column: str, value: float, sem: float | None = None) -> Cell:
    """A cell of our number alone: no paper prints it."""
    return Cell(row, column, None, value, sem, "not-in-paper")


def near(row: str, column: str, printed: float | None, ours: float, sem: float | None, tolerance: float) -> Cell:
    """Ours beside a printed number: they agree within this tolerance."""
    return compared(row, column, printed, ours, sem, abs(ours - (printed or 0.0)), tolerance)


def by_row(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each name, in order."""
    return {name: [row for row in rows if row["row"] == name] for name in dict.fromkeys(row["row"] for row in rows)}


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


def level(row: Row) -> tuple[float, float | None]:
    """A row's percent of LinUCB and its standard error."""
    return row["percent"], row["percent_sem"]


def percent_cells(rows: Sequence[Row], paper: Printed) -> list[Cell]:
    """Each row's percent of LinUCB, beside the printed one, and of tuned LinUCB."""
    cells = []
    for r in rows:
        cells.append(cell(r["row"], r["column"], paper.get((r["row"], r["column"])), r["percent"], r["percent_sem"]))
        cells.append(tuned_cell(r))
    return cells


OF_TUNED = "% of tuned LinUCB"


def tuned_cell(row: Row) -> Cell:
    """Percent of tuned LinUCB, which no paper prints, to stand below the percent of LinUCB."""
    column = f"{row['column']}, {OF_TUNED}" if row["column"] != "% of LinUCB" else OF_TUNED
    return unprinted(row["row"], column, row["percent_of_tuned"], row["percent_of_tuned_sem"])


def paired_points(ours: Sequence[Run], theirs: Sequence[Run], baseline: Sequence[Run]) -> tuple[float, float | None]:
    """How many points of the baseline's reward ours is above theirs, seed by seed, and the standard error."""
    scale = 100 / float(np.mean([run.reward for run in baseline]))
    return mean_sem([scale * (a.reward - b.reward) for a, b in zip(ours, theirs, strict=True)])


def level_cells(rows: Sequence[Row], paper: Printed) -> list[Cell]:
    """Percent of LinUCB beside the printed one, then that of tuned LinUCB, CTR and learned share."""
    cells = []
    for r in rows:
        name, column = r["row"], r["column"]
        cells.append(cell(name, column, paper.get((name, column)), r["percent"], r["percent_sem"]))
        cells.append(tuned_cell(r))
        share = mean_sem([100 * run.learned_share for run in r["runs"]])
        for what, (value, sem) in (("CTR", click_rate(r)), ("learned share, %", share)):
            cells.append(unprinted(name, f"{column}, {what}", value, sem))
    return cells


def click_rate(row: Row) -> tuple[float, float | None]:
    """Reward per round and its standard error."""
    return mean_sem([run.reward / row["rounds"] for run in row["runs"]])


def reward_rate(run: Run, rounds: int) -> Floats:
    """Reward per round in each stretch of the run: what the best candidate earns on average, minus regret."""
    steps = len(run.curve)
    noted = [-(-(k * rounds) // steps) for k in range(steps + 1)]  # the rounds after which the curve was noted
    rate: Floats = run.best / rounds - np.diff(run.curve, prepend=0.0) / np.diff(noted)
    return rate


def regret_cells(rows: Sequence[Row]) -> list[Cell]:
    """A cell for each row's regret, which no paper prints."""
    return [unprinted(r["row"], r["column"], r["regret"], r["regret_sem"]) for r in rows]


def claim(row: str, column: str, stated: float, holds: bool) -> Cell:
    """A cell for a claim in words: 1 where it holds."""
    return Cell(row, column, stated, float(holds), None, "agrees" if float(holds) == stated else "differs")


def at_most(row: str, column: str, stated: float, ours: float, sem: float | None) -> Cell:
    """A cell for a claim that a value is no larger than stated."""
    return Cell(row, column, stated, ours, sem, "agrees" if ours <= stated else "differs")
