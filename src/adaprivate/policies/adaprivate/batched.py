"""What the AdaPrivate family shares: a batch schedule, a calibrated release of the reward statistic, and its plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats, Integers
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.policies.adaprivate.noisy_design import design_noise, noisy_design_state
from adaprivate.policies.core.books import simulated_sums
from adaprivate.policies.core.dispatch import Split
from adaprivate.policies.core.linear import LinearState, linear_state
from adaprivate.policies.core.settings import PolicySettings

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
        super().__post_init__()
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
