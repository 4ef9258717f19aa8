"""The public part of a policy: what it knows from releases and public features, and how it chooses.

A learner cannot reach a reward: its state may be printed, cached, sent to a browser. What choosing draws at random
is exploration; it protects nobody and may be seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Streams, borrowed, entry, kernel
from adaprivate.held import Held, taken
from adaprivate.mechanisms import packing
from adaprivate.mechanisms.book import Release
from adaprivate.policies.core.dispatch import counted, read, select, update, visit
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, copied

LONGEST = 1.0 + 1e-9
"""Squared norms up to this are left alone: rounding of a unit vector. Exact sums clip it in integers."""


@kernel
def clip(candidates: Floats) -> int:
    """Clip rows to norm 1 in place; how many were longer, or -1 if one is not finite."""
    clipped = 0
    for a in range(candidates.shape[0]):
        square = 0.0
        for j in range(candidates.shape[1]):
            square += candidates[a, j] * candidates[a, j]
        if not square <= 1e300:  # infinity and NaN too
            return -1
        if square > LONGEST:
            scale = 1.0 / np.sqrt(square)
            clipped += 1
            for j in range(candidates.shape[1]):
                candidates[a, j] *= scale
    return clipped


def within_reach(vectors: Floats) -> Floats:
    """The vectors, those longer than 1 scaled to norm 1, as decisions clip them."""
    square = (vectors * vectors).sum(axis=-1, keepdims=True)
    return np.asarray(np.where(square > LONGEST, vectors / np.sqrt(np.maximum(square, 1e-300)), vectors))


@kernel
def _chosen(state: Any, candidates: Floats, rng: Streams, actions: Integers) -> int:
    clipped = 0
    for row in range(candidates.shape[0]):
        longer = clip(candidates[row])
        if longer < 0:
            return -1
        clipped += longer
    for row in range(candidates.shape[0]):
        actions[row] = select(borrowed(state), borrowed(candidates[row]), borrowed(rng))
    return clipped


@entry
def choose(state: Any, candidates: Floats, rng: Streams, actions: Integers) -> int:
    """A choice for each of ``candidates`` (n, K, d), clipped in place; how many were clipped, -1 if one is not finite."""
    return _chosen(state, candidates, rng, actions)


@entry
def choose_from(state: Any, candidates: Any, rng: Streams) -> int:
    """The choice among candidates of norm at most 1, in whatever form ``select`` reads; nothing is checked or changed."""
    return select(borrowed(state), borrowed(candidates), borrowed(rng))


@entry
def learn(state: Any, features: Floats, reward: float, person: int, rng: Streams) -> None:
    """Count one event of a simulated policy."""
    visit(borrowed(state), person)
    update(borrowed(state), borrowed(features), reward, borrowed(rng))


class Serving(NamedTuple):
    """What a policy in use hands to compiled code at every call; it is held (:mod:`adaprivate.held`)."""

    state: Any
    rng: Streams
    action: Integers
    """Room for the choice."""
    done: Integers
    """How many rounds were counted and releases read: in step with the state, for compiled code is not interrupted."""


@entry
def choose_many(held: Any, candidates: Floats, actions: Integers) -> int:
    """:func:`choose` by what is held."""
    use = taken(held)
    return _chosen(use.state, candidates, use.rng, actions)


@entry
def learn_and_choose(held: Any, features: Floats, reward: float, person: int, candidates: Floats) -> int:
    """Count one event of a simulated policy, then choose into ``action`` one of ``candidates`` (K, d), if there are any.

    They are clipped in place; how many were, or -1 if one is not finite, and then nothing is counted.
    """
    use = taken(held)
    clipped = clip(candidates)
    if clipped >= 0:
        visit(use.state, person)
        update(use.state, borrowed(features), reward, use.rng)
        if candidates.shape[0] > 0:
            use.action[0] = select(use.state, borrowed(candidates), use.rng)
    return clipped


@entry
def count_and_choose(held: Any, features: Floats, candidates: Floats) -> int:
    """The same for a learner, which counts a round by its features and always chooses."""
    use = taken(held)
    clipped = clip(candidates)
    if clipped >= 0:
        counted(use.state, borrowed(features))
        use.done[0] += 1
        use.action[0] = select(use.state, borrowed(candidates), use.rng)
    return clipped


@entry
def _count_many(held: Any, features: Floats) -> None:
    use = taken(held)
    for row in range(features.shape[0]):
        counted(use.state, borrowed(features[row]))
        use.done[0] += 1


@entry
def _read(held: Any, released: Floats) -> None:
    use = taken(held)
    read(use.state, borrowed(released))
    use.done[1] += 1


class InUse:
    """A state and its random streams, held for compiled code for as long as they are the same."""

    def __init__(self, state: Any, rng: Streams) -> None:
        self.serving = Serving(state, rng, np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64))
        self.nothing = np.zeros((0, 1))
        """No candidates: a round is counted, and nothing chosen."""
        self._held = Held(self.serving)
        self._bound: dict[Callable[..., Any], Callable[..., Any]] = {}

    def now(self, state: Any, rng: Streams) -> Self:
        """This, with the state and the streams as they are now."""
        if self.serving.state is not state or self.serving.rng is not rng:
            self.serving = self.serving._replace(state=state, rng=rng)
            self._held, self._bound = Held(self.serving), {}
        return self

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call this entry, with arguments of the same types every time."""
        found = self._bound.get(function)
        if found is None:
            found = self._bound[function] = self._held.bound(function, *arguments)
        return found(self._held.address, *arguments)

    def prepare(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Compile it now for such arguments, or fetch it from the cache."""
        self._bound[function] = self._held.bound(function, *arguments)


class Learner:
    """The state of a learner, and its exploration."""

    def __init__(self, state: Any, rng: Streams) -> None:
        self.state = state
        self.rng = rng
        self._use = InUse(state, rng)

    @property
    def done(self) -> Integers:
        """How many rounds were counted and releases read."""
        return self._use.serving.done

    def choose(self, candidates: Floats, actions: Integers) -> int:
        """Fill in a choice for each of ``candidates`` (n, K, d), clipped in place; see the compiled function."""
        clipped: int = self._use.now(self.state, self.rng).run(choose_many, candidates, actions)
        return clipped

    def counted(self, features: Floats) -> None:
        """A round with these features is over."""
        self._use.now(self.state, self.rng).run(_count_many, features[None])

    def counted_and_choose(self, features: Floats, candidates: Floats) -> tuple[int, int]:
        """The same, then the choice among ``candidates`` (K, d), and how many were clipped; neither where that is -1."""
        use = self._use.now(self.state, self.rng)
        clipped: int = use.run(count_and_choose, features, candidates)
        return use.serving.action.item(), clipped

    def counted_many(self, features: Floats) -> None:
        """Rounds with these features (rows) are over."""
        self._use.now(self.state, self.rng).run(_count_many, np.ascontiguousarray(features))

    def passed(self) -> None:
        """A round is over that does not count."""
        self.done[0] += 1

    def read(self, release: Release) -> None:
        """Take in what was released."""
        self._use.now(self.state, self.rng).run(_read, np.ascontiguousarray(release.values, dtype=np.float64))

    def propensities(self, candidates: Floats, draws: int = 512) -> Propensities:
        """The probability of each of ``candidates`` (n, K, d), of norm at most 1; nothing changes."""
        return choice_probabilities(self.state, candidates, draws=draws)

    def copy(self) -> Self:
        """One that shares nothing with this one."""
        return type(self)(copied(self.state), self.rng.copy())

    def to_bytes(self) -> bytes:
        """Everything: public."""
        return packing.to_bytes({"state": type(self.state).__qualname__, "parts": self.state, "rng": self.rng})

    def restored(self, data: bytes) -> Self:
        """The learner that :meth:`to_bytes` wrote, of the same settings as this one."""
        stored = packing.from_bytes(data)
        same = isinstance(stored, dict) and stored.get("state") == type(self.state).__qualname__
        check.expect(same, "data", "something else", f"to be a learner with a {type(self.state).__name__}")
        return type(self)(packing.fitted(self.state, stored["parts"]), packing.fitted(self.rng, stored["rng"]))
