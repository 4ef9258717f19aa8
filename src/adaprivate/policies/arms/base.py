"""What the finite-arm policies share: their settings, and small compiled functions.

Candidate i is the i-th unit vector, so the features that a policy learns from name the arm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams, kernel, normal, uniform
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.policies.core.linear import Integers
from adaprivate.policies.core.releasing import refuse_exact_noise
from adaprivate.purposes import Purpose


class ArmState(NamedTuple):
    """Everything a finite-arm policy remembers; the policy says what each row and position is."""

    values: Floats
    """Numbers of each arm (rows, N)."""
    pulls: Integers
    """Whole numbers of each arm (rows, N)."""
    noise: Floats
    """Privacy noise, drawn beforehand."""
    numbers: Floats
    """Settings and other numbers."""
    counts: Integers
    """Rounds, and other whole numbers."""


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


@dataclass(frozen=True, kw_only=True)
class ArmSettings:
    """Settings of a policy on ``dimension`` arms."""

    name: ClassVar[str]
    private: ClassVar[bool] = True
    fixed_arms: ClassVar[bool] = True

    dimension: int
    rounds: int

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=2)
        check.whole("rounds", self.rounds, at_least=1)

    @property
    def first_release(self) -> int:
        """How many first rounds choose without looking at any reward."""
        return min(self.dimension, self.rounds)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """No noise but the policy's own sampling."""
        return np.zeros((len(seeds), 0, self.dimension))

    def start(self, noise: Floats) -> Any:
        """The state before the first round."""
        raise TypeError("a policy makes its own state")

    def guarantee(self, *, exact_noise: bool = False) -> privacy.Guarantee | None:
        """What the policy promises; None for a policy without privacy."""
        raise TypeError("a policy states its own guarantee")


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
    def true_epsilon(self) -> float:
        """What one reward pays in all."""
        return self.epsilon

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Laplace noise of scale 1 / epsilon for every release that may come."""
        return laplace_tables(seeds, self.releases, 1 / self.epsilon)

    def guarantee(self, *, exact_noise: bool = False) -> privacy.Guarantee:
        """Pure differential privacy of the value of a reward."""
        exact = math.isclose(self.true_epsilon, self.epsilon, rel_tol=1e-12)
        nominal = None if exact else self.epsilon
        refuse_exact_noise(self.name, exact_noise)
        return stated(privacy.PurePrice(self.true_epsilon), 0.0, nominal_epsilon=nominal)


def laplace_tables(seeds: Sequence[int], shape: tuple[int, int], scale: float) -> Floats:
    """Laplace noise for each seed (seeds, rows, columns), each seed's as if it were drawn alone."""
    source = SimulatedReplicas([(seed, Purpose.NOISE) for seed in seeds])
    return per_seed(source.laplace(np.zeros((shape[0], shape[1] * len(seeds))), scale), len(seeds))


def gaussian_tables(seeds: Sequence[int], shape: tuple[int, int], scale: float) -> Floats:
    """Gaussian noise for each seed (seeds, rows, columns), each seed's as if it were drawn alone."""
    source = SimulatedReplicas([(seed, Purpose.NOISE) for seed in seeds])
    return per_seed(source.gaussian(np.zeros((shape[0], shape[1] * len(seeds))), scale), len(seeds))


def per_seed(table: Floats, seeds: int) -> Floats:
    """A table whose columns hold the seeds side by side, as (seeds, rows, columns)."""
    return np.ascontiguousarray(table.reshape(table.shape[0], seeds, -1).swapaxes(0, 1))


def stated(
    price: privacy.Price, delta: float, *, nominal_epsilon: float | None = None, exact_noise: bool = False
) -> privacy.Guarantee:
    """The guarantee of a finite-arm policy: one reward replaced, all actions seen."""
    own = ("exact-noise", "secret-noise") if exact_noise else ()
    return privacy.guarantee(
        price,
        privacy.arm_events(),
        delta,
        enforced=("reward-range", "one-arm", "released-schedule", *own),
        conditions=("exact-noise",),
        nominal_epsilon=nominal_epsilon,
        simulated=not exact_noise,
    )
