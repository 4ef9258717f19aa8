"""The public part of a policy: what it knows from releases and public features, and how it chooses.

A learner cannot reach a reward: its state may be printed, cached, sent to a browser. What choosing draws at random
is exploration; it protects nobody and may be seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Streams, borrowed, bound, entry, kernel
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


@entry
def choose(state: Any, candidates: Floats, rng: Streams, actions: Integers) -> int:
    """A choice for each of ``candidates`` (n, K, d), clipped in place; how many were clipped, -1 if one is not finite."""
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
def choose_from(state: Any, candidates: Any, rng: Streams) -> int:
    """The choice among candidates of norm at most 1, in whatever form ``select`` reads; nothing is checked or changed."""
    return select(borrowed(state), borrowed(candidates), borrowed(rng))


@entry
def learn(state: Any, features: Floats, reward: float, person: int, rng: Streams) -> None:
    """Count one event of a simulated policy."""
    visit(borrowed(state), person)
    update(borrowed(state), borrowed(features), reward, borrowed(rng))


@entry
def learn_and_choose(
    state: Any, features: Floats, reward: float, person: int, candidates: Floats, rng: Streams, actions: Integers
) -> int:
    """Count one event of a simulated policy, then choose one of ``candidates`` (K, d); see :func:`choose`."""
    clipped = clip(candidates)
    if clipped < 0:
        return -1
    visit(borrowed(state), person)
    update(borrowed(state), borrowed(features), reward, borrowed(rng))
    actions[0] = select(borrowed(state), borrowed(candidates), borrowed(rng))
    return clipped


@entry
def _counted(state: Any, features: Floats, done: Integers) -> None:
    counted(borrowed(state), borrowed(features))
    done[0] += 1


@entry
def _counted_many(state: Any, features: Floats, done: Integers) -> None:
    for row in range(features.shape[0]):
        counted(borrowed(state), borrowed(features[row]))
        done[0] += 1


@entry
def _read(state: Any, released: Floats, done: Integers) -> None:
    read(borrowed(state), borrowed(released))
    done[1] += 1


class Learner:
    """The state of a learner, and its exploration."""

    def __init__(self, state: Any, rng: Streams) -> None:
        self.state = state
        self.rng = rng
        self.done = np.zeros(2, dtype=np.int64)
        """How many rounds were counted and releases read: in step with the state, for compiled code is not interrupted."""
        self._choose: Callable[..., int] | None = None
        self._counted: Callable[..., None] | None = None

    def choose(self, candidates: Floats, actions: Integers) -> int:
        """Fill in a choice for each of ``candidates`` (n, K, d), clipped in place; see the compiled function."""
        if self._choose is None:
            self._choose = bound(choose, self.state, candidates, self.rng, actions)
        return self._choose(self.state, candidates, self.rng, actions)

    def counted(self, features: Floats) -> None:
        """A round with these features is over."""
        if self._counted is None:
            self._counted = bound(_counted, self.state, features, self.done)
        self._counted(self.state, features, self.done)

    def counted_many(self, features: Floats) -> None:
        """Rounds with these features (rows) are over."""
        _counted_many(self.state, features, self.done)

    def passed(self) -> None:
        """A round is over that does not count."""
        self.done[0] += 1

    def read(self, release: Release) -> None:
        """Take in what was released."""
        _read(self.state, release.values, self.done)

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
