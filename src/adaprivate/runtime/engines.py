"""What counts rounds and chooses inside a policy: compiled code with simulated noise, or a book with exact noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, bound
from adaprivate.mechanisms import Secure, packing
from adaprivate.mechanisms.book import ArmBook, Book, Release
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.mechanisms.units import Event
from adaprivate.orthants import MOST_BY_LATTICE
from adaprivate.policies.core.propensities import Propensities, choice_probabilities
from adaprivate.policies.core.settings import exact_guarantee
from adaprivate.policies.core.stock import Stock
from adaprivate.privacy import Guarantee
from adaprivate.runtime.learner import InUse, Learner, choose_from, choose_many, learn_and_choose


def _stored(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint8)


UNKNOWN = "not known before the first candidates are shown"
DRAWS, MANY_DRAWS = 512, 4_096
"""Points of the lattices, or scores drawn where there are too many candidates for these, that a propensity is made of."""


class Engine(ABC):
    """Counts rounds in order, and chooses. ``settings`` may be replaced by longer ones when a plan runs out."""

    one_step: ClassVar[bool] = False
    """Whether a round is counted whole or not at all, whatever interrupts."""
    fused_until: float = 0
    """Up to this round, which is public, :meth:`count_and_choose` does both."""
    settings: Any
    plan: Any
    source: Secure | None
    rng: Streams

    def __init__(self) -> None:
        self._action = np.zeros(1, dtype=np.int64)
        self._choose_from: Callable[..., int] | None = None
        self._looked_at: Any = None
        self._open: Any = None
        """Where the state looked at last counts open decisions, if it does."""

    @property
    @abstractmethod
    def state(self) -> Any:
        """The compiled state: with exact noise the learner's, which is public; simulated, everything."""

    @property
    def known(self) -> Any:
        """The learner's part of it: public."""
        return getattr(self.state, "learner", self.state)

    def arrived(self, reward: float) -> float:
        """What may wait for its round in place of this reward."""
        return reward

    @abstractmethod
    def count(self, number: int, features: Floats, reward: float, person: int = -1) -> None:
        """Count a round, and release its batch if it is the last of it. ``person``: whose it is; -1: not told."""

    def count_and_choose(
        self, number: int, features: Floats, reward: float, person: int, candidates: Floats
    ) -> tuple[int, int]:
        """Count the next round and choose, or leave everything as it was where a candidate is not finite; -1 says so."""
        raise TypeError(f"{type(self).__name__} takes two steps")

    def choose(self, candidates: Floats) -> tuple[int, int]:
        """The choice among ``candidates`` (K, d), clipped in place, and how many were clipped (-1: one is not finite)."""
        clipped = self.choose_many(candidates[None], self._action)
        return int(self._action[0]), clipped

    @abstractmethod
    def choose_many(self, candidates: Floats, actions: Any) -> int:
        """A choice for each of ``candidates`` (n, K, d), clipped in place; how many were clipped, or -1."""

    def choose_from(self, stock: Stock) -> int:
        """The choice among items of a catalogue, which are checked and clipped already."""
        return self.ready_for(stock)(self.state, stock, self.rng)

    def ready_for(self, stock: Stock) -> Callable[..., int]:
        """What chooses among items of a catalogue, compiled or fetched from the cache."""
        if self._choose_from is None:
            self._choose_from = bound(choose_from, self.state, stock, self.rng)
        return self._choose_from

    def propensities(self, candidates: Floats, number: int, draws: int | None = None) -> Propensities:
        """The probability of each of ``candidates`` (n, K, d) at this round: estimates err afresh in every one."""
        draws = (DRAWS if candidates.shape[1] <= MOST_BY_LATTICE else MANY_DRAWS) if draws is None else draws
        return choice_probabilities(self.state, candidates, draws=draws, seed=number)

    def opened(self, count: int) -> None:
        """So many decisions are open, whatever was chosen and then not made."""
        state = self.state
        if state is not self._looked_at:
            scalars: Any = getattr(self.known, "scalars", None)
            counts = scalars is not None and "open" in (scalars.dtype.names or ())
            self._looked_at, self._open = state, scalars["open"] if counts else None
        if self._open is not None:
            self._open[0] = count

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee | None:
        """What is promised with this noise."""

    @property
    @abstractmethod
    def people(self) -> dict[str, int] | None:
        """People who came, and how many of their visits counted or did not, where people are protected: public."""

    @property
    @abstractmethod
    def releases(self) -> int:
        """How many releases there were, where the learner says when."""

    @abstractmethod
    def extend(self) -> None:
        """Plan further: the plan's last round has been counted."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Everything, for storage: private."""

    @abstractmethod
    def restore(self, stored: dict[str, Any]) -> None:
        """Take over what :meth:`parts` gave."""

    @abstractmethod
    def warm_up(self, candidates: Floats) -> None:
        """Compile what these candidates will need, or fetch it from the cache; nothing is counted or chosen."""


class NotBegun:
    """The engine of a policy whose dimension is not known: what asks for it is refused."""

    def __getattr__(self, name: str) -> NoReturn:
        raise check.InputError(f"Expected dimension to be given: it is {UNKNOWN}.")

    @property
    def people(self) -> dict[str, int]:
        """Nobody came."""
        return {"people": 0, "counted": 0, "beyond": 0}


class SimulatedEngine(Engine):
    """Everything compiled, noise drawn from the seed beforehand: protects nobody."""

    one_step = True
    fused_until = math.inf
    source = None

    def __init__(self, settings: Any, seed: int, rng: Streams) -> None:
        super().__init__()
        self.settings, self.plan, self.seed, self.rng = settings, settings.plan, seed, rng
        self._state = self._started(settings)
        self._releases = self._releases_in(self.plan, self._state)
        self._use = InUse(self._state, rng)

    def _started(self, settings: Any) -> Any:
        return settings.start(settings.noise_tables([self.seed])[0])

    @property
    def state(self) -> Any:
        return self._state

    def count(self, number: int, features: Floats, reward: float, person: int = -1) -> None:
        use = self._use.now(self._state, self.rng)
        use.run(learn_and_choose, features, reward, person, use.nothing)

    def count_and_choose(
        self, number: int, features: Floats, reward: float, person: int, candidates: Floats
    ) -> tuple[int, int]:
        use = self._use.now(self._state, self.rng)
        clipped: int = use.run(learn_and_choose, features, reward, person, candidates)
        return use.serving.action.item(), clipped

    def choose_many(self, candidates: Floats, actions: Any) -> int:
        clipped: int = self._use.now(self._state, self.rng).run(choose_many, candidates, actions)
        return clipped

    @staticmethod
    def _releases_in(plan: Any, state: Any) -> Any:
        """Where a routed learner counts releases: reading a field of a record by name takes longer than a round."""
        return state.learner.scalars["releases"] if plan is not None and plan.routed else None

    @property
    def guarantee(self) -> Guarantee | None:
        promised: Guarantee | None = self.settings.guarantee()
        return promised

    @property
    def people(self) -> dict[str, int] | None:
        found: dict[str, int] | None = self.settings.people_seen(self._state)
        return found

    @property
    def releases(self) -> int:
        return int(self._releases.item())

    def extend(self) -> None:
        longer = self.settings.extended(self._state.learner)
        state = longer.carried(self._started(longer), self._state)
        plan = longer.plan
        releases = self._releases_in(plan, state)  # first: nothing comes between the steps below
        self.settings, self.plan, self._state, self._releases = longer, plan, state, releases

    def parts(self) -> dict[str, Any]:
        routed = {"plan": _stored(self.plan.to_bytes())} if isinstance(self.plan, ChannelPlan) else {}
        return {"state": self._state, "rng": self.rng, "seed": self.seed, **routed}

    def restore(self, stored: dict[str, Any]) -> None:
        if isinstance(self.plan, ChannelPlan):
            self.settings = self.settings.under(plan_from_bytes(stored["plan"].tobytes()))
            self.plan, self._state = self.settings.plan, self._started(self.settings)
        self._state = packing.fitted(self._state, stored["state"])
        self._releases = self._releases_in(self.plan, self._state)
        self.rng = packing.fitted(self.rng, stored["rng"])

    def warm_up(self, candidates: Floats) -> None:
        features = candidates[0].copy()
        use = self._use.now(self._state, self.rng)
        use.prepare(learn_and_choose, features, 0.0, -1, candidates)
        use.prepare(choose_many, candidates[None], self._action)


class ExactEngine(Engine):
    """A public learner and a private book: for real people's data."""

    def __init__(
        self,
        settings: Any,
        source: Secure,
        rng: Streams,
        before_noise: Callable[[], None],
        published: Callable[[Release], None] | None = None,
    ) -> None:
        super().__init__()
        exact_guarantee(settings)  # or is refused
        plan = settings.plan
        self.settings, self.plan, self.source = settings, plan, source
        self._published = published
        self.learner = Learner(settings.learner(), rng)
        self.book: Book = plan.book(source)
        self._before_noise = before_noise
        self._closed: tuple[Release, Book] | None = None
        """A release that is not yet read, and the book after it."""
        self.fused_until = self.book.sums_until

    @property
    def rng(self) -> Streams:  # type: ignore[override]
        return self.learner.rng

    @property
    def state(self) -> Any:
        return self.learner.state

    def arrived(self, reward: float) -> float:
        if self.book.tells and not getattr(self.plan, "local", False):
            self._before_noise()
        return self.book.arrived(reward)

    def count(self, number: int, features: Floats, reward: float, person: int = -1) -> None:
        if self.learner.done[0] == number:  # else an interruption came after this step, and so below
            weighed = self.book.weigh(number, person, features) if person >= 0 else None
            if weighed is None or self.settings.weighed(self.learner.state, weighed):
                self.learner.counted(features)
            else:
                self.learner.passed()
        if self.book.round == number:
            if self.book.tells:
                self._before_noise()
            whose = person if person >= 0 else None
            self.book.add(Event(number, features, reward, whose, **self.settings.route(self.learner.state)))
        self._release()

    def count_and_choose(
        self, number: int, features: Floats, reward: float, person: int, candidates: Floats
    ) -> tuple[int, int]:
        if not self.learner.done.item(0) == self.book.round == number:  # an interruption came between the steps below
            self.count(number, features, reward, person)
            return self.choose(candidates)
        action, clipped = self.learner.counted_and_choose(features, candidates)
        if clipped >= 0:
            self.book.add_next(number, features, reward)
        return action, clipped

    def count_many(self, number: int, features: Floats, rewards: Floats) -> bool:
        """Count rounds from ``number`` on as one by one; False, and nothing done, where that must be so.

        They are one batch of sums, or a part of one, and nothing is planned or told between them.
        """
        first = self.learner.done[0] == number == self.book.round
        if not (first and self.book.takes_many(len(features))):
            return False
        self.learner.counted_many(features)
        self.book.add_many(features, rewards)
        self._release()
        return True

    def _release(self) -> None:
        """Release what is due, and let the learner read it."""
        while self.book.due or self._closed is not None:
            if self._closed is None:
                self._before_noise()
                self._closed = self.book.close()  # one step: whatever interrupts, nobody sees two releases of a batch
            release, after = self._closed
            if self.learner.done[1] == release.batch:
                if self._published is not None:
                    self._published(release)
                self.learner.read(release)
            until = after.sums_until  # first: nothing comes between the steps below
            self.book, self._closed, self.fused_until = after, None, until

    def choose_many(self, candidates: Floats, actions: Any) -> int:
        if not isinstance(self.book, ArmBook):
            return self.learner.choose(candidates, actions)
        self._before_noise()
        actions[0] = self.settings.exact_choice(self.learner.state, self.book)
        return 0

    @property
    def guarantee(self) -> Guarantee:
        promised: Guarantee = self.plan.guarantee(self.settings.name, exact_noise=True)
        return promised

    @property
    def people(self) -> dict[str, int]:
        return self.book.people

    @property
    def releases(self) -> int:
        return self.book.batch

    def extend(self) -> None:
        longer = self.settings.extended(self.learner.state)
        book = self.book.extended(longer.plan)
        state = longer.carried(longer.learner(), self.learner.state)
        plan, until = longer.plan, book.sums_until  # first: nothing comes between the steps below
        self.settings, self.plan, self.book, self.learner.state, self.fused_until = longer, plan, book, state, until

    def parts(self) -> dict[str, Any]:
        stored = {"plan": self.plan.to_bytes(), "learner": self.learner.to_bytes(), "book": self.book.to_bytes()}
        return {name: _stored(data) for name, data in stored.items()}

    def restore(self, stored: dict[str, Any]) -> None:
        self.plan = plan_from_bytes(stored["plan"].tobytes())
        self.settings = self.settings.under(self.plan)  # as it was, whatever these settings would plan today
        self.learner = Learner(self.settings.learner(), self.learner.rng)
        self.learner = self.learner.restored(stored["learner"].tobytes())
        kind = type(self.plan.book(self.source))
        self.book = kind.from_bytes(stored["book"].tobytes(), self.plan, self.source)
        self.learner.done[:] = self.book.round, self.book.batch
        self.fused_until = self.book.sums_until

    def warm_up(self, candidates: Floats) -> None:
        twin = Learner(self.settings.learner(), self.learner.rng.copy())  # no batch of it is ever the one after the last
        twin.counted(candidates[0].copy())
        if isinstance(self.book, ArmBook):
            self.settings.exact_choice(twin.state, self.plan.book(self.source))
        else:
            twin.counted_and_choose(candidates[0].copy(), candidates.copy())
            twin.choose(candidates[None].copy(), np.zeros(1, dtype=np.int64))
            twin.read(Release(0, np.zeros(self.plan.size)))
