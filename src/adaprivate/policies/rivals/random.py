"""Uniformly random choice: what learning has to beat.

Paper: none; the floor of every comparison.
Guarantee: epsilon 0, delta 0 | event, replace: choices do not depend on rewards.
Deviates: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams, below
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import Integers


class RandomState(NamedTuple):
    """Nothing but the number of rounds."""

    counts: Integers


@selects.of(RandomState)
def _select(state: RandomState, candidates: Floats, rng: Streams) -> int:
    return below(rng, 0, candidates.shape[0])


@updates.of(RandomState)
def _update(state: RandomState, features: Floats, reward: float, rng: Streams) -> None:
    state.counts[0] += 1


@dataclass(frozen=True, kw_only=True)
class RandomSettings:
    """Every candidate with the same probability."""

    name: ClassVar[str] = "random"
    private: ClassVar[bool] = True
    dimension: int
    rounds: int

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("rounds", self.rounds, at_least=1)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """No noise is needed."""
        return np.zeros((len(seeds), 0, self.dimension))

    def start(self, noise: Floats) -> RandomState:
        """The state before the first round."""
        return RandomState(np.zeros(2, dtype=np.int64))

    def guarantee(self, *, exact_noise: bool = False) -> privacy.Guarantee:
        """Perfect privacy."""
        return privacy.Guarantee("event", "replace", "the value of any one reward", 0.0, 0.0, 0.0)


EXAMPLES = (RandomSettings(dimension=4, rounds=60),)
