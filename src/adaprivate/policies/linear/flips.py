"""LinUCB and LinTS on flipped rewards: randomised response tells one bit of every reward, and the usual learner reads it.

The bit is 1 with probability reward, and told truly with probability k = e^epsilon / (1 + e^epsilon). The learner reads
(told - (1 - k)) / (2k - 1), whose mean is the reward. In simulation the flips come from a stream of their own in the book.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers, option
from adaprivate.compiled import Record, Streams, record, uniform
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse, split
from adaprivate.mechanisms.plan import RewardPlan
from adaprivate.mechanisms.units import EventUnit
from adaprivate.mechanisms.units.visits import UserVisitsUnit
from adaprivate.offered import Offered
from adaprivate.people.shares import MOST_VISITS
from adaprivate.people.visits import Visits, counts_visit, visits_of
from adaprivate.policies.core.dispatch import Split, collect, collects, counted, read, select, selects, updates, visits
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, propensities_of
from adaprivate.policies.core.tables import stream_of, stream_tables
from adaprivate.policies.linear.baselines import LinTSSettings, LinUCBSettings, OnlineSettings
from adaprivate.purposes import Purpose


class FlippedRewards(NamedTuple):
    """Tells a flipped bit of every reward, and keeps no reward."""

    released: Floats  # What was told last, less the centre.
    words: Streams  # The stream of rounding and flips.
    scalars: Record  # The probability that a bit is told truly, and the centre.


@collects.of(FlippedRewards)
def _flip(book: FlippedRewards, features: Floats, reward: float, rng: Streams) -> bool:
    s = book.scalars[0]
    bit = uniform(book.words, 0) < reward
    truly = uniform(book.words, 0) < s.keep
    told = 1.0 if bit == truly else 0.0
    book.released[0] = (told - (1.0 - s.keep)) / (2.0 * s.keep - 1.0) - s.centre
    return True


class Visited(NamedTuple):
    """A learner and a book of flips, where of each person so many visits are told; it does not count the others."""

    learner: Any
    book: FlippedRewards
    visits: Visits
    person: Integers  # Who comes.


@selects.of(Visited, offers=True)
def _select(state: Visited, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@visits.of(Visited)
def _visit(state: Visited, person: int) -> None:
    state.person[0] = person


@updates.of(Visited)
def _update(state: Visited, features: Floats, reward: float, rng: Streams) -> None:
    if counts_visit(state.visits, state.person[0]):
        counted(state.learner, features)
        collect(state.book, features, reward, rng)
    else:
        state.book.released[0] = 0.0
    state.person[0] = -1
    read(state.learner, state.book.released)


@propensities_of(Visited)
def _of_learner(state: Visited, candidates: Floats, **how: object) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class FlippedSettings(OnlineSettings):
    """Settings of a policy that sees every reward through randomised response.

    epsilon: pure, there is no delta. centre: a public constant taken off every reward.
    unit: whom it protects: "event", any one reward; or "user", all rewards of any one person: then decisions say whose
    they are, ``decide(candidates, user=...)``. counted_visits: only the first so many visits of each person ever
    count, each at this part of epsilon; nothing is told of later rewards, and the learner does not count them.
    """

    private: ClassVar[bool] = True
    units: ClassVar[tuple[str, ...]] = ("event", "user")

    epsilon: float = option(1.0, check.real, at_least=1e-6, at_most=30)
    unit: str = "event"
    counted_visits: int = option(1, check.whole, at_least=1, at_most=MOST_VISITS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("unit", self.unit, self.units)
        if self.unit == "user":
            check.real("epsilon / counted_visits", self.epsilon / self.counted_visits, at_least=1e-6)

    @cached_property
    def law(self) -> RandomisedResponse:
        """How a reward is told."""
        return RandomisedResponse(split(self.epsilon, self.counted_visits) if self.unit == "user" else self.epsilon)

    @cached_property
    def plan(self) -> RewardPlan:
        unit = UserVisitsUnit(self.counted_visits) if self.unit == "user" else EventUnit()
        return RewardPlan(delta=0.0, law=self.law, centre=self.centre, unit=unit)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The start of each seed's stream of flips."""
        return stream_tables(seeds, Purpose.FLIP_NOISE)

    def start(self, noise: Floats) -> Any:
        book = FlippedRewards(np.zeros(1), stream_of(noise), record(keep=self.law.keep, centre=float(self.centre)))
        if self.unit == "event":
            return Split(self.learner(), book)
        room = visits_of(self.counted_visits, self.rounds)
        return Visited(self.learner(), book, room, np.full(1, -1, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class FlippedLinUCBSettings(FlippedSettings, LinUCBSettings):
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), every reward seen as a flipped bit.

    Paper: Warner 1965 for the flips; the simplest private baseline there is, which no paper of the field compares with.
    Guarantee: epsilon | event, replace one reward, or unit="user": all of a person; docs/privacy.md "Randomised response".
    Deviates: nothing.
    """

    name: ClassVar[str] = "rr-linucb"


@dataclass(frozen=True, kw_only=True)
class FlippedLinTSSettings(FlippedSettings, LinTSSettings):
    """Thompson sampling from N(A^-1 b, v^2 A^-1), every reward seen as a flipped bit.

    Paper: Warner 1965 for the flips; the simplest private baseline there is, which no paper of the field compares with.
    Guarantee: epsilon | event, replace one reward, or unit="user": all of a person; docs/privacy.md "Randomised response".
    Deviates: nothing.
    """

    name: ClassVar[str] = "rr-lints"


EXAMPLES = (
    FlippedLinUCBSettings(dimension=4, rounds=60),
    FlippedLinUCBSettings(dimension=3, rounds=50, epsilon=3.0, centre=0.5),
    FlippedLinUCBSettings(dimension=3, rounds=50, epsilon=4.0, centre=0.5, unit="user", counted_visits=2),
    FlippedLinTSSettings(dimension=4, rounds=60),
    FlippedLinTSSettings(dimension=3, rounds=50, epsilon=3.0, centre=0.5),
    FlippedLinTSSettings(dimension=3, rounds=50, epsilon=4.0, centre=0.5, unit="user", counted_visits=2),
)
