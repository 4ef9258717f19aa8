"""What the AdaPrivate family shares: a batch schedule, a calibrated release of the reward statistic, and its guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats
from adaprivate.mechanisms import EventSum, Noise, PrefixSum, Secure
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.policies.adaprivate.noisy_design import design_mechanism, with_design
from adaprivate.policies.core.linear import BATCH, COORDINATES, DECAY, PRIOR, STATISTIC, WIDTH, Integers, LinearState, fresh
from adaprivate.policies.core.releasing import ReleasingSettings
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose

CALIBRATIONS = ("zcdp", "exact")
SCHEDULES = ("fixed", "growing")
STATISTICS = ("b", "ab")


@dataclass(frozen=True, kw_only=True)
class BatchedSettings(ReleasingSettings):
    """Settings of a policy that releases the reward statistic after every batch, with privacy noise.

    calibration: "zcdp" is the papers' Eq. 2.8 (sound, loose), "exact" the least noise for (epsilon, delta).
    schedule: batches of ``batch_size`` rounds ("fixed"), or each ``growth`` times the one before ("growing").
    noise: how the releases share noise, any strategy of ``adaprivate list mechanisms``.
    centre: a public constant taken off every reward. theta_0: a public prior guess of the parameter.
    forced_exploration: gamma of Sec 6.2 (0: off); a random candidate with probability min(1, d log t / (t gamma)).
    statistics: "b", or "ab" to release A with noise too, half of the budget (rho, or mu^2) each. A's change by one event is
    1 with "zcdp", as published, and sqrt(2) (a replaced row) with "exact". The guarantee is that of the noise on b.
    """

    name: ClassVar[str]
    kind: ClassVar[type[LinearState]]
    private: ClassVar[bool] = True

    dimension: int
    rounds: int
    epsilon: float = 1.0
    delta: float = 1e-5
    batch_size: int = 300
    schedule: str = "fixed"
    growth: float = 1.5
    ridge: float = 1.0
    noise: str = "independent"
    calibration: str = "zcdp"
    centre: float = 0.0
    theta_0: tuple[float, ...] | None = None
    forced_exploration: float = 0.0
    statistics: str = "b"

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("rounds", self.rounds, at_least=1)
        check.real("epsilon", self.epsilon, above=0)
        check.probability("delta", self.delta)
        check.whole("batch_size", self.batch_size, at_least=1)
        check.expect(self.batch_size <= self.rounds, "batch_size", self.batch_size, f"<= rounds={self.rounds}")
        check.one_of("schedule", self.schedule, SCHEDULES)
        check.real("growth", self.growth, at_least=1)
        check.real("ridge", self.ridge, above=0)
        check.one_of("calibration", self.calibration, self.calibrations())
        check.real("centre", self.centre, at_least=0, at_most=1)
        check.real("forced_exploration", self.forced_exploration, at_least=0)
        check.one_of("noise", self.noise, sorted(mechanisms.strategies()))
        check.one_of("statistics", self.statistics, STATISTICS)
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

    def mechanism(self, noise: Noise, replicas: int = 1) -> PrefixSum:
        """The release of the reward statistic (of several independent replicas side by side, for simulation)."""
        return PrefixSum(
            mechanisms.strategy(self.noise, len(self.ends)),
            dimension=self.dimension * replicas,
            noise_multiplier=self.noise_multiplier,
            noise=noise,
        )

    @property
    def exact_noise_refusal(self) -> tuple[str, object, str] | None:
        if self.inclusion != 1:
            return "sampling_rate", self.inclusion, "== 1 with exact noise"
        return None if self.statistics == "b" else ("statistics", self.statistics, "== b with exact noise")

    def mechanism_for(self, batch: int, source: Noise) -> PrefixSum | None:
        return self.mechanism(source) if batch == 0 else None

    def collector(self, source: Noise) -> EventSum:
        return EventSum(self.dimension, noise=source, centre=self.centre)

    def publish(self, state: LinearState, released: Floats) -> None:
        state.vectors[STATISTIC] = state.vectors[PRIOR] + released
        state.vectors[COORDINATES] = state.root.T @ state.vectors[STATISTIC]
        state.counts[BATCH] += 1
        state.numbers[WIDTH] *= state.numbers[DECAY]

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every release (seeds, batches, d), then A's with "ab", each seed's as if it were drawn alone."""
        release = self.mechanism(SimulatedReplicas([(seed, Purpose.NOISE) for seed in seeds]), len(seeds))
        table = _released_noise(release, len(seeds)) / self.inclusion
        if self.statistics == "b":
            return np.ascontiguousarray(table)
        design = design_mechanism(
            SimulatedReplicas([(seed, Purpose.DESIGN_NOISE) for seed in seeds]),
            strategy=self.noise,
            batches=len(self.ends),
            dimension=self.dimension,
            noise_multiplier=self.noise_multiplier,
            neighbours="replace" if self.calibration == "exact" else "add-remove",
            replicas=len(seeds),
        )
        return np.concatenate([table, _released_noise(design, len(seeds))], axis=2)

    def start(self, noise: Floats) -> LinearState:
        """The state before the first round, given the noise of each release."""
        state = fresh(
            self.kind,
            dimension=self.dimension,
            ridge=self.ridge,
            width=self.exploration,
            decay=self.exploration_decay,
            centre=self.centre,
            sampling_rate=self.inclusion,
            forced=self.forced_exploration,
            theta_0=None if self.theta_0 is None else np.array(self.theta_0),
            ends=self.ends,
            noise=noise,
        )
        if self.statistics == "b":
            return state
        return with_design(state, self.ridge)

    def price(self) -> privacy.Price:
        """What one reward pays over the whole run."""
        exact = mechanisms.strategy(self.noise, len(self.ends)).attained(1)
        return privacy.GaussianPrice(1 / self.noise_multiplier, exact=exact)

    def guarantee(self, *, exact_noise: bool = False) -> Guarantee:
        """What the policy promises; with simulated noise, that it be exact and secret is left to the caller."""
        if exact_noise and self.exact_noise_refusal is not None:
            check.expect(False, *self.exact_noise_refusal)
        own = ("exact-noise", "secret-noise") if exact_noise else ()
        nominal = None if self.calibration == "exact" else self.epsilon
        return privacy.guarantee(
            self.mechanism(Secure()).price if exact_noise else self.price(),
            privacy.events(),
            self.delta,
            enforced=("reward-range", "feature-norm", "one-batch", "public-schedule", *own),
            conditions=("exact-noise", *(("secret-sample",) if self.inclusion < 1 else ())),
            nominal_epsilon=nominal,
            simulated=not exact_noise,
        )


def _released_noise(mechanism: PrefixSum, replicas: int) -> Floats:
    """What the mechanism releases of nothing: (replicas, releases, width)."""
    steps = mechanism.strategy.steps
    table = np.array([mechanism.release(np.zeros(mechanism.dimension)) for _ in range(steps)])
    return table.reshape(steps, replicas, -1).swapaxes(0, 1)
