"""Worlds of recorded ratings: each round one person drawn evenly, and so many distinct items that this person rated.

Rewards are known for every candidate (1 if the person liked the item), so rewards and regret are exact and nothing is
rejected. The person is not part of the features unless a feature map says so: the same features earn differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.compiled import Streams, below, kernel
from adaprivate.data.dp_svd import CALIBRATIONS, dp_svd, feature_guarantee
from adaprivate.data.features import SCALINGS, rating_matrix, scaled, truncated_svd
from adaprivate.environments.protocol import draws, rooms, visitors
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.offered import Offered, how_many, offer, offered
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose

PROFILE_RIDGE = 100.0


class RatedWorld(NamedTuple):
    """Who rated what, and the features of items. Everything but ``chosen`` is shared by all seeds."""

    items: Floats
    """Features, a row for each item."""
    people: Floats
    """A row for each person in a :class:`TastedWorld`; else empty."""
    starts: npt.NDArray[np.int64]
    """Person u rated ``rated[starts[u] : starts[u + 1]]`` ..."""
    rated: npt.NDArray[np.int32]
    likes: npt.NDArray[np.int8]
    """... and liked those that are 1 here."""
    chosen: npt.NDArray[np.int64]
    """Scratch: this round's candidates, as places in ``rated``, then who came."""


class TastedWorld(RatedWorld):
    """The same where the features of an item are multiplied by those of the person."""


@kernel
def invite(world: RatedWorld, candidates: Floats | Offered, means: Floats, rewards: Floats, rng: Streams) -> int:
    """Somebody comes, and some of what they rated is offered; who it is."""
    person = below(rng, 0, world.starts.shape[0] - 1)
    first = world.starts[person]
    count = world.starts[person + 1] - first
    for a in range(how_many(candidates)):
        fresh = False
        while not fresh:
            place = first + below(rng, 0, count)
            fresh = True
            for earlier in range(a):
                if world.chosen[earlier] == place:
                    fresh = False
        world.chosen[a] = place
        offer(candidates, a, world.items, world.rated[place])
        means[a] = world.likes[place]
        rewards[a] = means[a]
    world.chosen[how_many(candidates)] = person
    return person


@rooms.of(RatedWorld)
def _room(world: RatedWorld, count: int, dimension: int) -> Offered:
    return offered(world.items, count)


@draws.of(RatedWorld)
def _draw(world: RatedWorld, round_index: int, candidates: Offered, means: Floats, rewards: Floats, rng: Streams) -> None:
    invite(world, candidates, means, rewards, rng)


@draws.of(TastedWorld)
def _draw_tasted(
    world: TastedWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams
) -> None:
    person = invite(world, candidates, means, rewards, rng)
    for a in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            candidates[a, j] *= world.people[person, j]


@visitors.of(RatedWorld)
@visitors.of(TastedWorld)
def _visitor(world: RatedWorld, round_index: int) -> int:
    return int(world.chosen[world.chosen.shape[0] - 1])


class Split(NamedTuple):
    """Ratings, and which of them make the features and which are offered; people and items are numbered from 0."""

    user: Array
    item: Array
    rating: Floats
    training: Array
    offered: Array
    profile: Array
    """Further ratings of the people to whom items are offered, public where features depend on them."""

    @property
    def people(self) -> int:
        """How many, in all parts."""
        return int(self.user.max()) + 1

    @property
    def items(self) -> int:
        """How many items have features."""
        return int(self.item.max()) + 1


class Prepared(NamedTuple):
    """A world, and the share of likes among the people whose ratings made its features."""

    world: RatedWorld
    base_rate: float


@dataclass(frozen=True)
class RecordedRatings:
    """Settings of a world of ratings.

    features: "svd" of other people's ratings, taken to be public, or "dp-svd": the same under differential privacy at
    (feature_epsilon, feature_delta) for each of those people, with noise of its own for every seed.
    scaling: "max-norm", "unit" or "clip" (at the median norm). like: the least rating that counts as a reward of 1.
    data: the folder or file; by default the set's folder in ADAPRIVATE_DATA.
    """

    name: ClassVar[str]
    recorded: ClassVar[bool] = True
    maps: ClassVar[tuple[str, ...]] = ("svd", "dp-svd")
    midpoint: ClassVar[float]
    """Of the scale of ratings: a public constant to take off where their mean is private."""
    dimension: int = 50
    candidates: int = 10
    features: str = "svd"
    scaling: str = "max-norm"
    like: float = 4.0
    feature_epsilon: float = 1.0
    feature_delta: float = 1e-5
    feature_calibration: str = "exact"
    data: str | None = None

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("candidates", self.candidates, at_least=1)
        check.one_of("features", self.features, self.maps)
        check.one_of("scaling", self.scaling, SCALINGS)
        check.real("like", self.like)
        check.real("feature_epsilon", self.feature_epsilon, above=0)
        check.probability("feature_delta", self.feature_delta)
        check.one_of("feature_calibration", self.feature_calibration, CALIBRATIONS)
        check.expect(self.data is None or isinstance(self.data, str), "data", self.data, "to be a path")

    def path(self) -> str:
        """Where the ratings are."""
        raise NotImplementedError

    def split(self, path: str) -> Split:
        """The ratings at this path, divided."""
        raise NotImplementedError

    @property
    def base_rate(self) -> float:
        """How often the people whose ratings are public like an item: a centre for policies; 1/2 where nobody's are."""
        return _prepared(self, self.path(), 0).base_rate

    def feature_guarantee(self) -> Guarantee | None:
        """What people whose ratings made the features are promised; None where their ratings are public."""
        if self.features != "dp-svd":
            return None
        return feature_guarantee(self.feature_epsilon, self.feature_delta, calibration=self.feature_calibration)

    def world(self, seed: int) -> RatedWorld:
        """The same people and items for every seed; who comes when, and to which items, differs."""
        found = _prepared(self, self.path(), seed if self.features == "dp-svd" else 0).world
        fewest = int(np.diff(found.starts).min())
        check.expect(self.candidates <= fewest, "candidates", self.candidates, f"<= {fewest}, the items each person rated")
        return found._replace(chosen=np.zeros(self.candidates + 1, np.int64))


@lru_cache(maxsize=128)
def _prepared(settings: RecordedRatings, path: str, seed: int) -> Prepared:
    split = settings.split(path)
    check.whole("dimension", settings.dimension, at_most=split.items)
    user, item, rating = split.user[split.training], split.item[split.training], split.rating[split.training]
    private = settings.features == "dp-svd"
    centre = settings.midpoint if private else float(rating.mean())
    matrix = rating_matrix(user, item, rating, split.people, split.items, centre)
    if private:
        vectors = dp_svd(
            matrix,
            settings.dimension,
            epsilon=settings.feature_epsilon,
            delta=settings.feature_delta,
            noise=SimulatedReplicas([(seed, Purpose.FEATURE_NOISE)]),
            calibration=settings.feature_calibration,
        ).features
    else:
        vectors = truncated_svd(matrix, settings.dimension)
    drawn, person = np.unique(split.user[split.offered], return_inverse=True)
    offered, liked = split.item[split.offered], split.rating[split.offered] >= settings.like
    order = np.lexsort((offered, person))
    starts = np.concatenate([[0], np.cumsum(np.bincount(person))]).astype(np.int64)
    rated, likes = offered[order].astype(np.int32), liked[order].astype(np.int8)
    if settings.features == "user-item":
        items = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300) * np.sqrt(split.items)
        people = _tastes(split, items, drawn, centre)
        longest = np.linalg.norm(people[person[order]] * items[rated], axis=1).max()
        items = items / (longest * (1 + 1e-12))
    else:
        items, people = scaled(vectors, settings.scaling), np.zeros((0, 0))
    kind = TastedWorld if settings.features == "user-item" else RatedWorld
    world = kind(np.ascontiguousarray(items), people, starts, rated, likes, np.zeros(0, np.int64))
    return Prepared(world, 0.5 if private else float((rating >= settings.like).mean()))


def _tastes(split: Split, items: Floats, drawn: Array, centre: float) -> Floats:
    """Each drawn person's ridge regression of profile ratings on item vectors."""
    d = items.shape[1]
    tastes = np.zeros((len(drawn), d))
    mine = split.profile & np.isin(split.user, drawn)
    user, item, residual = split.user[mine], split.item[mine], split.rating[mine] - centre
    order = np.argsort(user, kind="stable")
    edges = np.searchsorted(user[order], drawn, side="left"), np.searchsorted(user[order], drawn, side="right")
    for u, (first, last) in enumerate(zip(*edges, strict=True)):
        X = items[item[order[first:last]]]
        tastes[u] = np.linalg.solve(X.T @ X + PROFILE_RIDGE * np.eye(d), X.T @ residual[order[first:last]])
    return tastes
