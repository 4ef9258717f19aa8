"""AdaPrivate-TS for people: what each person adds to a batch is clipped, and the noise covers all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats, Integers, option
from adaprivate.compiled import Record, Streams, record
from adaprivate.mechanisms.plan import BatchPlan, Epoch, SimulationPlan
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.people.shares import MOST_VISITS
from adaprivate.people.visits import Visits, counts_visit, visits_of
from adaprivate.policies.adaprivate.batched import AdaPrivateTSSettings
from adaprivate.policies.core.books import release
from adaprivate.policies.core.clipping import Contributors, close_batch, contributors, enter, fixed_batches
from adaprivate.policies.core.dispatch import Split, collects, visits
from adaprivate.privacy import GaussianPrice


class ClippedRunningSum(NamedTuple):
    """The running sum of people's clipped contributions: private, all but who came and what was released."""

    people: Contributors
    counted: Visits
    sums: Floats  # The sum of all batches so far (1, d): private.
    noise: Floats
    ends: Integers
    encoder: Floats  # Empty: running sums are released.
    released: Floats  # The last release: public.
    scalars: Record  # The centre, the clip, who comes, rounds and batches so far.


@visits.of(ClippedRunningSum)
def _visit(state: ClippedRunningSum, person: int) -> None:
    state.scalars[0].person = person


@collects.of(ClippedRunningSum)
def _collect(book: ClippedRunningSum, features: Floats, reward: float, rng: Streams) -> bool:
    s = book.scalars[0]
    s.round += 1
    if s.batch == book.ends.shape[0]:  # never released, and so not kept
        return False
    if counts_visit(book.counted, s.person):
        place = enter(book.people, s.person, s.batch)
        for i in range(features.shape[0]):
            book.people.own[place, i] += (reward - s.centre) * features[i]
    s.person = -1
    if s.round != book.ends[s.batch]:
        return False
    close_batch(book.people, s.clip, book.sums[0])
    release(s.batch, book.sums, book.noise, book.encoder, book.released)
    s.batch += 1
    return True


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTSUserSettings(AdaPrivateTSSettings):
    """Thompson sampling, b a sum over people of what each adds to a batch, clipped to sqrt(``counted_visits``).

    Paper: Riyazat & Ukwatta, AdaPrivate-TS, Sec 6.1: clip to sqrt(k) whoever has k events, noise for that.
    Guarantee: (epsilon, delta), user, replace all rewards of one person, by docs/privacy.md "People".
    Deviates: the noise covers the worst way in which k events fall into batches, a replaced person moving each by twice the
        clip; the published sqrt(k) / sqrt(2 rho) covers neither and is reachable only as calibration="published-unsound",
        whose guarantee prints the epsilon it really gives. Only the first ``counted_visits``
        visits of each person (k events) ever count.
    """

    name: ClassVar[str] = "adaprivate-ts-user"
    calibration: str = "exact"
    counted_visits: int = option(10, check.whole, at_least=1, at_most=MOST_VISITS)

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("exact", "published-unsound")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.expect(self.noise == "independent", "noise", self.noise, "== independent for people")
        check.expect(self.statistics == "b", "statistics", self.statistics, "== b for people")

    @property
    def clip(self) -> float:
        """What a person adds to a batch has this norm at most."""
        return math.sqrt(self.counted_visits)

    @cached_property
    def reach(self) -> float:
        """How far a person can move all batches together."""
        return privacy.clipped_reach(self.counted_visits, self.clip)

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise: here by itself, not relative to what one reward can move."""
        if self.calibration == "exact":
            return self.reach * privacy.gaussian_sigma(self.epsilon, self.delta)
        return self.clip * privacy.zcdp_sigma(self.epsilon, self.delta)

    @cached_property
    def _batches(self) -> BatchPlan:
        """What is released when, and its noise, whoever it covers."""
        count = len(self.ends)
        return BatchPlan(
            delta=self.delta,
            dimension=self.dimension,
            ends=tuple(self.ends.tolist()),
            noise_multiplier=self.noise_multiplier,
            epochs=(Epoch(0, count, mechanisms.strategy(self.noise, count)),),
        )

    @cached_property
    def plan(self) -> SimulationPlan:  # type: ignore[override]
        unit = UserUnit(self.counted_visits, clip=self.clip)
        return SimulationPlan(
            delta=self.delta,
            nominal_epsilon=None if self.calibration == "exact" else self.epsilon,
            paid=GaussianPrice(self.reach / self.noise_multiplier),
            reach=unit.participation,
            bound=True,
            unit=unit,
        )

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        return self._batches.noise_tables(seeds)

    def start(self, noise: Floats) -> Any:
        d, batches = self.dimension, len(self.ends)
        longest = int(np.diff(self.ends, prepend=0).max())
        people = contributors(d, self.rounds, longest, *fixed_batches(self.counted_visits, batches))
        numbers = record(centre=float(self.centre), clip=self.clip, person=-1, round=0, batch=0)
        book = ClippedRunningSum(
            people=people,
            counted=visits_of(self.counted_visits, self.rounds),
            sums=np.zeros((1, d)),
            noise=noise,
            ends=self.ends,
            encoder=np.zeros((0, 0)),
            released=np.zeros(d),
            scalars=numbers,
        )
        return Split(self.learner(), book)


EXAMPLES = (AdaPrivateTSUserSettings(dimension=4, rounds=60, batch_size=10, counted_visits=5),)
