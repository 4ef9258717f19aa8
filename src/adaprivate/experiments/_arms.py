"""What the finite-arm experiments share: policies on the same arms, measured by regret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adaprivate.check import Array
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import measured, true_epsilon
from adaprivate.experiments._synthetic import plot_regret

ROUNDS = 100_000
ARMS = 5
DELTA = 1e-6
PAPER_SEEDS = 10


def _scalars(state: Any) -> Array:
    """All that is kept of a state: some hold a noise for every round."""
    scalars: Array = getattr(state, "learner", state).scalars.copy()
    return scalars


def on_arms(setting: Mapping[str, Any], seeds: int) -> Row:
    """The setting's policy, on Bernoulli arms for 100,000 rounds where it says nothing else, and its true epsilon."""
    whole = {"environment": "bernoulli-arms", "rounds": ROUNDS, **setting}
    return {**measured(whole, seeds, keep=_scalars), "true_epsilon": true_epsilon(whole)}


def regret_cells(rows: Sequence[Row]) -> list[Cell]:
    """A cell for each row's regret, which no paper prints."""
    return [Cell(r["row"], r["column"], None, r["regret"], r["regret_sem"], "not-in-paper") for r in rows]


def claim(row: str, column: str, stated: float, holds: bool) -> Cell:
    """A cell for a claim in words: 1 where it holds."""
    return Cell(row, column, stated, float(holds), None, "agrees" if float(holds) == stated else "differs")


def at_most(row: str, column: str, stated: float, ours: float, sem: float | None) -> Cell:
    """A cell for a claim that a value is no larger than stated."""
    return Cell(row, column, stated, ours, sem, "agrees" if ours <= stated else "differs")


def regret_at(column: str) -> Callable[[Sequence[Row], Any], None]:
    """A plot of regret over rounds, of the rows of one column."""

    def plot(rows: Sequence[Row], axes: Any) -> None:
        plot_regret([{**row, "label": row["row"]} for row in rows if row["column"] == column], axes)
        axes.set_title(column)

    return plot
