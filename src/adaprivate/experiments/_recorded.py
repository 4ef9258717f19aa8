"""What the experiments on recorded ratings share: policies on the same rounds, as percent of non-private LinUCB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import beside_linucb, plot_band, tuned_cell
from adaprivate.experiments._synthetic import Printed, cell
from adaprivate.simulation import Run, mean_sem

ROUNDS = {"jester": 30_000, "movielens": 60_000}
QUICK_ROUNDS = 1_200
BEST_FEATURES: dict[str, dict[str, Any]] = {
    "jester": {"scaling": "unit", "dimension": 10},
    "movielens": {"scaling": "clip", "dimension": 10},
}
"""The better features found when the noise-aware policies were made, on these very worlds."""
CENTRES = {"jester": 0.31, "movielens": 0.58}
"""How often people outside the world like an item: public here."""


def on_ratings(setting: Mapping[str, Any], seeds: int) -> Row:
    """The setting's policy beside LinUCB with public features: these do not change who comes and what is offered."""
    shared = {k: v for k, v in setting.get("world", {}).items() if k in ("least_ratings", "films", "data")}
    return beside_linucb(setting, seeds, world=shared)


def quick(settings: Sequence[Mapping[str, Any]], **world: Any) -> list[Mapping[str, Any]]:
    """The same settings, short."""
    return [{**s, "rounds": QUICK_ROUNDS, "world": {**s.get("world", {}), **world}} for s in settings]


def level_cells(rows: Sequence[Row], paper: Printed) -> list[Cell]:
    """Percent of LinUCB beside the printed one, then that of tuned LinUCB, CTR and learned share."""
    cells = []
    for r in rows:
        name, column = r["row"], r["column"]
        cells.append(cell(name, column, paper.get((name, column)), r["percent"], r["percent_sem"]))
        cells.append(tuned_cell(r))
        share = mean_sem([100 * run.learned_share for run in r["runs"]])
        for what, (value, sem) in (("CTR", click_rate(r)), ("learned share, %", share)):
            cells.append(Cell(name, f"{column}, {what}", None, value, sem, "not-in-paper"))
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


def plot_reward(rows: Sequence[Row], axes: Any) -> None:
    """Reward per round over rounds, smoothed over four stretches, with bands of two standard errors."""
    for row in rows:
        rates = np.array([reward_rate(run, row["rounds"]) for run in row["runs"]])
        width = min(4, rates.shape[1])
        smooth = np.array([np.convolve(rate, np.full(width, 1 / width), "valid") for rate in rates])
        at = np.linspace(row["rounds"] * width / rates.shape[1], row["rounds"], smooth.shape[1])
        plot_band(axes, at, smooth, lw=1.4, alpha=0.1, label=row.get("label", row["row"]))
    axes.set(xlabel="rounds", ylabel="reward per round (bands: two standard errors)")
    axes.legend(fontsize=7)
