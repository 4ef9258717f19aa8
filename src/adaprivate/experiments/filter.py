"""The filter against every rival at the same privacy: regret on three worlds, and how often it commits to a wrong arm.

At each eta (mu of Gaussian DP) the Thompson policies and AdaC-UCB have the epsilon of eta at delta = 1e-6; the pure rivals
have that epsilon with delta = 0, which is more privacy than the others give. Loose published calibrations run twice: as
published, and at equal true epsilon, which is printed for every row. In place of a paper's values stands what we claim.
"close arms" are one of 0.5 and four of 0.45, where committing late pays and a wrong commitment is not rare. Lazy-DP-TS,
pure, is the rival to watch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import privacy
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._arms import ARMS, DELTA, at_most, on_arms, regret_cells
from adaprivate.simulation import mean_sem

SOURCE = "ours, beside Ou, Avella Medina & Cummings 2024, Sec 5 and Appendix D"
QUESTION = "Does the filter beat its rivals at the same privacy?"
SEEDS = 100
ETAS = (1, 2, 5, 10)
WORLDS: dict[str, dict[str, Any]] = {
    "bernoulli": {"environment": "bernoulli-arms"},
    "exponential": {"environment": "exponential-arms"},
    "close arms": {"environment": "bernoulli-arms", "world": {"means": (0.45, 0.45, 0.5, 0.45, 0.45)}},
}
OURS = "filtered-thompson"
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
EQUAL = ", at equal true epsilon"
REGRET, WRONG = f"{OURS}: regret, at most (our claim)", f"{OURS}: wrong commitments, at most (our claim)"
PAPER = {
    (REGRET, "bernoulli, eta 1"): 700.0,
    (REGRET, "bernoulli, eta 2"): 600.0,
    (WRONG, "bernoulli, eta 1"): 0.05,
    (WRONG, "bernoulli, eta 2"): 0.05,
}


def _rows(eta: float) -> dict[str, tuple[str, dict[str, Any]]]:
    """Row -> policy and options; where a published calibration is loose, a second row without what it gives away."""
    epsilon, budget = privacy.gdp_epsilon(eta, DELTA), {"eta": eta, "delta": DELTA}
    return {
        OURS: (OURS, budget),
        "modified-thompson": ("modified-thompson", budget),
        f"modified-thompson{EQUAL}": ("modified-thompson", {**budget, "calibration": "tight"}),
        "adac-ucb": ("adac-ucb", {"epsilon": epsilon, "delta": DELTA, "calibration": "exact"}),
        **{policy: (policy, {"epsilon": epsilon, **options}) for policy, options in PURE.items()},
        **{
            f"{policy}{EQUAL}": (policy, {"epsilon": loose * ARMS * epsilon, **PURE[policy]})
            for policy, loose in (("mishra-thakurta-ucb", 1), ("mishra-thakurta-ts", 2))
        },
    }


def _settings(worlds: Sequence[str], etas: Sequence[int], rows: Sequence[str] | None = None) -> list[Mapping[str, Any]]:
    return [
        {"policy": policy, "row": row, "column": f"{world}, eta {eta}", "options": options, **WORLDS[world]}
        for world in worlds
        for eta in etas
        for row, (policy, options) in _rows(float(eta)).items()
        if rows is None or row in rows
    ]


SETTINGS: list[Mapping[str, Any]] = [
    *_settings(list(WORLDS), ETAS),
    *(
        {"policy": policy, "row": f"{policy} (no budget)", "column": world, **place}
        for world, place in WORLDS.items()
        for policy in ("thompson", "beta-thompson", "ucb1")
    ),
]
QUICK = [
    *_settings(["bernoulli"], (1, 2), (OURS, "lazy-dp-ts")),
    *_settings(["bernoulli"], (1,), [row for row in _rows(1.0) if row.startswith(("modified", "mishra"))]),
    *_settings(["close arms"], (1,), (OURS, "lazy-dp-ts")),
]
run = on_arms


def wrong_commitments(row: Row) -> tuple[float, float | None]:
    """The share of runs that committed to an arm that is not the best, and its standard error."""
    best = {"bernoulli": 0, "exponential": 0, "close arms": 2}[row["column"].partition(",")[0]]
    return mean_sem([float(run.state["committed"][0] not in (-1, best)) for run in row["runs"]])


def compare(rows: Sequence[Row]) -> list[Cell]:
    """What we claim, regrets, the filter's wrong commitments, and what each row spends in truth."""
    committing = {row["column"]: row for row in rows if row["policy"] == OURS}
    found = {
        REGRET: {column: (row["regret"], row["regret_sem"]) for column, row in committing.items()},
        WRONG: {column: wrong_commitments(row) for column, row in committing.items()},
    }
    return [
        *(at_most(name, column, stated, *found[name][column]) for (name, column), stated in PAPER.items()),
        *regret_cells(rows),
        *(
            Cell(f"{OURS}: wrong commitments", column, None, *value, "not-in-paper")
            for column, value in found[WRONG].items()
        ),
        *(
            Cell(f"{row['row']}: true epsilon", row["column"], None, row["true_epsilon"], None, "not-in-paper")
            for row in rows
            if row["true_epsilon"] is not None
        ),
    ]


def answer(rows: Sequence[Row]) -> str:
    """In how many columns the filter loses least of all that spend a budget."""
    columns = [row["column"] for row in rows if row["policy"] == OURS]
    first = []
    for column in columns:
        here = {row["row"]: float(row["regret"]) for row in rows if row["column"] == column}
        first.append(min(here, key=lambda name: here[name]))
    others = ", ".join(dict.fromkeys(name for name in first if name != OURS))
    ahead = f"{OURS} has the least regret in {first.count(OURS)} of {len(first)} columns"
    return f"{ahead}; elsewhere {others}." if others else f"{ahead}."


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret against eta on the Bernoulli arms, on log scales."""
    for place, policy in enumerate(dict.fromkeys(row["row"] for row in rows)):
        ours = [row for row in rows if row["row"] == policy and row["column"].startswith("bernoulli, ")]
        if ours:
            width = 2.5 if policy == OURS else 1.2
            axes.errorbar(
                [int(row["column"].split()[-1]) for row in ours],
                [row["regret"] for row in ours],
                [2 * (row["regret_sem"] or np.nan) for row in ours],
                lw=width,
                ls="-" if place < 10 else ":",
                marker=".",
                label=policy,
            )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="eta (epsilon at delta = 1e-6: 4.89, 11.0, 35.6, 96.7)",
        ylabel="regret after 100,000 rounds (bars: two standard errors)",
    )
    axes.legend(fontsize=7)
