"""Figure 3: regret of modified Thompson sampling on truncated exponential arms, pairs (b, c) at the same privacy.

Rewards and claims as in Figure 2. The printed means are compared with the exact ones, 1 / rate - 1 / (e^rate - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adaprivate.environments.arms import ExponentialArms
from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._arms import PAPER_SEEDS, on_arms, regret_at, regret_cells
from adaprivate.experiments.ou_figure2 import CLAIMS, claims, settings

SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 3"
QUESTION = "Which pairs of pre-pulls and variance lose least on exponential arms?"
SEEDS = PAPER_SEEDS
MEANS = {
    (f"rate {rate:g}", "mean"): mean
    for rate, mean in zip(ExponentialArms().rates, (0.492, 0.418, 0.343, 0.193, 0.1), strict=True)
}
PAPER = {**MEANS, **CLAIMS}
SETTINGS = settings("exponential-arms")
run, plot = on_arms, regret_at("eta 1")


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The arms' means, what the text says, and the regret of every pair."""
    cells = []
    for ((row, column), stated), ours in zip(MEANS.items(), ExponentialArms().means.tolist(), strict=True):
        cells.append(replace(compared(row, column, stated, ours, None, abs(ours - stated), 1e-3), computed=True))
    return [*cells, *claims(rows), *regret_cells(rows)]
