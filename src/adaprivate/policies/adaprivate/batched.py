"""The AdaPrivate family: Thompson sampling and LinUCB that read b when a batch ends, with noise.

A = ridge I + sum x x' is public and up to date; b = sum (reward - centre) x is released after every batch. In between

    AdaPrivate-TS    the largest  x' theta,  theta ~ N(A^-1 b, v^2 A^-1)
    AdaPrivate-UCB   the largest  x' A^-1 b + alpha sqrt(x' A^-1 x)

and the others differ in the width, in which rewards enter a batch, or in the share of the budget that a batch gets.

With statistics="ab" A, too, is released in batches, as in the baseline of the paper's Table 4: ridge I + sum x x' plus
symmetric Gaussian noise, its eigenvalues raised to the ridge where the noise pushed them below. Within a batch the released
A is kept. Noise on A protects no reward: only that on b does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats, Integers, option
from adaprivate.compiled import Record, Streams, record, routine
from adaprivate.mechanisms import PrefixSum
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.offered import Offered
from adaprivate.policies.core.books import simulated_sums
from adaprivate.policies.core.dispatch import Split, collect, read, select, selects, updates
from adaprivate.policies.core.linear import LinearState, OptimisticState, ThompsonState, linear_state, rotate
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, propensities_of
from adaprivate.policies.core.settings import PolicySettings, known_strategy
from adaprivate.policies.core.tables import released_tables, source_of
from adaprivate.purposes import Purpose


class NoisyDesignState(NamedTuple):
    """A learner whose root is that of a noisy A, the book of its rewards, and that of A."""

    learner: Any
    book: Any
    gram: Floats  # The true ridge I + sum x x'.
    noise: Floats  # The noise of each release of A, its upper triangle row by row.
    scalars: Record  # The ridge.


def noisy_design_state(split: Split, noise: Floats, ridge: float) -> NoisyDesignState:
    """A fresh learner and book made to release A as well."""
    return NoisyDesignState(*split, ridge * np.eye(len(split.learner.root)), noise, record(ridge=ridge))


def design_noise(plan: BatchPlan, seeds: Sequence[int], neighbours: str) -> Floats:
    """The noise of every release of A's upper triangle (seeds, batches, entries), by 1 / sqrt(2) less off the diagonal."""
    rows, columns = np.triu_indices(plan.dimension)
    (epoch,) = plan.epochs
    release = PrefixSum(
        epoch.strategy,
        dimension=len(rows) * len(seeds),
        noise_multiplier=plan.noise_multiplier,
        noise=source_of(seeds, Purpose.DESIGN_NOISE),
        participation=mechanisms.gram_rows(neighbours),
        scales=np.tile(np.where(rows == columns, 1.0, math.sqrt(0.5)), len(seeds)),
    )
    return released_tables(release, len(seeds))


@routine
def release_design(gram: Floats, noise: Floats, ridge: float, root: Floats) -> None:
    """Make ``root`` the symmetric root of the inverse of the noisy A."""
    d = root.shape[0]
    matrix = np.empty((d, d))
    place = 0
    for i in range(d):
        for j in range(i, d):
            matrix[i, j] = gram[i, j] + noise[place]
            matrix[j, i] = matrix[i, j]
            place += 1
    values, basis = np.linalg.eigh(matrix)
    for i in range(d):
        for j in range(d):
            total = 0.0
            for m in range(d):
                total += basis[i, m] * basis[j, m] / math.sqrt(max(values[m], ridge))
            root[i, j] = total


@selects.of(NoisyDesignState, offers=True)
def _select(state: NoisyDesignState, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@updates.of(NoisyDesignState)
def _update(state: NoisyDesignState, features: Floats, reward: float, rng: Streams) -> None:
    learner, s = state.learner, state.learner.scalars[0]
    s.round += 1
    for i in range(features.shape[0]):
        for j in range(features.shape[0]):
            state.gram[i, j] += features[i] * features[j]
    batch = s.batch
    if collect(state.book, features, reward, rng):
        read(learner, state.book.released)
        release_design(state.gram, state.noise[batch], state.scalars[0].ridge, learner.root)
        rotate(learner.root, learner.statistic, learner.coordinates)


@propensities_of(NoisyDesignState)
def _propensities(state: NoisyDesignState, candidates: Floats, **how: Any) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)


CALIBRATIONS = ("zcdp", "exact")
SCHEDULES = ("fixed", "growing")
STATISTICS = ("b", "ab")


@dataclass(frozen=True, kw_only=True)
class BatchedSettings(PolicySettings):
    """Settings of a policy that releases the reward statistic after every batch, with privacy noise.

    calibration: "zcdp" is the papers' Eq. 2.8 (sound, loose), "exact" the least noise for (epsilon, delta).
    schedule: batches of ``batch_size`` rounds ("fixed"), or each ``growth`` times the one before ("growing").
    noise: how the releases share noise, any strategy of ``adaprivate list mechanisms``.
    centre: a public constant taken off every reward. theta_0: a public prior guess of the parameter.
    forced_exploration: gamma of Sec 6.2 (0: off); a random candidate with probability min(1, d log t / (t gamma)).
    statistics: "b", or "ab" to release A with noise too, half of the budget (rho, or mu^2) each. A's change by one event is
    1 with "zcdp", as published, and sqrt(2) (a replaced row) with "exact". The guarantee is that of the noise on b.
    """

    kind: ClassVar[type[LinearState]]

    epsilon: float = option(1.0, check.real, above=0)
    delta: float = option(1e-5, check.probability)
    batch_size: int = option(300, check.whole, at_least=1)
    schedule: str = option("fixed", check.one_of, options=SCHEDULES)
    growth: float = option(1.5, check.real, at_least=1)
    ridge: float = option(1.0, check.real, above=0)
    noise: str = option("independent", known_strategy)
    calibration: str = "zcdp"
    centre: float = option(0.0, check.real, at_least=0, at_most=1)
    theta_0: tuple[float, ...] | None = None
    forced_exploration: float = option(0.0, check.real, at_least=0)
    statistics: str = option("b", check.one_of, options=STATISTICS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.expect(self.batch_size <= self.rounds, "batch_size", self.batch_size, f"<= rounds={self.rounds}")
        check.one_of("calibration", self.calibration, self.calibrations())
        if self.theta_0 is not None:
            check.floats("theta_0", self.theta_0, (self.dimension,))
            object.__setattr__(self, "theta_0", tuple(float(t) for t in self.theta_0))

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        """The calibrations this policy offers."""
        return CALIBRATIONS

    @property
    def exploration(self) -> float:
        """The exploration width of the first batch."""
        raise TypeError("a policy sets its exploration width")

    @property
    def exploration_decay(self) -> float:
        """The factor on the width after every batch."""
        return 1.0

    @property
    def inclusion(self) -> float:
        """The probability with which a reward enters its batch."""
        return 1.0

    @cached_property
    def ends(self) -> Integers:
        """The round after which each batch is released: a function of the round index alone. The rest is not released."""
        if self.schedule == "fixed":
            return np.arange(self.batch_size, self.rounds + 1, self.batch_size, dtype=np.int64)
        ends: list[int] = []
        end = self.batch_size
        while end <= self.rounds:
            ends.append(end)
            end += math.floor(self.batch_size * self.growth ** len(ends))
        return np.array(ends, dtype=np.int64)

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one reward can move."""
        share = math.sqrt(len(self.statistics))  # rho, or mu^2, is split evenly between what is released
        if self.calibration == "zcdp":
            return share * privacy.zcdp_sigma(self.epsilon, self.delta)
        return share * privacy.gaussian_sigma(self.epsilon, self.delta)

    @cached_property
    def plan(self) -> BatchPlan:
        refusal: tuple[str, object, str] | None = None
        if self.inclusion != 1:
            refusal = ("sampling_rate", self.inclusion, "== 1 with exact noise")
        elif self.statistics != "b":
            refusal = ("statistics", self.statistics, "== b with exact noise")
        batches = len(self.ends)
        return BatchPlan(
            delta=self.delta,
            nominal_epsilon=None if self.calibration == "exact" else self.epsilon,
            dimension=self.dimension,
            ends=tuple(self.ends.tolist()),
            noise_multiplier=self.noise_multiplier,
            epochs=(Epoch(0, batches, mechanisms.strategy(self.noise, batches)),),
            centre=self.centre,
            sampling_rate=self.inclusion,
            refusal=refusal,
        )

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every release (seeds, batches, d), then A's with "ab", each seed's as if it were drawn alone."""
        table = self.plan.noise_tables(seeds)
        if self.statistics == "b":
            return table
        neighbours = "replace" if self.calibration == "exact" else "add-remove"
        return np.concatenate([table, design_noise(self.plan, seeds, neighbours)], axis=2)

    def learner(self) -> LinearState:
        """The learner before the first round: public."""
        return linear_state(
            self.kind,
            dimension=self.dimension,
            ridge=self.ridge,
            width=self.exploration,
            decay=self.exploration_decay,
            gamma=self.forced_exploration,
            theta_0=None if self.theta_0 is None else np.array(self.theta_0),
        )

    def start(self, noise: Floats) -> Any:
        own = np.ascontiguousarray(noise[:, : self.dimension])
        split = Split(self.learner(), simulated_sums(self.plan, own))
        if self.statistics == "b":
            return split
        return noisy_design_state(split, np.ascontiguousarray(noise[:, self.dimension :]), self.ridge)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTSSettings(BatchedSettings):
    """Thompson sampling from N(A^-1 b, v^2 A^-1), b released in batches.

    Paper: Riyazat & Ukwatta, AdaPrivate-TS, Algorithm 1.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
    Deviates: nothing by default (Eq. 2.8, ridge 1, v 1, batches of 300); options go beyond the paper.
    """

    name: ClassVar[str] = "adaprivate-ts"
    kind: ClassVar[type[LinearState]] = ThompsonState
    v: float = option(1.0, check.real, at_least=0)

    @property
    def exploration(self) -> float:
        return self.v


@dataclass(frozen=True, kw_only=True)
class AdaPrivateUCBSettings(BatchedSettings):
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), b released in batches.

    Paper: Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.1 (the twin of Algorithm 1).
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
    Deviates: nothing by default.
    """

    name: ClassVar[str] = "adaprivate-ucb"
    kind: ClassVar[type[LinearState]] = OptimisticState
    alpha: float = option(1.0, check.real, at_least=0)

    @property
    def exploration(self) -> float:
        return self.alpha


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTSAdaptiveSettings(AdaPrivateTSSettings):
    """Width v_k = v0 gamma^(k-1); ``tuned`` sets v0 = 1 + sigma / (d sqrt(lambda_0)).

    Paper: Riyazat & Ukwatta, AdaPrivate-TS, Sec 3.3 (fixed) and 4.2 (tuned).
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
    Deviates: the tuned width takes lambda_0 = 1 / dimension, that of features spread evenly over the sphere; the paper
        leaves it open.
    """

    name: ClassVar[str] = "adaprivate-ts-adaptive"
    v: float = 1.5
    gamma: float = option(0.95, check.real, above=0, at_most=1)
    tuned: bool = False

    @property
    def exploration(self) -> float:
        sigma = self.noise_multiplier / self.inclusion
        return 1 + sigma / math.sqrt(self.dimension) if self.tuned else self.v

    @property
    def exploration_decay(self) -> float:
        return self.gamma


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTSAmpSettings(AdaPrivateTSAdaptiveSettings):
    """Each reward enters its batch with probability ``sampling_rate``; sums are divided by it. Does not pay: see docs.

    Paper: Riyazat & Ukwatta, AdaPrivate-TS, Sec 3.2, with the decay of Sec 3.3 for the last row of Table 4.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Poisson sampling".
    Deviates: the noise is exact for the sampled release; the published Eq. 3.6 understates the privacy loss and is
        reachable only as calibration="published-unsound", whose guarantee prints the epsilon it really gives.
    """

    name: ClassVar[str] = "adaprivate-ts-amp"
    v: float = 1.0
    gamma: float = 1.0
    sampling_rate: float = 0.5
    calibration: str = "exact"

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("exact", "published-unsound")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("sampling_rate", self.sampling_rate, above=self.delta, at_most=1)
        check.expect(self.noise == "independent", "noise", self.noise, "== independent with sampling")
        check.expect(self.statistics == "b", "statistics", self.statistics, "== b with sampling")

    @property
    def inclusion(self) -> float:
        return self.sampling_rate

    @cached_property
    def noise_multiplier(self) -> float:
        if self.calibration == "exact":
            return privacy.sampled_gaussian_sigma(self.epsilon, self.delta, self.sampling_rate)
        return privacy.published_sampled_gaussian_sigma(self.epsilon, self.delta, self.sampling_rate)

    @cached_property
    def plan(self) -> BatchPlan:
        # centred contributions do not reach the worst case
        return dataclasses.replace(super().plan, sampling_exact=self.centre in (0, 1))


@dataclass(frozen=True, kw_only=True)
class BatchedAggregationSettings(AdaPrivateUCBSettings):
    """LinUCB on batch sums with noise, each batch with its share of the budget ("split-zcdp") or all of it.

    Paper: a central-model baseline of Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.8, Table 6.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
    Deviates: reconstructed from that description. calibration="split-zcdp" (default) gives every batch rho / K, as
        described; a reward enters one batch, so that is far more noise than needed, and the guarantee prints the smaller
        epsilon that holds. With "zcdp" (rho for every batch) it is AdaPrivate-UCB.
    """

    name: ClassVar[str] = "batched-aggregation"
    calibration: str = "split-zcdp"

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("split-zcdp", "zcdp", "exact")

    @cached_property
    def noise_multiplier(self) -> float:
        statistics = math.sqrt(len(self.statistics))
        if self.calibration == "exact":
            return statistics * privacy.gaussian_sigma(self.epsilon, self.delta)
        batches = len(self.ends) if self.calibration == "split-zcdp" else 1
        return statistics * math.sqrt(batches) * privacy.zcdp_sigma(self.epsilon, self.delta)


EXAMPLES = (
    AdaPrivateTSSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateTSSettings(dimension=3, rounds=50, batch_size=7, noise="tree"),
    AdaPrivateUCBSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateUCBSettings(dimension=3, rounds=50, batch_size=7, noise="sqrt"),
    AdaPrivateTSAdaptiveSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateTSAdaptiveSettings(dimension=4, rounds=60, batch_size=10, tuned=True),
    AdaPrivateTSAmpSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateTSAmpSettings(dimension=3, rounds=50, batch_size=10, sampling_rate=1.0),
    BatchedAggregationSettings(dimension=4, rounds=60, batch_size=10),
    BatchedAggregationSettings(dimension=3, rounds=50, batch_size=7, calibration="zcdp"),
)
