"""Noise on both statistics: the design matrix A, too, is released in batches, as in the baseline of the paper's Table 4.

Within a batch the released A is kept; what is released is ridge I + sum x x' + symmetric Gaussian noise, its eigenvalues
raised to the ridge where the noise pushed them below. Noise on A protects no reward: only that on b does.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from adaprivate import mechanisms
from adaprivate.check import Floats
from adaprivate.compiled import Streams
from adaprivate.mechanisms import Noise, PrefixSum
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import (
    BATCH,
    COORDINATES,
    STATISTIC,
    LinearState,
    OptimisticState,
    ThompsonState,
    collect,
    rotate,
)

GRAM = 6
"""The first of the rows of ``vectors`` that hold the true ridge I + sum x x'."""
RIDGE = 5
"""The position of the ridge in ``numbers``."""


class BothThompsonState(LinearState):
    """Releases A and b in batches, chooses by a posterior sample; ``noise`` holds that of b, then A's upper triangle."""


class BothOptimisticState(LinearState):
    """The same, choosing by an upper confidence bound."""


_TWINS: dict[type[LinearState], type[LinearState]] = {
    ThompsonState: BothThompsonState,
    OptimisticState: BothOptimisticState,
}
for _plain, _both in _TWINS.items():
    selects.known[_both] = selects.known[_plain]


def with_design(state: LinearState, ridge: float) -> LinearState:
    """A fresh state made to release A as well."""
    grown = np.vstack([state.vectors, ridge * np.eye(len(state.root))])
    kind = _TWINS[type(state)]
    return kind(*state._replace(vectors=grown, numbers=np.append(state.numbers, ridge)))


def design_mechanism(
    noise: Noise, *, strategy: str, batches: int, dimension: int, noise_multiplier: float, neighbours: str, replicas: int
) -> PrefixSum:
    """The release of the upper triangle of sum x x', off-diagonal noise 1 / sqrt(2) of that on the diagonal."""
    rows, columns = np.triu_indices(dimension)
    return PrefixSum(
        mechanisms.strategy(strategy, batches),
        dimension=len(rows) * replicas,
        noise_multiplier=noise_multiplier,
        noise=noise,
        participation=mechanisms.gram_rows(neighbours),
        scales=np.tile(np.where(rows == columns, 1.0, math.sqrt(0.5)), replicas),
    )


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def release_design(root: Floats, vectors: Floats, noise: Floats, batch: int, ridge: float) -> None:
    """Make ``root`` the symmetric root of the inverse of the noisy A, and w = S' b follow."""
    d = root.shape[0]
    matrix = np.empty((d, d))
    place = d
    for i in range(d):
        for j in range(i, d):
            matrix[i, j] = vectors[GRAM + i, j] + noise[batch, place]
            matrix[j, i] = matrix[i, j]
            place += 1
    values, basis = np.linalg.eigh(matrix)
    for i in range(d):
        for j in range(d):
            total = 0.0
            for m in range(d):
                total += basis[i, m] * basis[j, m] / math.sqrt(max(values[m], ridge))
            root[i, j] = total
    rotate(root, vectors[STATISTIC], vectors[COORDINATES])


@updates.of(BothThompsonState)
@updates.of(BothOptimisticState)
def _update(state: LinearState, features: Floats, reward: float, rng: Streams) -> None:
    vectors = state.vectors
    for i in range(features.shape[0]):
        for j in range(features.shape[0]):
            vectors[GRAM + i, j] += features[i] * features[j]
    batch = state.counts[BATCH]
    collect(state, features, reward, rng)
    if state.counts[BATCH] > batch:
        release_design(state.root, vectors, state.noise, batch, state.numbers[RIDGE])
