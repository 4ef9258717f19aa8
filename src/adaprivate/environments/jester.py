"""Jester: people who rated all 100 jokes, each round one of them and ten jokes; rewards are exact.

Features of jokes are made of the ratings of everyone else: minus their mean, missing ones 0, the leading ``dimension``
columns of V S of the singular value decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adaprivate import check, data
from adaprivate.data.features import rating_matrix, truncated_svd
from adaprivate.environments.recorded import Prepared, RecordedRatings, by_person, item_features


@lru_cache(maxsize=16)
def _prepared(path: str, dimension: int, scaling: str, like: float) -> Prepared:
    found = data.ratings(path)
    check.expect(found.kind == "jester", "data", path, "to be Jester's ratings")
    user, item, rating = found.matrix()
    items = int(item.max()) + 1
    check.whole("dimension", dimension, at_most=items)
    complete = np.bincount(user) == items
    check.expect(bool(complete.any()) and not bool(complete.all()), "data", path, "to hold people who rated all and others")
    inside = complete[user]
    number = np.cumsum(complete) - 1
    starts, rated, likes = by_person(number[user[inside]], item[inside], rating[inside] >= like)
    other = rating[~inside]
    matrix = rating_matrix(user[~inside], item[~inside], other, len(complete), items, float(other.mean()))
    features = item_features(truncated_svd(matrix, dimension), dimension, scaling)
    return Prepared(features, np.zeros((0, 0)), starts, rated, likes, float((other >= like).mean()))


@dataclass(frozen=True)
class Jester(RecordedRatings):
    """People who rated every joke of Jester; ``candidates`` jokes a round, reward 1 for a rating of at least 4."""

    __doc__ = f"{__doc__}\n\n{RecordedRatings.__doc__}"
    name: ClassVar[str] = "jester"

    def prepared(self, seed: int) -> Prepared:
        path = data.folder(("jester-1", "jester"), self.data)
        return _prepared(str(path), self.dimension, self.scaling, self.like)


EXAMPLES = (Jester(), Jester(dimension=10, candidates=4, scaling="unit"))
