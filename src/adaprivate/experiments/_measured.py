"""What experiments measure: a setting's policy, with its options, in its environment, for so many rounds, on every seed.

A setting has ``policy`` and may have ``options``, ``environment``, ``world`` (the environment's options), ``rounds`` and
``most_seeds``, a cap on the seeds of what is slow. Whatever else it has is copied into the row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adaprivate import environments
from adaprivate.environments import Environment
from adaprivate.experiments import Cell, Row
from adaprivate.policies import Settings
from adaprivate.simulation import YARDSTICKS, KeepState, Run, mean_sem, percent_of, policy_settings, run_all

ROUNDS = 10_000
OF_TUNED = "% of tuned LinUCB"


@lru_cache(maxsize=512)
def _played(policy: Any, place: Any, seeds: range, keep: KeepState | None) -> tuple[Run, ...]:
    return tuple(run_all([policy], place, seeds, keep_state=keep)[0])


def played(policy: Settings, place: Environment, seeds: range, keep: KeepState | None = None) -> tuple[Run, ...]:
    """Every seed's run; repeated calls share the work."""
    frozen: Any = (policy, place)
    return _played(*frozen, seeds, keep)


def prepared(setting: Mapping[str, Any]) -> tuple[Settings, Environment]:
    """The setting's policy and environment; by default the synthetic one and 10,000 rounds."""
    place = environments.environment(setting.get("environment", "synthetic"), setting.get("world"))
    rounds = setting.get("rounds", ROUNDS)
    return policy_settings(setting["policy"], place, rounds, setting.get("options", {})), place


def runs(policy: str, seeds: int, *, keep: KeepState | None = None, **where: Any) -> tuple[Run, ...]:
    """Every seed's run of a policy: environment, world and rounds as in a setting, all else are its options."""
    setting: dict[str, Any] = {key: where.pop(key) for key in ("environment", "world", "rounds") if key in where}
    return played(*prepared({**setting, "policy": policy, "options": where}), range(seeds), keep)


def measured(setting: Mapping[str, Any], seeds: int, *, keep: KeepState | None = None) -> Row:
    """The setting's runs, with their regret and learned share."""
    count = min(seeds, setting.get("most_seeds", seeds))
    found = played(*prepared(setting), range(count), keep)
    regret, sem = mean_sem([run.regret for run in found])
    share = float(np.mean([run.learned_share for run in found]))
    return {**setting, "runs": found, "regret": regret, "regret_sem": sem, "learned_share": share}


def beside_linucb(
    setting: Mapping[str, Any], seeds: int, *, keep: KeepState | None = None, world: Mapping[str, Any] | None = None
) -> Row:
    """The same, and reward as percent of non-private LinUCB's on the same rounds: as published (alpha 1), and tuned.

    ``world``: that of LinUCB, where it is not the setting's.
    """
    row = measured(setting, seeds, keep=keep)
    own = setting.get("world") if world is None else world
    where = {key: setting[key] for key in ("environment", "rounds") if key in setting}
    return {**row, **percents(row["runs"], **where, world=own)}


def percents(found: Sequence[Run], **where: Any) -> Row:
    """Reward as percent of LinUCB's and of tuned LinUCB's there, on the first seeds, and the runs of the former."""
    row: Row = {}
    for name, yardstick in zip(("percent", "percent_of_tuned"), YARDSTICKS, strict=True):
        baseline = runs(yardstick, len(found), **where)
        row[name], sem = percent_of(found, baseline)
        row[f"{name}_sem"] = None if math.isnan(sem) else sem
        row.setdefault("baseline", baseline)
    return row


def tuned_cell(row: Row) -> Cell:
    """Percent of tuned LinUCB, which no paper prints, to stand below the percent of LinUCB."""
    column = f"{row['column']}, {OF_TUNED}" if row["column"] != "% of LinUCB" else OF_TUNED
    return Cell(row["row"], column, None, row["percent_of_tuned"], row["percent_of_tuned_sem"], "not-in-paper")


def true_epsilon(setting: Mapping[str, Any]) -> float | None:
    """The epsilon that the guarantee of the setting's policy states; None where there is none."""
    statement = prepared(setting)[0].guarantee()
    return None if statement is None else statement.epsilon


def paired_points(ours: Sequence[Run], theirs: Sequence[Run], baseline: Sequence[Run]) -> tuple[float, float | None]:
    """How many points of the baseline's reward ours is above theirs, seed by seed, and the standard error."""
    scale = 100 / float(np.mean([run.reward for run in baseline]))
    return mean_sem([scale * (a.reward - b.reward) for a, b in zip(ours, theirs, strict=True)])


def plot_band(axes: Any, at: Any, curves: Any, **look: Any) -> None:
    """The mean of the curves (seeds, points) with a band of two standard errors."""
    alpha, curves = look.pop("alpha", 0.08), np.asarray(curves)
    mean = curves.mean(axis=0)
    (line,) = axes.plot(at, mean, **look)
    if len(curves) > 1:
        sem = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
        axes.fill_between(at, mean - 2 * sem, mean + 2 * sem, color=line.get_color(), alpha=alpha, lw=0)


def plot_curves(rows: Sequence[Row], axes: Any, ylabel: str) -> None:
    """The rows' ``curves`` over rounds; a row may bring a ``label`` and a ``style`` of its own."""
    for row in rows:
        curves, rounds = np.array(row["curves"]), row.get("rounds", ROUNDS)
        at = np.linspace(rounds / curves.shape[1], rounds, curves.shape[1])
        plot_band(axes, at, curves, lw=1.6, label=row.get("label", row["row"]), **row.get("style", {}))
    axes.set(xlabel="rounds", ylabel=f"{ylabel} (bands: two standard errors)")
    axes.legend(fontsize=8)
