"""Rivals on arms beside their published plots (Hu & Hegde 2022), and our filter beside all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import environments, privacy
from adaprivate.experiments import Cell, Row
from adaprivate.policies.arms.sampling import public_pair
from adaprivate.simulation import mean_sem
from adaprivate_papers._cells import at_most, near, regret_cells, unprinted
from adaprivate_papers._plots import regret_at
from adaprivate_papers._world import ARM_DELTA, ARM_ROUNDS, ARMS, on_arms


class HuHegde:
    """The rivals on the standard five Bernoulli arms at T = 100,000: our regrets beside those read off the published plots.

    Values read off a plot agree within a tenth, whatever our standard error; DP-SE's plateau is exact and compared to two
    percent. Lazy-DP-TS at epsilon 1 differs (about 590, read off as 490): the text defines log as base 2, which would give
    827; the natural logarithm, used here, fits the other two points.
    """

    NAME = "hu-hegde"
    SOURCE = "Hu & Hegde 2022, Figures (Bernoulli arms 0.75 ... 0.25)"
    QUESTION = "Do the rivals on arms have the regrets that are published of them?"
    SEEDS = 20
    PAPER = {
        ("anytime-lazy-ucb", "epsilon 500"): 1470.0,
        ("anytime-lazy-ucb", "epsilon 1"): 2430.0,
        ("anytime-lazy-ucb", "epsilon 0.5"): 3330.0,
        ("anytime-lazy-ucb", "epsilon 0.25"): 3850.0,
        ("lazy-dp-ts", "epsilon 1"): 490.0,
        ("lazy-dp-ts", "epsilon 0.5"): 1090.0,
        ("lazy-dp-ts", "epsilon 0.25"): 1930.0,
        ("dp-se", "epsilon 0.5"): 3440.0,
        ("dp-se", "epsilon 0.25"): 3440.0,
    }
    SETTINGS: list[Mapping[str, Any]] = [
        {"policy": policy, "row": policy, "column": column, "options": {"epsilon": float(column.split()[1])}}
        for policy, column in PAPER
    ]
    run, plot = staticmethod(on_arms), staticmethod(regret_at("epsilon 0.5"))

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Regrets against those read off the plots."""
        cells = []
        for row in rows:
            stated = self.PAPER[row["row"], row["column"]]
            share = 0.02 if row["row"] == "dp-se" else 0.1
            ours, sem = row["regret"], row["regret_sem"]
            cells.append(near(row["row"], row["column"], stated, ours, sem, share * stated))
        return cells


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


def _rows(eta: float) -> dict[str, tuple[str, dict[str, Any]]]:
    """Row -> policy and options; where a published calibration is loose, a second row without what it gives away."""
    epsilon, budget = privacy.gdp_epsilon(eta, ARM_DELTA), {"eta": eta, "delta": ARM_DELTA}
    return {
        OURS: (OURS, budget),
        "modified-thompson": ("modified-thompson", budget),
        f"modified-thompson{EQUAL}": ("modified-thompson", {**budget, "calibration": "tight"}),
        "adac-ucb": ("adac-ucb", {"epsilon": epsilon, "delta": ARM_DELTA, "calibration": "exact"}),
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


def wrong_commitments(row: Row) -> tuple[float, float | None]:
    """The share of runs that committed to an arm that is not the best, and its standard error."""
    best = {"bernoulli": 0, "exponential": 0, "close arms": 2}[row["column"].partition(",")[0]]
    return mean_sem([float(run.state["committed"][0] not in (-1, best)) for run in row["runs"]])


class Filter:
    """The filter against every rival at the same privacy: regret on three worlds, and how often it commits to a wrong arm.

    At each eta (mu of Gaussian DP) the Thompson policies and AdaC-UCB have the epsilon of eta at delta = 1e-6; the pure
    rivals have that epsilon with delta = 0, which is more privacy than the others give. Loose published calibrations run
    twice: as published, and at equal true epsilon, which is printed for every row. In place of a paper's values stands what
    we claim. "close arms" are one of 0.5 and four of 0.45, where committing late pays and a wrong commitment is not rare.
    Lazy-DP-TS, pure, is the rival to watch.
    """

    NAME = "filter"
    SOURCE = "ours, beside Ou, Avella Medina & Cummings 2024, Sec 5 and Appendix D"
    QUESTION = "Does the filter beat its rivals at the same privacy?"
    SEEDS = 100
    PAPER = {
        (REGRET, "bernoulli, eta 1"): 700.0,
        (REGRET, "bernoulli, eta 2"): 600.0,
        (WRONG, "bernoulli, eta 1"): 0.05,
        (WRONG, "bernoulli, eta 2"): 0.05,
    }
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
    run = staticmethod(on_arms)

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """What we claim, regrets, the filter's wrong commitments, and what each row spends in truth."""
        committing = {row["column"]: row for row in rows if row["policy"] == OURS}
        found = {
            REGRET: {column: (row["regret"], row["regret_sem"]) for column, row in committing.items()},
            WRONG: {column: wrong_commitments(row) for column, row in committing.items()},
        }
        return [
            *(at_most(name, column, stated, *found[name][column]) for (name, column), stated in self.PAPER.items()),
            *regret_cells(rows),
            *(unprinted(f"{OURS}: wrong commitments", column, *value) for column, value in found[WRONG].items()),
            *(
                unprinted(f"{row['row']}: true epsilon", row["column"], row["true_epsilon"])
                for row in rows
                if row["true_epsilon"] is not None
            ),
        ]

    def answer(self, rows: Sequence[Row]) -> str:
        """In how many columns the filter loses least of all that spend a budget."""
        columns = [row["column"] for row in rows if row["policy"] == OURS]
        first = []
        for column in columns:
            here = {row["row"]: float(row["regret"]) for row in rows if row["column"] == column}
            first.append(min(here, key=lambda name: here[name]))
        others = ", ".join(dict.fromkeys(name for name in first if name != OURS))
        ahead = f"{OURS} has the least regret in {first.count(OURS)} of {len(first)} columns"
        return f"{ahead}; elsewhere {others}." if others else f"{ahead}."

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
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


PAIR_ETAS = (1, 2)
HELD_OUT = "held out"
PAIR_WORLDS: dict[str, dict[str, Any]] = {
    "close arms": {"environment": "bernoulli-arms", "world": {"means": (0.45, 0.45, 0.5, 0.45, 0.45)}},
    HELD_OUT: {"environment": "exponential-arms", "world": {"rates": (0.5, 1.0, 1.5, 2.5, 4.0, 6.0, 9.0)}},
}
AUTOMATIC = "b x 1, c x 1"
OVER_BEST = "automatic over best of nine, at most (our claim)"


def _pair_settings(rounds: int, factors: Sequence[float]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for world, place in PAIR_WORLDS.items():
        arms = environments.environment(place["environment"], place["world"]).dimension
        for eta in PAIR_ETAS:
            b, c = public_pair(arms, rounds, float(eta))
            found += [
                {
                    "policy": "filtered-thompson",
                    "row": f"b x {more:g}, c x {wider:g}",
                    "column": f"{world}, eta {eta}",
                    "options": {"eta": float(eta), "delta": ARM_DELTA, "prepulls": round(more * b), "variance": wider * c},
                    "rounds": rounds,
                    **place,
                }
                for more in factors
                for wider in factors
            ]
    return found


class FilterPair:
    """The automatic pair (b, c) of the filter beside pairs with half and twice its pre-pulls and variance.

    Its constants were chosen once, by simulation on Bernoulli worlds of 2 to 20 arms with gaps of 0.01 to 0.3 and T = 1000
    to 100,000: the standard arms and the close arms of other experiments are among these. "Held out" is a world of another
    kind that had no part in the choice: seven exponential arms. The claim, fixed before it was run: at most 1.5 times the
    regret of the best of the nine pairs, which is picked after the fact. It fails in two cases of four: close arms at eta 1
    (twice the pre-pulls would be far better), and barely in the world held out at eta 2. The constants were left as they
    are. Pairs nearby differ mostly by rare wrong commitments.
    """

    NAME = "filter-pair"
    SOURCE = "ours: the choice of filtered-thompson"
    QUESTION = "Is the filter's automatic choice a good one?"
    SEEDS = 100
    PAPER = {(OVER_BEST, f"{world}, eta {eta}"): 1.5 for world in PAIR_WORLDS for eta in PAIR_ETAS}
    SETTINGS = _pair_settings(ARM_ROUNDS, (0.5, 1, 2))
    QUICK = _pair_settings(3_000, (0.5, 1))
    run, plot = staticmethod(on_arms), staticmethod(regret_at(f"{HELD_OUT}, eta 1"))

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """The claim, and every regret."""
        cells = []
        for (name, column), stated in self.PAPER.items():
            group = {row["row"]: row for row in rows if row["column"] == column}
            least = min(float(row["regret"]) for row in group.values())
            ours, sem = group[AUTOMATIC]["regret"], group[AUTOMATIC]["regret_sem"]
            cells.append(at_most(name, column, stated, ours / least, None if sem is None else sem / least))
        return [*cells, *regret_cells(rows)]


EXPERIMENTS = (HuHegde, Filter, FilterPair)
