"""Ou, Avella Medina & Cummings 2024, Figures 1 to 5: Thompson sampling on arms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adaprivate import privacy
from adaprivate.environments.arms import ExponentialArms
from adaprivate.experiments import Cell, Row
from adaprivate_papers._cells import claim, near, regret_cells, unprinted
from adaprivate_papers._plots import regret_at
from adaprivate_papers._world import ARM_DELTA, ARM_ROUNDS, ARM_SEEDS, ARMS, on_arms

FEW_ROUNDS = 1_000
PAIR_DELTAS = (1e-8, 1e-6, 1e-4, 1e-2)
LOWER, SYMMETRIC = "every other pair has less epsilon than b 0, c 1 (1: yes)", "epsilon of b 9, c 1 over that of b 0, c 10"


class OuFigure1:
    """Figure 1: the epsilon of Thompson sampling against delta at T = 1000, for pre-pulls b and variance factors c.

    The figure prints no numbers; its text says that more pre-pulls or variance lower epsilon, and that b and c are nearly
    symmetric (here: at equal c (b + 1), to a tenth). Ours are the values of Theorem 4 as it stands ("published"), and
    without what its lemma gives away ("tight": pre-pulls are public, and a reward that is there has been pulled; N = 5).
    """

    NAME = "ou-figure1"
    SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 1 (Theorem 4)"
    QUESTION = "How does the epsilon of Thompson sampling depend on pre-pulls and variance?"
    PAPER = {(claimed, kind): 1.0 for claimed in (LOWER, SYMMETRIC) for kind in ("published", "tight")}
    SETTINGS: list[Mapping[str, Any]] = [
        {"prepulls": b, "variance": c} for b, c in ((0, 1.0), (1, 1.0), (9, 1.0), (49, 1.0), (0, 2.0), (0, 10.0), (0, 50.0))
    ]

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """Both values of mu for one pair."""
        pair = {"prepulls": setting["prepulls"], "variance": setting["variance"]}
        published = privacy.published_thompson_mu(FEW_ROUNDS, **pair)
        return {**setting, "published": published, "tight": privacy.thompson_mu(FEW_ROUNDS, ARMS, **pair)}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """What the text says, then epsilon at four values of delta."""
        cells = []
        for kind in ("published", "tight"):
            of = {(row["prepulls"], row["variance"]): privacy.gdp_epsilon(row[kind], 1e-6) for row in rows}
            lower = all(epsilon < of[0, 1.0] for pair, epsilon in of.items() if pair != (0, 1.0))
            ratio = of[9, 1.0] / of[0, 10.0]
            cells += [
                claim(LOWER, kind, 1.0, lower),
                near(SYMMETRIC, kind, 1.0, ratio, None, 0.1),
            ]
        return cells + [
            unprinted(f"{pair}, {kind}", f"delta {delta:g}", privacy.gdp_epsilon(row[kind], delta))
            for row in rows
            for pair in (f"b {row['prepulls']}, c {row['variance']:g}",)
            for kind in ("published", "tight")
            for delta in PAIR_DELTAS
        ]

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Epsilon against delta."""
        deltas = np.geomspace(1e-10, 1e-1, 40)
        for place, row in enumerate(rows):
            for kind, style in (("published", "-"), ("tight", ":")):
                label = f"b {row['prepulls']}, c {row['variance']:g}" if kind == "published" else None
                curve = [privacy.gdp_epsilon(row[kind], delta) for delta in deltas]
                axes.plot(deltas, curve, style, color=f"C{place}", label=label)
        axes.set(xscale="log", yscale="log", xlabel="delta", ylabel="epsilon (dotted: without what Lemma 4 gives away)")
        axes.legend(fontsize=8)


ETAS = (1, 2, 5)
PREPULLS = (0, 99, 399, 1_999, 3_999, None)
INTERMEDIATE, WORST, DEPENDS = "an intermediate b is best (1: yes)", "b 0 is worst (1: yes)", "the best b changes (1: yes)"
CLAIMS = {
    **{(claimed, f"eta {eta}"): 1.0 for claimed in (INTERMEDIATE, WORST) for eta in ETAS},
    (DEPENDS, "eta 1 to 5"): 1.0,
}


def settings(environment: str) -> list[Mapping[str, Any]]:
    """Every pair at every budget in this environment."""
    return [
        {
            "environment": environment,
            "policy": "modified-thompson",
            "row": "chosen" if b is None else f"b {b}",
            "column": f"eta {eta}",
            "options": {"eta": float(eta), "delta": ARM_DELTA, **({} if b is None else {"prepulls": b})},
        }
        for eta in ETAS
        for b in PREPULLS
    ]


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


class OuFigure2:
    """Figure 2: regret of modified Thompson sampling on Bernoulli arms, pairs (b, c) at the same privacy (Lemma 4).

    The paper plots mu* T minus the rewards; ours is the expected regret of the arms played, which has the same mean and
    less noise. It prints no regrets; its text says that an intermediate b is best, that b = 0 is worst, and that the best b
    depends on eta. "Chosen" is the pair of least predicted regret.
    """

    NAME = "ou-figure2"
    SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 2"
    QUESTION = "Which pairs of pre-pulls and variance lose least on Bernoulli arms?"
    SEEDS = ARM_SEEDS
    PAPER = {("standard, b 0, c 1", "mu by Lemma 4"): 316.0, **CLAIMS}
    SETTINGS = settings("bernoulli-arms")
    run, plot = staticmethod(on_arms), staticmethod(regret_at("eta 1"))

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """The mu of the unmodified algorithm, what the text says, and the regret of every pair."""
        published, tight = privacy.published_thompson_mu(ARM_ROUNDS), privacy.thompson_mu(ARM_ROUNDS, ARMS)
        standard = "standard, b 0, c 1"
        return [
            replace(near(standard, "mu by Lemma 4", 316.0, published, None, 0.5), computed=True),
            unprinted(standard, "mu, tight", tight),
            *claims(rows),
            *regret_cells(rows),
        ]


MEANS = {
    (f"rate {rate:g}", "mean"): mean
    for rate, mean in zip(ExponentialArms().rates, (0.492, 0.418, 0.343, 0.193, 0.1), strict=True)
}


class OuFigure3:
    """Figure 3: regret of modified Thompson sampling on truncated exponential arms, pairs (b, c) at the same privacy.

    Rewards and claims as in Figure 2. The printed means are compared with the exact ones, 1 / rate - 1 / (e^rate - 1).
    """

    NAME = "ou-figure3"
    SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 3"
    QUESTION = "Which pairs of pre-pulls and variance lose least on exponential arms?"
    SEEDS = ARM_SEEDS
    PAPER = {**MEANS, **CLAIMS}
    SETTINGS = settings("exponential-arms")
    run, plot = staticmethod(on_arms), staticmethod(regret_at("eta 1"))

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """The arms' means, what the text says, and the regret of every pair."""
        cells = []
        for ((row, column), stated), ours in zip(MEANS.items(), ExponentialArms().means.tolist(), strict=True):
            cells.append(replace(near(row, column, stated, ours, None, 1e-3), computed=True))
        return [*cells, *claims(rows), *regret_cells(rows)]


DELTAS = (1e-6, 1e-5, 1e-3)
ROUTES: dict[str, Callable[[float], float]] = {
    "GDP (Theorem 3)": lambda delta: privacy.gdp_epsilon(math.sqrt(FEW_ROUNDS / 2), delta),
    "RDP (Theorem 8)": lambda delta: privacy.thompson_rdp_epsilon(FEW_ROUNDS, delta),
    "standard (Corollary 1), N 2": lambda delta: privacy.published_thompson_standard_epsilon(FEW_ROUNDS, 2, delta),
    "standard (Corollary 1), N 10": lambda delta: privacy.published_thompson_standard_epsilon(FEW_ROUNDS, 10, delta),
    "one round (Theorem 7), N 2": lambda delta: privacy.published_argmax_epsilon(2, delta),
}
SOUND = "standard, with the exact price of a round"


class OuFigure4:
    """Figure 4: the epsilon of Thompson sampling at T = 1000 by three routes, and of a single round.

    The figure prints no numbers: the paper's column holds what its formulas give, evaluated by us. Such an epsilon agrees
    when the true one is no larger; the true one is at most that of the Gaussian route. Over 1000 rounds all three routes
    hold, the third because its composition wastes far more than its false lemma hides. For a single round that lemma is all
    there is, and what Theorem 7 states is too small: two arms, one of them well known, show it exactly.
    """

    NAME = "ou-figure4"
    SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 4 (Theorems 3, 7, 8, Corollary 1)"
    QUESTION = "Do the routes to the epsilon of Thompson sampling agree, and are they sound?"
    SETTINGS: list[Mapping[str, Any]] = [{"row": row, "delta": delta} for row in (*ROUTES, SOUND) for delta in DELTAS]
    PAPER = {
        (f"{row}, by its formula", f"delta {delta:g}"): route(delta) for row, route in ROUTES.items() for delta in DELTAS
    }

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """The true epsilon (or the least upper bound known), beside a stated one."""
        delta = setting["delta"]
        if setting["row"] == SOUND:
            return {**setting, "ours": privacy.thompson_standard_epsilon(FEW_ROUNDS, delta)}
        mu = math.sqrt(0.5) if setting["row"].startswith("one round") else privacy.thompson_mu(FEW_ROUNDS, 2)
        return {**setting, "ours": privacy.gdp_epsilon(mu, delta)}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """A verdict for each stated epsilon."""
        cells = []
        for row in rows:
            column = f"delta {row['delta']:g}"
            name = row["row"] if row["row"] == SOUND else f"{row['row']}, by its formula"
            stated = self.PAPER.get((name, column))
            holds = stated is not None and row["ours"] <= stated * (1 + 1e-9)
            verdict = "not-in-paper" if stated is None else "agrees" if holds else "unsound-as-published"
            cells.append(Cell(name, column, stated, row["ours"], None, verdict))
        return cells

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """What each route states against delta."""
        deltas = np.geomspace(1e-10, 1e-1, 30)
        for name, route in ROUTES.items():
            axes.plot(deltas, [route(delta) for delta in deltas], "--" if name.startswith("one") else "-", label=name)
        axes.set(xscale="log", yscale="log", xlabel="delta", ylabel="stated epsilon")
        axes.legend(fontsize=8)


BUDGETS = {1: 4.88, 5: 35.57, 10: 96.71}
OURS = "modified-thompson"
CLAIM = "modified-thompson is the best (1: yes)"


class OuFigure5:
    """Figure 5: modified Thompson sampling against DP-SE and Anytime-Lazy-UCB at the same epsilon, on Bernoulli arms.

    The figure prints no numbers; its text says that Thompson sampling is not the best at the smallest epsilon and is far
    ahead at the largest. Thompson sampling has delta = 1e-6 and the pair (b, c) of least predicted regret; the others have
    delta = 0.
    """

    NAME = "ou-figure5"
    SOURCE = "Ou, Avella Medina & Cummings 2024, Figure 5"
    QUESTION = "Is modified Thompson sampling ahead of its rivals at the same epsilon?"
    SEEDS = ARM_SEEDS
    PAPER = {(CLAIM, "epsilon 4.88"): 0.0, (CLAIM, "epsilon 96.71"): 1.0}
    SETTINGS: list[Mapping[str, Any]] = [
        {
            "policy": policy,
            "row": policy,
            "column": f"epsilon {epsilon:g}",
            "options": {"eta": float(eta), "delta": ARM_DELTA} if policy == OURS else {"epsilon": epsilon},
        }
        for eta, epsilon in BUDGETS.items()
        for policy in (OURS, "dp-se", "anytime-lazy-ucb")
    ]
    run, plot = staticmethod(on_arms), staticmethod(regret_at("epsilon 4.88"))

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Regrets, and who is best where the text says so."""
        cells = regret_cells(rows)
        for (words, column), stated in self.PAPER.items():
            least = min((row for row in rows if row["column"] == column), key=lambda row: float(row["regret"]))
            cells.append(claim(words, column, stated, least["row"] == OURS))
        return cells


EXPERIMENTS = (OuFigure1, OuFigure2, OuFigure3, OuFigure4, OuFigure5)
