"""Recorded decisions in the form that policies and estimators take: the candidates, the choice and its reward.

A log is gone through in parts, as often as needed. Each part is a log in memory. Rewards are private. All else is public.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats, Integers
from adaprivate.features import Featuriser

MOST_NUMBERS = 2_000_000
"""Number of features that are built at once, about."""
LARGEST_PART = 65_536
"""Number of rows in a part, at most."""


class Products(NamedTuple):
    """Candidates whose features are products of contexts and items, computed when they are asked for.

    ``contexts``: (n, |c|). ``items``: rows (K, |z|) or positions (K,) for all contexts, or (n, K, |z|) or (n, K), each
    row's own. A log of millions of rows has more features than fit in memory.
    """

    featuriser: Featuriser
    contexts: Floats
    items: Array

    @property
    def own(self) -> bool:
        """Whether each row has items of its own."""
        return self.items.ndim == (3 if self.items.dtype == np.float64 else 2)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, candidates of a row, and length of a feature vector."""
        return len(self.contexts), self.items.shape[1 if self.own else 0], self.featuriser.dimension

    def every(self) -> Floats:
        """The features (n, K, d) of all candidates."""
        items = self.items if self.own else np.broadcast_to(self.items, (len(self.contexts), *self.items.shape))
        return self.featuriser.build_many(self.contexts, items)

    def chosen(self, actions: Array) -> Floats:
        """The features (n, d) of one candidate of each row."""
        items = self.items[np.arange(len(actions)), actions] if self.own else self.items[actions]
        return self.featuriser.build_many(self.contexts, items[:, None])[:, 0]

    def part(self, rows: slice | Integers) -> Products:
        """Some of the rows."""
        return Products(self.featuriser, self.contexts[rows], self.items[rows] if self.own else self.items)


class Log:
    """Recorded decisions.

    ``candidates``: features (n, K, d), or (1, K, d) where every row offers the same, or :class:`Products`.
    ``counts``: the number of candidates of each row, where they differ. Features beyond it mean nothing.
    ``users``: the user of each row as a number; None where the log does not tell them apart.
    """

    reward_range: tuple[float, float] = (0.0, 1.0)
    """The scale that rewards were recorded on. In parts they are from 0 to 1."""
    description: dict[str, object] | None = None
    """The public description of its features, where a featuriser makes them."""
    uniform_chance: float | None = None
    """How likely shares of actions as uneven as these are under uniform choice, where no propensities are known."""

    def __init__(
        self,
        candidates: Floats | Products,
        actions: Array,
        rewards: Floats,
        propensities: Floats | None = None,
        users: Integers | None = None,
        counts: Integers | None = None,
    ) -> None:
        self._offered, self.counts = candidates, counts
        self.actions, self.rewards, self.propensities, self.users = actions, rewards, propensities, users
        n, rows = len(actions), candidates.shape[0]
        check.expect(rows in (1, n), "len(candidates)", rows, f"in {{1, {n}}}")
        check.expect(len(rewards) == n, "len(rewards)", len(rewards), f"== {n}")
        if users is not None:
            check.expect(len(users) == n, "len(users)", len(users), f"== {n}")

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def fixed(self) -> bool:
        """Whether every row offers the same candidates."""
        return not isinstance(self._offered, Products) and len(self._offered) == 1 and self.counts is None

    @property
    def count(self) -> int:
        """The largest number of candidates of a row."""
        return int(self._offered.shape[1])

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""
        return int(self._offered.shape[2])

    @property
    def people(self) -> int | None:
        """The number of users, where they are told apart."""
        return None if self.users is None else len(np.unique(self.users))

    @property
    def least_propensity(self) -> float | None:
        """The smallest propensity; None where none are known."""
        return None if self.propensities is None else float(self.propensities.min())

    @property
    def acceptance(self) -> float:
        """The share of rows that any policy is expected to agree with in replay."""
        least = self.least_propensity
        return 1 / self.count if least is None else least

    @property
    def steady(self) -> Floats | None:
        """The propensity of each candidate, NaN where it changes; None where rows differ in what they offer."""
        if self.propensities is None or not self.fixed:
            return None
        least, largest = np.full(self.count, np.inf), np.zeros(self.count)
        np.minimum.at(least, self.actions, self.propensities)
        np.maximum.at(largest, self.actions, self.propensities)
        return steady_propensities(least, largest)

    def notes(self) -> list[str]:
        """Remarks on the log that a reader of its estimates should know."""
        return []

    @property
    def candidates(self) -> Floats:
        """The features of all candidates."""
        return self._offered.every() if isinstance(self._offered, Products) else self._offered

    @property
    def chosen(self) -> Floats:
        """The features of the action of each row."""
        if isinstance(self._offered, Products):
            return self._offered.chosen(self.actions)
        rows = 0 if len(self._offered) == 1 else np.arange(len(self))
        return np.asarray(self._offered[rows, self.actions])

    def part(self, rows: slice | Integers) -> Log:
        """Some of the rows."""
        offered = self._offered.part(rows) if isinstance(self._offered, Products) else self._offered
        if not (self.fixed or isinstance(offered, Products)):
            offered = offered[rows]
        optional: Any = [None if a is None else a[rows] for a in (self.propensities, self.users, self.counts)]
        return Log(offered, self.actions[rows], self.rewards[rows], *optional)

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[Log]:
        """The rows from ``start`` to ``stop``, in parts whose features can be held at once."""
        size = LARGEST_PART if self.fixed else max(1, min(LARGEST_PART, MOST_NUMBERS // (self.count * self.dimension)))
        end = len(self) if stop is None else min(stop, len(self))
        for begin in range(start, end, size):
            yield self.part(slice(begin, min(begin + size, end)))

    def whole(self) -> Log:
        """All decisions with all features in memory."""
        return self


def steady_propensities(least: Floats, largest: Floats) -> Floats:
    """Propensities by their least and largest values: NaN where those differ, or were never seen."""
    return np.where((largest > 0) & (largest <= least * (1 + 1e-6)), largest, np.nan)
