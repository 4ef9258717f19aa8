"""Deciding: what a worker does with the learner of the last closed batch. Public from end to end: no reward is in reach.

Exploration draws from a stream that a keyed hash of the round starts, so the same round of the same release is decided
alike by whichever worker, and no two processes share a random state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats, Integers
from adaprivate.compiled import Streams, borrowed, entry, kernel
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.policies.core.dispatch import select
from adaprivate.policies.core.linear import OnlineOptimisticState, OptimisticState
from adaprivate.policies.core.propensities import choice_probabilities, copied
from adaprivate.policies.noise_aware.state import THOMPSON
from adaprivate.runtime.inputs import person_of
from adaprivate.runtime.learner import Learner, within_reach
from adaprivate.service.bandit import Bandit, lengthened, mixed, uniforms
from adaprivate.service.packed import packed, unpacked

MOST_CANDIDATES = 10_000
DRAWS = 512
"""Propensities that cannot be computed are counted in so many draws."""
LEAST_LIKELY = 1e-9
"""A choice that was made is stated to be at least so likely, where the integral underflows."""
_U = np.uint64


@kernel
def _spread(word: np.uint64) -> np.uint64:
    """The finaliser of splitmix64."""
    word = (word ^ (word >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> _U(27))) * _U(0x94D049BB133111EB)
    return word ^ (word >> _U(31))


@kernel
def start_streams(seed: np.uint64, rng: Streams) -> None:
    """Start every stream from this seed, as splitmix64 continues it."""
    word = seed
    for row in range(rng.shape[0]):
        for place in range(4):
            word += _U(0x9E3779B97F4A7C15)
            rng[row, place] = _spread(word)


@entry
def choose_rounds(
    state: Any, candidates: Floats, starts: Integers, seeds: Streams, rng: Streams, actions: Integers
) -> None:
    """A choice for each round: round i has the candidates from ``starts[i]`` up to ``starts[i + 1]``, and a seed."""
    for i in range(actions.shape[0]):
        start_streams(seeds[i], rng)
        offered = candidates[starts[i] : starts[i + 1]]
        actions[i] = select(borrowed(state), borrowed(offered), borrowed(rng))


@dataclass(frozen=True)
class Catalogue:
    """The public items of a bandit. Positions are never used again, and features never change."""

    number: int
    """How often the items were replaced."""
    ids: tuple[str, ...]
    """By position, those no longer offered too."""
    features: Floats
    positions: dict[str, int]
    """Of the items that are offered, in order."""

    @property
    def active(self) -> Integers:
        """The positions of the items that are offered."""
        return np.fromiter(self.positions.values(), dtype=np.int64, count=len(self.positions))


@dataclass(frozen=True)
class Ask:
    """One decision to be made; ``candidates``: ids of items, or ids with features, or None for all items."""

    candidates: Sequence[str] | Sequence[tuple[str, Sequence[float]]] | None = None
    context: dict[str, Any] | None = None
    user: str | int | None = None
    propensity: bool = True


class Prepared(NamedTuple):
    """An ask that was checked: positions of items, or features of their own; the context; whose; what to say."""

    positions: Integers | None
    names: tuple[str, ...] | None
    features: Floats | None
    context: Floats | None
    person: int
    propensity: bool
    clipped: int

    @property
    def offered(self) -> int:
        """How many candidates there are."""
        return len(self.positions) if self.positions is not None else len(self.features)  # type: ignore[arg-type]


class Decided(NamedTuple):
    """A decision that was stored. ``keep``: how likely a client tells the truth, where clients flip; else None."""

    decision_id: str
    item: str
    version: int
    propensity: float | None
    round: int
    holdback: bool
    keep: float | None = None


def prepared(bandit: Bandit, catalogue: Catalogue, ask: Ask) -> Prepared:
    """This ask, checked against what is public."""
    person = person_of(ask.user, bandit.needs_user, bandit.keys.people, bandit.spec.policy)
    context, clipped = None, 0
    featuriser = bandit.featuriser
    if featuriser is not None:
        context, clipped = featuriser.context_vector(ask.context)
    else:
        check.expect(ask.context is None, "context", "given", "not to be given: this bandit has no featuriser")
    offered = ask.candidates
    if offered is None:
        check.expect(bool(catalogue.positions), "candidates", None, "to be given: this bandit has no items")
        return Prepared(catalogue.active, None, None, context, person, ask.propensity, clipped)
    count = len(offered)
    check.expect(1 <= count <= MOST_CANDIDATES, "len(candidates)", count, f">= 1 and <= {MOST_CANDIDATES}")
    if isinstance(offered[0], str):
        positions = _positions(catalogue, cast(Sequence[str], offered))
        return Prepared(positions, None, None, context, person, ask.propensity, clipped)
    described = cast(Sequence[tuple[str, Sequence[float]]], offered)
    names = tuple(name for name, _ in described)
    length = bandit.dimension if featuriser is None else featuriser.item_length
    _expect_different(names)
    try:
        rows = np.array([features for _, features in described], dtype=np.float64)
    except (TypeError, ValueError):
        rows = np.zeros(0)
    if rows.shape != (count, length):
        short = next((name for name, features in described if len(features) != length), names[0])
        raise check.InputError(f"Expected candidates[{short!r:.60}].features to have {length} numbers.")
    finite = (np.abs(rows) <= 1e150).all(axis=1)  # NaN too
    if not finite.all():
        raise check.InputError(f"Expected candidates[{names[int(np.argmin(finite))]!r:.60}].features to be finite.")
    if featuriser is not None:
        one_hot = featuriser.items.kind == "one-hot"
        check.expect(not one_hot, "candidates", "with features", "to be ids of items: those of this bandit are one-hot")
        rows, longer = featuriser.item_vectors(rows)
        clipped += longer
    return Prepared(None, names, rows, context, person, ask.propensity, clipped)


def _positions(catalogue: Catalogue, ids: Sequence[str]) -> Integers:
    try:
        found = [catalogue.positions[name] for name in ids]
    except KeyError as error:
        raise check.InputError(f"Expected candidates={error.args[0]!r:.60} to be an item of this bandit.") from None
    if len(set(found)) < len(found):
        _expect_different(ids)
    return np.array(found, dtype=np.int64)


def _expect_different(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise check.InputError(f"Expected candidates={name!r:.60} to be there once.")
        seen.add(name)


class Snapshot:
    """The learner of one version, ready to choose. For one thread at a time."""

    def __init__(self, bandit: Bandit, version: int, counted: int, plan: bytes, learner: bytes) -> None:
        self.bandit, self.version, self.counted = bandit, version, counted
        self.plan = plan_from_bytes(plan)
        self.settings = lengthened(bandit.settings, self.plan).under(self.plan)
        self._rng: Streams = np.zeros((2, 16), dtype=np.uint64)
        self.state = Learner(self.settings.learner(), self._rng).restored(learner).state
        self._words = bandit.keys.words("exploration")
        self._at_random = bandit.keys.words("random")
        names = self.state.scalars.dtype.names or ()
        self._counts_open = "open" in names
        self._draws = _draws(self.state)
        self.keep: float | None = self.plan.flip_law.keep if bandit.spec.local else None

    def warm_up(self) -> None:
        """Compile what the first decision would wait for, or fetch it from the cache. On a copy: nothing changes."""
        state = copied(self.state)
        one = np.zeros((1, self.bandit.dimension))
        starts, rounds = np.array([0, 1], dtype=np.int64), np.zeros(1, dtype=np.uint64)
        choose_rounds(state, one, starts, rounds, self._rng.copy(), np.zeros(1, dtype=np.int64))

    @property
    def mean(self) -> Floats:
        """The parameter as it is estimated from all releases; an intercept comes last where there is one."""
        return np.asarray(self.state.root @ self.state.coordinates)

    def choose(self, candidates: Floats, starts: Integers, rounds: Integers) -> Integers:
        """A choice for each of these rounds of the policy's stream, which follow one another."""
        if self._counts_open and len(rounds):
            self.state.scalars["open"] = max(int(rounds[0]) - self.counted, 0)
        actions = np.zeros(len(rounds), dtype=np.int64)
        seeds = mixed(self._words, rounds.astype(np.uint64))
        choose_rounds(self.state, candidates, starts, seeds, self._rng, actions)
        return actions

    def choose_at_random(self, counts: Integers, rounds: Integers) -> Integers:
        """A candidate by a public coin, for each of these rounds of the bandit."""
        drawn = uniforms(self._at_random, rounds.astype(np.uint64)) * counts
        return np.asarray(drawn, dtype=np.int64)

    def propensities(self, candidates: Floats, starts: Integers, next_round: int, first_own: int) -> Floats:
        """How likely the policy is to choose each row of ``candidates``, asked for at ``next_round`` of its stream.

        ``first_own``: the first of these asks that is the policy's; until then no further decision of it is open.
        """
        found = np.zeros(len(candidates))
        waiting = max(next_round - self.counted, 0)
        alone = first_own + 1 if self._counts_open and waiting == 0 else 0
        counts = np.diff(starts)
        singly = len(counts) if self._draws else min(alone, len(counts))  # what is drawn must not depend on the others
        parts = [np.array([row]) for row in range(singly)]
        parts += [singly + np.flatnonzero(counts[singly:] == count) for count in np.unique(counts[singly:])]
        for part in parts:
            if self._counts_open:
                self.state.scalars["open"] = 0 if part[0] < alone else max(waiting, 1)
            places = starts[part][:, None] + np.arange(counts[part[0]])
            number = next_round + int(part[0])  # estimates err afresh in every round
            found[places] = choice_probabilities(self.state, candidates[places], draws=DRAWS, seed=number).probability
        return found


def _draws(state: Any) -> bool:
    """Whether choices are drawn, so that their probabilities have to be integrated; else each is certain."""
    plan = getattr(state, "plan", None)
    if plan is not None and "rule" in (plan.dtype.names or ()):
        return bool(plan["rule"][0] == THOMPSON or plan["sampled"][0] > 0)
    return not isinstance(state, OptimisticState | OnlineOptimisticState) or bool(state.scalars["gamma"][0] > 0)


class Choices(NamedTuple):
    """What was chosen in a group of rounds, and what is stored of it."""

    actions: Integers
    streams: Array
    propensities: Floats
    data: bytes
    policy_count: int
    clipped: int


def features_of(bandit: Bandit, catalogue: Catalogue, asks: Sequence[Prepared]) -> tuple[Floats, Integers, int]:
    """The features of all candidates of all asks, one below the other, where each ask's begin, how many were clipped."""
    starts = np.zeros(len(asks) + 1, dtype=np.int64)
    np.cumsum([ask.offered for ask in asks], out=starts[1:])
    plain = all(ask.positions is not None and ask.context is None for ask in asks)
    if plain and bandit.featuriser is None:
        return catalogue.features[np.concatenate([ask.positions for ask in asks])], starts, 0
    parts: list[Floats] = []
    for ask in asks:
        rows: Any = ask.features if ask.positions is None else catalogue.features[ask.positions]
        parts.append(rows if bandit.featuriser is None else bandit.featuriser.build(ask.context, rows))
    together: Floats = np.concatenate(parts)
    squares = (together * together).sum(axis=1)
    clipped = int((squares > 1 + 1e-9).sum())
    return np.ascontiguousarray(within_reach(together) if clipped else together), starts, clipped


def chosen(snapshot: Snapshot, catalogue: Catalogue, asks: Sequence[Prepared], first: int, first_policy: int) -> Choices:
    """Decide these asks as rounds ``first``, ... of the bandit, of which those of the policy begin at ``first_policy``."""
    bandit = snapshot.bandit
    candidates, starts, clipped = features_of(bandit, catalogue, asks)
    rounds = np.arange(first, first + len(asks), dtype=np.int64)
    people = np.array([ask.person for ask in asks], dtype=np.int64)
    streams = bandit.streams_of(rounds, people)
    counts = np.diff(starts)
    actions = np.zeros(len(asks), dtype=np.int64)
    own = np.flatnonzero(streams == 0)
    held = np.flatnonzero(streams)
    propensities = np.full(len(asks), np.nan)
    asked = np.array([ask.propensity for ask in asks])
    if asked.any():
        odds = snapshot.propensities(candidates, starts, first_policy, int(own[0]) if len(own) else len(asks))
    if len(held):
        actions[held] = snapshot.choose_at_random(counts[held], rounds[held])
        places = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in own]) if len(own) else np.zeros(0, np.int64)
        own_starts = np.concatenate([[0], np.cumsum(counts[own])])
        own_candidates = candidates[places]
    else:
        own_candidates, own_starts = candidates, starts
    if len(own):
        numbers = np.arange(first_policy, first_policy + len(own), dtype=np.int64)
        actions[own] = snapshot.choose(own_candidates, own_starts, numbers)
    if asked.any():
        share = bandit.spec.holdback
        mixture = share / counts + (1 - share) * odds[starts[:-1] + actions]
        propensities[asked] = np.clip(mixture, LEAST_LIKELY, 1.0)[asked]
    data = _stored(bandit, asks, actions, streams, propensities, counts)
    return Choices(actions, streams, propensities, data, len(own), clipped + sum(ask.clipped for ask in asks))


def _stored(
    bandit: Bandit, asks: Sequence[Prepared], actions: Integers, streams: Array, propensities: Floats, counts: Integers
) -> bytes:
    """What is kept of a group of decisions: all that is needed to see again what was offered and chosen."""
    arrays: dict[str, Array] = {
        "actions": actions.astype(np.int32),
        "streams": streams.astype(np.int8),
        "propensities": propensities,
        "counts": counts.astype(np.int32),
        "positions": np.concatenate(
            [np.full(ask.offered, -1) if ask.positions is None else ask.positions for ask in asks]
        ).astype(np.int32),
    }
    plain: dict[str, Any] = {}
    own = [ask for ask in asks if ask.positions is None]
    if own:
        arrays["features"] = np.concatenate([ask.features for ask in own])
        plain["names"] = [name for ask in own for name in ask.names or ()]
    if asks[0].context is not None:
        arrays["contexts"] = np.array([ask.context for ask in asks])
    if bandit.needs_user:
        arrays["people"] = np.array([ask.person for ask in asks], dtype=np.int64)
    return packed(arrays, **plain)


class Group(NamedTuple):
    """A stored group of decisions, unpacked: one entry a decision, but for candidates, which lie one below the other."""

    actions: Array
    streams: Array
    propensities: Array
    starts: Integers
    positions: Array
    """Of every candidate; -1 for those that brought features of their own."""
    names: list[str]
    """Of those."""
    features: Array
    contexts: Array | None
    people: Array

    def chosen_items(self, catalogue_ids: Sequence[str], indices: Integers) -> list[str]:
        """The ids of what was chosen in these decisions."""
        places = self.starts[indices] + self.actions[indices]
        positions = self.positions[places].tolist()
        if self.names:
            own = (self._own_before[places]).tolist()
            return [catalogue_ids[p] if p >= 0 else self.names[o] for p, o in zip(positions, own, strict=True)]
        return [catalogue_ids[p] for p in positions]

    @property
    def _own_before(self) -> Integers:
        """How many candidates with features of their own lie before each one."""
        own = self.positions < 0
        return np.asarray(np.cumsum(own) - own, dtype=np.int64)

    def chosen_features(self, bandit: Bandit, catalogue: Catalogue, indices: Integers) -> Floats:
        """The features of what was chosen in these decisions, as they were made."""
        if bandit.featuriser is None and not self.names:
            return np.asarray(catalogue.features[self.positions[self.starts[indices] + self.actions[indices]]])
        rows = [self.candidates(bandit, catalogue, index)[self.actions[index]] for index in indices.tolist()]
        return np.array(rows).reshape(len(rows), bandit.dimension)

    def candidates(self, bandit: Bandit, catalogue: Catalogue, index: int) -> Floats:
        """The features of all candidates of a decision, as it was made."""
        begin, end = int(self.starts[index]), int(self.starts[index + 1])
        positions = self.positions[begin:end]
        if positions[0] >= 0:
            rows = catalogue.features[positions]
        else:
            own = int((self.positions[:begin] < 0).sum())
            rows = np.asarray(self.features[own : own + end - begin])
        if bandit.featuriser is not None:
            context = None if self.contexts is None else self.contexts[index]
            rows = bandit.featuriser.build(context, rows)
        return np.ascontiguousarray(within_reach(rows))


def group_of(data: bytes) -> Group:
    """The decisions that a row holds."""
    arrays, plain = unpacked(data)
    starts = np.zeros(len(arrays["counts"]) + 1, dtype=np.int64)
    np.cumsum(arrays["counts"], out=starts[1:])
    return Group(
        arrays["actions"],
        arrays["streams"],
        arrays["propensities"],
        starts,
        arrays["positions"],
        plain.get("names", []),
        arrays.get("features", np.zeros((0, 0))),
        arrays.get("contexts"),
        arrays.get("people", np.full(len(arrays["actions"]), -1)),
    )
