"""A policy in use: asking it, counting rounds, choosing, learning, storing."""

from __future__ import annotations

import functools
import logging
import secrets
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import streams
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import COPY_REFUSED, Book
from adaprivate.notebook import facts_html, lines_html
from adaprivate.policies.core.propensities import Propensities
from adaprivate.policies.core.settings import exact_guarantee
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose
from adaprivate.runtime.catalog import Catalogue, catalogue_of, expect_few, rows_in, sets_of
from adaprivate.runtime.decision import Decision, Open, Origin, RewardRefusedError, life_and_round
from adaprivate.runtime.engines import UNKNOWN, Engine, ExactEngine, NotBegun, SimulatedEngine
from adaprivate.runtime.inputs import (
    ClippedCount,
    expect_arms,
    expect_finite,
    expect_observes,
    expect_public_choice,
    needs_user,
    offered_of,
    person_of,
    refuse_infinite,
    users_of,
)
from adaprivate.runtime.learner import LONGEST, Learner, within_reach
from adaprivate.runtime.storage import Stored, packed, restored, unpacked

UNIT_RANGE = (0.0, 1.0)
OTHERWISE = ", or the policy to be made with reward_range=(least, greatest)"

log = logging.getLogger("adaprivate")
"""Public events alone: plans, releases by their number, clipping. Nothing that depends on a reward."""
log.addHandler(logging.NullHandler())

Found = TypeVar("Found")


def one_at_a_time(method: Callable[..., Found]) -> Callable[..., Found]:
    """The guard of a policy: a method that changes it runs alone.

    Other threads wait for the lock. A signal's handler runs in the thread that it interrupts, which no lock keeps out:
    what it calls is refused. An interruption may end a method at any place. So every method changes the policy in single
    steps, each of which the next call can go on from: what was drawn is committed before it is shown.
    """

    @functools.wraps(method)
    def alone(self: Any, *given: Any) -> Found:
        with self._lock:
            if self._busy:
                raise check.InputError("Expected a policy not to be used or saved by what interrupts a call of it.")
            self._busy = True
            try:
                return method(self, *given)
            finally:
                self._busy = False

    return alone


def warn(text: str, kind: type[Warning]) -> None:
    """Warn of the line that called the policy."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


class Policy:
    """A policy that decides and learns, one round after another. Every public method may be called from many threads.

    Made by :func:`policy` with either ``seed`` (simulated noise, for experiments) or ``source=Secure()`` (exact noise from
    the operating system, for real people's data). A decision may be rewarded until ``reward_window`` more have been made
    after it and another is asked for; rewards that are missing count as a public constant. Rounds are counted, and batches
    released, when a decision is asked for, or by :meth:`advance` and :meth:`finish`: never because a reward came.
    ``settings``: those of the policy, or a function that makes them for a dimension: the first candidates then give it.
    ``propensities``: whether every decision shall say how likely it was. ``reward_range``: the public least and greatest
    reward. Others are refused; those within are scaled to 0 to 1, linearly, before anything is done with them, so that the
    guarantee is the same. Settings such as ``base_rate`` and ``missing`` are on the scale from 0 to 1.
    """

    def __init__(
        self,
        settings: Any,
        *,
        seed: int | None = None,
        source: Secure | None = None,
        reward_window: int = 0,
        propensities: bool = False,
        reward_range: tuple[float, float] = UNIT_RANGE,
    ) -> None:
        self._settings_of: Callable[[int], Any] | None = settings if callable(settings) else None
        self._described = settings = settings if self._settings_of is None else self._settings_of(1)
        """The settings at first; those of the least dimension where the first candidates give it."""
        if seed is None and source is None:
            raise check.InputError("Expected seed=0, to try things out, or source=ap.Secure(), for real people.")
        check.expect(seed is None or source is None, "seed", seed, "not to come with source=Secure(): it repeats the noise")
        self.reward_range = check.reward_range(reward_range)
        """The public least and greatest reward; told rewards are scaled from it to 0 to 1, linearly."""
        if getattr(settings, "local", False):
            check.expect(source is not None, "local", True, "to come with source=Secure(): clients draw noise of their own")
            whole = self.reward_range == UNIT_RANGE
            check.expect(whole, "reward_range", reward_range, "== (0, 1) where local: bits arrive")
        self.reward_window = check.whole("reward_window", reward_window, at_least=0)
        self.logs_propensities = bool(propensities)
        self._arms = np.eye(settings.dimension) if settings.fixed_arms else None
        """The candidates of every round, for a policy on fixed arms."""
        if self._arms is not None:  # their pre-pulls and first pulls are counted by learned rounds
            check.expect(reward_window == 0, "reward_window", reward_window, f"== 0 for {settings.name}, a policy on arms")
        if propensities:
            expect_public_choice(settings)
        if source is not None:
            check.expect(type(source) is Secure, "source", type(source).__name__, "to be Secure() itself")
            if self._settings_of is not None:
                exact_guarantee(settings)  # or is refused, in every dimension
        self.source = source
        """The source of exact noise; None where noise is simulated."""
        self._needs_user = needs_user(settings)
        self._missing = float(settings.missing)
        self._lock = threading.RLock()
        self._busy = False
        """Whether a guarded call is under way."""
        self._unsure = False
        """Whether the engine may take what was chosen for an open decision that was never made."""
        self.clipped = 0
        """How many feature vectors were longer than 1 and were clipped."""
        self._clipping = ClippedCount()
        self.decided = 0
        """How many decisions have been made."""
        self.round = 0
        """How many rounds have been counted."""
        self.version = 0
        """How many batches have been released."""
        self._next_end: int | None = None
        self._open: dict[int, Open] = {}
        """The decisions not yet counted, by their rounds, oldest first."""
        self._stored = Stored(exact=source is not None)
        self._seed = secrets.randbits(128) if seed is None else check.whole("seed", seed, at_least=0)
        self._origin = Origin(secrets.token_hex(6), secrets.token_bytes(16))
        self._dimension: int | None = None
        self._engine: Engine = NotBegun()  # type: ignore[assignment]
        if self._settings_of is None:
            self._begin(settings.dimension)
        if source is not None:
            for remark in self.remarks:  # what is usual is no warning
                (log.warning if remark.startswith("Remark") else log.info)("%s: %s", settings.name, remark)

    @one_at_a_time
    def _begin_by(self, first: Floats, shown: object) -> None:
        """Begin with the first candidates, which have passed all other checks."""
        expect_finite(first, shown)
        dimension = first.shape[-1]
        if self._dimension is None:
            self._begin(dimension)  # else another thread has
        check.expect(dimension == self._dimension, "candidates.shape[-1]", dimension, f"== {self._dimension}")

    def _begin(self, dimension: int) -> None:
        """Make the state: settings or the first candidates have said of what dimension."""
        settings = self._described if self._settings_of is None else self._settings_of(dimension)
        rng = streams(self._seed, Purpose.EXPLORATION, Purpose.CHOICE)
        made: Engine
        if self.source is None:
            made = SimulatedEngine(settings, self._seed, rng)
        else:
            made = ExactEngine(settings, self.source, rng, self._stored.claim)
        self._look_ahead(made)
        self._engine, self._dimension = made, dimension  # last: until here nothing has begun
        if self._planned == 0:
            self._plan_on()

    # --- asking -------------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Any:
        """The settings, with as many rounds as are planned by now."""
        return self._engine.settings

    @property
    def state(self) -> Any:
        """The compiled state. With exact noise it is the learner's and public; simulated, it holds rewards too."""
        return self._engine.state

    @property
    def learner(self) -> Learner:
        """The public part of a policy with exact noise."""
        self._expect_exact("learner")
        return self._engine.learner  # type: ignore[attr-defined, no-any-return]

    @property
    def book(self) -> Book:
        """The private part of a policy with exact noise."""
        self._expect_exact("book")
        return self._engine.book  # type: ignore[attr-defined, no-any-return]

    def _expect_exact(self, part: str) -> None:
        check.expect(self.source is not None, part, None, "to be asked of a policy with source=Secure()")

    @property
    def guarantee(self) -> Guarantee | None:
        """What this policy promises, and what that rests on; None when it is not private."""
        if self._dimension is not None or self._settings_of is None:
            return self._engine.guarantee
        exact = self.source is not None
        first, other = (self._settings_of(dimension).guarantee(exact_noise=exact) for dimension in (1, 17))
        check.expect(first == other, "dimension", None, f"to be given: the guarantee rests on it, and it is {UNKNOWN}")
        found: Guarantee | None = first
        return found

    @property
    def remarks(self) -> list[str]:
        """What makes the guarantee weak: a large epsilon, or a delta that is large for so many. Which visits never count.

        How many it protects: people who came, where it protects people, else rounds planned for, a reward each.
        """
        begun, seen = self._dimension is not None, self.people
        settings = self.settings if begun else self._described
        guarantee = self.guarantee if begun else settings.guarantee(exact_noise=self.source is not None)
        weak = [] if guarantee is None else guarantee.remarks(settings.rounds if seen is None else seen["people"])
        return weak + (settings.plan.unit.remarks(seen) if self._needs_user else [])

    @property
    def people(self) -> dict[str, int] | None:
        """People who came, their visits that counted and those that found no share left: public. None: it protects none."""
        with self._lock:
            return self._engine.people if self._needs_user else None

    @property
    def open_decision(self) -> Decision | None:
        """The oldest decision whose reward can still be learned."""
        with self._lock:
            return next((entry.decision for entry in self._open.values()), None)

    def __repr__(self) -> str:
        if self._dimension is None:
            return f"<{self._described.name}: dimension {UNKNOWN}, {self._noise}>"
        counts = f"{self.decided} decisions, {self.round} rounds, {self.version} releases"
        channel = "" if self._channel is None else f", channel {self._channel}"
        return f"<{self.settings.name}: {counts}{channel}, {self._noise}>"

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"dimension": UNKNOWN, "noise": self._noise}
        if self._dimension is not None:
            facts = {"decisions": self.decided, "rounds": self.round, "releases": self.version, "noise": self._noise}
            facts |= {} if self._channel is None else {"channel": self._channel}
        try:
            guarantee = self.guarantee
            promise = "<p>Not private: it protects nobody.</p>" if guarantee is None else guarantee._repr_html_()
        except check.InputError as error:  # it rests on the dimension
            promise = lines_html("", [str(error)])
        return facts_html(self._described.name, facts, lines_html("", self.remarks), promise)

    @property
    def _channel(self) -> str | None:
        channel: str | None = getattr(getattr(self.settings, "choice", None), "channel", None)
        return channel

    @property
    def _noise(self) -> str:
        return "exact noise" if self.source is not None else "simulated noise"

    # --- counting -----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Count the rounds whose reward window has passed, as the next decision would. When must not depend on rewards."""
        self._catch_up(self.reward_window)

    def finish(self) -> None:
        """Count every open decision now; those without a reward count as missing. When must not depend on rewards."""
        self._catch_up(0)

    @one_at_a_time
    def _catch_up(self, window: int) -> None:
        if self._dimension is not None:  # else there are no rounds yet
            self._count_until(self.decided - window)

    def _count_until(self, end: int) -> None:
        self._stored.expect_alone()
        self._after_count()  # where an interruption left that out
        while self.round < end:
            if self.round == self._planned:
                self._plan_on()
            if self.round + 1 == self._next_end:
                self._stored.claim()  # before anything changes: where it is refused, the round waits
            number, entry = self.round, self._open[self.round]
            reward = self._missing if entry.reward is None else entry.reward
            if self._engine.one_step:
                self._counted()  # first: whatever fails below, no event is counted twice
                self._engine.count(number, entry.features, reward, entry.person)
            else:  # knows itself what it has done of a round, and goes on from there
                self._engine.count(number, entry.features, reward, entry.person)
                self._counted()
            self._after_count()
        self._engine.opened(self.decided - self.round)

    def _count_and_choose(self, offered: Floats) -> tuple[int, int]:
        self._stored.expect_alone()
        number = self.round
        entry = self._open[number]
        reward = self._missing if entry.reward is None else entry.reward
        try:
            chosen = self._engine.count_and_choose(number, entry.features, reward, entry.person, offered)
        except BaseException:
            if self._engine.one_step:  # whether or not it did: no event is counted twice
                self._counted()
            raise
        if chosen[1] >= 0:
            self._counted()
            self._after_count()
        return chosen

    def _counted(self) -> None:
        """One more round is counted."""
        number = self.round
        self.round = number + 1
        self._open.pop(number, None)

    def _after_count(self) -> None:
        """What the round just counted leads to, in public: releases seen, and a choice that is due."""
        if self._routed:
            if self.version != (releases := self._engine.releases):
                before, self.version = self.version, releases
                self._log_releases(before)
        elif self._next_end is not None and self.round >= self._next_end:
            self._see_releases()
        if self.round == self._planned and self.round < self._engine.settings.rounds:
            self._plan_on()

    def _see_releases(self) -> None:
        """Those of the batches that have ended: counted at once, for what interrupts, and only then told."""
        plan, before, version, end = self._engine.plan, self.version, self.version, self._next_end
        while end is not None and self.round >= end:
            version += 1
            end = plan.end_of(version)
        self.version, self._next_end = version, end
        self._log_releases(before)

    def _log_releases(self, before: int) -> None:
        """Those after this one, and now made."""
        for version in range(before + 1, self.version + 1):
            log.debug("%s: release %d, round %d", self.settings.name, version, self.round)

    def _plan_on(self) -> None:
        """Plan further: a public moment."""
        worry = None
        if self._planned == self.settings.planned:  # else an interruption came after this step
            before = self._engine.known
            self._engine.extend()
            worry = self.settings.worry(before)
        self._look_ahead(self._engine)
        log.info("%s: planned on at round %d, channel %s", self.settings.name, self.round, self._channel)
        if worry is not None:
            warn(worry, check.LittleToLearnWarning)

    def _look_ahead(self, engine: Engine) -> None:
        """When the next batch ends, and when the plan does."""
        plan = engine.plan
        self._routed = plan is not None and plan.routed
        self._next_end = None if plan is None or self._routed else plan.end_of(self.version)
        self._planned: int | None = getattr(engine.settings, "planned", None)
        self._pauses = () if self._planned is None else (self._planned - 1, self._planned)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def decide(
        self, candidates: object, *, among: object = None, user: object = None, propensity: bool | None = None
    ) -> Decision:
        """Choose one of the rows of ``candidates`` (K, dimension). Rounds whose window has passed are counted first.

        With a :class:`~adaprivate.Catalogue` one of its items is chosen, or one ``among`` some: their places, or a mask.
        ``user``: whose decision it is, a text or a whole number, for a policy that protects people.
        ``propensity``: whether the decision shall say how likely it was; by default as the policy was made.
        """
        catalogue = catalogue_of(candidates, among)
        if catalogue is not None:
            return self._decide_from(catalogue, [among], [user], propensity)[0]
        begun = self._dimension
        offered = offered_of(candidates, 2, begun)
        person = -1 if user is None and not self._needs_user else self._person(user)
        asked = self.logs_propensities if propensity is None else propensity
        if asked:
            expect_public_choice(self._described)
        if begun is None:
            self._begin_by(offered, candidates)
        return self._decide(offered, candidates, person, asked)

    @one_at_a_time
    def _decide(self, offered: Floats, candidates: object, person: int, asked: bool) -> Decision:
        if self._arms is not None:
            self._expect_arms(offered)
        number = self.round
        due = self.decided - self.reward_window - number
        pauses = self._unsure or number in self._pauses
        if asked or due != 1 or number >= self._engine.fused_until or pauses:
            self._ready_for(offered, candidates)
            odds = self._probabilities(offered[None])[0] if asked else None
            self._unsure = True
            action, clipped = self._engine.choose(offered)
        else:  # the usual case: count the last round and choose, in as few steps as can be
            odds = None
            self._unsure = True
            action, clipped = self._count_and_choose(offered)
        if clipped < 0:
            refuse_infinite(offered, candidates)
        decision = self._made(action, offered[action], None if odds is None else float(odds[action]), person)
        self._unsure = False
        self._note_clipped(clipped, len(offered))
        return decision

    def decide_many(
        self,
        candidates: object,
        *,
        among: Sequence[object] | None = None,
        users: Sequence[object] | None = None,
        propensity: bool | None = None,
    ) -> list[Decision]:
        """One choice for each of ``candidates`` (n, K, dimension), all made now, after the rounds that are due.

        With a catalogue one for each entry of ``among``: the places or the mask of each decision, None for all items.
        ``users``: whose each of them is, for a policy that protects people.
        """
        catalogue = catalogue_of(candidates, among)
        if catalogue is not None:
            each = sets_of(among)
            return self._decide_from(catalogue, each, [None] * len(each) if users is None else users, propensity)
        begun = self._dimension
        offered = offered_of(candidates, 3, begun)
        given = [None] * len(offered) if users is None else users_of(users, len(offered))
        people = [self._person(user) for user in given]
        if self._arms is not None:
            check.expect(len(offered) == 1, "n", len(offered), "== 1 for a policy on arms: it learns between")
        asked = self._asks(propensity)
        if begun is None:
            self._begin_by(offered, candidates)
        return self._decide_many(offered, candidates, people, asked)

    @one_at_a_time
    def _decide_many(self, offered: Floats, candidates: object, people: list[int], asked: bool) -> list[Decision]:
        if self._arms is not None:
            self._expect_arms(offered[0])
        self._ready_for(offered, candidates)
        odds = self._probabilities(offered) if asked else None
        actions = np.zeros(len(offered), dtype=np.int64)
        self._unsure = True
        clipped = self._engine.choose_many(offered, actions)
        if clipped < 0:
            refuse_infinite(offered, candidates)
        decisions = [
            self._made(action, offered[n, action], None if odds is None else float(odds[n, action]), people[n])
            for n, action in enumerate(actions.tolist())
        ]
        self._unsure = False
        self._note_clipped(clipped, len(offered) * offered.shape[1])
        return decisions

    def _decide_from(
        self, catalogue: Catalogue, among: Sequence[object], users: Sequence[object], propensity: bool | None
    ) -> list[Decision]:
        """One choice among items of a catalogue for each entry of ``among``, all made now."""
        check.expect(self._arms is None, "candidates", catalogue, "not to be a catalogue: the arms are fixed")
        begun = self._dimension
        stocks = [catalogue._offer(places, begun) for places in among]
        people = [self._person(user) for user in users_of(users, len(stocks))]
        asked = self._asks(propensity)
        if asked:
            expect_few(stocks)
        if begun is None:
            self._begin_by(catalogue.features, catalogue)
        return self._decide_among(catalogue, stocks, people, asked)

    @one_at_a_time
    def _decide_among(self, catalogue: Catalogue, stocks: list[Any], people: list[int], asked: bool) -> list[Decision]:
        self._count_until(self.decided - self.reward_window)
        decisions = []
        self._unsure = True
        for stock, person in zip(stocks, people, strict=True):
            odds = self._engine.propensities(rows_in(stock)[None], self.decided).probability[0] if asked else None
            chosen = self._engine.choose_from(stock)
            place = int(stock.places[chosen]) if len(stock.places) else chosen
            likely = None if odds is None else float(odds[chosen])
            item = None if catalogue.ids is None else catalogue.ids[place]
            decisions.append(self._made(place, stock.table[place].copy(), likely, person, item))
        self._unsure = False
        return decisions

    def consider(self, candidates: object) -> int:
        """What would be chosen now; no decision is made. Rounds that are due are counted and random numbers used up.

        Policies that plan by the first candidates they are shown have then been shown these.
        """
        if self._arms is not None:
            check.expect(False, "policy", self.settings.name, "not to be one on fixed arms: its draws are paid for")
        begun = self._dimension
        offered = offered_of(candidates, 2, begun)
        if begun is None:
            self._begin_by(offered, candidates)
        return self._consider(offered, candidates)

    @one_at_a_time
    def _consider(self, offered: Floats, candidates: object) -> int:
        self._ready_for(offered, candidates)
        self._unsure = True
        action, clipped = self._engine.choose(offered)
        if clipped < 0:
            refuse_infinite(offered, candidates)
        self._engine.opened(self.decided - self.round)
        self._unsure = False
        return action

    def propensities(self, candidates: object, *, draws: int = 512) -> Propensities:
        """The probability with which the next decision would choose each row of ``candidates``, and its standard error.

        Like a decision it counts the rounds that are due first: rewards that come later for those are refused.
        """
        expect_public_choice(self._described)
        check.whole("draws", draws, at_least=8)
        begun = self._dimension
        if isinstance(candidates, Catalogue):
            expect_few([candidates._offer(None, begun)])
        offered = offered_of(candidates, 2, begun)
        if begun is None:
            self._begin_by(offered, candidates)
        return self._propensities(offered, candidates, draws)

    @one_at_a_time
    def _propensities(self, offered: Floats, candidates: object, draws: int) -> Propensities:
        self._ready_for(offered, candidates)
        found = self._engine.propensities(within_reach(offered[None]), self.decided, draws)
        return Propensities(found.probability[0], found.error[0])

    def _ready_for(self, offered: Floats, candidates: object) -> None:
        """Count the rounds that are due; nothing where the candidates are refused."""
        expect_finite(offered, candidates)
        self._count_until(self.decided - self.reward_window)

    def _probabilities(self, offered: Floats) -> Floats:
        return self._engine.propensities(within_reach(offered), self.decided).probability

    def _asks(self, propensity: bool | None) -> bool:
        """Whether a decision shall say how likely it was; refused where that is private."""
        asked = self.logs_propensities if propensity is None else propensity
        if asked:
            expect_public_choice(self._described)
        return asked

    def _person(self, user: object) -> int:
        return person_of(user, self._needs_user, self._origin._key if self.source else b"", self._described.name)

    def _expect_arms(self, offered: Floats) -> None:
        """Raise unless these are the fixed arms, in a round that the policy was made for."""
        expect_arms(offered, self._arms)  # type: ignore[arg-type]
        rounds = self.settings.rounds
        check.expect(self.decided < rounds, "round", self.decided, f"< {rounds}, the rounds in its settings")

    def _made(self, action: int, features: Floats, propensity: float | None, person: int, item: Any = None) -> Decision:
        number = self.decided
        # tuple.__new__ is what Decision(...) does, in half the time
        parts = (action, self.version, propensity, number, features, self._origin, item)
        decision: Decision = tuple.__new__(Decision, parts)
        self._open[number] = Open(decision, features.copy(), person)
        self.decided = number + 1
        return decision

    def _note_clipped(self, clipped: int, seen: int) -> None:
        """Take in how many candidates were clipped, and warn once if they are many and contexts are public."""
        if not clipped:
            self._clipping.seen += seen
            return
        self.clipped += clipped
        text = self._clipping.add(clipped, seen)
        if text is None:
            return
        guarantee = self.guarantee
        if guarantee is None or not {"joint", "local"} & {g.unit for g in (guarantee, *guarantee.also)}:
            log.warning("%s: %s", self.settings.name, text)
            warn(text, check.ClippedWarning)

    # --- learning -----------------------------------------------------------------------------------------------------

    def learn(self, decision: Decision | str, reward: float | bool | None) -> None:
        """Tell the reward of an open decision, or of its token: within ``reward_range``, or a bool where that is 0 to 1.

        ``None`` when there is none to come: the round then counts as ``policy.settings.missing``, and a reward that comes
        after all is refused as repeated. Nothing is counted or released by telling it: that happens with the next decision,
        or by :meth:`advance`.
        """
        if type(reward) is float and 0.0 <= reward <= 1.0 and self.reward_range == UNIT_RANGE:
            value = reward
        else:
            value = self._value(reward)
        life, number = life_and_round(decision, self._origin)
        self._learn(life, number, reward, value)

    @one_at_a_time
    def _learn(self, life: str, number: int, reward: object, value: float) -> None:
        self._stored.expect_alone()
        entry = self._open.get(number)
        if entry is None:
            text = f"Expected decision.round={number} to be open: {self._which_are_open()}."
            raise RewardRefusedError("late" if number < self.round else "lost", text)
        if entry.decision.origin.life != life:
            text = f"Expected decision.round={number} to be the one made since: its own was lost in a restart."
            raise RewardRefusedError("lost", text)
        if entry.reward is not None:
            text = f"Expected decision.round={number} to be learned once: a reward, or None where none comes, "
            raise RewardRefusedError("repeated", text + "settles it.")
        # what stands in for a reward is public, and no client's bit: it is told like any other when it is counted
        entry.reward = self._missing if reward is None else self._engine.arrived(value)

    def _value(self, reward: float | bool | None) -> float:
        """A reward on the scale from 0 to 1, or what stands for one that does not come."""
        if reward is None:
            return self._missing
        if self.reward_range != UNIT_RANGE:
            return check.scaled_reward(reward, self.reward_range)
        return check.reward(reward, OTHERWISE)

    def _which_are_open(self) -> str:
        if not self._open:
            return "none is"
        rounds = f"round {self.round} is" if len(self._open) == 1 else f"rounds {self.round} to {self.decided - 1} are"
        threads = "" if self.reward_window or self._arms is not None else ", and several threads at once need more"
        return f"{rounds} (reward_window={self.reward_window}{threads})"

    def observe(self, features: object, reward: float | bool | None, *, user: object = None) -> None:
        """Learn the reward of a decision that someone else made, from the features of what was chosen.

        Call it for every such round, with ``None`` where no reward came: that a round took place is public.
        """
        check.expect(
            self._arms is None, "policy", self._described.name, "not to be one on fixed arms: it chooses for itself"
        )
        expect_observes(self.reward_window)
        begun = self._dimension
        vector = check.floats("features", features, (begun,))
        person = self._person(user)
        if begun is None:
            self._begin_by(vector[None], features)
        self._observe(within_reach(vector), float(vector @ vector) > LONGEST, reward, person)

    @one_at_a_time
    def _observe(self, vector: Floats, longer: bool, reward: float | bool | None, person: int) -> None:
        self._count_until(self.decided)
        number = self._made(-1, vector, None, person).round
        try:
            value = self._value(reward)
            self._open[number].reward = self._missing if reward is None else self._engine.arrived(value)
        finally:  # refused or not, the round took place
            self._note_clipped(int(longer), 1)

    # --- storing ------------------------------------------------------------------------------------------------------

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """Everything, the open decisions too: PRIVATE. With exact noise, go on from one copy only."""
        return self._packed("")

    def _packed(self, saved: str) -> bytes:
        if self.source is not None:  # a round that an interruption left half counted
            self._count_until(max(self.book.round, int(self.learner.done[0])))
        return packed(self, saved)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The policy that :meth:`to_bytes` wrote. With exact noise, go on from one copy only."""
        policy: Self = restored(cls, unpacked(data))
        return policy

    def save(self, path: str | Path) -> None:
        """Write everything to one file, whole or not at all, readable by its owner alone: it holds private sums.

        A policy with exact noise is continued once: by whoever loads the file, or by this one when it releases again.
        """
        self._save(Path(path).resolve())

    @one_at_a_time
    def _save(self, target: Path) -> None:
        self._stored.save(target, self._packed)

    def __reduce_ex__(self, protocol: object) -> Any:
        if self.source is not None:
            raise check.InputError(COPY_REFUSED)
        return type(self).from_bytes, (self.to_bytes(),)

    def warm_up(self, candidates: int | Catalogue = 5) -> None:
        """Compile now what the first decisions would wait for, or fetch it from the cache. Nothing else changes."""
        if isinstance(candidates, Catalogue):
            with self._lock:
                self._engine.ready_for(candidates._offer(None, self._dimension))
            candidates = 1
        count = check.whole("candidates", candidates, at_least=1) if self._arms is None else len(self._arms)
        with self._lock:
            self._engine.warm_up(np.eye(count, self.settings.dimension))
