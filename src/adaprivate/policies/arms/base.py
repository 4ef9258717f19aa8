"""What the finite-arm policies share: their settings, and small compiled functions.

Candidate i is the i-th unit vector, so the features that a policy learns from name the arm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, kernel, normal, record, uniform
from adaprivate.mechanisms.plan import Plan, SimulationPlan
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import laplace_tables


@kernel
def arm_of(features: Floats) -> int:
    """The arm whose unit vector this is."""
    arm = 0
    for j in range(features.shape[0]):
        if features[j] > 0.5:
            arm = j
    return arm


@kernel
def gamma(rng: Streams, shape: float) -> float:
    """A gamma-distributed number of this shape, at least 1 (Marsaglia & Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(rng, 0)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log1p(-uniform(rng, 1)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v


@kernel
def beta(rng: Streams, a: float, b: float) -> float:
    """A beta-distributed number, both parameters at least 1."""
    x = gamma(rng, a)
    return x / (x + gamma(rng, b))


@kernel
def clipped(x: float) -> float:
    """x, or the nearer end of [0, 1]."""
    return min(1.0, max(0.0, x))


def arm_records(arms: int, **fields: float | int | bool) -> Record:
    """A record of these named numbers for each arm: ``a = state.arms[j]; a.mean``."""
    return np.repeat(record(**fields), arms)


@dataclass(frozen=True, kw_only=True)
class ArmSettings(PolicySettings):
    """Settings of a policy on ``dimension`` arms."""

    fixed_arms: ClassVar[bool] = True
    least_dimension: ClassVar[int] = 2

    @property
    def first_release(self) -> int:
        """How many first rounds choose without looking at any reward."""
        return min(self.dimension, self.rounds)


@dataclass(frozen=True, kw_only=True)
class PureArmSettings(ArmSettings):
    """Settings of a policy on arms that is private by Laplace noise, each reward in releases that cost epsilon in all."""

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("epsilon", self.epsilon, above=0)

    @property
    def releases(self) -> tuple[int, int]:
        """The shape of the table of noise."""
        return self.rounds.bit_length() + 1, self.dimension

    @property
    def noise_scale(self) -> float:
        """The scale of its Laplace noise; 1 where compiled code multiplies it by what each release needs."""
        return 1 / self.epsilon

    @property
    def true_epsilon(self) -> float:
        """What one reward pays in all."""
        return self.epsilon

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Laplace noise for every release that may come."""
        return laplace_tables(seeds, self.releases, self.noise_scale)

    @cached_property
    def plan(self) -> Plan:
        """Pure differential privacy of the value of a reward."""
        nominal = None if math.isclose(self.true_epsilon, self.epsilon, rel_tol=1e-12) else self.epsilon
        paid = privacy.PurePrice(self.true_epsilon)
        return SimulationPlan(paid=paid, reach=privacy.arm_events(), delta=0.0, nominal_epsilon=nominal)
