"""Both halves of Table 3: the same policies on recorded ratings, as percent of non-private LinUCB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row, not_comparable, unsound
from adaprivate.experiments._measured import paired_points
from adaprivate.experiments._recorded import (
    BEST_FEATURES,
    CENTRES,
    ROUNDS,
    click_rate,
    level_cells,
    plot_reward,
    quick,
    reward_rate,
)
from adaprivate.experiments._synthetic import Printed, cell, means, printed_levels
from adaprivate.simulation import mean_sem

EPSILONS = (1.0, 2.0, 5.0, 10.0)
LEAD, LINUCB, LINTS = "TS - UCB (points)", "LinUCB (not private)", "LinTS (not private)"
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


def _settings(environment: str) -> list[Mapping[str, Any]]:
    """The rows of Table 3 and ours, every private one at every epsilon."""
    base = {"environment": environment, "rounds": ROUNDS[environment]}
    settings: list[Mapping[str, Any]] = [
        {**base, "row": row, "column": "any epsilon", "policy": policy}
        for row, policy in {"Random": "random", LINUCB: "linucb", LINTS: "lints"}.items()
    ]
    told = {"base_rate": CENTRES[environment]}
    every: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {row: (*how, {}) for row, how in _ROWS.items()}
    every["noise-aware"] = ("noise-aware", told, {})
    every["noise-aware, better features"] = ("noise-aware", told, BEST_FEATURES[environment])
    for row, (policy, options, world) in every.items():
        few = {"most_seeds": _MOST_SEEDS[row]} if row in _MOST_SEEDS else {}
        for epsilon in EPSILONS:
            own = {"policy": policy, "options": {**options, "epsilon": epsilon}, "world": world}
            settings.append({**base, **few, "row": row, "column": f"epsilon {epsilon:g}", **own})
    return settings


class Half:
    """The half of an environment, by what it prints: the CTR of LinUCB, LinTS's level, and levels at every epsilon."""

    def __init__(
        self,
        environment: str,
        *,
        ctr: tuple[float, float],
        lints: tuple[float, float],
        levels: Mapping[str, Sequence[tuple[float, float]]],
    ) -> None:
        self.levels: Printed = {(LINTS, "any epsilon"): lints, **printed_levels(EPSILONS, levels)}
        pairs = zip(levels["AdaPrivate-TS"], levels["AdaPrivate-UCB"], strict=True)
        leads = printed_levels(EPSILONS, {LEAD: [(round(ts - ucb, 1), 0.0) for (ts, _), (ucb, _) in pairs]})
        self.printed: Printed = {**self.levels, (LINUCB, "CTR"): ctr, **leads}
        self.paper = means(self.printed)
        self.settings = _settings(environment)
        self.quick = quick(self.settings)

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Levels and the CTR of LinUCB, in another world than the paper's; TS - UCB, paired; what the first noise does."""
        cells = []
        for c in map(not_comparable, level_cells(rows, self.levels)):
            cells.append(unsound(c) if c.row in UNSOUND and c.paper is not None else c)
        found = {(row["row"], row["column"]): row for row in rows}
        linucb = found[LINUCB, "any epsilon"]
        cells.append(not_comparable(cell(LINUCB, "CTR", self.printed[LINUCB, "CTR"], *click_rate(linucb))))
        for column in (column for row, column in self.printed if row == LEAD):
            ts, ucb = found["AdaPrivate-TS", column], found["AdaPrivate-UCB", column]
            lead = paired_points(ts["runs"], ucb["runs"], linucb["runs"])
            cells.append(cell(LEAD, column, self.printed[LEAD, column], *lead))
        for row in ("AdaPrivate-UCB", "AdaPrivate-TS"):
            entry = found[row, "epsilon 1"]
            rates = [reward_rate(run, entry["rounds"]) for run in entry["runs"]]
            change, sem = mean_sem([float(rate[1:4].mean() - rate[0]) for rate in rates])
            cells.append(Cell(row, "epsilon 1, reward after the first release - before", None, change, sem, "not-in-paper"))
        return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Reward over rounds at epsilon 1."""
    shown = (LINUCB, "AdaPrivate-UCB", "AdaPrivate-TS", "RarelySwitching-zCDP", "Random")
    chosen = [r for r in rows if r["row"].startswith("noise-aware") or r["row"] in shown]
    plot_reward([r for r in chosen if r["column"] in ("any epsilon", "epsilon 1")], axes)
    axes.set_title("epsilon 1", fontsize=9)
