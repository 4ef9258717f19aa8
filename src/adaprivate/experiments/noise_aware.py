"""The noise-aware policies beside every other policy with the same guarantee, at equal true epsilon, on the same seeds.

The world is the synthetic one of the AdaPrivate-TS paper. Rows: the policies without privacy; AdaPrivate-TS and -UCB as
published (their epsilon is nominal, the true one smaller); every policy that protects the value of one reward, brought to
the true epsilon of the column; ours with their defaults; and ours told the base rate (1/2 here), which saves the intercept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import Cell, Row
from adaprivate.experiments._synthetic import Frozen, measured, paired_points, runs
from adaprivate.experiments.leaderboard import all_rows, at_true_epsilon, notion
from adaprivate.simulation import mean_sem

SOURCE = "our own policy; docs/noise-aware.md"
SEEDS = 200
PAPER: dict[tuple[str, str], float] = {}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
OURS = ("noise-aware-ts", "noise-aware-ucb", "noise-aware-greedy")
KNOWN = "{}, base rate known"
NOMINAL = "{}, as published (nominal epsilon)"
RULES = ("adaprivate-ts", "adaprivate-ucb")


def _rivals() -> list[tuple[str, str, Frozen]]:
    """Every other policy, and variant of one, that protects one reward by event."""
    found = []
    for row in all_rows():
        options = tuple(sorted(row["options"].items()))
        if row["epsilon"] != 1.0 or row["policy"] in OURS:
            continue
        if notion(at_true_epsilon(row["policy"], options, 1.0)) == "event, replace":
            found.append((row["row"], row["policy"], options))
    return found


def _settings(epsilons: Sequence[float], rivals: bool) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = [
        {"row": "random", "policy": "random", "epsilon": None},
        {"row": "linucb, not private", "policy": "linucb", "epsilon": None},
        {"row": "linucb centred, not private", "policy": "linucb", "options": {"centre": 0.5}, "epsilon": None},
    ]
    for epsilon in epsilons:
        rows += [
            {"row": NOMINAL.format(rule), "policy": rule, "options": {"epsilon": epsilon}, "epsilon": epsilon}
            for rule in RULES
        ]
        for name, policy, options in _rivals() if rivals else []:
            rows.append({"row": name, "policy": policy, "true": options, "epsilon": epsilon})
        for rule in OURS:
            for label, extra in ((rule, {}), (KNOWN.format(rule), {"intercept": 0.0})):
                rows.append({"row": label, "policy": rule, "options": {"epsilon": epsilon, **extra}, "epsilon": epsilon})
    return rows


SETTINGS = _settings(EPSILONS, rivals=True)
QUICK = _settings((1.0,), rivals=False)


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One policy at one epsilon."""
    if "true" in setting:
        chosen: Any = at_true_epsilon(setting["policy"], setting["true"], setting["epsilon"])
        own = {"epsilon": chosen.epsilon, "calibration": getattr(chosen, "calibration", None)}
        setting = {**setting, "options": {**dict(setting["true"]), **{k: v for k, v in own.items() if v is not None}}}
    return measured(setting, seeds)


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regret, learned share, percent of LinUCB, and ours against the best of the others, seed by seed."""
    cells = []
    for row in rows:
        column = "any epsilon" if row["epsilon"] is None else f"epsilon {row['epsilon']:g}"
        for what, (value, sem) in {
            "regret": mean_sem([run.regret for run in row["runs"]]),
            "learned share, %": mean_sem([100 * run.learned_share for run in row["runs"]]),
            "% of linucb": (row["percent"], row["percent_sem"]),
        }.items():
            cells.append(Cell(row["row"], f"{column}: {what}", None, value, sem, "not-in-paper"))
    baseline = runs("linucb", len(rows[0]["runs"]))
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows if row["epsilon"] is not None):
        here = [row for row in rows if row["epsilon"] == epsilon]
        default = next(row for row in here if row["row"] == OURS[0])
        others = [row for row in here if row["policy"] not in OURS]
        best = min(others, key=lambda row: float(row["regret"]))
        points, sem = paired_points(default["runs"], best["runs"], baseline)
        cells.append(
            Cell(
                f"{OURS[0]} - best other ({best['row']})", f"epsilon {epsilon:g}: points", None, points, sem, "not-in-paper"
            )
        )
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret against epsilon."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(row["row"], []).append(row)
    for label, entries in lines.items():
        values = [mean_sem([run.regret for run in row["runs"]]) for row in entries]
        if entries[0]["epsilon"] is None:
            axes.axhline(values[0][0], color="0.75", lw=1, zorder=0)
            axes.annotate(label, (EPSILONS[0], values[0][0]), fontsize=6, color="0.4", va="bottom")
            continue
        ours = entries[0]["policy"] in OURS
        look: dict[str, Any] = {"lw": 2.2} if ours else {"lw": 0.9, "ls": "--"}
        at = [row["epsilon"] for row in entries]
        bars = 2 * np.array([sem or 0.0 for _, sem in values])
        axes.errorbar(at, [mean for mean, _ in values], bars, marker="o", ms=3, label=label, **look)
    axes.set_xscale("log")
    axes.set_xlabel("true epsilon (unit: one reward replaced), delta 1e-5; as published: nominal")
    axes.set_ylabel("regret over 10,000 rounds (bars: two standard errors)")
    axes.legend(fontsize=6)
