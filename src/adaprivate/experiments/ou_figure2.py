"""Figure 2: regret of modified Thompson sampling on Bernoulli arms, pairs (b, c) at the same privacy (Lemma 4).

The paper plots mu* T minus the rewards; ours is the expected regret of the arms played, which has the same mean and less
noise. It prints no regrets; its text says that an intermediate b is best, that b = 0 is worst, and that the best b depends
on eta. "Chosen" is the pair of least predicted regret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adaprivate import privacy
from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._arms import ARMS, DELTA, PAPER_SEEDS, ROUNDS, claim, on_arms, regret_at, regret_cells

SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 2"
QUESTION = "Which pairs of pre-pulls and variance lose least on Bernoulli arms?"
SEEDS = PAPER_SEEDS
ETAS = (1, 2, 5)
PREPULLS = (0, 99, 399, 1_999, 3_999, None)
INTERMEDIATE, WORST, DEPENDS = "an intermediate b is best (1: yes)", "b 0 is worst (1: yes)", "the best b changes (1: yes)"
CLAIMS = {
    **{(claimed, f"eta {eta}"): 1.0 for claimed in (INTERMEDIATE, WORST) for eta in ETAS},
    (DEPENDS, "eta 1 to 5"): 1.0,
}
PAPER = {("standard, b 0, c 1", "mu by Lemma 4"): 316.0, **CLAIMS}


def settings(environment: str) -> list[Mapping[str, Any]]:
    """Every pair at every budget in this environment."""
    return [
        {
            "environment": environment,
            "policy": "modified-thompson",
            "row": "chosen" if b is None else f"b {b}",
            "column": f"eta {eta}",
            "options": {"eta": float(eta), "delta": DELTA, **({} if b is None else {"prepulls": b})},
        }
        for eta in ETAS
        for b in PREPULLS
    ]


SETTINGS = settings("bernoulli-arms")
run, plot = on_arms, regret_at("eta 1")


def claims(rows: Sequence[Row]) -> list[Cell]:
    """What the text says of the pairs, "chosen" left out."""
    listed, best = [row for row in rows if row["row"] != "chosen"], set()
    cells = []
    for eta in ETAS:
        by_regret = sorted((r for r in listed if r["column"] == f"eta {eta}"), key=lambda row: float(row["regret"]))
        first, last = by_regret[0]["row"], by_regret[-1]["row"]
        best.add(first)
        cells.append(claim(INTERMEDIATE, f"eta {eta}", 1.0, first not in ("b 0", "b 3999")))
        cells.append(claim(WORST, f"eta {eta}", 1.0, last == "b 0"))
    return [*cells, claim(DEPENDS, "eta 1 to 5", 1.0, len(best) > 1)]


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The mu of the unmodified algorithm, what the text says, and the regret of every pair."""
    published, tight = privacy.published_thompson_mu(ROUNDS), privacy.thompson_mu(ROUNDS, ARMS)
    standard = "standard, b 0, c 1"
    return [
        replace(compared(standard, "mu by Lemma 4", 316.0, published, None, abs(published - 316), 0.5), computed=True),
        Cell(standard, "mu, tight", None, tight, None, "not-in-paper"),
        *claims(rows),
        *regret_cells(rows),
    ]
