"""The noise-aware policies beside every other, at equal privacy and in many worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import Cell, Row
from adaprivate.simulation import mean_sem
from adaprivate_papers import leaderboard
from adaprivate_papers._cells import OF_TUNED, paired_points, unprinted
from adaprivate_papers._plots import error_bars
from adaprivate_papers._world import beside_linucb, runs

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


class NoiseAwareRivals:
    """The noise-aware policies beside every other policy with the same guarantee, at equal true epsilon, on the same seeds.

    The world is the synthetic one of the AdaPrivate-TS paper. Rows: the policies without privacy; AdaPrivate-TS and -UCB as
    published (their epsilon is nominal, the true one smaller); every other policy that protects the value of one reward, at
    its best settings of the leaderboard's grid and at the true epsilon of the column; ours with their defaults; and ours
    that take the base rate (1/2 here) for certain, which saves the intercept.
    """

    NAME = "noise-aware"
    SOURCE = "our own policy; docs/noise-aware.md"
    QUESTION = "How far ahead are the noise-aware policies, at equal privacy?"
    SEEDS = 200
    SETTINGS = _settings(EPSILONS, RIVALS)
    QUICK = _settings((1.0,), ())

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """One policy at one epsilon."""
        if "choice" in setting:
            row = leaderboard.run(setting, seeds)
            return {**row, "share": row["learned_share"]}
        row = beside_linucb(setting, seeds)
        row["regret"] = mean_sem([run.regret for run in row["runs"]])
        return {**row, "share": mean_sem([100 * run.learned_share for run in row["runs"]])}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Regret, learned share, percents of LinUCB; the default against AdaPrivate-TS and -UCB, seed by seed."""
        cells = []
        for row in rows:
            column = "any epsilon" if row["epsilon"] is None else f"epsilon {row['epsilon']:g}"
            values = {"regret": row["regret"], "learned share, %": row["share"]}
            values["% of linucb"] = (row["percent"], row["percent_sem"])
            values[OF_TUNED] = (row["percent_of_tuned"], row["percent_of_tuned_sem"])
            for what, (value, sem) in values.items():
                cells.append(unprinted(row["row"], f"{column}: {what}", value, sem))
        baseline = rows[0]["baseline"]
        for epsilon in dict.fromkeys(row["epsilon"] for row in rows if row["epsilon"] is not None):
            here = {row["row"]: row for row in rows if row["epsilon"] == epsilon}
            for rule in RULES:
                gain = paired_points(here[OURS[0]]["runs"], here[NOMINAL.format(rule)]["runs"], baseline)
                cells.append(unprinted(f"{OURS[0]} - {rule}, as published", f"epsilon {epsilon:g}: points", *gain))
        return cells

    def answer(self, rows: Sequence[Row]) -> str:
        """The regret of ours at epsilon 1 beside the best of the others that protect one reward, and without privacy."""
        here = [row for row in rows if row["epsilon"] == 1.0]
        ours = next(row for row in here if row["row"] == OURS[0])
        best = min((row for row in here if row["policy"] not in OURS), key=lambda row: float(row["regret"][0]))
        free = next(row for row in rows if row["policy"] == "tuned-linucb")
        return (
            f"At epsilon 1 {OURS[0]} has a regret of {ours['regret'][0]:.0f}, the best of the others here, {best['row']}, "
            f"{best['regret'][0]:.0f}, and tuned LinUCB without privacy {free['regret'][0]:.0f}."
        )

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
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
            error_bars(axes, [row["epsilon"] for row in entries], values, marker="o", ms=3, label=label, **look)
        axes.set(
            xscale="log",
            xlabel="true epsilon (unit: one reward replaced), delta 1e-5; as published: nominal",
            ylabel="regret over 10,000 rounds (bars: two standard errors)",
        )
        axes.legend(fontsize=6)


ADAPRIVATE = ("adaprivate-ts", "adaprivate-ucb")
STUDY_RIVALS = (*ADAPRIVATE, "rr-linucb")
ENVIRONMENTS = ("synthetic", "synthetic-linear", "rank-deficient", "needle", "gap", "drifting")


def _study_settings(lengths: Sequence[int], epsilons: Sequence[float]) -> list[Mapping[str, Any]]:
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


def excess(row: Row, policy: str) -> tuple[float, float | None]:
    """Ours over the best rival, minus 1, in percent, and its standard error."""
    rival = min(STUDY_RIVALS, key=lambda name: float(np.mean(row["regrets"][name])))
    ours, theirs = np.array(row["regrets"][policy]), np.array(row["regrets"][rival])
    if theirs.mean() == 0:
        return 0.0 if ours.mean() == 0 else math.inf, None
    ratio = ours.mean() / theirs.mean()
    if len(ours) < 2:
        return 100 * (ratio - 1), None
    return 100 * (ratio - 1), float(100 * (ours - ratio * theirs).std(ddof=1) / theirs.mean() / math.sqrt(len(ours)))


class NoiseAwareStudy:
    """Is one default safe? The noise-aware policies against AdaPrivate-TS and -UCB and flipped LinUCB over many worlds.

    Every environment with features, d in {5, 20, 50}, K in {2, 5, 20} candidates, T in {2,000, 10,000, 100,000} rounds, at
    the same (epsilon, delta): AdaPrivate too gets the exact calibration, which favours it over its published form;
    rr-linucb is LinUCB on rewards told by randomised response. A cell is our regret over the best rival's, minus 1, in
    percent, paired by seed; 2 would mean 2 percent worse. Where nothing can be learned at this epsilon all are near random
    play, the cell near 0.
    """

    NAME = "noise-aware-study"
    SOURCE = "our own policy; docs/noise-aware.md"
    QUESTION = "Is one default safe?"
    SEEDS = 12
    KEPT = True
    SETTINGS = [*_study_settings((2_000, 10_000), (0.1, 1.0, 5.0)), *_study_settings((100_000,), (1.0,))]
    QUICK = [s for s in _study_settings((2_000,), (1.0,)) if s["row"] in ("synthetic, d 5, K 2", "needle, d 5, K 5")]

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """Regret of every policy in this world on every seed."""
        where = {key: setting[key] for key in ("environment", "world", "rounds", "epsilon")}
        regrets = {}
        for policy in (*OURS, *STUDY_RIVALS):
            own = {"calibration": "exact", "batch_size": min(300, setting["rounds"])} if policy in ADAPRIVATE else {}
            regrets[policy] = [run.regret for run in runs(policy, seeds, **where, **own)]
        return {**setting, "regrets": regrets}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Every cell of the grid for the default, and the worst of each policy."""
        cells = []
        for policy in OURS:
            worst = max(rows, key=lambda row: excess(row, policy)[0])
            label = f"{worst['row']}, {worst['column']}"
            cells.append(unprinted(f"worst of {policy}, %", label, *excess(worst, policy)))
        for row in rows:
            cells.append(unprinted(row["row"], f"{row['column']}: excess, %", *excess(row, OURS[0])))
        return cells

    def answer(self, rows: Sequence[Row]) -> str:
        """How often the default is ahead of the best rival, and how far behind it is at worst."""
        found = {f"{row['row']}, {row['column']}": excess(row, OURS[0])[0] for row in rows}
        worst = max(found, key=lambda where: found[where])
        ahead = sum(value <= 0 for value in found.values())
        return (
            f"{OURS[0]} has no more regret than the best of {', '.join(STUDY_RIVALS)} in {ahead} of {len(found)} cells; "
            f"at its worst ({worst}) {found[worst]:+.0f} %."
        )

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Ours over the best rival's regret, all worlds sorted."""
        for policy in OURS:
            axes.plot(sorted(1 + excess(row, policy)[0] / 100 for row in rows), label=policy)
        axes.axhline(1, color="0.6", lw=1)
        axes.set(
            xlabel="worlds, from the best to the worst for the policy",
            ylabel="regret relative to the best of AdaPrivate-TS, -UCB and rr-linucb",
        )
        axes.legend(fontsize=8)


EXPERIMENTS = (NoiseAwareRivals, NoiseAwareStudy)
