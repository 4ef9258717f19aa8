"""Where Thompson sampling, an upper bound and greedy choice win, on the same posterior: regret relative to the best.

Greedy choice is as good as any wherever the candidates vary by themselves, and the worst by far where the same few are
offered every round: it stops learning of those it does not play. An upper bound costs little where candidates vary, for all
are then about equally uncertain; noise-aware makes it wider where they stay the same. Thompson sampling pays for its noise
where candidates vary, and at the small scale of its default locks in where they stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import runs
from adaprivate.experiments._worlds import WORLDS
from adaprivate.simulation import mean_sem

SOURCE = "our own policy; docs/noise-aware.md"
QUESTION = "When is it better to sample, to be optimistic, or to be greedy?"
SEEDS = 100
PAPER: dict[tuple[str, str], float] = {}
EPSILON = 1.0
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "noise-aware": ("noise-aware", {}),
    "ts, default": ("noise-aware-ts", {}),
    "ts, v 1/4": ("noise-aware-ts", {"v": 0.25, "fading": 0.0}),
    "ts, v 1": ("noise-aware-ts", {"v": 1.0, "fading": 0.0}),
    "ucb, alpha 1": ("noise-aware-ucb", {"alpha": 1.0}),
    "ucb, alpha 2": ("noise-aware-ucb", {"alpha": 2.0}),
    "greedy": ("noise-aware-greedy", {}),
}


def settings(rules: Mapping[str, tuple[str, dict[str, Any]]], worlds: Sequence[str]) -> list[Mapping[str, Any]]:
    """Every rule in every world."""
    return [{"row": world, "column": rule, "rules": rules} for world in worlds for rule in rules]


SETTINGS = settings(RULES, list(WORLDS))
QUICK = settings({rule: RULES[rule] for rule in ("noise-aware", "ts, default", "greedy")}, ["short"])


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One rule in one world."""
    environment, world, rounds = WORLDS[setting["row"]]
    policy, options = setting["rules"][setting["column"]]
    played = runs(policy, seeds, environment=environment, world=world, rounds=rounds, epsilon=EPSILON, **options)
    return {**setting, "regrets": [run.regret for run in played]}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regret, and regret relative to the best rule of the world."""
    cells = []
    for world in dict.fromkeys(row["row"] for row in rows):
        here = {row["column"]: mean_sem(row["regrets"]) for row in rows if row["row"] == world}
        best = min(mean for mean, _ in here.values())
        for rule, (mean, sem) in here.items():
            cells.append(Cell(world, f"{rule}: regret", None, mean, sem, "not-in-paper"))
            share = None if sem is None else sem / best
            cells.append(Cell(world, f"{rule}: relative to the best", None, mean / best, share, "not-in-paper"))
    return cells


def answer(rows: Sequence[Row]) -> str:
    """How far each rule is from the best of every world, at worst."""
    worlds: dict[str, dict[str, float]] = {}
    for row in rows:
        worlds.setdefault(row["row"], {})[row["column"]] = mean_sem(row["regrets"])[0]
    at_worst: dict[str, float] = {}
    for found in worlds.values():
        for rule, regret in found.items():
            at_worst[rule] = max(at_worst.get(rule, 1.0), regret / min(found.values()))
    told = ", ".join(f"{rule} {times:.2g}" for rule, times in sorted(at_worst.items(), key=lambda item: item[1]))
    return f"Each rule's regret where it does worst of {len(worlds)}, in times that of the best rule there: {told}."


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret relative to the best rule of each world."""
    worlds = list(dict.fromkeys(row["row"] for row in rows))
    best = {world: min(mean_sem(row["regrets"])[0] for row in rows if row["row"] == world) for world in worlds}
    for rule in dict.fromkeys(row["column"] for row in rows):
        here = [row for row in rows if row["column"] == rule]
        level = [mean_sem(row["regrets"])[0] / best[row["row"]] for row in here]
        axes.plot(level, [worlds.index(row["row"]) for row in here], "o", ms=4, label=rule)
    axes.set_yticks(range(len(worlds)), worlds, fontsize=7)
    axes.set(xscale="log", xlabel=f"regret relative to the best rule, epsilon {EPSILON:g}")
    axes.legend(fontsize=7)
