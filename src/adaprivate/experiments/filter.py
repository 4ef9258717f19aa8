"""The filter against every rival at the same privacy: regret on three worlds, and how often it commits to a wrong arm.

At each eta (mu of Gaussian DP) the Thompson policies and AdaC-UCB have the epsilon of eta at delta = 1e-6; the pure rivals
have that epsilon with delta = 0, which is more privacy than the others give. "close arms" are one of 0.5 and four of 0.45,
where committing late pays and a wrong commitment is not rare. Lazy-DP-TS, pure, is the rival to watch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import privacy
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._arms import DELTA, measured, regret_cells
from adaprivate.policies.arms.sampling import COMMITTED
from adaprivate.simulation import mean_sem

SOURCE = "ours, beside Ou, Avella Medina & Cummings 2024, Sec 5 and Appendix D"
SEEDS = 100
ETAS = (1, 2, 5, 10)
WORLDS: dict[str, dict[str, Any]] = {
    "bernoulli": {"environment": "bernoulli-arms"},
    "exponential": {"environment": "exponential-arms"},
    "close arms": {"environment": "bernoulli-arms", "world": {"means": (0.45, 0.45, 0.5, 0.45, 0.45)}},
}
OURS = "filtered-thompson"
BUDGETED = (OURS, "modified-thompson")
PURE: dict[str, dict[str, Any]] = {
    "dp-se": {},
    "anytime-lazy-ucb": {},
    "lazy-dp-ts": {},
    "dp-ts": {},
    "adap-ucb": {},
    "adap-klucb": {},
    "mishra-thakurta-ucb": {"bonus": "experiments"},
    "mishra-thakurta-ts": {"warmup": "none"},
}
PAPER: dict[tuple[str, str], float] = {}


def _options(policy: str, eta: float) -> dict[str, Any]:
    if policy in BUDGETED:
        return {"eta": eta, "delta": DELTA}
    epsilon = privacy.gdp_epsilon(eta, DELTA)
    if policy == "adac-ucb":
        return {"epsilon": epsilon, "delta": DELTA, "calibration": "exact"}
    return {"epsilon": epsilon, **PURE[policy]}


SETTINGS: list[Mapping[str, Any]] = [
    *(
        {"policy": policy, "row": policy, "column": f"{world}, eta {eta}", "options": _options(policy, float(eta)), **place}
        for world, place in WORLDS.items()
        for eta in ETAS
        for policy in (*BUDGETED, "adac-ucb", *PURE)
    ),
    *(
        {"policy": policy, "row": f"{policy} (no budget)", "column": world, **place}
        for world, place in WORLDS.items()
        for policy in ("thompson", "ucb1")
    ),
]


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One policy at one budget in one world."""
    return measured(setting, seeds)


def wrong_commitments(row: Row) -> tuple[float, float | None]:
    """The share of runs that committed to an arm that is not the best, and its standard error."""
    best = {"bernoulli": 0, "exponential": 0, "close arms": 2}[row["column"].partition(",")[0]]
    return mean_sem([float(run.state[COMMITTED] not in (-1, best)) for run in row["runs"]])


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regrets, then the filter's wrong commitments."""
    committing = [row for row in rows if row["policy"] == OURS]
    row_name = f"{OURS}: wrong commitments"
    wrong = [Cell(row_name, row["column"], None, *wrong_commitments(row), "not-in-paper") for row in committing]
    return [*regret_cells(rows), *wrong]


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret against eta on the Bernoulli arms, on log scales."""
    for place, policy in enumerate(dict.fromkeys(row["row"] for row in rows)):
        ours = [row for row in rows if row["row"] == policy and row["column"].startswith("bernoulli, ")]
        if ours:
            width = 2.5 if policy == OURS else 1.2
            axes.errorbar(
                ETAS,
                [row["regret"] for row in ours],
                [2 * (row["regret_sem"] or np.nan) for row in ours],
                lw=width,
                ls="-" if place < 10 else ":",
                marker=".",
                label=policy,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("eta (epsilon at delta = 1e-6: 4.89, 11.0, 35.6, 96.7)")
    axes.set_ylabel("regret after 100,000 rounds (bars: two standard errors)")
    axes.legend(fontsize=7)
