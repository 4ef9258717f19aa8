"""What the finite-arm experiments share: policies on the same worlds, measured by regret."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate import environments
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._synthetic import plot_regret
from adaprivate.simulation import mean_sem, policy_settings, run_all

ROUNDS = 100_000
ARMS = 5
DELTA = 1e-6
PAPER_SEEDS = 10


def measured(setting: Mapping[str, Any], seeds: int) -> Row:
    """Run the setting's policy with its ``options`` in its ``environment`` (default: Bernoulli arms) for its ``rounds``.

    Of the states at the end only the counts are kept: some hold a noise for every round.
    """
    place = environments.environment(setting.get("environment", "bernoulli-arms"), setting.get("world"))
    rounds = setting.get("rounds", ROUNDS)
    policy = policy_settings(setting["policy"], place, rounds, setting.get("options", {}))
    statement = policy.guarantee()
    played = run_all([policy], place, range(seeds))[0]
    regret, sem = mean_sem([run.regret for run in played])
    return {
        **setting,
        "rounds": rounds,
        "true_epsilon": None if statement is None else statement.epsilon,
        "runs": [dataclasses.replace(run, state=run.state.counts.copy()) for run in played],
        "regret": regret,
        "regret_sem": sem,
    }


def regret_cells(rows: Sequence[Row]) -> list[Cell]:
    """A cell for each row's regret, which no paper prints."""
    return [Cell(r["row"], r["column"], None, r["regret"], r["regret_sem"], "not-in-paper") for r in rows]


def claim(row: str, column: str, stated: float, holds: bool) -> Cell:
    """A cell for a claim in words: 1 where it holds."""
    return Cell(row, column, stated, float(holds), None, "agrees" if float(holds) == stated else "differs")


def at_most(row: str, column: str, stated: float, ours: float, sem: float | None) -> Cell:
    """A cell for a claim that a value is no larger than stated."""
    return Cell(row, column, stated, ours, sem, "agrees" if ours <= stated else "differs")


def plot_at(rows: Sequence[Row], axes: Any, column: str) -> None:
    """Regret over rounds of the rows of one column."""
    plot_regret([{**row, "label": row["row"]} for row in rows if row["column"] == column], axes)
    axes.set_title(column)
