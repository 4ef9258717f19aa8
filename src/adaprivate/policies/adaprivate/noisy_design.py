"""Noise on both statistics: the design matrix A, too, is released in batches, as in the baseline of the paper's Table 4.

Within a batch the released A is kept; what is released is ridge I + sum x x' + symmetric Gaussian noise, its eigenvalues
raised to the ridge where the noise pushed them below. Noise on A protects no reward: only that on b does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adaprivate import mechanisms
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, record, routine
from adaprivate.mechanisms import PrefixSum
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import Split, collect, read, select, selects, updates
from adaprivate.policies.core.linear import rotate
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, propensities_of
from adaprivate.policies.core.tables import released_tables, source_of
from adaprivate.purposes import Purpose


class NoisyDesignState(NamedTuple):
    """A learner whose root is that of a noisy A, the book of its rewards, and that of A."""

    learner: Any
    book: Any
    gram: Floats
    """The true ridge I + sum x x'."""
    noise: Floats
    """The noise of each release of A, its upper triangle row by row."""
    scalars: Record
    """The ridge."""


def noisy_design_state(split: Split, noise: Floats, ridge: float) -> NoisyDesignState:
    """A fresh learner and book made to release A as well."""
    return NoisyDesignState(*split, ridge * np.eye(len(split.learner.root)), noise, record(ridge=ridge))


def design_noise(plan: BatchPlan, seeds: Sequence[int], neighbours: str) -> Floats:
    """The noise of every release of A's upper triangle (seeds, batches, entries), by 1 / sqrt(2) less off the diagonal."""
    rows, columns = np.triu_indices(plan.dimension)
    (epoch,) = plan.epochs
    release = PrefixSum(
        epoch.strategy,
        dimension=len(rows) * len(seeds),
        noise_multiplier=plan.noise_multiplier,
        noise=source_of(seeds, Purpose.DESIGN_NOISE),
        participation=mechanisms.gram_rows(neighbours),
        scales=np.tile(np.where(rows == columns, 1.0, math.sqrt(0.5)), len(seeds)),
    )
    return released_tables(release, len(seeds))


@routine
def release_design(gram: Floats, noise: Floats, ridge: float, root: Floats) -> None:
    """Make ``root`` the symmetric root of the inverse of the noisy A."""
    d = root.shape[0]
    matrix = np.empty((d, d))
    place = 0
    for i in range(d):
        for j in range(i, d):
            matrix[i, j] = gram[i, j] + noise[place]
            matrix[j, i] = matrix[i, j]
            place += 1
    values, basis = np.linalg.eigh(matrix)
    for i in range(d):
        for j in range(d):
            total = 0.0
            for m in range(d):
                total += basis[i, m] * basis[j, m] / math.sqrt(max(values[m], ridge))
            root[i, j] = total


@selects.of(NoisyDesignState, offers=True)
def _select(state: NoisyDesignState, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@updates.of(NoisyDesignState)
def _update(state: NoisyDesignState, features: Floats, reward: float, rng: Streams) -> None:
    learner, s = state.learner, state.learner.scalars[0]
    s.round += 1
    for i in range(features.shape[0]):
        for j in range(features.shape[0]):
            state.gram[i, j] += features[i] * features[j]
    batch = s.batch
    if collect(state.book, features, reward, rng):
        read(learner, state.book.released)
        release_design(state.gram, state.noise[batch], state.scalars[0].ridge, learner.root)
        rotate(learner.root, learner.statistic, learner.coordinates)


@propensities_of(NoisyDesignState)
def _propensities(state: NoisyDesignState, candidates: Floats, **how: Any) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)
