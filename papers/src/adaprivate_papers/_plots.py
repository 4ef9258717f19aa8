"""Pictures that several experiments share: curves over rounds with bands of two standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import ROUNDS, Row
from adaprivate_papers._cells import reward_rate


def plot_band(axes: Any, at: Any, curves: Any, **look: Any) -> None:
    """The mean of the curves (seeds, points) with a band of two standard errors."""
    alpha, curves = look.pop("alpha", 0.08), np.asarray(curves)
    mean = curves.mean(axis=0)
    (line,) = axes.plot(at, mean, **look)
    if len(curves) > 1:
        sem = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
        axes.fill_between(at, mean - 2 * sem, mean + 2 * sem, color=line.get_color(), alpha=alpha, lw=0)


def error_bars(axes: Any, at: Sequence[float], found: Sequence[tuple[float, float | None]], **look: Any) -> None:
    """Means with bars of two standard errors."""
    axes.errorbar(at, [mean for mean, _ in found], yerr=[2 * (sem or 0.0) for _, sem in found], **look)


def error_band(axes: Any, at: Sequence[float], found: Sequence[tuple[float, float | None]], colour: str) -> None:
    """A band of two standard errors around means."""
    low, high = ([mean + sign * (sem or 0.0) for mean, sem in found] for sign in (-2, 2))
    axes.fill_between(at, low, high, color=colour, alpha=0.12, lw=0)


def plot_curves(rows: Sequence[Row], axes: Any, ylabel: str) -> None:
    """The rows' ``curves`` over rounds; a row may bring a ``label`` and a ``style`` of its own."""
    for row in rows:
        curves, rounds = np.array(row["curves"]), row.get("rounds", ROUNDS)
        at = np.linspace(rounds / curves.shape[1], rounds, curves.shape[1])
        plot_band(axes, at, curves, lw=1.6, label=row.get("label", row["row"]), **row.get("style", {}))
    axes.set(xlabel="rounds", ylabel=f"{ylabel} (bands: two standard errors)")
    axes.legend(fontsize=8)


def plot_regret(rows: Sequence[Row], axes: Any) -> None:
    """Regret over rounds with bands of two standard errors; a row may bring a ``label`` and a ``style`` of its own."""
    with_curves = [
        {"label": f"{row['row']}, {row.get('column')}", **row, "curves": [r.curve for r in row["runs"]]} for row in rows
    ]
    plot_curves(with_curves, axes, "regret against the best candidate")


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


def regret_at(column: str) -> Callable[[Sequence[Row], Any], None]:
    """A plot of regret over rounds, of the rows of one column."""

    def plot(rows: Sequence[Row], axes: Any) -> None:
        plot_regret([{**row, "label": row["row"]} for row in rows if row["column"] == column], axes)
        axes.set_title(column)

    return plot
