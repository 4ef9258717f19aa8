"""The noise-aware policies beside every other policy with the same guarantee, at equal true epsilon, on the same seeds.

The world is the synthetic one of the AdaPrivate-TS paper. Rows: the policies without privacy; AdaPrivate-TS and -UCB as
published (their epsilon is nominal, the true one smaller); every other policy that protects the value of one reward, at
its best settings of the leaderboard's grid and at the true epsilon of the column; ours with their defaults; and ours that
take the base rate (1/2 here) for certain, which saves the intercept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import Cell, Row, leaderboard
from adaprivate.experiments._measured import OF_TUNED, beside_linucb, paired_points
from adaprivate.simulation import mean_sem

SOURCE = "our own policy; docs/noise-aware.md"
QUESTION = "How far ahead are the noise-aware policies, at equal privacy?"
SEEDS = 200
PAPER: dict[tuple[str, str], float] = {}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
OURS = ("noise-aware", "noise-aware-ts", "noise-aware-greedy")
"""The default first; noise-aware-ucb is the default with a width of one's own."""
KNOWN = "{}, base rate certain"
NOMINAL = "{}, as published (nominal epsilon)"
RULES = ("adaprivate-ts", "adaprivate-ucb")


RIVALS = (
    *("adac-oful", "adaprivate-ts", "adaprivate-ts-adaptive", "adaprivate-ts-amp", "adaprivate-ucb"),
    *("batched-aggregation", "coreset-elimination", "dgs-linucb", "rarely-switching", "zcdp-episodic"),
    *("rr-linucb", "rr-lints"),
)
"""Every other linear policy that protects the value of one reward."""


def _settings(epsilons: Sequence[float], rivals: Sequence[str]) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = [
        {"row": "random", "policy": "random", "epsilon": None},
        {"row": "linucb, not private", "policy": "linucb", "epsilon": None},
        {"row": "linucb centred, not private", "policy": "linucb", "options": {"centre": 0.5}, "epsilon": None},
        {"row": "tuned-linucb, not private", "policy": "tuned-linucb", "epsilon": None},
    ]
    for epsilon in epsilons:
        rows += [
            {"row": NOMINAL.format(rule), "policy": rule, "options": {"epsilon": epsilon}, "epsilon": epsilon}
            for rule in RULES
        ]
        rows += [
            {"policy": policy, "choice": leaderboard.BEST, "epsilon": epsilon}
            for policy in rivals
            if len(leaderboard.grid(policy)) > 1
        ]
        for rule in OURS:
            for label, extra in ((rule, {}), (KNOWN.format(rule), {"intercept": 0.0})):
                rows.append({"row": label, "policy": rule, "options": {"epsilon": epsilon, **extra}, "epsilon": epsilon})
    return rows


SETTINGS = _settings(EPSILONS, RIVALS)
QUICK = _settings((1.0,), ())


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One policy at one epsilon."""
    if "choice" in setting:
        row = leaderboard.run(setting, seeds)
        return {**row, "share": row["learned_share"]}
    row = beside_linucb(setting, seeds)
    row["regret"] = mean_sem([run.regret for run in row["runs"]])
    return {**row, "share": mean_sem([100 * run.learned_share for run in row["runs"]])}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regret, learned share, percent of LinUCB (published, tuned); the default against AdaPrivate-TS and -UCB, by seed."""
    cells = []
    for row in rows:
        column = "any epsilon" if row["epsilon"] is None else f"epsilon {row['epsilon']:g}"
        values = {"regret": row["regret"], "learned share, %": row["share"]}
        values["% of linucb"] = (row["percent"], row["percent_sem"])
        values[OF_TUNED] = (row["percent_of_tuned"], row["percent_of_tuned_sem"])
        for what, (value, sem) in values.items():
            cells.append(Cell(row["row"], f"{column}: {what}", None, value, sem, "not-in-paper"))
    baseline = rows[0]["baseline"]
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows if row["epsilon"] is not None):
        here = {row["row"]: row for row in rows if row["epsilon"] == epsilon}
        for rule in RULES:
            gain = paired_points(here[OURS[0]]["runs"], here[NOMINAL.format(rule)]["runs"], baseline)
            cells.append(
                Cell(f"{OURS[0]} - {rule}, as published", f"epsilon {epsilon:g}: points", None, *gain, "not-in-paper")
            )
    return cells


def answer(rows: Sequence[Row]) -> str:
    """The regret of ours at epsilon 1 beside the best of the others that protect one reward, and without privacy."""
    here = [row for row in rows if row["epsilon"] == 1.0]
    ours = next(row for row in here if row["row"] == OURS[0])
    best = min((row for row in here if row["policy"] not in OURS), key=lambda row: float(row["regret"][0]))
    free = next(row for row in rows if row["policy"] == "tuned-linucb")
    return (
        f"At epsilon 1 {OURS[0]} has a regret of {ours['regret'][0]:.0f}, the best of the others here, {best['row']}, "
        f"{best['regret'][0]:.0f}, and tuned LinUCB without privacy {free['regret'][0]:.0f}."
    )


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret against epsilon."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(row["row"], []).append(row)
    for label, entries in lines.items():
        values = [row["regret"] for row in entries]
        if entries[0]["epsilon"] is None:
            axes.axhline(values[0][0], color="0.6", lw=1, zorder=0, label=label)
            continue
        ours = entries[0]["policy"] in OURS
        look: dict[str, Any] = {"lw": 2.2} if ours else {"lw": 0.9, "ls": "--"}
        at = [row["epsilon"] for row in entries]
        bars = 2 * np.array([sem or 0.0 for _, sem in values])
        axes.errorbar(at, [mean for mean, _ in values], bars, marker="o", ms=3, label=label, **look)
    axes.set(
        xscale="log",
        xlabel="true epsilon (unit: one reward replaced), delta 1e-5; as published: nominal",
        ylabel="regret over 10,000 rounds (bars: two standard errors)",
    )
    axes.legend(fontsize=6)
