"""Channels: every reward takes exactly one of several ways out, by a public rule, and pays what that one costs.

"flip" tells it at once as one flipped bit; "items" adds it to a block's whole-number sum, released with discrete Laplace
noise when the block closes; "gaussian" adds it to the batch sums of a :class:`~adaprivate.mechanisms.plan.BatchPlan`.
Whoever routes says with every event which channel it takes, without looking at rewards; the guarantee holds for every such
rule (docs/privacy.md, Theorem 7).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.mechanisms import packing, units
from adaprivate.mechanisms.book import Book, Release, SumBook, Told
from adaprivate.mechanisms.laws import GaussianLaw
from adaprivate.mechanisms.laws.base import rounded
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.noise import Noise, Secure, expect_fine_grid
from adaprivate.mechanisms.plan import BatchPlan, Plan, plan_from_bytes
from adaprivate.mechanisms.units import Event, EventUnit, Unit
from adaprivate.privacy import EitherPrice, Guarantee, Participation, Price, PurePrice

FLIP, ITEMS, GAUSSIAN = "flip", "items", "gaussian"
CHANNELS = (FLIP, ITEMS, GAUSSIAN)
NOWHERE = "nowhere"
"""What an event names that takes no channel: it is counted, and its reward is not kept."""
KEPT_BY = {
    FLIP: "Of a flipped reward only the flipped bit is kept.",
    ITEMS: (
        "The rewards of an item wait in an exact sum until its next release, and nothing of them is kept after it. If an "
        "item is never shown again, its last exact sum is not deleted."
    ),
}
"""What a book keeps of rewards in channels other than sums."""
MOST_DRAWS = 2**20
"""Exact Gaussian noise is priced for so many draws before it is known how many there will be."""


@dataclass(frozen=True, kw_only=True)
class ChannelPlan(Plan):
    """Every reward through one of ``channels``: those that events may take alone set the price.

    ``epsilon``: what a flip or a block costs, with no delta. ``noise_multiplier``: of the Gaussian sums; ``sums``: these,
    once planned; ``first``: the round from which events may enter them (their ``ends`` count rounds from 0).
    ``centre``: taken off every reward. ``local``: rewards arrive as bits flipped where they were born; flips only.
    ``choice``: public numbers of whoever routes, kept along. ``unit``: whom it protects; people by sums alone.
    """

    routed: ClassVar[bool] = True
    epsilon: float
    channels: tuple[str, ...]
    centre: float = 0.0
    noise_multiplier: float = 0.0
    sums: BatchPlan | None = None
    first: int = 0
    local: bool = False
    choice: dict[str, Any] | None = None
    unit: Unit = EventUnit()  # noqa: RUF009  # frozen and without state

    def __post_init__(self) -> None:
        check.kind("channels", self.channels, tuple)
        check.expect(0 < len(self.channels) == len({*self.channels}), "channels", self.channels, "to be some, each once")
        for channel in self.channels:
            check.one_of("channel", channel, CHANNELS)
        check.budget(self.epsilon)
        if FLIP in self.channels or ITEMS in self.channels:
            RandomisedResponse(self.epsilon), DiscreteLaplace(self.epsilon)  # refuse what they cannot keep
        check.real("delta", self.delta, at_least=0, below=1)
        check.real("centre", self.centre, at_least=0, at_most=1)
        check.whole("first", self.first, at_least=0)
        if GAUSSIAN in self.channels:
            check.probability("delta", self.delta)
            check.real("noise_multiplier", self.noise_multiplier, above=0)
        alone = self.unit == EventUnit() or self.channels == (GAUSSIAN,)
        check.expect(alone, "channels", self.channels, f"== ('gaussian',) for {self.unit.name}")
        check.expect(not self.local or self.channels == (FLIP,), "channels", self.channels, "== ('flip',) where local")
        if self.sums is not None:
            self._expect_sums(self.sums)

    def _expect_sums(self, sums: BatchPlan) -> None:
        check.expect(GAUSSIAN in self.channels, "channels", self.channels, "to include gaussian, for sums")
        plain = sums.unit == self.unit and sums.law == GaussianLaw() and sums.sampling_rate == 1
        whose = "events" if self.unit == EventUnit() else self.unit.name
        check.expect(
            plain and not sums.decoded, "sums", "others", f"to be rows of {whose} with Gaussian noise, all of them"
        )
        same = (sums.centre, sums.noise_multiplier) == (self.centre, self.noise_multiplier)
        check.expect(same, "sums", "others", "to have this plan's centre and noise_multiplier")
        moments = (self.first, *sums.ends)
        rising = len(moments) > 1 and all(one < other for one, other in pairwise(moments))
        check.expect(rising, "sums.ends", sums.ends, f"to rise from {self.first + 1} or later")
        covered = [batch for epoch in sums.epochs for batch in range(epoch.first, epoch.last)]
        check.expect(covered == [*range(len(sums.ends))], "sums.epochs", len(sums.epochs), "to hold every batch once")

    @property
    def participation(self) -> Participation:
        base = privacy.channelled(local=self.local, gaussian=GAUSSIAN in self.channels)
        base = base if self.unit == EventUnit() else self.unit.participation
        shaped = self.sums is not None and self.sums.catalogue
        return dataclasses.replace(base, conditions=(*base.conditions, "catalogue")) if shaped else base

    def price(self, *, exact_noise: bool = False) -> Price:
        pure = PurePrice(self.epsilon)
        if GAUSSIAN not in self.channels:
            return pure
        attained = self.unit.attained and self.unit.participation.batches == 1
        sums = GaussianLaw().price(self.noise_multiplier, self._slack if exact_noise else 0.0, attained)
        return EitherPrice((pure, sums)) if self.unit == EventUnit() else sums

    @property
    def retention(self) -> str:
        channels = self.channels if self.choice is None else (self.choice["channel"],)
        sums = "" if self.sums is None else self.sums.retention
        return " ".join(filter(None, (KEPT_BY[one] if one != GAUSSIAN else sums for one in channels)))

    @cached_property
    def _slack(self) -> float:
        """Of any sums that may follow, which are held to it."""
        return Secure().slack(self.noise_multiplier, MOST_DRAWS)

    def refuse_exact_noise(self, policy: str) -> None:
        _ = self._fit_for_exact_noise

    @cached_property
    def _fit_for_exact_noise(self) -> bool:
        if GAUSSIAN in self.channels:
            expect_fine_grid(self.noise_multiplier, self.noise_multiplier, Secure())
        if self.sums is not None:
            self.sums.refuse_exact_noise("sums")
            needed = self.sums.price(exact_noise=True).slack
            check.expect(needed <= self._slack, "sums' slack", needed, f"<= {self._slack:g}, which is paid for")
        return True

    def guarantee(self, policy: str, *, exact_noise: bool = False) -> Guarantee:
        if self.delta > 0 and GAUSSIAN not in self.channels:
            return dataclasses.replace(self, delta=0.0).guarantee(policy, exact_noise=exact_noise)
        statement = super().guarantee(policy, exact_noise=exact_noise)
        if not self.local:
            return statement
        drawn = [privacy.CONDITIONS[name] for name in ("exact-noise", "secret-noise")]  # by the clients, not here
        theirs = [text for text in drawn if text in statement.enforced]
        ours = tuple(text for text in statement.enforced if text not in theirs)
        return dataclasses.replace(statement, enforced=ours, assumptions=(*statement.assumptions, *theirs))

    def end_of(self, batch: int) -> int | None:
        return batch + 1 if self.channels == (FLIP,) else None

    @property
    def size(self) -> int:
        """The length of the longest release."""
        return 1 if self.sums is None else self.sums.size

    @cached_property
    def flip_law(self) -> RandomisedResponse:
        """How a reward is told by itself."""
        return RandomisedResponse(self.epsilon)

    @cached_property
    def items_law(self) -> DiscreteLaplace:
        """The noise of a block's sum."""
        return DiscreteLaplace(self.epsilon)

    def book(self, source: Noise) -> ChannelBook:
        """An empty book with this source of noise."""
        if source.exact:
            self.refuse_exact_noise("channels")
        return ChannelBook(self, source)

    def to_bytes(self) -> bytes:
        """The whole plan: public."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        sums = None if self.sums is None else np.frombuffer(self.sums.to_bytes(), dtype=np.uint8)
        unit = [self.unit.name, dataclasses.asdict(self.unit)]  # type: ignore[call-overload]
        return packing.to_bytes({"kind": "channels", **fields, "sums": sums, "unit": unit})


def restored_plan(stored: dict[str, Any]) -> ChannelPlan:
    """The plan of these stored fields."""
    stored = {"unit": [EventUnit.name, {}], **stored}  # of old, it was not written
    known = {field.name for field in dataclasses.fields(ChannelPlan)}
    check.expect(known == stored.keys(), "data", "something else", "to be a plan of channels")
    sums = stored["sums"]
    check.expect(sums is None or isinstance(sums, np.ndarray), "sums", type(sums).__name__, "to be a stored plan")
    if sums is not None:
        sums = plan_from_bytes(sums.tobytes())
        check.kind("sums", sums, BatchPlan)
    check.kind("channels", stored["channels"], list)
    name, options = stored["unit"]
    unit = units.named(name)(**options)
    return ChannelPlan(**{**stored, "channels": tuple(stored["channels"]), "sums": sums, "unit": unit})


class ChannelBook(Book):
    """What waits in each channel; see :class:`ChannelPlan`. Every event enters the one it names, and so one release.

    Releases of one round come in a fixed order: the flip or the block that the event closed, then the batch of sums.
    """

    plan: ChannelPlan

    def __init__(self, plan: ChannelPlan, source: Noise) -> None:
        self.plan, self.source = plan, source
        self.tells = plan.channels == (FLIP,)
        self._flip: float | None = None
        """The reward to be told of the round just counted, or what was told of it."""
        self._blocks: dict[int, tuple[int, int]] = {}
        """The sum and the count of every block that has begun."""
        self._closing: int | None = None
        """The block that is due."""
        self._sums: SumBook | None = None if plan.sums is None else plan.sums.book(source)

    @property
    def due(self) -> bool:
        return self._flip is not None or self._closing is not None or self._sums_due

    @property
    def _sums_due(self) -> bool:
        sums = self._sums
        return sums is not None and sums.batch < len(sums.plan.ends) and self.round == sums.plan.ends[sums.batch]

    @property
    def clipped(self) -> int:
        """How many feature vectors did not fit the coordinates of the sums and were clipped."""
        return 0 if self._sums is None else self._sums.clipped

    def arrived(self, reward: float) -> float:
        if not self.tells:
            return reward
        if self.plan.local:
            return Told(self.plan.flip_law.told(_bit(reward)))
        return Told(self.plan.flip_law.tell(check.reward(reward), self.source))

    def _inspect(self, event: Event) -> None:
        if event.channel != NOWHERE:
            check.one_of("event.channel", event.channel, self.plan.channels)
        only = event.channel == ITEMS or not event.closes
        check.expect(only, "event.closes", event.closes, "== False but for items")
        fits = event.channel == FLIP or type(event.reward) is not Told
        check.expect(fits, "event.channel", event.channel, "== 'flip' for what was told of a reward")
        super()._inspect(event)
        if event.channel == ITEMS:
            check.whole("event.block", event.block, at_least=0)
        if event.channel == GAUSSIAN:
            started = self._sums is not None and event.round >= self.plan.first
            check.expect(started, "event.round", event.round, "to come after sums began, for gaussian")
            self._sums._inspect(event)  # type: ignore[union-attr]

    def _enter(self, event: Event) -> None:
        told = type(event.reward) is Told
        reward = event.reward if told else check.reward(event.reward)
        if event.channel == FLIP:
            self._flip = Told(self.plan.flip_law.tell(reward, self.source)) if self.tells and not told else reward
        elif event.channel == ITEMS:
            block = check.whole("event.block", event.block, at_least=0)
            total, count = self._blocks.get(block, (0, 0))
            entered = (total + rounded(reward, self.source), count + 1)
            if event.closes:  # first: an interruption may lose the event, but not the block's moment
                self._closing = block
            self._blocks[block] = entered
        elif event.channel == GAUSSIAN:
            self._sums._enter(event)  # type: ignore[union-attr]

    @property
    def _mark(self) -> object:
        return None if self._sums is None else self._sums._mark

    @property
    def sums_until(self) -> int:
        started = self._sums is not None and self.round >= self.plan.first and not self.due
        return self._sums_now.sums_until if started else 0

    def _enter_next(self, features: Floats, reward: float) -> None:
        self._sums._enter_next(features, reward)  # type: ignore[union-attr]

    def takes_many(self, count: int) -> bool:
        started = self._sums is not None and self.round >= self.plan.first and not self.due
        return started and self._sums_now.takes_many(count)

    def _enter_many(self, features: Floats, rewards: Floats) -> None:
        self._sums._enter_many(features, rewards)  # type: ignore[union-attr]

    def weigh(self, number: int, person: int, features: Floats) -> Floats:
        return super().weigh(number, person, features) if self._sums is None else self._sums.weigh(number, person, features)

    @property
    def people(self) -> dict[str, int]:
        return super().people if self._sums is None else self._sums.people

    def close(self) -> tuple[Release, Self]:
        self._expect_due()
        after = self._under(self.plan, self._sums_copied())
        after.batch = self.batch + 1
        if self._flip is not None:
            told = self._flip if type(self._flip) is Told else self.plan.flip_law.tell(self._flip, self.source)
            after._flip = None
            return Release(self.batch, np.array([told - self.plan.centre]), FLIP), after
        if self._closing is not None:
            total, count = after._blocks.pop(self._closing, (0, 0))
            after._closing = None
            noisy = self.plan.items_law.add(total, self.source)
            return Release(self.batch, np.array([noisy - count * self.plan.centre]), ITEMS), after
        release, after._sums = self._sums_now.close()
        return Release(self.batch, release.values, GAUSSIAN), after

    @property
    def _sums_now(self) -> SumBook:
        """The sums, whose rounds are those of this book wherever events went."""
        assert self._sums is not None
        self._sums.round = self.round
        return self._sums

    def _sums_copied(self) -> SumBook | None:
        if self._sums is None:
            return None
        twin: SumBook = self._sums.plan.book(self.source)
        twin.batch, twin._stream, twin._collector = self._sums.batch, self._sums._stream, self._sums._collector.copy()
        return twin

    def _under(self, plan: ChannelPlan, sums: SumBook | None) -> Self:
        """What this book holds under a plan, with these sums; it shares nothing with this one."""
        after = type(self)(plan, self.source)
        after.round, after.batch, after._sums = self.round, self.batch, sums
        after._flip, after._blocks, after._closing = self._flip, dict(self._blocks), self._closing
        return after

    def extended(self, plan: Any) -> Self:
        """The same book under a plan of the same price, or less where nothing was paid yet.

        Its channels are some of these. Its sums begin at this round or later, go on as these do, or replace sums of which
        nothing was released, the events of their first batch included.
        """
        check.kind("plan", plan, ChannelPlan)
        paid = ("epsilon", "delta", "nominal_epsilon", "centre", "local", "noise_multiplier", "unit")
        for name in paid:
            one, other = getattr(self.plan, name), getattr(plan, name)
            check.expect(one == other, f"plan.{name}", other, f"== {one}, as so far")
        fewer = {*plan.channels} <= {*self.plan.channels}
        check.expect(fewer, "plan.channels", plan.channels, f"to be among {', '.join(self.plan.channels)}")
        for channel, used in ((ITEMS, bool(self._blocks)), (GAUSSIAN, self._sums is not None)):
            check.expect(channel in plan.channels or not used, "plan.channels", plan.channels, f"with {channel}: in use")
        if self.source.exact:
            plan.refuse_exact_noise("channels")
        return self._under(plan, self._sums_under(plan))

    def _sums_under(self, plan: ChannelPlan) -> SumBook | None:
        new = plan.sums
        if self._sums is None:
            late = new is None or plan.first >= self.round
            check.expect(late, "plan.first", plan.first, f">= {self.round}, the next round, for sums that begin")
            return None if new is None else new.book(self.source)
        old = self._sums.plan
        if new is not None and plan.first == self.plan.first:
            if old.goes_on_in(new):
                return self._sums_now.extended(new)
            if self._sums.batch == 0 and old.enters_like(new):
                after = new.book(self.source)
                after._collector.go_on(self._sums._collector)
                return after
        raise check.InputError("Expected plan.sums to go on as so far, or nothing to be released of them yet.")

    def _parts(self) -> dict[str, Any]:
        told = type(self._flip) is Told
        return {
            "told": self._flip if told else None,
            "reward": None if told else self._flip,
            "blocks": [(block, *held) for block, held in self._blocks.items()],
            "closing": self._closing,
            "sums": None if self._sums is None else {"batch": self._sums.batch, **self._sums._parts()},
        }

    def _restore(self, stored: dict[str, Any]) -> None:
        try:
            self._take(stored)
        except check.InputError:
            raise
        except Exception as error:  # whatever parts of a wrong kind provoke
            raise check.InputError(f"Expected data to be a book of channels ({type(error).__name__}).") from None

    def _take(self, stored: dict[str, Any]) -> None:
        told, reward, closing, sums = (stored[name] for name in ("told", "reward", "closing", "sums"))
        for block, total, count in stored["blocks"]:
            check.whole("block", block, at_least=0)
            check.expect(block not in self._blocks, "block", block, "to be stored once")
            check.whole("count", count, at_least=1)
            inside = type(total) is int and 0 <= total <= count
            check.expect(inside, "block", block, "to hold a sum of its count of bits")
            self._blocks[block] = (total, count)
        if closing is not None:
            self._closing = check.whole("closing", closing, at_least=0)
        if told is not None:
            possible = told in (self.plan.flip_law.told(0.0), self.plan.flip_law.told(1.0))
            check.expect(possible, "told", "another", "to be what a flip tells")
            self._flip = Told(told)
        elif reward is not None:
            self._flip = check.reward(reward)
        one = [told, reward, closing].count(None) >= 2
        check.expect(one, "data", "several releases of a round", "to hold one at most")
        check.expect((sums is None) == (self._sums is None), "data", "others", "to hold sums as planned")
        if self._sums is not None:
            self._take_sums(self._sums, sums)

    def _take_sums(self, book: SumBook, stored: dict[str, Any]) -> None:
        ends = book.plan.ends
        past, reached = sum(end < self.round for end in ends), sum(end <= self.round for end in ends)
        book.batch = check.whole("sums.batch", stored["batch"], at_least=past, at_most=reached)
        empty, held = book._collector.state(), stored["collector"]
        if isinstance(empty, np.ndarray):
            fits = isinstance(held, np.ndarray) and held.dtype == empty.dtype
            check.expect(fits, "collector", type(held).__name__, f"to hold {empty.dtype}")
        book._restore(stored)
        step = 0 if book._stream is None else book._stream.step
        due = 0 if book._ended else book.batch - book.plan.epoch_of(book.batch).first
        check.expect(step == due, "stream", step, f"to stand at step {due}")


def _bit(value: object) -> float:
    """A bit that was flipped where it was born."""
    try:
        bit = check.reward(value)
    except check.InputError:
        bit = 0.5
    if bit not in (0.0, 1.0):
        raise check.InputError("Expected reward to be a flipped bit, 0 or 1; it is private and not repeated here.")
    return bit
