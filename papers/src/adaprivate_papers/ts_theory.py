"""AdaPrivate-TS (Riyazat & Ukwatta), Prop. 4, Theorem 7 and Sec. 6.4: what its noise really does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import chdtrc, ndtr

from adaprivate import mechanisms
from adaprivate.check import Floats
from adaprivate.compiled import Streams, entry, streams
from adaprivate.environments.synthetic import ArmsWorld, arms_world
from adaprivate.experiments import ROUNDS, Cell, Row
from adaprivate.policies.adaprivate.batched import AdaPrivateTSSettings
from adaprivate.policies.core.dispatch import select, update
from adaprivate.purposes import Purpose
from adaprivate.simulation import mean_sem, policy_settings, run_all
from adaprivate_papers._cells import PAPER_SEEDS, by_row, cell, growth_exponent, near, unprinted, with_our_spread
from adaprivate_papers._plots import error_bars
from adaprivate_papers._world import runs

REPLICAS = 500
"""Replicas for each seed asked for."""
DIMENSION, BATCH, V = 4, 40, 1.0
PART = "privacy part, in sigma^2 A^-2"


@entry
def learn_and_sample(state: Any, features: Floats, rewards: Floats, rng: Streams) -> None:
    """Feed a policy all rows and let it choose once more: its sampled parameter is then in its state."""
    for t in range(features.shape[0]):
        update(state, features[t], rewards[t], rng)
    select(state, features, rng)


def covariance(row: Row, factor: float) -> Floats:
    """v^2 A^-1 + factor sigma^2 A^-2."""
    inverse = np.linalg.inv(row["design"])
    return np.asarray(V**2 * inverse + factor * row["sigma"] ** 2 * inverse @ inverse)


def p_value(deviations: Floats, expected: Floats) -> float:
    """Likelihood-ratio test that these independent normal vectors of mean zero have the expected covariance."""
    n, d = deviations.shape
    root = np.linalg.cholesky(expected)
    white = np.linalg.solve(root, deviations.T)
    observed = white @ white.T / n
    statistic = n * (np.trace(observed) - np.linalg.slogdet(observed)[1] - d)
    return float(chdtrc(d * (d + 1) / 2, statistic))


class Proposition4:
    """Proposition 4: the covariance of the sampled parameter is v^2 A^-1 + sigma^2 A^-2.

    True after one batch. Algorithm 1 adds the noise of every batch to b, so after k batches the privacy part is k sigma^2
    A^-2, which is not what Theorem 7 goes on with; correlated noise ("sqrt") at the same privacy grows far less. Every
    replica meets the same features and rewards, so A is fixed and only privacy and exploration noise differ.

    "Privacy part" is the coefficient of sigma^2 A^-2, estimated from the mean of (theta - mean)' A^2 (theta - mean); it
    agrees within three standard errors. The p-values are of a likelihood-ratio test that the covariance is the stated one
    (chi-squared with d (d + 1) / 2 degrees; a p-value below 0.001 is a rejection, false alarm 0.1 %).
    """

    NAME = "proposition4"
    SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Prop. 4 and Eq. 3.13"
    QUESTION = "Is the covariance of Proposition 4 that of Algorithm 1?"
    SEEDS = PAPER_SEEDS
    SETTINGS: list[Mapping[str, Any]] = [
        {"row": "1 batch", "batches": 1, "noise": "independent"},
        {"row": "4 batches", "batches": 4, "noise": "independent"},
        {"row": "16 batches", "batches": 16, "noise": "independent"},
        {"row": "16 batches, sqrt noise", "batches": 16, "noise": "sqrt"},
    ]
    PAPER = {(setting["row"], PART): 1.0 for setting in SETTINGS if setting["noise"] == "independent"}

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """The sampled parameters of all replicas, and the mean and matrices they should follow."""
        rounds = setting["batches"] * BATCH
        rng = np.random.default_rng(4)
        features = rng.standard_normal((rounds, DIMENSION)) * np.array([1.0, 0.7, 0.5, 0.3])
        features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
        rewards = rng.random(rounds)
        policy = AdaPrivateTSSettings(dimension=DIMENSION, rounds=rounds, batch_size=BATCH, v=V, noise=setting["noise"])
        replicas = REPLICAS * seeds
        samples = np.empty((replicas, DIMENSION))
        for i, noise in enumerate(policy.noise_tables(range(replicas))):
            state = policy.start(noise)
            learn_and_sample(state, features, rewards, streams(i, Purpose.EXPLORATION, Purpose.CHOICE))
            samples[i] = state.learner.parameter
        design = policy.ridge * np.eye(DIMENSION) + features.T @ features
        strategy = mechanisms.strategy(setting["noise"], setting["batches"])
        factor = float((strategy.sensitivity() * strategy.prefix_std()[-1]) ** 2)
        return {
            **setting,
            "deviations": samples - np.linalg.solve(design, features.T @ rewards),
            "design": design,
            "sigma": policy.noise_multiplier,
            "factor": factor,
        }

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """The privacy part; then tests of the proposition's covariance and of the one that accumulates."""
        cells: list[Cell] = []
        for row in rows:
            moved = row["deviations"] @ row["design"]
            scale = DIMENSION * row["sigma"] ** 2
            part, sem = mean_sem(((moved**2).sum(axis=1) - V**2 * np.trace(row["design"])) / scale)
            printed = self.PAPER.get((row["row"], PART))
            cells.append(cell(row["row"], PART, None if printed is None else (printed, 0.0), part, sem))
            observed = row["deviations"].T @ row["deviations"] / len(row["deviations"])
            for name, factor in (("Prop. 4", 1.0), ("accumulated noise", row["factor"])):
                expected = covariance(row, factor)
                error = float(np.linalg.norm(observed - expected) / np.linalg.norm(expected))
                cells.append(unprinted(row["row"], f"relative error of {name}", error))
                cells.append(unprinted(row["row"], f"p-value of {name}", p_value(row["deviations"], expected)))
        return cells

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """The privacy part after each number of batches beside the claim."""
        cells = [found for found in self.compare(rows) if found.column == PART]
        at = range(len(rows))
        error_bars(axes, at, [(found.ours, found.sem) for found in cells], fmt="o", capsize=4, label="measured")
        axes.plot(at, [row["factor"] for row in rows], "_", ms=24, color="black", label="noise of the released sum")
        axes.axhline(1, ls=":", color="tab:red", label="Prop. 4 as Theorem 7 uses it")
        axes.set_xticks(at, [row["row"] for row in rows])
        axes.set(yscale="log", ylabel="privacy part of the covariance, in sigma^2 A^-2")
        axes.legend(fontsize=8)


SUM_BATCHES = (33, 200, 1000)
LARGEST = {"optimal": 200}


class PrefixNoise:
    """Noise in a running sum of K batches at the same privacy, for every way to correlate it.

    Theorem 7 of AdaPrivate-TS rests on the noise of one batch at every time (1 in units of sigma); its Algorithm 1 adds up
    independent noises, whose standard deviation grows as the root of the number of batches. Correlated noise comes close to
    what the theorem assumed: see the square-root, optimal and BLT rows.
    """

    NAME = "prefix-noise"
    SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), proof of Theorem 7, Eq. 3.13-3.17"
    QUESTION = "How much noise does a running sum need?"
    PAPER = {("independent", f"{batches} batches, largest"): 1.0 for batches in SUM_BATCHES}
    SETTINGS: list[Mapping[str, Any]] = [
        {"noise": name, "batches": batches}
        for name in sorted({*mechanisms.strategies()} - {"informative"})  # that one is not for running sums
        for batches in SUM_BATCHES
        if batches <= LARGEST.get(name, batches)
    ]

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """Standard deviations of the running sums, in units of what one release of the same privacy needs."""
        strategy = mechanisms.strategy(setting["noise"], setting["batches"])
        std = strategy.sensitivity() * strategy.prefix_std()
        return {**setting, "std": std, "largest": float(std.max()), "rms": float(np.sqrt((std**2).mean()))}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """The largest and the root-mean-square standard deviation of each."""
        cells = []
        for row in rows:
            for measure in ("largest", "rms"):
                column = f"{row['batches']} batches, {measure}"
                printed = self.PAPER.get((row["noise"], column))
                cells.append(near(row["noise"], column, printed, row[measure], None, 0.005))
        return cells

    def answer(self, rows: Sequence[Row]) -> str:
        """The largest noise in the longest sum that all ways were tried on: independent, and the least of all."""
        batches = max(
            b
            for b in SUM_BATCHES
            if len({r["noise"] for r in rows if r["batches"] == b}) == len({r["noise"] for r in rows})
        )
        largest = {row["noise"]: row["largest"] for row in rows if row["batches"] == batches}
        least = min(largest, key=lambda name: float(largest[name]))
        return (
            f"Over {batches} batches the running sum has up to {largest['independent']:.1f} times the noise of one release "
            "if noises are independent, as in Algorithm 1, and "
            f"{largest[least]:.2f} times if they are correlated ({least})."
        )

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Standard deviation against the number of batches so far, at 200 batches."""
        for row in rows:
            if row["batches"] == 200:
                axes.plot(np.arange(1, 201), row["std"], label=row["noise"], lw=1.5)
        axes.axhline(1, color="black", lw=0.8, ls=":", label="Theorem 7's assumption")
        axes.set(xlabel="batches so far (of 200)", ylabel="noise in the running sum / sigma of one release")
        axes.legend(fontsize=8, ncol=2)


NOISES = ("independent", "tree", "sqrt", "blt")
BATCHES = (64, 256, 1_024, 4_096, 16_384)
LENGTHS = tuple(2_500 * 2**i for i in range(7))
BATCH_SIZE = 300
TAIL = 3
"""Exponents leave out so many of the smallest T, and of the smallest K but one."""
_SILENT: dict[str, Any] = {"epsilon": 1e4, "calibration": "exact"}
_WORLDS = {"as published": 0.0, "centred": 0.5}
TWO_ARMS = "two arms, {} noise"
EXPONENT = "growth exponent"


def harmonic_exponent(sizes: Sequence[int]) -> float:
    """The slope that the theorem's sum 1 + ... + 1/K shows over these K."""
    sums = np.array([[(1 / np.arange(1, size + 1)).sum() for size in sizes]])
    return growth_exponent(sizes, sums)[0]


def two_arms_regret(gaps: Floats, std: Floats) -> Floats:
    """Regret, in sigma, on arms +x and -x at gaps of u sigma / B, when the k-th running sum carries noise std[k] sigma."""
    k = np.arange(1, len(std) + 1)
    return np.array([2 * u * ndtr(-u * k / std).sum() for u in gaps])


_TAILS = {"two arms": BATCHES[TAIL - 1 :], "world": [rounds // BATCH_SIZE for rounds in LENGTHS[TAIL:]]}
_PUBLISHED = "synthetic, as published, independent noise"


def _sizes(rows: Sequence[Row]) -> list[int]:
    return [row["batches"] if row["kind"] == "two arms" else row["rounds"] // BATCH_SIZE for row in rows]


class NoiseGrowth:
    """Theorem 7: how the regret that privacy adds grows with T.

    It is not logarithmic for Algorithm 1. Its noises add up, and on two arms of opposite features in one dimension, at a
    gap of sigma / (B sqrt(K)), they cost 0.516 sigma sqrt(K) over K batches: a lower bound, exact, by summing the chance
    that noise alone turns the better arm into the worse ("two arms"; at the worst gap a little more). On the synthetic
    world the regret that noise adds, against the same policy without noise on the same seeds, grows as a power of T too:
    about the square root from T = 20,000 on when rewards are centred, faster as published (without an intercept noise also
    feeds the linear regret of the misfit). Correlated noise at the same privacy does reach the theorem's growth: with sqrt
    or BLT noise the exponent is that of a logarithm, and at T = 160,000 about a sixth of the regret is added.

    Exponents are least-squares slopes of the log of the mean, errors by the jackknife over seeds. The paper's value is the
    slope of the theorem's own sum 1 + 1/2 + ... + 1/K over the same range; Algorithm 1 agrees within three standard errors
    (the paper's error taken to be like ours).
    """

    NAME = "noise-growth"
    SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Theorem 7"
    QUESTION = "Does the regret that privacy adds grow as slowly as Theorem 7 says?"
    SEEDS = PAPER_SEEDS
    PAPER = {
        (TWO_ARMS.format("independent"), EXPONENT): harmonic_exponent(_TAILS["two arms"]),
        **{(f"synthetic, {world}, independent noise", EXPONENT): harmonic_exponent(_TAILS["world"]) for world in _WORLDS},
    }
    SETTINGS: list[Mapping[str, Any]] = [
        *(
            {"kind": "two arms", "row": TWO_ARMS.format(noise), "noise": noise, "batches": batches}
            for noise in NOISES
            for batches in BATCHES
        ),
        *(
            {"kind": "world", "row": f"synthetic, {world}, {noise} noise", "noise": noise, "world": world, "rounds": rounds}
            for world, noise in (("as published", "independent"), *(("centred", noise) for noise in NOISES))
            for rounds in LENGTHS
        ),
    ]

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """The regret that noise adds: exact for two arms, one value a seed on the synthetic world."""
        if setting["kind"] == "two arms":
            strategy = mechanisms.strategy(setting["noise"], setting["batches"])
            std = strategy.sensitivity() * strategy.prefix_std()
            worst = two_arms_regret(np.geomspace(1e-4, 10, 200), std).max()
            stated = two_arms_regret(np.array([1 / math.sqrt(setting["batches"])]), std)[0]
            return {**setting, "added": np.array([worst]), "stated": float(stated)}
        options: dict[str, Any] = {
            "rounds": setting["rounds"],
            "batch_size": BATCH_SIZE,
            "centre": _WORLDS[setting["world"]],
        }
        private = runs("adaprivate-ts", seeds, **options, epsilon=1.0, noise=setting["noise"])
        silent = runs("adaprivate-ts", seeds, **options, **_SILENT)
        return {**setting, "added": np.array([a.regret - b.regret for a, b in zip(private, silent, strict=True)])}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Exponents against the claim, then the regret at every size."""
        cells: list[Cell] = []
        for name, ours in by_row(rows).items():
            kind = ours[0]["kind"]
            tail = ours[-len(_TAILS[kind]) :]
            slope, sem = growth_exponent(_sizes(tail), np.array([row["added"] for row in tail]).T)
            printed = self.PAPER.get((name, EXPONENT))
            pair = None if printed is None else with_our_spread(printed, sem, len(ours[0]["added"]))
            cells.append(replace(cell(name, EXPONENT, pair, slope, sem), computed=kind == "two arms"))
            for row in ours:
                if kind == "two arms":
                    cells.append(unprinted(name, f"worst gap, K = {row['batches']}, in sigma", float(row["added"][0])))
                    if row["noise"] == "independent":
                        scaled = row["stated"] / math.sqrt(row["batches"])
                        cells.append(unprinted(name, f"lower bound, K = {row['batches']}, in sigma sqrt K", scaled))
                else:
                    cells.append(unprinted(name, f"added regret, T = {row['rounds']}", *mean_sem(row["added"])))
        return cells

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Added regret against the number of batches, on log scales."""
        for name, ours in by_row(rows).items():
            colour = "0.4" if name == _PUBLISHED else f"C{NOISES.index(ours[0]['noise'])}"
            style = "--" if ours[0]["kind"] == "two arms" else "-"
            added = [max(row["added"].mean(), 1.0) for row in ours]
            axes.plot(_sizes(ours), added, style, marker=".", color=colour, label=name)
        sizes = np.array(BATCHES)
        axes.plot(sizes, [(1 / np.arange(1, size + 1)).sum() for size in sizes], ":", color="black", label="1 + ... + 1/K")
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="batches (T / 300 on the synthetic world)",
            ylabel="regret added by noise (two arms: in units of sigma)",
        )
        axes.legend(fontsize=7)


DIMENSIONS = (5, 10, 20, 40)
SPECTRA = {"even": 0.0, "mu_i ~ i^-1": 1.0, "mu_i ~ i^-2": 2.0}
MOVIELENS = "50 features (MovieLens)"
GROWTH = "growth exponent of d_eff in d"
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


class EffectiveDimension:
    """Sec 6.4: the effective privacy dimension d_eff = sum of mu_i^-2, mu_i the eigenvalues of E[x x'].

    The statements about it are wrong for this definition. For mu_i ~ i^-2 it is not O(1) but grows as the fifth power of d
    (it sums i^4); fast decay makes it larger, not smaller. With |x| <= 1 the eigenvalues sum to at most 1, so by convexity
    d_eff is never below d^3: 8.3 in 50 dimensions cannot be. The participation ratio (sum mu)^2 / sum mu^2, shown beside
    it, is small for fast decay, but it is not what Eq. 3.13 sums. What does hold: T^2 tr(A^-2), measured after T = 10,000
    rounds, follows d_eff (until the ridge takes over), and the bound by the trace is below the bound by the least
    eigenvalue. For mu_i ~ i^-p the gap tends to sqrt(2p + 1), a constant, not a power of d. (The printed rate also has a
    factor 1 / B too many.)

    The features are sign vectors scaled by sqrt(mu_i), of norm 1 with exactly this spectrum; rewards are linear and
    centred.
    """

    NAME = "effective-dimension"
    SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 6.4"
    QUESTION = "Is the effective privacy dimension what Sec 6.4 says it is?"
    SEEDS = PAPER_SEEDS
    PAPER = {("mu_i ~ i^-2", GROWTH): 0.0, (MOVIELENS, "d_eff, at least"): 8.3, (MOVIELENS, "d / d_eff, at most"): 6.0}
    SETTINGS: list[Mapping[str, Any]] = [
        {"row": f"{name}, d = {d}", "spectrum": name, "dimension": d} for name in SPECTRA for d in DIMENSIONS
    ]

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
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

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
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
            printed = self.PAPER.get((name, GROWTH))
            cells.append(replace(near(name, GROWTH, printed, exponent, None, 0.1), computed=True))
            for title, key in (("T^2 tr(A^-2)", "trace"), ("regret added by noise", "added")):
                slope, sem = growth_exponent(sizes, np.array([row[key] for row in ours]).T)
                cells.append(unprinted(name, f"growth exponent of {title} in d", slope, sem))
            largest = spectrum(power, sizes[-1])
            cells.append(unprinted(name, f"participation ratio, d = {sizes[-1]}", float(1 / (largest**2).sum())))
            for row in ours:
                mu = spectrum(power, row["dimension"])
                cells.append(unprinted(row["row"], "d_eff = sum mu^-2", effective_dimension(mu)))
                for title, key in (
                    ("T^2 tr(A^-2)", "trace"),
                    ("eigenvalue bound / trace bound", "gap"),
                    ("regret added by noise", "added"),
                ):
                    cells.append(unprinted(row["row"], title, *mean_sem(row[key])))
        return cells

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """The definition (dashed) and what is measured (solid) against d."""
        for i, (name, power) in enumerate(SPECTRA.items()):
            ours = [row for row in rows if row["spectrum"] == name]
            sizes = [row["dimension"] for row in ours]
            axes.plot(sizes, [row["trace"].mean() for row in ours], "o-", color=f"C{i}", label=f"{name}: T^2 tr(A^-2)")
            defined = [effective_dimension(spectrum(power, d)) for d in sizes]
            axes.plot(sizes, defined, "--", color=f"C{i}", label=f"{name}: d_eff")
        axes.set(xscale="log", yscale="log", xlabel="d", ylabel="squared privacy error of theta, times (T / sigma)^2")
        axes.legend(fontsize=8)


EXPERIMENTS = (Proposition4, PrefixNoise, NoiseGrowth, EffectiveDimension)
