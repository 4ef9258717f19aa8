"""Epsilon-greedy on arms whose means are released after 1, 2, 4, ... further pulls, with Laplace noise.

Paper: none; the rule is that of Sutton & Barto 2018, Sec 2.2, on released means.
Guarantee: epsilon, delta 0 | event, replace: each reward enters one release, and its noise has scale 1 / epsilon.
Deviates: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams, below, uniform
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import laplace_tables


class EpsilonGreedyState(NamedTuple):
    """Everything the policy remembers: arrays only, so that compiled code and files can hold it."""

    sums: Floats
    """The rewards of each arm that wait for its next release. Private."""
    pulls: npt.NDArray[np.int64]
    """How many they are."""
    released: npt.NDArray[np.int64]
    """How many releases each arm has seen."""
    means: Floats
    """Each arm's mean reward as last released; 1 before, so that every arm gets its turn."""
    noise: Floats
    """The noise of every release that may come (releases, arms)."""
    explore: Floats
    """The probability of a uniformly random arm, as a one-element array."""


@selects.of(EpsilonGreedyState)
def _select(state: EpsilonGreedyState, candidates: Floats, rng: Streams) -> int:
    """Stream 1 decides whether to explore, stream 0 where."""
    count = candidates.shape[0]
    if uniform(rng, 1) < state.explore[0]:
        return below(rng, 0, count)
    best = 0
    for arm in range(count):
        if state.means[arm] > state.means[best]:
            best = arm
    return best


@updates.of(EpsilonGreedyState)
def _update(state: EpsilonGreedyState, features: Floats, reward: float, rng: Streams) -> None:
    arm = 0
    for j in range(features.shape[0]):  # arm j is the j-th unit vector
        if features[j] > 0.5:
            arm = j
    state.sums[arm] += reward
    state.pulls[arm] += 1
    size = 1 << state.released[arm]
    if state.pulls[arm] == size:
        state.means[arm] = (state.sums[arm] + state.noise[state.released[arm], arm]) / size
        state.sums[arm] = 0.0
        state.pulls[arm] = 0
        state.released[arm] += 1


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedySettings(PolicySettings):
    """The arm with the largest released mean, or with probability ``explore`` any arm.

    dimension: how many arms there are. epsilon: the privacy loss; not the epsilon of the rule's name, which is ``explore``.
    """

    name: ClassVar[str] = "epsilon-greedy"
    fixed_arms: ClassVar[bool] = True
    least_dimension: ClassVar[int] = 2
    first_release: ClassVar[int] = 1
    """How many first rounds choose without looking at any reward: none after the first pull."""

    epsilon: float = 1.0
    explore: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check.budget(self.epsilon)
        check.real("explore", self.explore, at_least=0, at_most=1)

    @cached_property
    def plan(self) -> SimulationPlan:
        """Pure differential privacy of the value of any one reward; what else it rests on is said by ``arm_events``."""
        return SimulationPlan(paid=privacy.PurePrice(self.epsilon), reach=privacy.arm_events(), delta=0.0)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Laplace noise of scale 1 / epsilon for every release that may come (seeds, releases, arms)."""
        return laplace_tables(seeds, (self.rounds.bit_length() + 1, self.dimension), 1 / self.epsilon)

    def start(self, noise: Floats) -> EpsilonGreedyState:
        """The state before the first round."""
        whole = np.zeros(self.dimension, dtype=np.int64)
        means, explore = np.ones(self.dimension), np.array([self.explore])
        return EpsilonGreedyState(np.zeros(self.dimension), whole, whole.copy(), means, noise, explore)

    def released(self, state: EpsilonGreedyState) -> Floats:
        """All that anyone can see of rewards: the noisy means."""
        return state.means


EXAMPLES = (EpsilonGreedySettings(dimension=4, rounds=60), EpsilonGreedySettings(dimension=3, rounds=60, explore=0.5))
