"""The largest released score: sums of (reward - centre) x, one for each batch, released with Gaussian noise at its end.

Paper: none; a small policy that is right, for tests to break.
Guarantee: (epsilon, delta) | event, replace one reward, by docs/privacy.md "One event, one batch".
Deviates: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, record
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import highest
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import gaussian_tables


class PlantedState(NamedTuple):
    """The sum of this batch, which is private, and all that was released, added up."""

    sums: Floats
    released: Floats
    parameter: Floats
    noise: Floats
    ends: Integers
    scalars: Record


@selects.of(PlantedState)
def _select(state: PlantedState, candidates: Floats, rng: Streams) -> int:
    return highest(candidates, state.parameter)


@updates.of(PlantedState)
def _update(state: PlantedState, features: Floats, reward: float, rng: Streams) -> None:
    s = state.scalars[0]
    d = features.shape[0]
    s.round += 1
    if s.batch >= state.ends.shape[0]:
        return
    weight = reward - s.centre
    for j in range(d):
        state.sums[j] += weight * features[j]
    if s.round != state.ends[s.batch]:
        return
    for j in range(d):
        state.released[j] = state.sums[j] + state.noise[s.batch, j]
        state.parameter[j] += state.released[j]
        state.sums[j] = 0.0
    s.batch += 1


@dataclass(frozen=True, kw_only=True)
class PlantedSettings(PolicySettings):
    """The candidate with the largest product with the sum of all releases."""

    name: ClassVar[str] = "planted"
    epsilon: float = 1.0
    delta: float = 1e-5
    batch_size: int = 6
    centre: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("epsilon", self.epsilon, above=0)
        check.probability("delta", self.delta)
        check.whole("batch_size", self.batch_size, at_least=1)

    @property
    def ends(self) -> Integers:
        """The round after which each batch is released."""
        return np.arange(self.batch_size, self.rounds + 1, self.batch_size)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise."""
        return privacy.gaussian_sigma(self.epsilon, self.delta)

    @cached_property
    def plan(self) -> SimulationPlan:
        return SimulationPlan(paid=privacy.GaussianPrice(1 / self.sigma), reach=privacy.events(), delta=self.delta)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        return gaussian_tables(seeds, (len(self.ends), self.dimension), self.sigma)

    def start(self, noise: Floats) -> PlantedState:
        return self.blank(PlantedState, noise=noise, ends=self.ends, scalars=record(centre=self.centre, round=0, batch=0))

    def released(self, state: PlantedState) -> Floats:
        return state.released


EXAMPLES = (PlantedSettings(dimension=3, rounds=50),)
