"""Books: the private part of a policy. What was counted, and what the mechanism remembers.

``close()`` is where noise meets people's rewards (``sample()`` where sampling itself is the noise). It returns the release
and the book that follows, and changes nothing: a caller stores both together, and only then lets anyone see the release.
After a crash the stored ones are read again; nothing is ever drawn twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.errors import NotEnteredError
from adaprivate.mechanisms import packing
from adaprivate.mechanisms.arm_sampler import ArmSampler
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.units.base import Event, person_of
from adaprivate.mechanisms.units.event import EventSum

if TYPE_CHECKING:
    from adaprivate.mechanisms.plan import BatchPlan, RewardPlan, SamplingPlan


COPY_REFUSED = (
    "Expected what holds exact noise not to be copied or pickled: two copies would release the same batch, each with noise "
    "of its own, and people would pay twice. Use to_bytes and from_bytes, and go on from one of them."
)


class Release(NamedTuple):
    """What was released, as which, and of which channel where there are several: public."""

    batch: int
    values: Floats
    channel: str = ""


class Told(float):
    """What a law told of a reward: no longer the reward."""


class Book(ABC):
    """Takes every round once, in order, and closes batches when their last round is in: never because of a reward.

    Not safe from several threads by itself; :class:`~adaprivate.runtime.policy.Policy` holds a lock around it.
    """

    tells: bool = False
    """Whether noise is drawn when a reward arrives."""
    plan: Any
    source: Noise
    round: int = 0
    """The next round to be counted."""
    batch: int = 0
    """The next batch to be released."""
    _until: int = 0
    """What :attr:`sums_until` was when it was asked for last, and 0 since anything else was counted."""

    def arrived(self, reward: float) -> float:
        """What may wait for its round to be counted in place of this reward."""
        return reward

    def add(self, event: Event) -> None:
        """Count the next round. A batch that is due must be closed first."""
        check.expect(event.round == self.round, "event.round", event.round, f"== {self.round}, the next one")
        check.expect(not self.due, "batch", self.batch, "to be closed before the next round is counted")
        self._inspect(event)
        self._until = 0
        self.round += 1  # first: an interruption may lose the event, but never have it counted twice
        try:
            self._enter(event)
        except NotEnteredError as error:
            self._not_entered(error, 1)
            raise

    def _inspect(self, event: Event) -> None:
        """Raise for what is wrong with an event, while nothing has changed: later its round is counted, whatever comes."""
        if type(event.reward) is not Told:
            check.reward(event.reward)

    @property
    def sums_until(self) -> int:
        """The round that closes the open batch, where all up to it enter exact sums whatever they are; else 0."""
        return 0

    def add_next(self, number: int, features: Floats, reward: float) -> None:
        """Count the next round as :meth:`add` does; before the round ``sums_until``, and of nobody who is told apart."""
        if not number == self.round < self._until:
            check.expect(number == self.round, "number", number, f"== {self.round}, the next round")
            self._until = self.sums_until
            check.expect(number < self._until, "number", number, f"< {self._until}, the round that closes the batch")
        self.round += 1  # first: an interruption may lose the event, but never have it counted twice
        try:
            self._enter_next(features, reward)
        except NotEnteredError as error:
            self._not_entered(error, 1)
            raise

    def _not_entered(self, error: NotEnteredError, events: int) -> None:
        """Take back that these were counted, if it is this book's sum that says so, and not one of what interrupts."""
        if error.by is not None and error.by is self._mark:
            self.round -= events

    @property
    def _mark(self) -> object:
        """The mark of the sum that may refuse what enters; None where there is none."""
        return None

    def _enter_next(self, features: Floats, reward: float) -> None:
        raise TypeError(f"{type(self).__name__} takes events")

    def takes_many(self, count: int) -> bool:
        """Whether the next so many rounds enter one batch of exact sums, whatever they are, and so can at once."""
        return False

    def add_many(self, features: Floats, rewards: Floats) -> None:
        """Count the next rounds, those of one batch of sums, as one by one; where :meth:`takes_many` says so."""
        check.expect(self.takes_many(len(features)), "len(features)", len(features), "to be rounds of one batch of sums")
        self._until = 0
        self.round += len(features)  # first: an interruption may lose events, but never have them counted twice
        try:
            self._enter_many(features, rewards)
        except NotEnteredError as error:
            self._not_entered(error, len(features))
            raise

    def _enter_many(self, features: Floats, rewards: Floats) -> None:
        raise TypeError(f"{type(self).__name__} takes rounds one by one")

    @property
    @abstractmethod
    def due(self) -> bool:
        """Whether a batch is complete and not released."""

    @abstractmethod
    def _enter(self, event: Event) -> None:
        """Take in an event that was inspected."""

    @abstractmethod
    def close(self) -> tuple[Release, Self]:
        """The release of the batch that is due, and the book after it. This one stays as it is: discard it."""

    def weigh(self, number: int, person: int, features: Floats) -> Floats:
        """What a visit of this person in round ``number`` is weighted with, where that depends on who comes: public."""
        raise check.InputError(f"Expected a plan that protects people, not {type(self.plan).__name__}.")

    @property
    def people(self) -> dict[str, int]:
        """How many people came, and how many of their visits were counted or found no share left: public."""
        raise check.InputError(f"Expected a plan that protects people, not {type(self.plan).__name__}.")

    def _expect_due(self) -> None:
        check.expect(self.due, "round", self.round, f"to complete batch {self.batch}")

    def extended(self, plan: Any) -> Self:
        """The same book under a plan that goes on where this one ends."""
        raise check.InputError(f"Expected a plan that can go on, not {type(self.plan).__name__}.")

    def __reduce_ex__(self, protocol: object) -> Any:
        if self.source.exact:
            raise check.InputError(COPY_REFUSED)
        return super().__reduce_ex__(protocol)  # type: ignore[arg-type]

    def to_bytes(self) -> bytes:
        """Everything but the plan and the source: PRIVATE, it holds sums of rewards."""
        return packing.to_bytes({"round": self.round, "batch": self.batch, **self._parts()})

    @abstractmethod
    def _parts(self) -> dict[str, Any]: ...

    @classmethod
    def from_bytes(cls, data: bytes, plan: Any, source: Noise) -> Self:
        """The book that :meth:`to_bytes` wrote, of this plan. Continue from stored bytes once only."""
        stored = packing.from_bytes(data)
        check.expect(isinstance(stored, dict) and {"round", "batch"} <= stored.keys(), "data", "something else", "a book")
        book: Self = plan.book(source)
        book.round = check.whole("round", stored["round"], at_least=0)
        book.batch = check.whole("batch", stored["batch"], at_least=0)
        book._restore(stored)
        return book

    @abstractmethod
    def _restore(self, stored: dict[str, Any]) -> None: ...


class SumBook(Book):
    """Sums of contributions over batches, released by a mechanism: see :class:`~adaprivate.mechanisms.plan.BatchPlan`."""

    def __init__(self, plan: BatchPlan, source: Noise) -> None:
        self.plan, self.source = plan, source
        self._collector: Any = plan.collector(source)
        self._direct = type(self._collector) is EventSum and self._collector.direct
        """Whether rounds enter as they are, and the sum makes events of them."""
        self._way = plan.way
        self._stream: Any = None
        """The mechanism's state within this epoch; None before its first batch, and after its last."""

    @property
    def due(self) -> bool:
        return self.batch < len(self.plan.ends) and self.round == self.plan.ends[self.batch]

    @property
    def clipped(self) -> int:
        """How many feature vectors did not fit the noise's coordinates and were clipped."""
        return int(getattr(self._collector, "clipped", 0))

    @property
    def _kept(self) -> bool:
        """Whether events enter: after the last batch they are never released, and so not kept."""
        return self.batch < len(self.plan.ends) or self.plan.continues

    @property
    def _mark(self) -> object:
        return self._collector._whole.mark if type(self._collector) is EventSum and self.source.exact else None

    def _inspect(self, event: Event) -> None:
        if self._kept:
            check.floats("features", event.features, (self.plan.dimension,))
            self._collector.inspect(event)

    def _enter(self, event: Event) -> None:
        if self._kept:
            if self._direct:
                features = check.floats("features", event.features, (self.plan.dimension,))
                self._enter_next(np.ascontiguousarray(features), check.reward(event.reward))
            else:
                self._collector.count(event._replace(features=self.plan.event(event.features)))

    def _enter_next(self, features: Floats, reward: float) -> None:
        self._collector.enter(features, reward, self._way)

    @property
    def sums_until(self) -> int:
        return self.plan.ends[self.batch] - 1 if self._direct and self.batch < len(self.plan.ends) else 0

    def takes_many(self, count: int) -> bool:
        plain = type(self._collector) is EventSum and self.source.exact and not self.plan.catalogue
        return plain and self.batch < len(self.plan.ends) and self.round + count <= self.plan.ends[self.batch]

    def _enter_many(self, features: Floats, rewards: Floats) -> None:
        self._collector.add_many(self.plan.event(features), rewards)

    def _mechanism(self) -> Any:
        epoch = self.plan.epoch_of(self.batch)
        mechanism = self.plan.mechanism(epoch, self.source)
        if self._stream is not None and self.batch > epoch.first:
            mechanism.state = self._stream
        return epoch, mechanism

    def close(self) -> tuple[Release, Self]:
        self._expect_due()
        epoch, mechanism = self._mechanism()
        after: Self = self.plan.book(self.source)
        after._collector = self._collector.copy()
        released = self.plan.published(epoch, mechanism.release(after._collector))
        after.round, after.batch = self.round, self.batch + 1
        after._stream = None if after._ended else mechanism.state
        return Release(self.batch, released), after

    @property
    def _ended(self) -> bool:
        """Whether no batch to come shares noise with the one before it."""
        return self.batch in (0, len(self.plan.ends)) or self.plan.epoch_of(self.batch).first == self.batch

    def extended(self, plan: BatchPlan) -> Self:
        check.expect(self.plan.goes_on_in(plan), "plan", "another one", "to begin like the plan so far, and pay as it does")
        after: Self = plan.book(self.source)  # type: ignore[assignment]
        after.round, after.batch, after._stream = self.round, self.batch, self._stream
        after._collector.go_on(self._collector)
        return after

    def weigh(self, number: int, person: int, features: Floats) -> Floats:
        if not self._kept:
            return np.zeros(self.plan.size)
        weighed: Floats = self._collector.weight(number, person, self.plan.event(features))
        return weighed if self.plan.shape is None else np.asarray(self.plan.shape.root @ weighed)

    @property
    def people(self) -> dict[str, int]:
        found: dict[str, int] = self._collector.counts()
        return found

    def _parts(self) -> dict[str, Any]:
        return {"collector": self._collector.state(), "stream": self._stream}

    def _restore(self, stored: dict[str, Any]) -> None:
        self._collector.restore(stored["collector"])
        if stored["stream"] is not None and not self._ended:
            template = self.plan.mechanism(self.plan.epoch_of(self.batch - 1), self.source).state
            self._stream = packing.fitted(template, stored["stream"], grows=True)


class RewardBook(Book):
    """Every reward told at once by a law; see :class:`~adaprivate.mechanisms.plan.RewardPlan`. It never keeps a reward."""

    tells = True

    def __init__(self, plan: RewardPlan, source: Noise) -> None:
        self.plan, self.source = plan, source
        self._told: float | None = None
        """What was told of the round just counted."""
        self._visits: Any = None
        if plan.unit.needs_user:
            from adaprivate.people.visits import VisitCount  # here, for it compiles: accounting does without

            self._visits = VisitCount(plan.told)

    @property
    def due(self) -> bool:
        return self._told is not None

    def arrived(self, reward: float) -> float:
        return Told(self.plan.law.tell(reward, self.source))

    def _inspect(self, event: Event) -> None:
        super()._inspect(event)
        if self._visits is not None:
            check.whole("user", person_of(event), at_least=0)

    def _enter(self, event: Event) -> None:
        reward = event.reward if type(event.reward) is Told else check.reward(event.reward)
        if self._counts(event):
            self._told = reward if type(reward) is Told else self.arrived(reward)
        else:
            self._told = self.plan.centre

    def _counts(self, event: Event) -> bool:
        if self._visits is None:
            return True
        return bool(self._visits.visit(event.round, int(person_of(event))))

    def weigh(self, number: int, person: int, features: Floats) -> Floats:
        """1 for a visit that is told, 0 for one of which nothing is."""
        if self._visits is None:
            return super().weigh(number, person, features)
        return np.array([float(self._visits.visit(number, person))])

    @property
    def people(self) -> dict[str, int]:
        return super().people if self._visits is None else self._visits.counts()

    def close(self) -> tuple[Release, Self]:
        self._expect_due()
        after: Self = self.plan.book(self.source)
        after.round, after.batch, after._visits = self.round, self.batch + 1, self._visits
        return Release(self.batch, np.array([self._told - self.plan.centre])), after

    def _parts(self) -> dict[str, Any]:
        return {"told": self._told} | ({} if self._visits is None else {"visits": self._visits.state()})

    def _restore(self, stored: dict[str, Any]) -> None:
        self._told = stored["told"]
        if self._visits is not None:
            self._visits.restore(stored.get("visits"))


class ArmBook(Book):
    """Sums of rewards of each arm, seen through samples; see :class:`~adaprivate.mechanisms.plan.SamplingPlan`."""

    def __init__(self, plan: SamplingPlan, source: Noise) -> None:
        self.plan, self.source = plan, source
        plan.refuse_exact_noise("arms")
        self._sampler = ArmSampler(plan.arms, plan.variance, source)

    @property
    def due(self) -> bool:
        return False

    def _enter(self, event: Event) -> None:
        self._sampler.add(event.features, event.reward)

    def sample(self) -> Floats:
        """A fresh sample around each arm's mean. Whoever shows what it decides pays for it."""
        return self._sampler.samples()

    def close(self) -> tuple[Release, Self]:
        raise check.InputError("Expected a book of batches to close: this one is seen through samples.")

    def _parts(self) -> dict[str, Any]:
        return {"sums": self._sampler.state()}

    def _restore(self, stored: dict[str, Any]) -> None:
        self._sampler.restore(stored["sums"])
