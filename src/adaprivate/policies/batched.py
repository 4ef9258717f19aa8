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
from adaprivate.mechanisms import Noise, PrefixSum
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.policies.linear import Integers, LinearState, fresh
from adaprivate.privacy import Guarantee

CALIBRATIONS = ("zcdp", "exact")
SCHEDULES = ("fixed", "growing")
NOISE_PURPOSE = 10
"""The purpose of the privacy-noise stream of a seed."""


@dataclass(frozen=True, kw_only=True)
class BatchedPolicy:
    """Settings of a policy that releases the reward statistic after every batch, with privacy noise.

    calibration: "zcdp" is the papers' Eq. 2.8 (sound, loose), "exact" the least noise for (epsilon, delta).
    schedule: batches of ``batch_size`` rounds ("fixed"), or each ``growth`` times the one before ("growing").
    noise: how the releases share noise, any strategy of ``adaprivate list mechanisms``.
    centre: a public constant taken off every reward. theta_0: a public prior guess of the parameter.
    forced_exploration: gamma of Sec 6.2 (0: off); a random candidate with probability min(1, d log t / (t gamma)).
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
        sizes: list[int] = []
        while sum(sizes) <= self.rounds:
            sizes.append(math.floor(self.batch_size * self.growth ** len(sizes)))
        return np.cumsum(sizes[:-1], dtype=np.int64)

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one reward can move."""
        if self.calibration == "zcdp":
            return privacy.zcdp_sigma(self.epsilon, self.delta)
        return privacy.gaussian_sigma(self.epsilon, self.delta)

    def mechanism(self, noise: Noise, replicas: int = 1) -> PrefixSum:
        """The release of the reward statistic (of several independent replicas side by side, for simulation)."""
        return PrefixSum(
            mechanisms.strategy(self.noise, len(self.ends)),
            dimension=self.dimension * replicas,
            noise_multiplier=self.noise_multiplier,
            noise=noise,
        )

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every release (seeds, batches, d), each seed's as if it were drawn alone."""
        source = SimulatedReplicas([(seed, NOISE_PURPOSE) for seed in seeds])
        release = self.mechanism(source, len(seeds))
        silence = np.zeros(self.dimension * len(seeds))
        table = np.array([release.release(silence) for _ in self.ends]) / self.inclusion
        return np.ascontiguousarray(table.reshape(len(self.ends), len(seeds), self.dimension).swapaxes(0, 1))

    def start(self, noise: Floats, ends: Integers | None = None) -> LinearState:
        """The state before the first round, given the noise of each release."""
        return fresh(
            self.kind,
            dimension=self.dimension,
            ridge=self.ridge,
            width=self.exploration,
            decay=self.exploration_decay,
            centre=self.centre,
            sampling_rate=self.inclusion,
            forced=self.forced_exploration,
            theta_0=None if self.theta_0 is None else np.array(self.theta_0),
            ends=self.ends if ends is None else ends,
            noise=noise,
        )

    def price(self) -> privacy.Price:
        """What one reward pays over the whole run."""
        return privacy.GaussianPrice(1 / self.noise_multiplier)

    def guarantee(self, *, exact_noise: bool = False) -> Guarantee:
        """What the policy promises; with simulated noise, that it be exact and secret is left to the caller."""
        own = ("exact-noise", "secret-noise") if exact_noise else ()
        nominal = None if self.calibration == "exact" else self.epsilon
        return privacy.guarantee(
            self.price(),
            privacy.events(),
            self.delta,
            enforced=("reward-range", "feature-norm", "one-batch", "public-schedule", *own),
            conditions=("exact-noise", *(("secret-sample",) if self.inclusion < 1 else ())),
            nominal_epsilon=nominal,
        )
