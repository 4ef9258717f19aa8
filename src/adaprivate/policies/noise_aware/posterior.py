"""The core of the noise-aware policies: the posterior of the parameter given everything released, the noise's law known.

Rewards are taken to be centre + theta'x + intercept; an event adds (reward - centre) e to its batch's sum s_j, e = (x, 1).
The design G_j = sum e e' is public, the sums are released as noisy rows y = C s + noise. Public weights w (mechanisms/
informative.py) turn the rows so far into one statistic, with a = C'w:

    w'y ~ N(H theta, M),   H = sum a_j G_j,   M = v sum a_j^2 G_j + |w|^2 N,   N the covariance of a row's noise,

so theta has the precision P + H'M^-1 H, P the prior's. All is d x d: factorisations once per batch, none per round.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, kernel, routine
from adaprivate.policies.core.books import fill_event
from adaprivate.policies.core.dispatch import counts, reads, selects
from adaprivate.policies.core.linear import highest, sample_parameter
from adaprivate.policies.core.propensities import Propensities, certain, gaussian_best, propensities_of


class PosteriorState(NamedTuple):
    """Everything a noise-aware policy knows: public. D is the dimension, and one more with an intercept."""

    root: Floats
    """S, with S S' the covariance of theta that choices explore by."""
    coordinates: Floats
    """w, with S w the mean."""
    mean: Floats
    parameter: Floats
    """The last sampled theta."""
    rotated: Floats
    """Scratch."""
    designs: Floats
    """Each batch's sum of e e' (batches + 1, D, D), the last for rounds after all batches."""
    crosses: Floats
    """Each batch's sum of clipped e times unclipped e', where events may have to be clipped; else empty."""
    rows: Floats
    """The noisy rows as released (batches, D)."""
    decoder: Floats
    """Row k: the weights w of the rows in the statistic after batch k."""
    influence: Floats
    """Row k: a = C'w, the weight of each batch's sum in that statistic."""
    relevance: Floats
    """Row k: the part of a that speaks of theta as it is now; a itself when nothing changes over time."""
    drift: Floats
    """What change over time adds to M: this times H H'."""
    row_covariance: Floats
    """N (D, D)."""
    whitener: Floats
    """Maps e to coordinates where the noise is round, if e may have to be clipped there; else empty."""
    widths: Floats
    """How wide choices explore after each batch."""
    scalars: Record
    """Exploration now, the reward noise v, the prior precision of theta and of the intercept (0: there is none), whether
    the former adapts to what was released, whether choices foresee what the batch will tell, rounds seen, batches read."""


class PosteriorThompsonState(PosteriorState):
    """Chooses by a sample of the posterior, its spread scaled."""


class PosteriorOptimisticState(PosteriorState):
    """Chooses by an upper bound of the posterior."""


class PosteriorGreedyState(PosteriorState):
    """Chooses by the posterior mean."""


@kernel
def rotate_extended(root: Floats, features: Floats, out: Floats) -> None:
    """out = S'e, e the features followed by 1 if there is an intercept."""
    d = features.shape[0]
    size = out.shape[0]
    for j in range(size):
        out[j] = root[d, j] if size > d else 0.0
    for i in range(d):
        x = features[i]
        for j in range(size):
            out[j] += root[i, j] * x


@routine
def fitted_ridge(information: Floats, statistic: Floats, ridge: float) -> float:
    """The prior precision, as a multiple 2^-4 ... 1 of ``ridge``, that makes the released statistic most likely.

    The public guess is preferred: k halvings cost k^2 / 2 in the logarithm. It is never raised: where all that is played
    earns alike, slope and intercept are confounded, and a stronger prior would have the intercept explain everything. A
    function of what was released.
    """
    values, basis = np.linalg.eigh(information)
    projected = np.zeros(values.shape[0])
    for j in range(values.shape[0]):
        for i in range(values.shape[0]):
            projected[i] += basis[j, i] * statistic[j]
    best, chosen = -np.inf, ridge
    for step in range(-8, 1):
        precision = ridge * 2.0 ** (0.5 * step)
        score = -0.125 * step * step
        for i in range(values.shape[0]):
            total = precision + max(values[i], 0.0)
            score += 0.5 * (math.log(precision / total) + projected[i] * projected[i] / total)
        if score > best:
            best, chosen = score, precision
    return chosen


@routine
def factor_out(lower: Floats, matrix: Floats, vector: Floats) -> None:
    """matrix <- L^-1 matrix and vector <- L^-1 vector, in place. (np.linalg.solve takes ten seconds to compile.)"""
    for i in range(lower.shape[0]):
        for k in range(i):
            vector[i] -= lower[i, k] * vector[k]
            for j in range(matrix.shape[1]):
                matrix[i, j] -= lower[i, k] * matrix[k, j]
        vector[i] /= lower[i, i]
        for j in range(matrix.shape[1]):
            matrix[i, j] /= lower[i, i]


@routine
def inverse_root(lower: Floats, out: Floats) -> None:
    """out S, upper triangular, with S S' = (L L')^-1: the transposed inverse of L."""
    size = lower.shape[0]
    for j in range(size):
        for i in range(size):
            out[j, i] = 0.0
        out[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, size):
            total = 0.0
            for k in range(j, i):
                total += lower[i, k] * out[j, k]
            out[j, i] = -total / lower[i, i]


@routine
def read_row(
    k: int,
    rows: Floats,
    designs: Floats,
    crosses: Floats,
    decoder: Floats,
    influence: Floats,
    relevance: Floats,
    drift: float,
    row_covariance: Floats,
    reward_variance: float,
    ridge: float,
    intercept_precision: float,
    adapts: bool,
    root: Floats,
    coordinates: Floats,
    mean: Floats,
) -> None:
    """The posterior after row k, into ``root``, ``coordinates`` and ``mean``."""
    size = root.shape[0]
    H = np.zeros((size, size))
    M = np.zeros((size, size))
    statistic = np.zeros(size)
    spread = 0.0
    for j in range(k + 1):
        a, relevant, w = influence[k, j], relevance[k, j], decoder[k, j]
        spread += w * w
        for i in range(size):
            statistic[i] += w * rows[j, i]
            for m in range(size):
                H[i, m] += relevant * (crosses[j, i, m] if crosses.shape[0] > 0 else designs[j, i, m])
                M[i, m] += a * a * designs[j, i, m]
    for i in range(size):
        for m in range(size):
            M[i, m] = reward_variance * M[i, m] + spread * row_covariance[i, m]
            if drift > 0.0:
                for j in range(size):
                    M[i, m] += drift * H[i, j] * H[m, j]
        M[i, i] *= 1.0 + 1e-12
    # with M = L L': H' M^-1 H = W' W and H' M^-1 statistic = W' u for W = L^-1 H, u = L^-1 statistic
    factor_out(np.linalg.cholesky(M), H, statistic)  # type: ignore[arg-type]
    information = np.zeros((size, size))
    weighted = np.zeros(size)
    for i in range(size):
        for j in range(size):
            weighted[j] += H[i, j] * statistic[i]
            for m in range(size):
                information[j, m] += H[i, j] * H[i, m]
    n = size
    if intercept_precision > 0.0:  # the intercept has a prior of its own, and is integrated out
        n = size - 1
    if adapts:
        inner, seen = information[:n, :n].copy(), weighted[:n].copy()
        if n < size:
            own = information[n, n] + intercept_precision
            for i in range(n):
                link = information[i, n] / own
                seen[i] -= link * weighted[n]
                for j in range(n):
                    inner[i, j] -= link * information[n, j]
        ridge = fitted_ridge(inner, seen, ridge)
    for i in range(size):
        information[i, i] += ridge if i < n else intercept_precision
    inverse_root(np.linalg.cholesky(information), root)  # type: ignore[arg-type]
    for j in range(size):
        total = 0.0
        for i in range(size):
            total += root[i, j] * weighted[i]
        coordinates[j] = total
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += root[i, j] * coordinates[j]
        mean[i] = total


@kernel
def foresee(state: PosteriorState, features: Floats) -> None:
    """Shrink the covariance that choices explore by as this event's reward will, once released; the mean stays."""
    root, w, phi = state.root, state.coordinates, state.rotated
    strength = 1.0 / state.scalars[0].reward_variance
    size = root.shape[0]
    rotate_extended(root, features, phi)
    square = 0.0
    along = 0.0
    for j in range(size):
        square += phi[j] * phi[j]
        along += phi[j] * w[j]
    grown = 1.0 + strength * square
    gain = strength / (grown + math.sqrt(grown))  # S <- S (I - gain phi phi')
    for i in range(size):
        pull = 0.0
        for j in range(size):
            pull += root[i, j] * phi[j]
        pull *= gain
        for j in range(size):
            root[i, j] -= pull * phi[j]
    stretch = along * gain / (1.0 - gain * square)
    for j in range(size):
        w[j] += stretch * phi[j]


@selects.of(PosteriorThompsonState)
def _thompson(state: PosteriorState, candidates: Floats, rng: Streams) -> int:
    theta = state.parameter[: candidates.shape[1]]
    sample_parameter(state.root, state.coordinates, state.scalars[0].width, state.rotated, theta, rng)
    return highest(candidates, theta)


@selects.of(PosteriorOptimisticState)
def _optimistic(state: PosteriorState, candidates: Floats, rng: Streams) -> int:
    phi, w, width = state.rotated, state.coordinates, state.scalars[0].width
    best = 0
    top = 0.0
    for a in range(candidates.shape[0]):
        rotate_extended(state.root, candidates[a], phi)
        mean = 0.0
        square = 0.0
        for j in range(w.shape[0]):
            mean += phi[j] * w[j]
            square += phi[j] * phi[j]
        score = mean + width * math.sqrt(square)
        if a == 0 or score > top + 1e-12 * (1.0 + abs(top)):  # the first among equals, up to rounding
            top = score
            best = a
    return best


@selects.of(PosteriorGreedyState)
def _greedy(state: PosteriorState, candidates: Floats, rng: Streams) -> int:
    return highest(candidates, state.mean)


@counts.of(PosteriorThompsonState)
@counts.of(PosteriorOptimisticState)
@counts.of(PosteriorGreedyState)
def _counted(state: PosteriorState, features: Floats) -> None:
    s, e = state.scalars[0], state.rotated
    k = s.batch
    size = state.root.shape[0]
    shrink = fill_event(features, state.whitener, e)
    if state.crosses.shape[0] > 0:
        for i in range(size):
            for j in range(size):
                state.crosses[k, i, j] += shrink * e[i] * e[j]
        for j in range(size):
            e[j] *= shrink
    for i in range(size):
        for j in range(size):
            state.designs[k, i, j] += e[i] * e[j]
    if s.foresees:
        foresee(state, features)
    s.round += 1


@reads.of(PosteriorThompsonState)
@reads.of(PosteriorOptimisticState)
@reads.of(PosteriorGreedyState)
def _read(state: PosteriorState, released: Floats) -> None:
    s = state.scalars[0]
    k = s.batch
    for i in range(released.shape[0]):
        state.rows[k, i] = released[i]
    read_row(
        k,
        state.rows,
        state.designs,
        state.crosses,
        state.decoder,
        state.influence,
        state.relevance,
        state.drift[k],
        state.row_covariance,
        s.reward_variance,
        s.ridge,
        s.intercept_precision,
        s.adapts,
        state.root,
        state.coordinates,
        state.mean,
    )
    s.width = state.widths[k]
    s.batch += 1


propensities_of(PosteriorOptimisticState)(certain)
propensities_of(PosteriorGreedyState)(certain)


@propensities_of(PosteriorThompsonState)
def _thompson_propensities(state: PosteriorState, candidates: Floats, **how: Any) -> Propensities:
    rotated = candidates @ state.root[: candidates.shape[2]]
    return gaussian_best(rotated @ state.coordinates, state.scalars[0]["width"] * rotated, **how)
