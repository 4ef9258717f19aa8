"""Figure 1: the epsilon of Thompson sampling against delta at T = 1000, for pre-pulls b and variance factors c.

The figure prints no numbers; its text says that more pre-pulls or variance lower epsilon, and that b and c are nearly
symmetric (here: at equal c (b + 1), to a tenth). Ours are the values of Theorem 4 as it stands ("published"), and without
what its lemma gives away ("tight": pre-pulls are public, and a reward that is there has been pulled; N = 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import privacy
from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._arms import claim

SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 1 (Theorem 4)"
QUESTION = "How does the epsilon of Thompson sampling depend on pre-pulls and variance?"
ROUNDS, ARMS = 1_000, 5
DELTAS = (1e-8, 1e-6, 1e-4, 1e-2)
LOWER, SYMMETRIC = "every other pair has less epsilon than b 0, c 1 (1: yes)", "epsilon of b 9, c 1 over that of b 0, c 10"
PAPER = {(claimed, kind): 1.0 for claimed in (LOWER, SYMMETRIC) for kind in ("published", "tight")}
SETTINGS: list[Mapping[str, Any]] = [
    {"prepulls": b, "variance": c} for b, c in ((0, 1.0), (1, 1.0), (9, 1.0), (49, 1.0), (0, 2.0), (0, 10.0), (0, 50.0))
]


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """Both values of mu for one pair."""
    pair = {"prepulls": setting["prepulls"], "variance": setting["variance"]}
    published = privacy.published_thompson_mu(ROUNDS, **pair)
    return {**setting, "published": published, "tight": privacy.thompson_mu(ROUNDS, ARMS, **pair)}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """What the text says, then epsilon at four values of delta."""
    cells = []
    for kind in ("published", "tight"):
        of = {(row["prepulls"], row["variance"]): privacy.gdp_epsilon(row[kind], 1e-6) for row in rows}
        lower = all(epsilon < of[0, 1.0] for pair, epsilon in of.items() if pair != (0, 1.0))
        ratio = of[9, 1.0] / of[0, 10.0]
        cells += [
            claim(LOWER, kind, 1.0, lower),
            compared(SYMMETRIC, kind, 1.0, ratio, None, abs(ratio - 1), 0.1),
        ]
    return cells + [
        Cell(f"{pair}, {kind}", f"delta {delta:g}", None, privacy.gdp_epsilon(row[kind], delta), None, "not-in-paper")
        for row in rows
        for pair in (f"b {row['prepulls']}, c {row['variance']:g}",)
        for kind in ("published", "tight")
        for delta in DELTAS
    ]


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Epsilon against delta."""
    deltas = np.geomspace(1e-10, 1e-1, 40)
    for place, row in enumerate(rows):
        for kind, style in (("published", "-"), ("tight", ":")):
            label = f"b {row['prepulls']}, c {row['variance']:g}" if kind == "published" else None
            curve = [privacy.gdp_epsilon(row[kind], delta) for delta in deltas]
            axes.plot(deltas, curve, style, color=f"C{place}", label=label)
    axes.set(xscale="log", yscale="log", xlabel="delta", ylabel="epsilon (dotted: without what Lemma 4 gives away)")
    axes.legend(fontsize=8)
