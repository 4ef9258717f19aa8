"""Uniformly random choice: what learning has to beat.

Paper: none; the floor of every comparison.
Guarantee: epsilon 0, delta 0 | event, replace: choices do not depend on rewards.
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import privacy
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, below, record
from adaprivate.offered import Offered, how_many
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.propensities import Propensities, propensities_of
from adaprivate.policies.core.settings import PolicySettings


class RandomState(NamedTuple):
    """Nothing but the number of rounds."""

    scalars: Record
    """``round``, rounds seen."""


@selects.of(RandomState, offers=True)
def _select(state: RandomState, candidates: Offered, rng: Streams) -> int:
    return below(rng, 0, how_many(candidates))


@propensities_of(RandomState)
def _propensities(state: RandomState, candidates: Floats, **how: Any) -> Propensities:
    rows, count, _ = candidates.shape
    return Propensities(np.full((rows, count), 1 / count), np.zeros((rows, count)))


@updates.of(RandomState)
def _update(state: RandomState, features: Floats, reward: float, rng: Streams) -> None:
    state.scalars[0].round += 1


@dataclass(frozen=True, kw_only=True)
class RandomSettings(PolicySettings):
    """Every candidate with the same probability."""

    name: ClassVar[str] = "random"

    def released(self, state: RandomState) -> Floats:
        """Nothing."""
        return np.zeros(0)

    def start(self, noise: Floats) -> RandomState:
        """The state before the first round."""
        return RandomState(record(round=0))

    def guarantee(self, *, exact_noise: bool = False) -> privacy.Guarantee:
        """Perfect privacy."""
        return privacy.Guarantee("event", "replace", "the value of any one reward", 0.0, 0.0, 0.0)


EXAMPLES = (RandomSettings(dimension=4, rounds=60),)
