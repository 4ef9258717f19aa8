"""Everything public of a policy depends on rewards through releases alone: lives with other rewards, releases held equal.

A public name is a function of what was released, so lives with equal releases show the same, however many rewards differ.
Later lives read the first one's releases. Where a simulated learner has read another release, it is given the first one's
state; a simulated policy without a learner of its own is watched until its releases differ.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import warnings
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import streams
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import ArmBook, Book
from adaprivate.mechanisms.plan import Plan, SamplingPlan
from adaprivate.mechanisms.units import Event
from adaprivate.policies.core.propensities import copied
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose
from adaprivate.runtime.decision import Decision, Origin
from adaprivate.runtime.inputs import needs_user
from adaprivate.runtime.learner import Learner
from adaprivate.runtime.policy import Policy, log
from adaprivate.testing.behaviour import refusal
from adaprivate.testing.books import open_noise
from adaprivate.testing.channels import holding
from adaprivate.testing.suite import PEOPLE, checks, expect, fixed_arms, leaves, same_state

WINDOW = 2
"""Rewards may come so much later, where a policy lets them."""
PRIVATE_CONTEXTS = ("joint", "local")
"""Units whose contexts are private, too."""
SELDOM = 6
"""What takes long to ask is asked every so many rounds."""


class Asking(NamedTuple):
    """What functions are asked about: the round that is counted next, whose it is, and some candidates."""

    policy: Policy
    offered: Floats

    @property
    def waiting(self) -> Any:
        """The decision that is counted next; None where there is none."""
        return self.policy._open.get(self.policy.round)


class Kind(NamedTuple):
    """How the public names of a class are classed."""

    read: frozenset[str]
    """Attributes: the same in all lives."""
    asked: dict[str, Callable[[Any, Asking], object]]
    """Functions without side effects: their answers are the same in all lives."""
    left: frozenset[str]
    """Names that are private, that change something, or that need what is private."""


def _named(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _weighed(book: Any, asking: Asking) -> object:
    """The weight of the visit that is counted next; of any other one, a refusal."""
    entry = asking.waiting
    if entry is None or entry.person < 0:
        return None
    return book.weigh(book.round, entry.person, entry.features)


def _odds(policy: Any, asking: Asking) -> object:
    return policy._engine.propensities(asking.offered[None], policy.decided, 64).probability


CLASSED: dict[type, Kind] = {
    Policy: Kind(
        _named(
            "clipped decided guarantee logs_propensities open_decision people remarks reward_range reward_window round "
            "settings source version"
        ),
        {"propensities": _odds},
        _named(
            "advance book consider decide decide_many finish from_bytes learn learner observe save state to_bytes warm_up"
        ),
    ),
    Book: Kind(
        _named("batch clipped due people plan round source sums_until tells"),
        {"takes_many": lambda book, _: [book.takes_many(count) for count in range(1, 9)], "weigh": _weighed},
        _named("add add_many add_next arrived close extended from_bytes sample to_bytes"),
    ),
    Learner: Kind(
        _named("done rng state"),
        {"copy": lambda learner, _: learner.copy().state, "to_bytes": lambda learner, _: learner.to_bytes()},
        _named("choose counted counted_and_choose counted_many passed propensities read restored"),
    ),
}
"""How each public name is classed. A name that is not listed fails the check.

A class with names of its own gets an entry of its own: ``CLASSED[MyBook] = Kind(...)``, with all of its names.
"""


def shown(thing: Any, asking: Asking, seldom: bool) -> Iterator[tuple[str, object]]:
    """The public names of a policy, a book or a learner, and what each shows."""
    kind = next(CLASSED[base] for base in type(thing).__mro__ if base in CLASSED)
    own = type(thing).__name__
    for name in dir(thing):
        if name.startswith("_") or name in kind.left:
            continue
        listed = name in kind.asked or name in kind.read
        expect(listed, f"{own}.{name} is public, and adaprivate.testing.public.CLASSED does not list it")
        if name in _SELDOM and not seldom:
            continue
        try:
            value = kind.asked[name](thing, asking) if name in kind.asked else getattr(thing, name)
        except check.InputError as error:
            value = f"refused: {error}"
        yield f"{own}.{name}", plain(value)


_SELDOM = _named("guarantee remarks settings plan propensities copy to_bytes")


def plain(value: Any) -> object:
    """What can be compared of a value that is shown."""
    if isinstance(value, Decision):
        return (repr(value), value.token, value.features.tobytes())
    if isinstance(value, Guarantee):
        return value.to_json()
    if isinstance(value, Plan):
        return value.to_bytes()  # type: ignore[attr-defined]
    if isinstance(value, np.ndarray) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return [(leaf.dtype.str, leaf.shape, leaf.tobytes()) for leaf in leaves(value)]
    if dataclasses.is_dataclass(value) or isinstance(value, bytes | str | int | float | tuple | list | dict | None):
        return repr(value)
    return type(value).__name__


def refusals(policy: Policy, told: Decision | None, first: Decision) -> Iterator[tuple[str, object]]:
    """The texts of errors that callers can bring about; ``told``: a decision whose reward was told."""
    wrong = np.zeros((3, policy.settings.dimension + 1))
    tried: dict[str, Callable[[], object]] = {
        "a reward out of range": lambda: policy.learn(first.token, 7.0),
        "a foreign decision": lambda: policy.learn("nobody's", 0.25),
        "other candidates": lambda: policy.decide(wrong),
        "candidates that are not numbers": lambda: policy.decide(wrong[:, 1:] + np.nan),
        "to be loaded": lambda: Policy.from_bytes(b"none"),
    }
    if told is not None:
        tried["a second reward"] = lambda: policy.learn(told, 0.25)
    if policy.round > first.round:
        tried["a reward that comes late"] = lambda: policy.learn(first, 0.25)
    if policy.source is not None:
        book, learner = policy.book, policy.learner
        features = np.zeros(policy.settings.dimension)
        event = Event(book.round, features, 7.0)
        tried |= {
            "copies": lambda: (copy.deepcopy(book), pickle.dumps(policy)),
            "a batch that is not due": book.close,
            "a round out of turn": lambda: book.add(event._replace(round=book.round + 1)),
            "a wrong event": lambda: book.add(event),
            "a round out of turn, alone": lambda: book.add_next(book.round + 1, features, 0.25),
            "too many rounds": lambda: book.add_many(np.zeros((10**6, 1)), np.zeros(10**6)),
            "another plan": lambda: book.extended(None),
            "a visit out of turn": lambda: book.weigh(book.round + 7, 1, features),
            "another book": lambda: type(book).from_bytes(b"none", book.plan, book.source),
            "another learner": lambda: learner.restored(b"none"),
        }
    for name, attempt in tried.items():
        try:
            text = refusal(attempt)
        except Exception as error:  # whatever anyone's book raises
            text = f"{type(error).__name__}: {error}"
        yield f"the refusal of {name}", text


def texts(policy: Policy, seldom: bool) -> Iterator[tuple[str, object]]:
    """What a policy and its parts print."""
    yield "the policy's text", repr(policy)
    if seldom:
        yield "the policy's page", policy._repr_html_()


class Seen(NamedTuple):
    """What was public of a life, moment by moment, and what later lives are given of it."""

    moments: list[tuple[str, dict[str, object]]]
    releases: list[Any]


class _Parted(Exception):  # noqa: N818  # nothing is wrong
    """Releases of a policy that cannot be given others' differ."""


@contextmanager
def _samples(held: list[Any] | None, heard: list[Any]) -> Iterator[None]:
    """Samples around arms' means are releases: they are kept, and those of another life drawn instead."""
    kept = ArmBook.sample

    def sample(self: ArmBook) -> Floats:
        own, place = kept(self), len(heard)
        heard.append(own)
        return own if held is None else held[place]

    ArmBook.sample = sample  # type: ignore[method-assign]
    try:
        yield
    finally:
        ArmBook.sample = kept  # type: ignore[method-assign]


@contextmanager
def _said() -> Iterator[Callable[[], list[str]]]:
    """What was logged and warned of meanwhile, when it is asked."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, level = Kept(), log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield lambda: [*lines, *(str(warning.message) for warning in caught)]
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _follow(policy: Policy, held: list[Any] | None, heard: list[Any]) -> None:
    """After every round the learner of a simulated policy is what it was in another life, if that is given."""
    engine = policy._engine
    engine.fused_until, count = 0.0, engine.count

    def counted(number: int, features: Floats, reward: float, person: int = -1) -> None:
        count(number, features, reward, person)
        learner, released = engine.known, np.array(engine.settings.released(engine.state), dtype=np.float64).tobytes()
        heard.append((copied(learner), released, engine.rng.copy()))
        if held is None:
            return
        theirs, known, rng = held[number]
        engine.rng[...] = rng  # some rewards are rounded at random
        if released == known:
            apart = learner is not engine.state and not same_state(learner, theirs)
            expect(not apart, f"round {number} released the same, and its learner depends on rewards")
        elif learner is engine.state:
            raise _Parted
        else:
            for own, other in zip(leaves(learner), leaves(theirs), strict=True):
                own[...] = other

    engine.count = counted  # type: ignore[method-assign]


def _begun(settings: Any, exact: bool, held: list[Any] | None, heard: list[Any]) -> Policy:
    """A policy whose tokens, people's numbers and exploration are the same in all lives."""
    window = 0 if fixed_arms(settings) else WINDOW
    if not exact:
        policy = Policy(settings, seed=5, reward_window=window)
        _follow(policy, held, heard)
    else:
        policy = Policy(settings, source=Secure(), reward_window=window)
        engine: Any = policy._engine
        learner = Learner(engine.learner.state, streams(0, Purpose.EXPLORATION, Purpose.CHOICE))
        sampled = isinstance(settings.plan, SamplingPlan)  # and the samples are held
        engine.learner = learner if sampled else holding(learner, held, heard)
    policy._origin = Origin("0" * 12, b"0" * 16, "0" * 8)
    return policy


def life(settings: Any, offered: Floats, rewards: list[float | None], exact: bool, before: Seen | None = None) -> Seen:
    """Everything public of a policy that is told these rewards, None for one that never comes."""
    seen = Seen([], [])
    held = None if before is None else before.releases
    with open_noise(silent=True), _samples(held, seen.releases), _said() as said:
        policy = _begun(settings, exact, held, seen.releases)
        asking = Asking(policy, offered[-1])

        def look(when: str, told: Decision | None, seldom: bool) -> None:
            found = dict(texts(policy, seldom))
            for thing in (policy, *((policy.book, policy.learner) if exact else ())):
                found |= shown(thing, asking, seldom)
            if seldom:
                found |= refusals(policy, told, first or told or decision)
            seen.moments.append((when, found | {"the log": said()}))

        first: Decision | None = None
        try:
            for number, (rows, reward) in enumerate(zip(offered, rewards, strict=True)):
                decision = policy.decide(rows, **_whose(settings, number))
                first = first or decision
                look(f"decision {number}", None, False)
                if reward is not None:
                    policy.learn(decision, reward)
                look(f"the reward of round {number}", None if reward is None else decision, number % SELDOM == 1)
            policy.finish()
            look("the last round", None, True)
        except _Parted:
            pass
    return seen


def expect_the_same(one: Seen, two: Seen, what: str, own: Set[str] = frozenset()) -> None:
    """Raise unless these lives showed the same: as long as both went on, and of what both were asked.

    ``own``: names that show a person's own decision, which is not kept from them.
    """
    for (when, first), (_, second) in zip(one.moments, two.moments, strict=False):
        for name in sorted(first.keys() & second.keys() - own):
            expect(first[name] == second[name], f"after {when} {name} depends on {what}, given equal releases")


def _offered(settings: Any, rounds: int) -> Floats:
    """Candidates of a few vectors that come again, most of them alike: rewards add up."""
    if fixed_arms(settings):
        return np.tile(np.eye(settings.dimension), (rounds, 1, 1))
    rng = np.random.default_rng(89)
    items = rng.standard_normal((5, settings.dimension))
    items[1:] = items[0] + 0.3 * items[1:]
    if isinstance(getattr(settings, "catalogue", None), tuple):
        items = np.array(settings.catalogue)
    items /= np.maximum(np.linalg.norm(items, axis=1, keepdims=True), 1.0) * (1 + 1e-12)
    return np.asarray(items[rng.integers(len(items), size=(rounds, 3))])


def _lives(settings: Any, rounds: int) -> dict[str, list[float | None]]:
    """Rewards of several lives: any, all 1, all the centre that is taken off, and none that ever comes."""
    bits = np.random.default_rng(88).integers(2, size=rounds).astype(np.float64)
    found: dict[str, list[float | None]] = {"bits": bits.tolist(), "ones": [1.0] * rounds, "none": [None] * rounds}
    if not getattr(settings, "local", False):
        found["centre"] = [float(getattr(settings.plan, "centre", 0.5))] * rounds
    return found


def _whose(settings: Any, number: int) -> dict[str, Any]:
    """New people at first, some of them twice in a batch; then the same few, whose visits stop counting."""
    if not needs_user(settings):
        return {}
    new = number - 2 if number % 3 == 2 else number
    return {"user": new if number < settings.rounds // 2 else number % PEOPLE}


@checks
def public_names_depend_on_releases_alone(settings: Any, world: Any) -> None:
    """All public names, texts and refusals of a policy, its book and its learner are the same, given equal releases."""
    plan = getattr(settings, "plan", None)
    if not settings.private or plan is None:
        return
    rounds = settings.rounds * 3 // 2 if hasattr(settings, "planned") else settings.rounds
    offered, lives = _offered(settings, rounds), _lives(settings, rounds)
    exact = refusal(lambda: settings.guarantee(exact_noise=True)) is None
    kinds = ([True] if exact else []) + ([False] if not isinstance(plan, SamplingPlan) else [])
    for kind in kinds:  # a simulated sample is a release that cannot be held
        one = life(settings, offered, lives["bits"], kind)
        for other in ("ones", "none", "centre"):
            if other in lives:
                expect_the_same(one, life(settings, offered, lives[other], kind, one), "rewards")
        if plan.participation.unit in PRIVATE_CONTEXTS:
            others = 0.9 * offered[:, ::-1, ::-1]
            others[-1] = offered[-1]  # which is what is asked about
            expect_the_same(one, life(settings, others, lives["ones"], kind, one), "contexts", {"Policy.open_decision"})
