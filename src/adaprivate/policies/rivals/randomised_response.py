"""What the policies on flipped rewards share: the usual learner, fed what randomised response tells of every reward.

In simulation the flips come from a stream of their own in the book.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, record, uniform
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.plan import RewardPlan
from adaprivate.policies.core.dispatch import Split, collects
from adaprivate.policies.core.tables import stream_of, stream_tables
from adaprivate.policies.rivals.online import OnlineSettings
from adaprivate.purposes import Purpose


class FlippedRewards(NamedTuple):
    """Tells a flipped bit of every reward, and keeps no reward."""

    released: Floats
    """What was told last, less the centre."""
    words: Streams
    """The stream of rounding and flips."""
    scalars: Record
    """The probability that a bit is told truly, and the centre."""


@collects.of(FlippedRewards)
def _flip(book: FlippedRewards, features: Floats, reward: float, rng: Streams) -> bool:
    s = book.scalars[0]
    bit = uniform(book.words, 0) < reward
    truly = uniform(book.words, 0) < s.keep
    told = 1.0 if bit == truly else 0.0
    book.released[0] = (told - (1.0 - s.keep)) / (2.0 * s.keep - 1.0) - s.centre
    return True


@dataclass(frozen=True, kw_only=True)
class FlippedSettings(OnlineSettings):
    """Settings of a policy that sees every reward through randomised response.

    epsilon: pure, there is no delta. centre: a public constant taken off every reward.
    """

    private: ClassVar[bool] = True

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("epsilon", self.epsilon, at_least=1e-6, at_most=30)

    @cached_property
    def plan(self) -> RewardPlan:
        return RewardPlan(delta=0.0, law=RandomisedResponse(self.epsilon), centre=self.centre)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The start of each seed's stream of flips."""
        return stream_tables(seeds, Purpose.FLIP_NOISE)

    def start(self, noise: Floats) -> Split:
        keep = RandomisedResponse(self.epsilon).keep
        book = FlippedRewards(np.zeros(1), stream_of(noise), record(keep=keep, centre=float(self.centre)))
        return Split(self.learner(), book)
