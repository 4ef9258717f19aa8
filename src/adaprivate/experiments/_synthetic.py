"""The paper's synthetic experiments share this: policies on the same worlds, as percent of non-private LinUCB.

The paper does not say what its +- is; it is read as the standard deviation over its 12 seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adaprivate import environments
from adaprivate.check import Floats
from adaprivate.experiments import Cell, Row
from adaprivate.simulation import Run, mean_sem, percent_of, policy_settings, run_all

PAPER_SEEDS = 12
ROUNDS = 10_000
Frozen = tuple[tuple[str, Any], ...]


@lru_cache(maxsize=64)
def _runs(policy: str, options: Frozen, environment: str, world: Frozen, rounds: int, seeds: int) -> tuple[Run, ...]:
    place = environments.environment(environment, dict(world))
    return tuple(run_all([policy_settings(policy, place, rounds, dict(options))], place, range(seeds))[0])


def runs(
    policy: str,
    seeds: int,
    *,
    environment: str = "synthetic",
    rounds: int = ROUNDS,
    world: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[Run, ...]:
    """Every seed's run of a policy; repeated calls share the work."""
    frozen = tuple(sorted(options.items()))
    return _runs(policy, frozen, environment, tuple(sorted((world or {}).items())), rounds, seeds)


def measured(setting: Mapping[str, Any], seeds: int) -> Row:
    """Run the setting's policy and LinUCB on the same worlds: percent of LinUCB, regret, learned share.

    The setting has ``policy``, its ``options``, and may have ``environment``, ``world`` and ``rounds``.
    """
    where = {key: setting[key] for key in ("environment", "world", "rounds") if key in setting}
    ours = runs(setting["policy"], seeds, **where, **setting.get("options", {}))
    baseline = runs("linucb", seeds, **where)
    percent, sem = percent_of(ours, baseline)
    return {
        **setting,
        "runs": ours,
        "percent": percent,
        "percent_sem": None if math.isnan(sem) else sem,
        "regret": float(np.mean([run.regret for run in ours])),
        "learned_share": float(np.mean([run.learned_share for run in ours])),
    }


def paired_points(ours: Sequence[Run], theirs: Sequence[Run], baseline: Sequence[Run]) -> tuple[float, float | None]:
    """How many points of the baseline's reward ours is above theirs, seed by seed, and the standard error."""
    scale = 100 / float(np.mean([run.reward for run in baseline]))
    return mean_sem([scale * (a.reward - b.reward) for a, b in zip(ours, theirs, strict=True)])


def cell(row: str, column: str, printed: tuple[float, float] | None, ours: float, sem: float | None) -> Cell:
    """Ours beside a printed mean and standard deviation over the paper's 12 seeds.

    They agree when they differ by at most three standard errors of the difference (false alarm 0.3 %).
    """
    if printed is None:
        return Cell(row, column, None, ours, sem, "not-in-paper")
    mean, deviation = printed
    allowed = 3 * math.hypot(sem or 0.0, deviation / math.sqrt(PAPER_SEEDS))
    return Cell(row, column, mean, ours, sem, "agrees" if abs(ours - mean) <= allowed else "differs")


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


def percent_cells(rows: Sequence[Row], paper: Mapping[tuple[str, str], tuple[float, float]]) -> list[Cell]:
    """A cell for each row's percent of LinUCB."""
    return [cell(r["row"], r["column"], paper.get((r["row"], r["column"])), r["percent"], r["percent_sem"]) for r in rows]


def plot_regret(rows: Sequence[Row], axes: Any) -> None:
    """Regret over rounds with bands of two standard errors; a row may bring a ``label`` and a ``style`` of its own."""
    for row in rows:
        curves = np.array([run.curve for run in row["runs"]])
        rounds = row.get("rounds", ROUNDS)
        at = np.linspace(rounds / curves.shape[1], rounds, curves.shape[1])
        mean = curves.mean(axis=0)
        label = row.get("label", f"{row['row']}, {row['column']}")
        (line,) = axes.plot(at, mean, lw=1.6, label=label, **row.get("style", {}))
        if len(curves) > 1:
            sem = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
            axes.fill_between(at, mean - 2 * sem, mean + 2 * sem, color=line.get_color(), alpha=0.08, lw=0)
    axes.set_xlabel("rounds")
    axes.set_ylabel("regret against the best candidate (bands: two standard errors)")
    axes.legend(fontsize=8)
