"""MovieLens: each round one person and ten of the films whose ratings by this person were held out; rewards are exact.

Half of the people (a fixed permutation) train the features: films with at least ``least_ratings`` of their ratings, minus
their mean, missing ones 0, the leading columns of V S. Of everyone else's ratings of these films one half is the profile,
the other half is held out; people with at least 20 held out are drawn evenly. With ``features="user-item"`` the vector of a
candidate is p * v, divided by the largest norm: v the row of V, p the person's ridge fit to the profile. Profiles are taken
to be public then: such features protect the values of rewards only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adaprivate import check, data
from adaprivate.environments.recorded import RecordedRatings, Split

HELD_OUT = 20
"""People with fewer ratings held out are not drawn."""
SPLIT_SEED = 0


@lru_cache(maxsize=4)
def _split(path: str, least_ratings: int, films: int | None) -> Split:
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

    The list of films that anyone rated is taken to be public, also where ratings are private.
    least_ratings: by training people, for a film to be known; it must be 0 where their ratings are private. films: only
    so many, those with the smallest numbers.
    """

    __doc__ = f"{__doc__}\n\n{RecordedRatings.__doc__}"
    name: ClassVar[str] = "movielens"
    maps: ClassVar[tuple[str, ...]] = ("svd", "dp-svd", "user-item")
    midpoint: ClassVar[float] = 3.0
    least_ratings: int = 20
    films: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("least_ratings", self.least_ratings, at_least=0)
        if self.films is not None:
            check.whole("films", self.films, at_least=1)
        if self.features == "dp-svd":
            check.expect(self.least_ratings == 0, "least_ratings", self.least_ratings, "== 0 with dp-svd: it would be seen")
        if self.features == "user-item":
            check.expect(self.scaling == "max-norm", "scaling", self.scaling, "== max-norm with features=user-item")

    def path(self) -> str:
        return str(data.folder(("ml-1m", "movielens"), self.data))

    def split(self, path: str) -> Split:
        return _split(path, self.least_ratings, self.films)


EXAMPLES = (
    MovieLens(),
    MovieLens(dimension=6, candidates=3, features="user-item"),
    MovieLens(dimension=4, candidates=3, features="dp-svd", least_ratings=0, films=200),
)
