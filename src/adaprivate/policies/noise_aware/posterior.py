"""The core of the noise-aware policies: the posterior of the parameter given everything released, the noise's law known.

Rewards are taken to be centre + theta'x + intercept; an event adds (reward - centre) e to its batch's sum s_j, e = (x, 1).
The design G_j = sum e e' is public, the sums are released as noisy rows y = C s + noise. Public weights w (mechanisms/
informative.py) turn the rows so far into one statistic, with a = C'w:

    w'y ~ N(H theta, M),   H = sum a_j G_j,   M = v sum a_j^2 G_j + |w|^2 N,   N the covariance of a row's noise,

so theta has the precision P + H'M^-1 H, P the prior's. All is d x d: factorisations once per batch, none per round.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams, borrowed, entry, kernel, normal
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import Integers, highest

# rows of PosteriorState.vectors
COORDINATES, MEAN, PARAMETER, ROTATED = range(4)
# positions in PosteriorState.numbers
WIDTH, CENTRE, REWARD_VARIANCE, RIDGE, INTERCEPT_PRECISION, ADAPT, FORESIGHT = range(7)
# positions in PosteriorState.counts
ROUND, BATCH = range(2)


class PosteriorState(NamedTuple):
    """Everything a noise-aware policy remembers. D is the dimension, and one more with an intercept."""

    root: Floats
    """S, with S S' the covariance of theta that choices explore by."""
    vectors: Floats
    """Four vectors (4, D), by the names above: w with S w = mean; the mean; the last sampled theta; scratch."""
    sums: Floats
    """Each batch's sum of (reward - centre) e (batches + 1, D), the last for rounds after all batches: private."""
    designs: Floats
    """Each batch's sum of e e' (batches + 1, D, D)."""
    crosses: Floats
    """Each batch's sum of clipped e times unclipped e', where events may have to be clipped; else empty."""
    rows: Floats
    """The noisy rows as released (batches, D)."""
    noise: Floats
    """Their noise, in simulation (batches, D)."""
    encoder: Floats
    """C (batches, batches)."""
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
    ends: Integers
    """The round after which each batch is released."""
    numbers: Floats
    """By the names above: exploration now, centre, the reward noise v, the prior precision of theta and of the intercept
    (0: there is none), whether the former adapts to what was released, whether choices foresee what the batch will tell."""
    counts: Integers
    """Rounds seen, batches released."""


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


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def fitted_ridge(information: Floats, statistic: Floats, ridge: float) -> float:
    """The prior precision, as a multiple 2^-4 ... 1 of ``ridge``, that makes the released statistic most likely.

    The public guess is preferred: k halvings cost k^2 / 2 in the logarithm. It is never raised: where all that is played
    earns alike, slope and intercept are confounded, and a stronger prior would have the intercept explain everything. A
    function of what was released.
    """
    values, basis = np.linalg.eigh(information)
    projected = basis.T @ statistic
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


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def take_in_row(state: PosteriorState) -> None:
    """The posterior after the newest row, into ``root`` and ``vectors``; then the next batch begins."""
    k = state.counts[BATCH]
    size = state.root.shape[0]
    H = np.zeros((size, size))
    M = np.zeros((size, size))
    statistic = np.zeros(size)
    spread = 0.0
    for j in range(k + 1):
        a, relevant, w = state.influence[k, j], state.relevance[k, j], state.decoder[k, j]
        spread += w * w
        for i in range(size):
            statistic[i] += w * state.rows[j, i]
            for m in range(size):
                H[i, m] += relevant * (state.crosses[j, i, m] if state.crosses.shape[0] > 0 else state.designs[j, i, m])
                M[i, m] += a * a * state.designs[j, i, m]
    M = state.numbers[REWARD_VARIANCE] * M + spread * state.row_covariance
    if state.drift[k] > 0.0:
        M += state.drift[k] * (H @ H.T)
    for i in range(size):
        M[i, i] *= 1.0 + 1e-12
    solved = np.linalg.solve(M, H)
    information = H.T @ solved
    information = 0.5 * (information + information.T)
    weighted = solved.T @ statistic
    ridge = state.numbers[RIDGE]
    n = size
    if state.numbers[INTERCEPT_PRECISION] > 0.0:  # the intercept has a prior of its own, and is integrated out
        n = size - 1
    if state.numbers[ADAPT] > 0.0:
        inner, seen = information[:n, :n].copy(), weighted[:n].copy()
        if n < size:
            link = information[:n, n].copy()
            own = information[n, n] + state.numbers[INTERCEPT_PRECISION]
            inner -= np.outer(link, link) / own
            seen -= link * (weighted[n] / own)
        ridge = fitted_ridge(inner, seen, ridge)
    for i in range(size):
        information[i, i] += ridge if i < n else state.numbers[INTERCEPT_PRECISION]
    inverse = np.linalg.inv(np.linalg.cholesky(information))
    for i in range(size):
        for j in range(size):
            state.root[i, j] = inverse[j, i]
    for j in range(size):
        total = 0.0
        for i in range(size):
            total += state.root[i, j] * weighted[i]
        state.vectors[COORDINATES, j] = total
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += state.root[i, j] * state.vectors[COORDINATES, j]
        state.vectors[MEAN, i] = total
    state.numbers[WIDTH] = state.widths[k]
    state.counts[BATCH] += 1


@entry
def take_in_released_row(state: PosteriorState) -> None:
    """The same, called from Python when a mechanism has released the row."""
    take_in_row(borrowed(state))


@kernel
def encode_row(state: PosteriorState) -> None:
    """The newest batch's noisy row, from the true sums and the simulated noise."""
    k = state.counts[BATCH]
    for i in range(state.root.shape[0]):
        total = state.noise[k, i]
        for j in range(k + 1):
            total += state.encoder[k, j] * state.sums[j, i]
        state.rows[k, i] = total


@kernel
def count_event(state: PosteriorState, features: Floats, reward: float) -> None:
    """Add an event to its batch, clipped into the shape of the noise where there is one."""
    k = state.counts[BATCH]
    d = features.shape[0]
    size = state.root.shape[0]
    e = state.vectors[ROTATED]
    for j in range(d):
        e[j] = features[j]
    if size > d:
        e[d] = 1.0
    if state.whitener.shape[0] > 0:
        square = 0.0
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += state.whitener[i, j] * e[j]
            square += total * total
        shrink = 1.0 / math.sqrt(square) if square > 1.0 else 1.0
        for i in range(size):
            for j in range(size):
                state.crosses[k, i, j] += shrink * e[i] * e[j]
        for j in range(size):
            e[j] *= shrink
    weight = reward - state.numbers[CENTRE]
    for i in range(size):
        state.sums[k, i] += weight * e[i]
        for j in range(size):
            state.designs[k, i, j] += e[i] * e[j]


@kernel
def foresee(state: PosteriorState, features: Floats) -> None:
    """Shrink the covariance that choices explore by as this event's reward will, once released; the mean stays."""
    root, w, phi = state.root, state.vectors[COORDINATES], state.vectors[ROTATED]
    strength = 1.0 / state.numbers[REWARD_VARIANCE]
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
    root, w, z, theta = state.root, state.vectors[COORDINATES], state.vectors[ROTATED], state.vectors[PARAMETER]
    size = w.shape[0]
    width = state.numbers[WIDTH]
    for j in range(size):
        z[j] = w[j] + width * normal(rng, 0)
    for i in range(candidates.shape[1]):
        total = 0.0
        for j in range(size):
            total += root[i, j] * z[j]
        theta[i] = total
    return highest(candidates, theta)


@selects.of(PosteriorOptimisticState)
def _optimistic(state: PosteriorState, candidates: Floats, rng: Streams) -> int:
    phi, w = state.vectors[ROTATED], state.vectors[COORDINATES]
    best = 0
    top = 0.0
    for a in range(candidates.shape[0]):
        rotate_extended(state.root, candidates[a], phi)
        mean = 0.0
        square = 0.0
        for j in range(w.shape[0]):
            mean += phi[j] * w[j]
            square += phi[j] * phi[j]
        score = mean + state.numbers[WIDTH] * math.sqrt(square)
        if a == 0 or score > top + 1e-12 * (1.0 + abs(top)):  # the first among equals, up to rounding
            top = score
            best = a
    return best


@selects.of(PosteriorGreedyState)
def _greedy(state: PosteriorState, candidates: Floats, rng: Streams) -> int:
    return highest(candidates, state.vectors[MEAN])


@updates.of(PosteriorThompsonState)
@updates.of(PosteriorOptimisticState)
@updates.of(PosteriorGreedyState)
def _update(state: PosteriorState, features: Floats, reward: float, rng: Streams) -> None:
    count_event(state, features, reward)
    if state.numbers[FORESIGHT] > 0.0:
        foresee(state, features)
    state.counts[ROUND] += 1
    batch = state.counts[BATCH]
    if batch < state.noise.shape[0] and state.counts[ROUND] == state.ends[batch]:
        encode_row(state)
        take_in_row(state)
