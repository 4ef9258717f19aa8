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
from adaprivate.environments.recorded import RecordedRatings, Split


@lru_cache(maxsize=2)
def _split(path: str) -> Split:
    found = data.ratings(path)
    check.expect(found.kind == "jester", "data", path, "to be Jester's ratings")
    user, item, rating = found.matrix()
    complete = np.bincount(user) == int(item.max()) + 1
    check.expect(bool(complete.any()) and not bool(complete.all()), "data", path, "to hold people who rated all and others")
    offered = complete[user]
    return Split(user, item, rating, ~offered, offered, np.zeros_like(offered))


@dataclass(frozen=True)
class Jester(RecordedRatings):
    """People who rated every joke of Jester; ``candidates`` jokes a round, reward 1 for a rating of at least 4."""

    __doc__ = f"{__doc__}\n\n{RecordedRatings.__doc__}"
    name: ClassVar[str] = "jester"
    midpoint: ClassVar[float] = 0.0

    def path(self) -> str:
        return str(data.folder(("jester-1", "jester"), self.data))

    def split(self, path: str) -> Split:
        return _split(path)


EXAMPLES = (Jester(), Jester(dimension=10, candidates=4, features="dp-svd", scaling="unit"))
