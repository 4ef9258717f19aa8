"""Logged decisions in the form that policies and estimators take: what was offered, chosen and earned.

What could be chosen is an array, or is built row by row from contexts and items when it is asked for: a log of millions of
rows has far more features than fit in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats, Integers
from adaprivate.features import Featuriser

MOST_NUMBERS = 2_000_000
"""About so many features are built at once."""
LARGEST_PART = 65_536
"""So many rows are in a part at most."""


class Offers(ABC):
    """What each of some rows could choose from."""

    counts: Integers | None = None
    """How many candidates each row has; None where all have as many."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Rows (1 if all are the same), the most candidates of a row, and the length of a feature vector."""

    @abstractmethod
    def every(self) -> Floats:
        """The features (rows, candidates, length); of candidates that a row does not have, anything."""

    @abstractmethod
    def chosen(self, actions: Array) -> Floats:
        """The features (n, length) of what was chosen in each row."""

    @abstractmethod
    def part(self, rows: slice | Integers) -> Offers:
        """Some of the rows."""


@dataclass(frozen=True)
class Given(Offers):
    """Features that are there: (n, K, d), or (1, K, d) when every row offers the same."""

    features: Floats
    counts: Integers | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        rows, count, length = self.features.shape
        return rows, count, length

    def every(self) -> Floats:
        return self.features

    def chosen(self, actions: Array) -> Floats:
        if len(self.features) == 1:
            return np.asarray(self.features[0, actions])
        return np.asarray(self.features[np.arange(len(actions)), actions])

    def part(self, rows: slice | Integers) -> Offers:
        if len(self.features) == 1 and self.counts is None:
            return self
        return Given(self.features[rows], None if self.counts is None else self.counts[rows])


@dataclass(frozen=True)
class Built(Offers):
    """Features that a featuriser makes of contexts (n, |c|) and items: those of all rows, or each row's own.

    ``items``: rows (K, |z|) or positions (K,) for all; (n, K, |z|) or (n, K) for each, of which ``counts`` are there.
    """

    featuriser: Featuriser
    contexts: Floats
    items: Array
    counts: Integers | None = None

    @property
    def own(self) -> bool:
        """Whether each row has items of its own."""
        return self.items.ndim == (3 if self.items.dtype == np.float64 else 2)

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.contexts), self.items.shape[1 if self.own else 0], self.featuriser.dimension

    def every(self) -> Floats:
        items = self.items if self.own else np.broadcast_to(self.items, (len(self.contexts), *self.items.shape))
        return self.featuriser.build_many(self.contexts, items)

    def chosen(self, actions: Array) -> Floats:
        items = self.items[np.arange(len(actions)), actions] if self.own else self.items[actions]
        return self.featuriser.build_many(self.contexts, items[:, None])[:, 0]

    def part(self, rows: slice | Integers) -> Offers:
        counts = None if self.counts is None else self.counts[rows]
        return Built(self.featuriser, self.contexts[rows], self.items[rows] if self.own else self.items, counts)


class Recorded(Protocol):
    """Decisions that can be gone through in parts, as often as needed."""

    def __len__(self) -> int: ...

    @property
    def count(self) -> int:
        """How many candidates a row offers at most."""

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""

    @property
    def fixed(self) -> bool:
        """Whether every row offers the same candidates."""

    @property
    def people(self) -> int | None:
        """How many made these decisions, where they are told apart."""

    @property
    def least_propensity(self) -> float | None:
        """The smallest propensity; None where none are known."""

    @property
    def acceptance(self) -> float:
        """The share of rows that any policy is expected to agree with in replay."""

    @property
    def uniform_chance(self) -> float | None:
        """How likely shares of actions as uneven as these are under uniform choice, where no propensities are known."""

    @property
    def steady(self) -> Floats | None:
        """The propensity of each candidate, NaN where it changes; None where rows differ in what they offer."""

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[Decisions]:
        """The rows from ``start`` to ``stop``, in parts whose features can be held at once."""


class Decisions:
    """Logged decisions. ``candidates`` is (n, K, d), (1, K, d) when every row offers the same, or :class:`Offers`.

    ``users``: whose each was, as a number; None where people are not told apart.
    """

    def __init__(
        self,
        candidates: Floats | Offers,
        actions: Array,
        rewards: Floats,
        propensities: Floats | None = None,
        users: Integers | None = None,
    ) -> None:
        self.offers = candidates if isinstance(candidates, Offers) else Given(candidates)
        self.actions, self.rewards, self.propensities, self.users = actions, rewards, propensities, users
        n, rows = len(actions), self.offers.shape[0]
        check.expect(rows in (1, n), "len(candidates)", rows, f"in {{1, {n}}}")
        check.expect(len(rewards) == n, "len(rewards)", len(rewards), f"== {n}")
        if users is not None:
            check.expect(len(users) == n, "len(users)", len(users), f"== {n}")

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def candidates(self) -> Floats:
        """The features of all candidates."""
        return self.offers.every()

    @property
    def counts(self) -> Integers | None:
        """How many candidates each row has, where they differ."""
        return self.offers.counts

    @property
    def fixed(self) -> bool:
        """Whether every row offers the same candidates."""
        return isinstance(self.offers, Given) and self.offers.shape[0] == 1 and self.counts is None

    @property
    def count(self) -> int:
        """How many candidates a row offers at most."""
        return self.offers.shape[1]

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""
        return self.offers.shape[2]

    @property
    def people(self) -> int | None:
        """How many made these decisions, where they are told apart."""
        return None if self.users is None else len(np.unique(self.users))

    @property
    def least_propensity(self) -> float | None:
        """The smallest propensity; None where none are known."""
        return None if self.propensities is None else float(self.propensities.min())

    @property
    def acceptance(self) -> float:
        """The share of rows that any policy is expected to agree with in replay."""
        if self.propensities is not None:
            return float(self.propensities.min())
        return 1 / self.count

    @property
    def uniform_chance(self) -> float | None:
        """Not known here."""
        return None

    @property
    def steady(self) -> Floats | None:
        """The propensity of each candidate, NaN where it changes; None where rows differ in what they offer."""
        if self.propensities is None or not self.fixed:
            return None
        least, largest = np.full(self.count, np.inf), np.zeros(self.count)
        np.minimum.at(least, self.actions, self.propensities)
        np.maximum.at(largest, self.actions, self.propensities)
        return steady_propensities(least, largest)

    @property
    def chosen(self) -> Floats:
        """The features of what was chosen in each row."""
        return self.offers.chosen(self.actions)

    def part(self, rows: slice | Integers) -> Decisions:
        """Some of the rows."""
        known = None if self.propensities is None else self.propensities[rows]
        whose = None if self.users is None else self.users[rows]
        return Decisions(self.offers.part(rows), self.actions[rows], self.rewards[rows], known, whose)

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[Decisions]:
        """The rows from ``start`` to ``stop``, in parts whose features can be held at once."""
        size = LARGEST_PART if self.fixed else max(1, min(LARGEST_PART, MOST_NUMBERS // (self.count * self.dimension)))
        end = len(self) if stop is None else min(stop, len(self))
        for begin in range(start, end, size):
            yield self.part(slice(begin, min(begin + size, end)))


def steady_propensities(least: Floats, largest: Floats) -> Floats:
    """Propensities by their least and largest values: NaN where those differ, or were never seen."""
    return np.where((largest > 0) & (largest <= least * (1 + 1e-6)), largest, np.nan)
