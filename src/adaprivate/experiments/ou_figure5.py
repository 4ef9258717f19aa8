"""Figure 5: modified Thompson sampling against DP-SE and Anytime-Lazy-UCB at the same epsilon, on Bernoulli arms.

The figure prints no numbers; its text says that Thompson sampling is not the best at the smallest epsilon and is far ahead
at the largest. Thompson sampling has delta = 1e-6 and the pair (b, c) of least predicted regret; the others have delta = 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row
from adaprivate.experiments._arms import DELTA, PAPER_SEEDS, claim, on_arms, regret_at, regret_cells

SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 5"
QUESTION = "Is modified Thompson sampling ahead of its rivals at the same epsilon?"
SEEDS = PAPER_SEEDS
BUDGETS = {1: 4.88, 5: 35.57, 10: 96.71}
OURS = "modified-thompson"
CLAIM = "modified-thompson is the best (1: yes)"
PAPER = {(CLAIM, "epsilon 4.88"): 0.0, (CLAIM, "epsilon 96.71"): 1.0}
SETTINGS: list[Mapping[str, Any]] = [
    {
        "policy": policy,
        "row": policy,
        "column": f"epsilon {epsilon:g}",
        "options": {"eta": float(eta), "delta": DELTA} if policy == OURS else {"epsilon": epsilon},
    }
    for eta, epsilon in BUDGETS.items()
    for policy in (OURS, "dp-se", "anytime-lazy-ucb")
]
run, plot = on_arms, regret_at("epsilon 4.88")


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regrets, and who is best where the text says so."""
    cells = regret_cells(rows)
    for (words, column), stated in PAPER.items():
        least = min((row for row in rows if row["column"] == column), key=lambda row: float(row["regret"]))
        cells.append(claim(words, column, stated, least["row"] == OURS))
    return cells
