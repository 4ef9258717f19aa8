"""Sec 6.4: the effective privacy dimension d_eff = sum of mu_i^-2, mu_i the eigenvalues of E[x x'].

The statements about it are wrong for this definition. For mu_i ~ i^-2 it is not O(1) but grows as the fifth power of d (it
sums i^4); fast decay makes it larger, not smaller. With |x| <= 1 the eigenvalues sum to at most 1, so by convexity d_eff is
never below d^3: 8.3 in 50 dimensions cannot be. The participation ratio (sum mu)^2 / sum mu^2, shown beside it, is small
for fast decay, but it is not what Eq. 3.13 sums. What does hold: T^2 tr(A^-2), measured after T = 10,000 rounds, follows
d_eff (until the ridge takes over), and the bound by the trace is below the bound by the least eigenvalue. For mu_i ~ i^-p
the gap tends to sqrt(2p + 1), a constant, not a power of d. (The printed rate also has a factor 1 / B too many.)

The features are sign vectors scaled by sqrt(mu_i), of norm 1 with exactly this spectrum; rewards are linear and centred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from adaprivate.check import Floats
from adaprivate.environments.synthetic import ArmsWorld, arms_world
from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._measured import ROUNDS
from adaprivate.experiments._synthetic import PAPER_SEEDS, cell, growth_exponent
from adaprivate.simulation import mean_sem, policy_settings, run_all

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 6.4"
QUESTION = "Is the effective privacy dimension what Sec 6.4 says it is?"
SEEDS = PAPER_SEEDS
DIMENSIONS = (5, 10, 20, 40)
SPECTRA = {"even": 0.0, "mu_i ~ i^-1": 1.0, "mu_i ~ i^-2": 2.0}
MOVIELENS = "50 features (MovieLens)"
GROWTH = "growth exponent of d_eff in d"
PAPER = {("mu_i ~ i^-2", GROWTH): 0.0, (MOVIELENS, "d_eff, at least"): 8.3, (MOVIELENS, "d / d_eff, at most"): 6.0}
SETTINGS: list[Mapping[str, Any]] = [
    {"row": f"{name}, d = {d}", "spectrum": name, "dimension": d} for name in SPECTRA for d in DIMENSIONS
]
_ZERO_NOISE = {"epsilon": 1e4, "calibration": "exact"}


def spectrum(power: float, dimension: int) -> Floats:
    """Eigenvalues that fall as i^-power and sum to 1."""
    mu = np.arange(1.0, dimension + 1) ** -power
    return np.asarray(mu / mu.sum(), dtype=np.float64)


def effective_dimension(mu: Floats) -> float:
    """The paper's d_eff."""
    return float((mu**-2).sum())


@dataclass(frozen=True)
class SpectrumWorld:
    """An environment of 1,000 arms with a given spectrum, five offered each round, mean reward 1/2 + theta' x."""

    name: ClassVar[str] = "spectrum"
    power: float
    dimension: int
    candidates: int = 5

    def world(self, seed: int) -> ArmsWorld:
        """The world of this seed."""
        rng = np.random.default_rng([seed, 0])
        theta = rng.standard_normal(self.dimension)
        theta *= 0.5 / np.linalg.norm(theta)
        arms = rng.choice([-1.0, 1.0], (1_000, self.dimension)) * np.sqrt(spectrum(self.power, self.dimension))
        return arms_world(arms, arms @ theta, "linear", "bernoulli")


def _inverse(state: Any) -> Floats:
    """The eigenvalues of A's inverse."""
    return np.asarray(np.linalg.eigvalsh(state.learner.root @ state.learner.root.T))


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """What is left of A's inverse after all rounds, and the regret that the noise adds."""
    d = setting["dimension"]
    place = SpectrumWorld(SPECTRA[setting["spectrum"]], d)
    policies = [
        policy_settings("adaprivate-ts", place, ROUNDS, {"centre": 0.5, **options})
        for options in ({"epsilon": 1.0}, _ZERO_NOISE)
    ]
    private, silent = run_all(policies, place, range(seeds), keep_state=_inverse)
    inverses = [played.state for played in private]
    return {
        **setting,
        "trace": np.array([ROUNDS**2 * (values**2).sum() for values in inverses]),
        "gap": np.array([np.sqrt(d * values[-1] ** 2 / (values**2).sum()) for values in inverses]),
        "added": np.array([a.regret - b.regret for a, b in zip(private, silent, strict=True)]),
    }


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The printed statements, then definition against measurement for every spectrum."""
    floor = effective_dimension(spectrum(0.0, 50))
    cells = [
        Cell(MOVIELENS, "d_eff, at least", 8.3, floor, None, "differs", computed=True),
        Cell(MOVIELENS, "d / d_eff, at most", 6.0, 50 / floor, None, "differs", computed=True),
    ]
    for name, power in SPECTRA.items():
        ours = [row for row in rows if row["spectrum"] == name]
        sizes = [row["dimension"] for row in ours]
        defined = np.array([[effective_dimension(spectrum(power, d)) for d in sizes]])
        exponent, _ = growth_exponent(sizes, defined)
        printed = PAPER.get((name, GROWTH))
        off = abs(exponent - (printed or 0.0))
        cells.append(replace(compared(name, GROWTH, printed, exponent, None, off, 0.1), computed=True))
        for title, key in (("T^2 tr(A^-2)", "trace"), ("regret added by noise", "added")):
            slope, sem = growth_exponent(sizes, np.array([row[key] for row in ours]).T)
            cells.append(cell(name, f"growth exponent of {title} in d", None, slope, sem))
        largest = spectrum(power, sizes[-1])
        cells.append(cell(name, f"participation ratio, d = {sizes[-1]}", None, float(1 / (largest**2).sum()), None))
        for row in ours:
            mu = spectrum(power, row["dimension"])
            cells.append(cell(row["row"], "d_eff = sum mu^-2", None, effective_dimension(mu), None))
            for title, key in (
                ("T^2 tr(A^-2)", "trace"),
                ("eigenvalue bound / trace bound", "gap"),
                ("regret added by noise", "added"),
            ):
                cells.append(cell(row["row"], title, None, *mean_sem(row[key])))
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """The definition (dashed) and what is measured (solid) against d."""
    for i, (name, power) in enumerate(SPECTRA.items()):
        ours = [row for row in rows if row["spectrum"] == name]
        sizes = [row["dimension"] for row in ours]
        axes.plot(sizes, [row["trace"].mean() for row in ours], "o-", color=f"C{i}", label=f"{name}: T^2 tr(A^-2)")
        defined = [effective_dimension(spectrum(power, d)) for d in sizes]
        axes.plot(sizes, defined, "--", color=f"C{i}", label=f"{name}: d_eff")
    axes.set(xscale="log", yscale="log", xlabel="d", ylabel="squared privacy error of theta, times (T / sigma)^2")
    axes.legend(fontsize=8)
