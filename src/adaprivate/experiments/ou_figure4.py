"""Figure 4: the epsilon of Thompson sampling at T = 1000 by three routes, and of a single round.

The figure prints no numbers: the paper's column holds what its formulas give, evaluated by us. Such an epsilon agrees when
the true one is no larger; the true one is at most that of the Gaussian route. Over 1000 rounds all three routes hold, the
third because its composition wastes far more than its false lemma hides. For a single round that lemma is all there is, and
what Theorem 7 states is too small: two arms, one of them well known, show it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import privacy
from adaprivate.experiments import Cell, Row

SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 4 (Theorems 3, 7, 8, Corollary 1)"
QUESTION = "Do the routes to the epsilon of Thompson sampling agree, and are they sound?"
ROUNDS = 1_000
DELTAS = (1e-6, 1e-5, 1e-3)
ROUTES: dict[str, Callable[[float], float]] = {
    "GDP (Theorem 3)": lambda delta: privacy.gdp_epsilon(math.sqrt(ROUNDS / 2), delta),
    "RDP (Theorem 8)": lambda delta: privacy.thompson_rdp_epsilon(ROUNDS, delta),
    "standard (Corollary 1), N 2": lambda delta: privacy.published_thompson_standard_epsilon(ROUNDS, 2, delta),
    "standard (Corollary 1), N 10": lambda delta: privacy.published_thompson_standard_epsilon(ROUNDS, 10, delta),
    "one round (Theorem 7), N 2": lambda delta: privacy.published_argmax_epsilon(2, delta),
}
SOUND = "standard, with the exact price of a round"
SETTINGS: list[Mapping[str, Any]] = [{"row": row, "delta": delta} for row in (*ROUTES, SOUND) for delta in DELTAS]
PAPER = {(f"{row}, by its formula", f"delta {delta:g}"): route(delta) for row, route in ROUTES.items() for delta in DELTAS}


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """The true epsilon (or the least upper bound known), beside a stated one."""
    delta = setting["delta"]
    if setting["row"] == SOUND:
        return {**setting, "ours": privacy.thompson_standard_epsilon(ROUNDS, delta)}
    mu = math.sqrt(0.5) if setting["row"].startswith("one round") else privacy.thompson_mu(ROUNDS, 2)
    return {**setting, "ours": privacy.gdp_epsilon(mu, delta)}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """A verdict for each stated epsilon."""
    cells = []
    for row in rows:
        column = f"delta {row['delta']:g}"
        name = row["row"] if row["row"] == SOUND else f"{row['row']}, by its formula"
        stated = PAPER.get((name, column))
        holds = stated is not None and row["ours"] <= stated * (1 + 1e-9)
        verdict = "not-in-paper" if stated is None else "agrees" if holds else "unsound-as-published"
        cells.append(Cell(name, column, stated, row["ours"], None, verdict))
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """What each route states against delta."""
    deltas = np.geomspace(1e-10, 1e-1, 30)
    for name, route in ROUTES.items():
        axes.plot(deltas, [route(delta) for delta in deltas], "--" if name.startswith("one") else "-", label=name)
    axes.set(xscale="log", yscale="log", xlabel="delta", ylabel="stated epsilon")
    axes.legend(fontsize=8)
