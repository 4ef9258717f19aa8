"""Experiment 3: how the shift of the regulariser changes regret, 5e7 rounds, d = 5, K = 25, epsilon 1, delta 0.1.

The paper shows curves of regret against rho_min, the bound on the smallest eigenvalue of the shifted noise, and prints no
number. Here rho_min is a multiple of the one that its Sections 4.1 and 4.2 choose (1: the published algorithm, unchanged),
with the published calibration. For another shift of Wishart noise no gamma is published. All other multiples follow one
rule (the bound of Prop. 9 carried over to the shifted norm), which at 1 is a little above the printed gamma: the curve has
a small step there. At 1e6 rounds, with or without a gap, a smaller rho_min costs far more than a larger one gains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import policies
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._gap import BUDGET, GAPS, ROUNDS, in_gap
from adaprivate.simulation import mean_sem

SOURCE = "Shariff & Sheffet 2018, Section D.3 (Fig. 5)"
QUESTION = "How does the shift of the regulariser change regret?"
SEEDS = 2
KEPT = True
PRIVATE = {"Gaussian": "jdp-linucb-gaussian", "Wishart": "jdp-linucb-wishart"}
PAPER: dict[tuple[str, str], float] = {}


def _settings(rounds: int, multiples: Sequence[float]) -> list[Mapping[str, Any]]:
    return [
        {"row": f"{variant}, gap {gap:g}", "policy": policy, "world": {"gap": gap}, "rounds": rounds, "multiple": multiple}
        for variant, policy in PRIVATE.items()
        for gap in GAPS
        for multiple in multiples
    ]


SETTINGS = _settings(ROUNDS, (0.001, 0.01, 0.1, 1.0, 10.0))
QUICK = _settings(20_000, (0.1, 1.0))


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """The policy with its rho_min moved."""
    usual: Any = policies.settings(setting["policy"], {"dimension": 5, "rounds": setting["rounds"], **BUDGET})
    rho_min = setting["multiple"] * usual.bounds().rho_min
    own = {} if setting["multiple"] == 1 else {"rho_min": rho_min}
    return {**in_gap({**setting, "options": {**BUDGET, **own}}, seeds), "rho_min": rho_min}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regret for every shift."""
    return [
        Cell(row["row"], f"regret, rho_min x {row['multiple']:g}", None, *mean_sem(row["regrets"]), "not-in-paper")
        for row in rows
    ]


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret against rho_min, both logarithmic; a ring marks the published shift."""
    for name in dict.fromkeys(row["row"] for row in rows):
        ours = [row for row in rows if row["row"] == name]
        means = [float(np.mean(row["regrets"])) for row in ours]
        (line,) = axes.loglog([row["rho_min"] for row in ours], means, "o-", label=name)
        usual = [(row["rho_min"], mean) for row, mean in zip(ours, means, strict=True) if row["multiple"] == 1]
        axes.loglog(*zip(*usual, strict=True), "o", ms=12, mfc="none", color=line.get_color())
    axes.set(xlabel="rho_min", ylabel="regret, rewards in [-1, 1]")
    axes.legend()
