"""MovieLens: people, each round one of them and ten of the films of which they rated half here; rewards are exact.

Half of the people (a fixed permutation) train the features: films with at least ``least_ratings`` of their ratings, minus
their mean, missing ones 0, the leading columns of V S. Of everyone else's ratings of these films one half is the profile,
the other half is held out; people with at least 20 held out are drawn evenly. With ``features="user-item"`` the vector of a
candidate is p * v: v the row of V, p the person's ridge fit to the profile. Those profiles are taken to be public: such
features protect the values of rewards only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adaprivate import check, data
from adaprivate.check import Array, Floats
from adaprivate.data.features import rating_matrix, truncated_svd
from adaprivate.environments.recorded import Prepared, RecordedRatings, by_person, item_features

FEATURES = ("item", "user-item")
HELD_OUT = 20
"""People with fewer ratings held out are not drawn."""
SPLIT_SEED = 0
PROFILE_RIDGE = 100.0


@lru_cache(maxsize=8)
def _split(path: str, least_ratings: int) -> tuple[Array, Array, Floats, Array, Array]:
    """(user, item, rating, of training people, held out) of every rating of a film that the features know."""
    found = data.ratings(path)
    check.expect(found.kind == "movielens", "data", path, "to be MovieLens ratings")
    user, item, rating = found.matrix()
    rng = np.random.default_rng(SPLIT_SEED)
    people = int(user.max()) + 1
    training = np.zeros(people, dtype=bool)
    training[rng.permutation(people)[: people // 2]] = True
    known = np.bincount(item[training[user]], minlength=int(item.max()) + 1) >= least_ratings
    inside = known[item]
    check.expect(bool(inside.any()), "least_ratings", least_ratings, "small enough for a film to remain")
    user, item, rating = user[inside], (np.cumsum(known) - 1)[item[inside]], rating[inside]
    draw = rng.random(len(user))
    order = np.lexsort((draw, user))
    starts = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=people))])
    place = np.empty(len(user), dtype=np.int64)
    place[order] = np.arange(len(user)) - starts[user[order]]
    held_out = ~training[user] & (2 * place < np.diff(starts)[user])
    return user, item, rating, training[user], held_out


@lru_cache(maxsize=16)
def _prepared(path: str, dimension: int, scaling: str, like: float, features: str, least_ratings: int) -> Prepared:
    user, item, rating, training, held_out = _split(path, least_ratings)
    items, people = int(item.max()) + 1, int(user.max()) + 1
    check.whole("dimension", dimension, at_most=items)
    centre = float(rating[training].mean())
    matrix = rating_matrix(user[training], item[training], rating[training], people, items, centre)
    vectors = truncated_svd(matrix, dimension)
    drawn = np.bincount(user[held_out], minlength=people) >= HELD_OUT
    check.expect(bool(drawn.any()), "data", path, f"to hold people with {HELD_OUT} ratings held out")
    number = np.cumsum(drawn) - 1
    offered = held_out & drawn[user]
    starts, rated, likes = by_person(number[user[offered]], item[offered], rating[offered] >= like)
    base_rate = float((rating[training] >= like).mean())
    if features == "item":
        return Prepared(item_features(vectors, dimension, scaling), np.zeros((0, 0)), starts, rated, likes, base_rate)
    singular = np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
    unit = vectors / singular * np.sqrt(items)
    profile = ~training & ~held_out & drawn[user]
    tastes = _fold_in(number[user[profile]], unit[item[profile]], rating[profile] - centre, int(drawn.sum()))
    return _multiplied(unit, tastes, starts, rated, likes, base_rate, scaling)


def _fold_in(user: Array, vectors: Floats, residual: Floats, people: int) -> Floats:
    """Each person's ridge regression of profile ratings on item vectors."""
    order = np.argsort(user, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=people))])
    d = vectors.shape[1]
    tastes = np.zeros((people, d))
    for u in range(people):
        own = order[starts[u] : starts[u + 1]]
        X = vectors[own]
        tastes[u] = np.linalg.solve(X.T @ X + PROFILE_RIDGE * np.eye(d), X.T @ residual[own])
    return tastes


def _multiplied(
    unit: Floats, tastes: Floats, starts: Array, rated: Array, likes: Array, base_rate: float, scaling: str
) -> Prepared:
    """Features that are products: what is divided by is the largest norm of any candidate, or the median and then cut."""
    person = np.repeat(np.arange(len(tastes)), np.diff(starts))
    norms = np.linalg.norm(tastes[person] * unit[rated], axis=1)
    check.expect(scaling == "max-norm", "scaling", scaling, "== max-norm with features=user-item")
    return Prepared(np.ascontiguousarray(unit / (norms.max() * (1 + 1e-12))), tastes, starts, rated, likes, base_rate)


@dataclass(frozen=True)
class MovieLens(RecordedRatings):
    """Films that people of a MovieLens set rated; ``candidates`` films a round, reward 1 for at least 4 of 5 stars."""

    __doc__ = f"{__doc__}\n\n{RecordedRatings.__doc__}"
    name: ClassVar[str] = "movielens"
    features: str = "item"
    least_ratings: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("features", self.features, FEATURES)
        check.whole("least_ratings", self.least_ratings, at_least=1)

    def prepared(self, seed: int) -> Prepared:
        path = data.folder(("ml-1m", "movielens"), self.data)
        return _prepared(str(path), self.dimension, self.scaling, self.like, self.features, self.least_ratings)


EXAMPLES = (MovieLens(), MovieLens(dimension=6, candidates=3, features="user-item"))
