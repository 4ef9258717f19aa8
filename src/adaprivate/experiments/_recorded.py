"""What the experiments on recorded ratings share: policies on the same rounds, as percent of non-private LinUCB."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adaprivate import environments
from adaprivate.check import Floats
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._synthetic import Frozen, cell
from adaprivate.simulation import Run, mean_sem, percent_of, policy_settings, run_all

EPSILONS = (1.0, 2.0, 5.0, 10.0)
ROUNDS = {"jester": 30_000, "movielens": 60_000}
QUICK_ROUNDS = 1_200
BEST_FEATURES: dict[str, dict[str, Any]] = {
    "jester": {"scaling": "unit", "dimension": 10},
    "movielens": {"scaling": "clip", "dimension": 10},
}
"""The better features found when the noise-aware policies were made, on these very worlds."""
CENTRES = {"jester": 0.31, "movielens": 0.58}
"""How often people outside the world like an item: public here."""


@lru_cache(maxsize=256)
def _runs(policy: str, options: Frozen, environment: str, world: Frozen, rounds: int, seeds: int) -> tuple[Run, ...]:
    place = environments.environment(environment, dict(world))
    played = run_all([policy_settings(policy, place, rounds, dict(options))], place, range(seeds))[0]
    return tuple(dataclasses.replace(run, state=None) for run in played)


def runs(policy: str, setting: Mapping[str, Any], seeds: int, **options: Any) -> tuple[Run, ...]:
    """Every seed's run of a policy in the setting's world; repeated calls share the work."""
    world = tuple(sorted(setting.get("world", {}).items()))
    return _runs(policy, tuple(sorted(options.items())), setting["environment"], world, setting["rounds"], seeds)


def measured(setting: Mapping[str, Any], seeds: int) -> Row:
    """The setting's policy, and its reward as percent of LinUCB's (alpha 1) on the same rounds with public features.

    Features do not change who comes and what is offered, so worlds that differ by them alone compare. A setting may cap
    the number of seeds.
    """
    count = min(seeds, setting.get("most_seeds", seeds))
    ours = runs(setting["policy"], setting, count, **setting.get("options", {}))
    public = {k: v for k, v in setting.get("world", {}).items() if k in ("least_ratings", "films", "data")}
    baseline = runs("linucb", {**setting, "world": public}, count)
    percent, sem = percent_of(ours, baseline)
    return {
        **setting,
        "runs": ours,
        "baseline": baseline,
        "percent": percent,
        "percent_sem": None if math.isnan(sem) else sem,
        "ctr": mean_sem([run.reward / setting["rounds"] for run in ours]),
        "learned_share": mean_sem([100 * run.learned_share for run in ours]),
    }


def quick(settings: Sequence[Mapping[str, Any]], **world: Any) -> list[Mapping[str, Any]]:
    """The same settings, short."""
    return [{**s, "rounds": QUICK_ROUNDS, "world": {**s.get("world", {}), **world}} for s in settings]


def level_cells(rows: Sequence[Row], paper: Mapping[tuple[str, str], tuple[float, float]]) -> list[Cell]:
    """Percent of LinUCB beside the printed one, then CTR and learned share."""
    cells = []
    for r in rows:
        name, column = r["row"], r["column"]
        cells.append(cell(name, column, paper.get((name, column)), r["percent"], r["percent_sem"]))
        for what, key in (("CTR", "ctr"), ("learned share, %", "learned_share")):
            value, sem = r[key]
            cells.append(Cell(name, f"{column}, {what}", None, value, sem, "not-in-paper"))
    return cells


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
        mean = smooth.mean(axis=0)
        (line,) = axes.plot(at, mean, lw=1.4, label=row.get("label", row["row"]))
        if len(smooth) > 1:
            sem = smooth.std(axis=0, ddof=1) / math.sqrt(len(smooth))
            axes.fill_between(at, mean - 2 * sem, mean + 2 * sem, color=line.get_color(), alpha=0.1, lw=0)
    axes.set_xlabel("rounds")
    axes.set_ylabel("reward per round (bands: two standard errors)")
    axes.legend(fontsize=7)


# --- Table 3 ------------------------------------------------------------------------------------------------------------

_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "zCDP-Episodic": ("zcdp-episodic", {"mode": "published-unsound"}),
    "zCDP-Episodic, sound": ("zcdp-episodic", {}),
    "AdaC-OFUL-zCDP": ("adac-oful", {"bonus_rule": "practical"}),
    "RarelySwitching-zCDP": ("rarely-switching", {}),
    "AdaPrivate-UCB": ("adaprivate-ucb", {}),
    "DGS-LinUCB": ("dgs-linucb", {}),
    "AdaPrivate-TS": ("adaprivate-ts", {}),
    "JDP-LinUCB (joint)": ("jdp-linucb-gaussian", {}),
    "AdaPrivate-TS-Adaptive": ("adaprivate-ts-adaptive", {}),
    "Batched-Aggregation": ("batched-aggregation", {}),
    "CoreSet-Elimination": ("coreset-elimination", {}),
}
_MOST_SEEDS = {"DGS-LinUCB": 2, "JDP-LinUCB (joint)": 4}
"""Those that decompose a matrix every round: seconds a run."""
UNSOUND = ("zCDP-Episodic",)


def table3_settings(environment: str) -> list[Mapping[str, Any]]:
    """The rows of Table 3 and ours, every private one at every epsilon."""
    base = {"environment": environment, "rounds": ROUNDS[environment]}
    settings: list[Mapping[str, Any]] = [
        {**base, "row": row, "column": "any epsilon", "policy": policy}
        for row, policy in {"Random": "random", "LinUCB (not private)": "linucb", "LinTS (not private)": "lints"}.items()
    ]
    centre = {"centre": CENTRES[environment]}
    aware: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "noise-aware-ts": ("noise-aware-ts", centre, {}),
        "noise-aware-ts, better features": ("noise-aware-ts", centre, BEST_FEATURES[environment]),
    }
    plain: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        row: (policy, options, {}) for row, (policy, options) in _ROWS.items()
    }
    for row, (policy, options, world) in {**plain, **aware}.items():
        few = {"most_seeds": _MOST_SEEDS[row]} if row in _MOST_SEEDS else {}
        for epsilon in EPSILONS:
            own = {"policy": policy, "options": {**options, "epsilon": epsilon}, "world": world}
            settings.append({**base, **few, "row": row, "column": f"epsilon {epsilon:g}", **own})
    return settings


def printed_levels(levels: Mapping[str, Sequence[tuple[float, float]]]) -> dict[tuple[str, str], tuple[float, float]]:
    """{(row, column): (mean, deviation)} of a printed half of Table 3."""
    return {
        (row, f"epsilon {epsilon:g}"): value
        for row, values in levels.items()
        for epsilon, value in zip(EPSILONS, values, strict=True)
    }


def table3_cells(
    rows: Sequence[Row], levels: Mapping[tuple[str, str], tuple[float, float]], ctr: tuple[float, float]
) -> list[Cell]:
    """Levels; the CTR of LinUCB; TS - UCB, paired; and whether reward dips when the first noise arrives."""
    cells = []
    for c in level_cells(rows, levels):
        unsound = c.row in UNSOUND and c.paper is not None
        cells.append(dataclasses.replace(c, verdict="unsound-as-published") if unsound else c)
    found = {(row["row"], row["column"]): row for row in rows}
    linucb = found["LinUCB (not private)", "any epsilon"]
    cells.append(cell("LinUCB (not private)", "CTR", ctr, *linucb["ctr"]))
    for epsilon in EPSILONS:
        column = f"epsilon {epsilon:g}"
        ts, ucb = found["AdaPrivate-TS", column], found["AdaPrivate-UCB", column]
        lead = points(ts["runs"], ucb["runs"], linucb["runs"])
        printed = levels["AdaPrivate-TS", column][0] - levels["AdaPrivate-UCB", column][0]
        cells.append(cell("TS - UCB (points)", column, (round(printed, 1), 0.0), *lead))
    for row in ("AdaPrivate-UCB", "AdaPrivate-TS"):
        entry = found[row, "epsilon 1"]
        rates = [reward_rate(run, entry["rounds"]) for run in entry["runs"]]
        change, sem = mean_sem([float(rate[1:4].mean() - rate[0]) for rate in rates])
        cells.append(Cell(row, "epsilon 1, reward after the first release - before", None, change, sem, "not-in-paper"))
    return cells


def table3_paper(
    levels: Mapping[tuple[str, str], tuple[float, float]], ctr: tuple[float, float]
) -> dict[tuple[str, str], float]:
    """Every printed value that gets a verdict."""
    paper = {key: mean for key, (mean, _) in levels.items()}
    paper["LinUCB (not private)", "CTR"] = ctr[0]
    for epsilon in EPSILONS:
        column = f"epsilon {epsilon:g}"
        paper["TS - UCB (points)", column] = round(paper["AdaPrivate-TS", column] - paper["AdaPrivate-UCB", column], 1)
    return paper


def points(ours: Sequence[Run], theirs: Sequence[Run], baseline: Sequence[Run]) -> tuple[float, float | None]:
    """How many points of the baseline's reward ours is above theirs, seed by seed."""
    scale = 100 / float(np.mean([run.reward for run in baseline]))
    return mean_sem([scale * (a.reward - b.reward) for a, b in zip(ours, theirs, strict=True)])


def plot_table3(rows: Sequence[Row], axes: Any) -> None:
    """Reward over rounds at epsilon 1."""
    shown = ("LinUCB (not private)", "AdaPrivate-UCB", "AdaPrivate-TS", "RarelySwitching-zCDP", "Random")
    chosen = [r for r in rows if r["row"].startswith("noise-aware") or r["row"] in shown]
    plot_reward([r for r in chosen if r["column"] in ("any epsilon", "epsilon 1")], axes)
    axes.set_title("epsilon 1", fontsize=9)
