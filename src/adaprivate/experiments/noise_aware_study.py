"""Is one default safe? The noise-aware policies against AdaPrivate-TS and -UCB and flipped LinUCB over many worlds.

Every environment with features, d in {5, 20, 50}, K in {2, 5, 20} candidates, T in {2,000, 10,000, 100,000} rounds, at the
same (epsilon, delta): AdaPrivate too gets the exact calibration, which favours it over its published form; rr-linucb is
LinUCB on rewards told by randomised response. A cell is our regret over the best rival's, minus 1, in percent, paired by
seed; 2 would mean 2 percent worse. Where nothing can be learned at this epsilon all are near random play, the cell near 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import runs

SOURCE = "our own policy; docs/noise-aware.md"
QUESTION = "Is one default safe?"
SEEDS = 12
KEPT = True
PAPER: dict[tuple[str, str], float] = {}
OURS = ("noise-aware", "noise-aware-ts", "noise-aware-greedy")
ADAPRIVATE = ("adaprivate-ts", "adaprivate-ucb")
RIVALS = (*ADAPRIVATE, "rr-linucb")
ENVIRONMENTS = ("synthetic", "synthetic-linear", "rank-deficient", "needle", "gap", "drifting")


def _settings(lengths: Sequence[int], epsilons: Sequence[float]) -> list[Mapping[str, Any]]:
    return [
        {
            "row": f"{environment}, d {dimension}, K {candidates}",
            "column": f"T {rounds}, epsilon {epsilon:g}",
            "environment": environment,
            "world": {"dimension": dimension, "candidates": candidates},
            "rounds": rounds,
            "epsilon": epsilon,
        }
        for environment in ENVIRONMENTS
        for dimension in (5, 20, 50)
        for candidates in (2, 5, 20)
        for rounds in lengths
        for epsilon in epsilons
    ]


SETTINGS = [*_settings((2_000, 10_000), (0.1, 1.0, 5.0)), *_settings((100_000,), (1.0,))]
QUICK = [s for s in _settings((2_000,), (1.0,)) if s["row"] in ("synthetic, d 5, K 2", "needle, d 5, K 5")]


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """Regret of every policy in this world on every seed."""
    where = {key: setting[key] for key in ("environment", "world", "rounds", "epsilon")}
    regrets = {}
    for policy in (*OURS, *RIVALS):
        own = {"calibration": "exact", "batch_size": min(300, setting["rounds"])} if policy in ADAPRIVATE else {}
        regrets[policy] = [run.regret for run in runs(policy, seeds, **where, **own)]
    return {**setting, "regrets": regrets}


def excess(row: Row, policy: str) -> tuple[float, float | None]:
    """Ours over the best rival, minus 1, in percent, and its standard error."""
    rival = min(RIVALS, key=lambda name: float(np.mean(row["regrets"][name])))
    ours, theirs = np.array(row["regrets"][policy]), np.array(row["regrets"][rival])
    if theirs.mean() == 0:
        return 0.0 if ours.mean() == 0 else math.inf, None
    ratio = ours.mean() / theirs.mean()
    if len(ours) < 2:
        return 100 * (ratio - 1), None
    return 100 * (ratio - 1), float(100 * (ours - ratio * theirs).std(ddof=1) / theirs.mean() / math.sqrt(len(ours)))


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Every cell of the grid for the default, and the worst of each policy."""
    cells = []
    for policy in OURS:
        worst = max(rows, key=lambda row: excess(row, policy)[0])
        label = f"{worst['row']}, {worst['column']}"
        cells.append(Cell(f"worst of {policy}, %", label, None, *excess(worst, policy), "not-in-paper"))
    for row in rows:
        cells.append(Cell(row["row"], f"{row['column']}: excess, %", None, *excess(row, OURS[0]), "not-in-paper"))
    return cells


def answer(rows: Sequence[Row]) -> str:
    """How often the default is ahead of the best rival, and how far behind it is at worst."""
    found = {f"{row['row']}, {row['column']}": excess(row, OURS[0])[0] for row in rows}
    worst = max(found, key=lambda where: found[where])
    ahead = sum(value <= 0 for value in found.values())
    return (
        f"{OURS[0]} has no more regret than the best of {', '.join(RIVALS)} in {ahead} of {len(found)} cells; at its worst "
        f"({worst}) {found[worst]:+.0f} %."
    )


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Ours over the best rival's regret, all worlds sorted."""
    for policy in OURS:
        axes.plot(sorted(1 + excess(row, policy)[0] / 100 for row in rows), label=policy)
    axes.axhline(1, color="0.6", lw=1)
    axes.set(
        xlabel="worlds, from the best to the worst for the policy",
        ylabel="regret relative to the best of AdaPrivate-TS, -UCB and rr-linucb",
    )
    axes.legend(fontsize=8)
