"""Worlds of recorded ratings: each round one person drawn evenly, and so many distinct items that this person rated.

Rewards are known for every candidate (1 if the person liked the item), so rewards and regret are exact and nothing is
rejected. The person is not part of the features unless a feature map says so: the same features earn differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.compiled import Streams, below
from adaprivate.data.features import SCALINGS, scaled
from adaprivate.environments.protocol import draws


class RatedWorld(NamedTuple):
    """Who rated what, and the features. Everything but ``chosen`` is shared by all seeds."""

    items: Floats
    """Features, a row for each item."""
    people: Floats
    """A row for each person, multiplied into the features of every candidate; empty for none."""
    starts: npt.NDArray[np.int64]
    """Person u rated ``rated[starts[u] : starts[u + 1]]`` ..."""
    rated: npt.NDArray[np.int32]
    likes: npt.NDArray[np.int8]
    """... and liked those that are 1 here."""
    chosen: npt.NDArray[np.int64]
    """Scratch: this round's candidates, as places in ``rated``."""


@draws.of(RatedWorld)
def _draw(world: RatedWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams) -> None:
    person = below(rng, 0, world.starts.shape[0] - 1)
    first = world.starts[person]
    count = world.starts[person + 1] - first
    for a in range(candidates.shape[0]):
        fresh = False
        while not fresh:
            place = first + below(rng, 0, count)
            fresh = True
            for earlier in range(a):
                if world.chosen[earlier] == place:
                    fresh = False
        world.chosen[a] = place
        item = world.rated[place]
        for j in range(candidates.shape[1]):
            candidates[a, j] = world.items[item, j]
        if world.people.shape[0] > 0:
            for j in range(candidates.shape[1]):
                candidates[a, j] *= world.people[person, j]
        means[a] = world.likes[place]
        rewards[a] = means[a]


class Prepared(NamedTuple):
    """A world before its features are scaled."""

    items: Floats
    people: Floats
    starts: npt.NDArray[np.int64]
    rated: npt.NDArray[np.int32]
    likes: npt.NDArray[np.int8]
    base_rate: float
    """The share of likes among the people whose ratings made the features."""


def by_person(user: Array, item: Array, likes: Array) -> tuple[Array, Array, Array]:
    """(starts, rated, likes) of ratings by people numbered from 0 without gaps."""
    order = np.lexsort((item, user))
    starts = np.concatenate([[0], np.cumsum(np.bincount(user))])
    return starts.astype(np.int64), item[order].astype(np.int32), likes[order].astype(np.int8)


@dataclass(frozen=True)
class RecordedRatings:
    """Settings of a world of ratings.

    scaling: "max-norm", "unit" or "clip" (at the median norm). like: the least rating that counts as a reward of 1.
    data: the folder or file; by default the set's folder in ADAPRIVATE_DATA.
    """

    name: ClassVar[str]
    hidden_context: ClassVar[bool] = True
    dimension: int = 50
    candidates: int = 10
    scaling: str = "max-norm"
    like: float = 4.0
    data: str | None = None

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("candidates", self.candidates, at_least=1)
        check.one_of("scaling", self.scaling, SCALINGS)
        check.real("like", self.like)
        check.expect(self.data is None or isinstance(self.data, str), "data", self.data, "to be a path")

    def prepared(self, seed: int) -> Prepared:
        """People, items and features; what does not depend on the seed is shared."""
        raise NotImplementedError

    @property
    def base_rate(self) -> float:
        """How often other people, whose ratings are public here, like an item: a public centre for policies."""
        return self.prepared(0).base_rate

    def world(self, seed: int) -> RatedWorld:
        """The same people and items for every seed; who comes when, and to which items, differs."""
        found = self.prepared(seed)
        fewest = int(np.diff(found.starts).min())
        check.expect(self.candidates <= fewest, "candidates", self.candidates, f"<= {fewest}, the items each person rated")
        return RatedWorld(
            found.items, found.people, found.starts, found.rated, found.likes, np.zeros(self.candidates, np.int64)
        )


def item_features(features: Floats, dimension: int, scaling: str) -> Floats:
    """The leading columns, scaled."""
    return np.ascontiguousarray(scaled(features[:, :dimension], scaling))
