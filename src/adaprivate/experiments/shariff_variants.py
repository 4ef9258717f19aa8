"""Experiment 2: the private variants over 5e7 rounds, d = 5, K = 25, epsilon 1, delta 0.1, with and without a gap.

The paper prints curves and four findings, which are rows here: 1 is "yes", ours is the share of seeds where it is so (for
"indistinguishable", whether the paired difference is within three standard errors and within a tenth of the regret).
Regret is on the paper's scale.

All four findings hold at 1e6 rounds (3 seeds). The published noise is far more than (1, 0.1) needs: it gives (0, 0.1).
Rows "tight" have the least noise for that budget and sharper bounds on it: that takes Gaussian regret down to a seventh and
Wishart regret to a fiftieth, and leaves little between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import Cell, Row
from adaprivate.experiments._gap import BUDGET, GAPS, ROUNDS, in_gap
from adaprivate.experiments._measured import plot_curves
from adaprivate.simulation import mean_sem

SOURCE = "Shariff & Sheffet 2018, Section D.2 (Fig. 4)"
QUESTION = "How do Gaussian and Wishart noise compare over many rounds?"
SEEDS = 4
MARGIN = 0.1
KEPT = True
PRIVATE = {
    "Gaussian": "jdp-linucb-gaussian",
    "Wishart": "jdp-linucb-wishart",
    "WishartUnshifted": "jdp-linucb-wishart-unshifted",
}
BELOW, WORST, ALIKE = "Gaussian below Wishart", "WishartUnshifted worst", "WishartUnshifted and Wishart indistinguishable"
PAPER = {("gap 0", BELOW): 1.0, ("gap 0", WORST): 1.0, ("gap 0.1", BELOW): 1.0, ("gap 0.1", ALIKE): 1.0}


def _settings(rounds: int) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for gap in GAPS:
        where = {"row": f"gap {gap:g}", "world": {"gap": gap}, "rounds": rounds}
        found.append({**where, "variant": "NonPrivate", "policy": "oful"})
        for calibration, suffix in (("published", ""), ("tight", ", tight")):
            for variant, policy in PRIVATE.items():
                options = {**BUDGET, "calibration": calibration}
                found.append({**where, "variant": variant + suffix, "policy": policy, "options": options})
    return found


SETTINGS = _settings(ROUNDS)
QUICK = _settings(20_000)
run = in_gap


def _verdict(holds: float) -> str:
    return "agrees" if holds == 1 else "differs"


def _alike(difference: float, error: float | None, level: float) -> bool:
    """Whether two regrets cannot be told apart: neither by their standard error nor by a tenth of their level."""
    return error is not None and abs(difference) <= min(3 * error, MARGIN * level)


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The findings, then the regret of every variant and how much of it falls after 2/5 of the rounds."""
    cells: list[Cell] = []
    for gap in dict.fromkeys(row["row"] for row in rows):
        here = {row["variant"]: row for row in rows if row["row"] == gap}
        gaussian, wishart, unshifted = (here[variant]["regrets"] for variant in PRIVATE)
        seeds = range(len(gaussian))
        worst = [unshifted[i] > max(wishart[i], gaussian[i]) for i in seeds]
        difference, error = mean_sem([unshifted[i] - wishart[i] for i in seeds])
        found = {
            BELOW: sum(gaussian[i] < wishart[i] for i in seeds) / len(seeds),
            WORST: sum(worst) / len(seeds),
            ALIKE: float(_alike(difference, error, float(np.mean(wishart)))),
        }
        for finding, holds in found.items():
            if (gap, finding) in PAPER:
                cells.append(Cell(gap, finding, PAPER[gap, finding], holds, None, _verdict(holds)))
        for variant, row in here.items():
            cells.append(Cell(gap, f"regret, {variant}", None, *mean_sem(row["regrets"]), "not-in-paper"))
            late = [100 * (1 - curve[2 * len(curve) // 5 - 1] / curve[-1]) for curve in row["curves"]]
            cells.append(Cell(gap, f"% of it after 2/5 of the rounds, {variant}", None, *mean_sem(late), "not-in-paper"))
    return cells


_COLOURS = {"NonPrivate": "black", "Gaussian": "tab:blue", "Wishart": "tab:red", "WishartUnshifted": "tab:orange"}


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret over rounds with the gap: one colour per variant, dashed where tight."""

    def styled(row: Row) -> Row:
        variant, _, tight = row["variant"].partition(", ")
        style = {"color": _COLOURS[variant], "ls": "--" if tight else "-"}
        return {**row, "label": row["variant"], "style": style}

    plot_curves([styled(row) for row in rows if row["row"] == "gap 0.1"], axes, "regret, rewards in [-1, 1]")
    axes.set_yscale("log")
