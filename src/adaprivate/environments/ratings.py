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

from adaprivate import check, data
from adaprivate.check import Array, Floats, option
from adaprivate.compiled import Streams, below, kernel
from adaprivate.data.item_features import (
    CALIBRATIONS,
    SCALINGS,
    dp_svd,
    feature_guarantee,
    rating_matrix,
    scaled,
    truncated_svd,
)
from adaprivate.environments.protocol import draws, rooms, visitors
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.offered import Offered, how_many, offer, offered
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose

PROFILE_RIDGE = 100.0


class RatedWorld(NamedTuple):
    """Who rated what, and the features of items. Everything but ``chosen`` is shared by all seeds."""

    items: Floats  # Features, a row for each item.
    people: Floats  # A row for each person in a :class:`TastedWorld`; else empty.
    starts: npt.NDArray[np.int64]  # Person u rated ``rated[starts[u] : starts[u + 1]]`` ...
    rated: npt.NDArray[np.int32]
    likes: npt.NDArray[np.int8]  # ... and liked those that are 1 here.
    chosen: npt.NDArray[np.int64]  # Scratch: this round's candidates, as places in ``rated``, then who came.


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
    profile: Array  # Further ratings of the people to whom items are offered, public where features depend on them.

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
    dimension: int = option(50, check.whole, at_least=1)
    candidates: int = option(10, check.whole, at_least=1)
    features: str = "svd"
    scaling: str = option("max-norm", check.one_of, options=SCALINGS)
    like: float = option(4.0, check.real)
    feature_epsilon: float = option(1.0, check.real, above=0)
    feature_delta: float = option(1e-5, check.probability)
    feature_calibration: str = option("exact", check.one_of, options=CALIBRATIONS)
    data: str | None = None

    def __post_init__(self) -> None:
        check.options(self)
        check.one_of("features", self.features, self.maps)
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


@lru_cache(maxsize=2)
def _split_jester(path: str) -> Split:
    found = data.ratings(path)
    check.expect(found.kind == "jester", "data", path, "to be Jester's ratings")
    user, item, rating = found.matrix()
    complete = np.bincount(user) == int(item.max()) + 1
    check.expect(bool(complete.any()) and not bool(complete.all()), "data", path, "to hold people who rated all and others")
    offered = complete[user]
    return Split(user, item, rating, ~offered, offered, np.zeros_like(offered))


@dataclass(frozen=True)
class Jester(RecordedRatings):
    """People who rated every joke of Jester; ``candidates`` jokes a round, reward 1 for a rating of at least 4.

    Features of jokes are made of the ratings of everyone else: minus their mean, missing ones 0, the leading ``dimension``
    columns of V S of the singular value decomposition.
    """

    __doc__ = f"{__doc__}\n\n{RecordedRatings.__doc__}"
    name: ClassVar[str] = "jester"
    midpoint: ClassVar[float] = 0.0

    def path(self) -> str:
        return str(data.folder(("jester-1", "jester"), self.data))

    def split(self, path: str) -> Split:
        return _split_jester(path)


HELD_OUT = 20
"""People with fewer ratings held out are not drawn."""
SPLIT_SEED = 0


@lru_cache(maxsize=4)
def _split_movielens(path: str, least_ratings: int, films: int | None) -> Split:
    found = data.ratings(path)
    check.expect(found.kind == "movielens", "data", path, "to be MovieLens ratings")
    user, item, rating = found.matrix()
    rng = np.random.default_rng(SPLIT_SEED)
    people = int(user.max()) + 1
    training = np.zeros(people, dtype=bool)
    training[rng.permutation(people)[: people // 2]] = True
    known = np.bincount(item[training[user]], minlength=int(item.max()) + 1) >= least_ratings
    known[films:] &= films is None
    inside = known[item]
    check.expect(bool(inside.any()), "least_ratings", least_ratings, "small enough for a film to remain")
    user, item, rating = user[inside], (np.cumsum(known) - 1)[item[inside]], rating[inside]
    order = np.lexsort((rng.random(len(user)), user))
    counts = np.bincount(user, minlength=people)
    place = np.empty(len(user), dtype=np.int64)
    place[order] = np.arange(len(user)) - (np.cumsum(counts) - counts)[user[order]]
    held_out = ~training[user] & (2 * place < counts[user])
    drawn = np.bincount(user[held_out], minlength=people) >= HELD_OUT
    check.expect(bool(drawn.any()), "data", path, f"to hold people with {HELD_OUT} ratings held out")
    return Split(user, item, rating, training[user], held_out & drawn[user], ~training[user] & ~held_out)


@dataclass(frozen=True)
class MovieLens(RecordedRatings):
    """Films that people of a MovieLens set rated; ``candidates`` films a round, reward 1 for at least 4 of 5 stars.

    The films are those whose ratings by this person were held out. Half of the people (a fixed permutation) train the
    features: films with at least ``least_ratings`` of their ratings, minus their mean, missing ones 0, the leading columns
    of V S. Of everyone else's ratings of these films one half is the profile, the other half is held out; people with at
    least 20 held out are drawn evenly. With ``features="user-item"`` the vector of a candidate is p * v, divided by the
    largest norm: v the row of V, p the person's ridge fit to the profile. Profiles are taken to be public then: such
    features protect the values of rewards only.

    The list of films that anyone rated is taken to be public, also where ratings are private.
    least_ratings: by training people, for a film to be known; it must be 0 where their ratings are private. films: only
    so many, those with the smallest numbers.
    """

    __doc__ = f"{__doc__}\n\n{RecordedRatings.__doc__}"
    name: ClassVar[str] = "movielens"
    maps: ClassVar[tuple[str, ...]] = ("svd", "dp-svd", "user-item")
    midpoint: ClassVar[float] = 3.0
    least_ratings: int = option(20, check.whole, at_least=0)
    films: int | None = option(None, check.whole, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features == "dp-svd":
            check.expect(self.least_ratings == 0, "least_ratings", self.least_ratings, "== 0 with dp-svd: it would be seen")
        if self.features == "user-item":
            check.expect(self.scaling == "max-norm", "scaling", self.scaling, "== max-norm with features=user-item")

    def path(self) -> str:
        return str(data.folder(("ml-1m", "movielens"), self.data))

    def split(self, path: str) -> Split:
        return _split_movielens(path, self.least_ratings, self.films)


EXAMPLES = (
    Jester(),
    Jester(dimension=10, candidates=4, features="dp-svd", scaling="unit"),
    MovieLens(),
    MovieLens(dimension=6, candidates=3, features="user-item"),
    MovieLens(dimension=4, candidates=3, features="dp-svd", least_ratings=0, films=200),
)
