"""The linear core: statistics in square-root form, batch releases, and the rules that choose.

The design matrix A = ridge I + sum x x' is public. It is kept as a dense S with S S' = A^-1, and the released statistic b
as w = S' b; then theta = S (w + v z), z standard normal, has exactly the law N(A^-1 b, v^2 A^-1), and one more row costs a
rank-one update of S (Potter): four passes over d x d numbers, no factorisation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate.check import Floats
from adaprivate.compiled import Streams, below, kernel, normal, uniform
from adaprivate.policies.core.dispatch import selects, updates

Integers = npt.NDArray[np.int64]

# rows of LinearState.vectors
COORDINATES, TOTAL, STATISTIC, PRIOR, ROTATED, PARAMETER = range(6)
# positions in LinearState.numbers
WIDTH, DECAY, CENTRE, SAMPLING, FORCED = range(5)
# positions in LinearState.counts
ROUND, BATCH, FORCED_ROUNDS = range(3)


class LinearState(NamedTuple):
    """Everything a linear policy remembers."""

    root: Floats
    """S, with S S' = A^-1."""
    vectors: Floats
    """Six vectors (6, d), by the names above: w = S' b; the true running sum of (reward - centre) x, which is private; the
    statistic b as last released; the prior, ridge * theta_0; the last S' x, or scratch; the last sampled theta."""
    noise: Floats
    """The noise of each release (batches, d), in simulation; empty where a mechanism releases."""
    ends: Integers
    """The round after which each batch is released."""
    numbers: Floats
    """Exploration width, its decay per batch, centre, sampling rate, forced-exploration constant."""
    counts: Integers
    """Rounds seen, batches released, rounds of forced exploration."""


class ThompsonState(LinearState):
    """Releases in batches, chooses by a posterior sample."""


class OptimisticState(LinearState):
    """Releases in batches, chooses by an upper confidence bound."""


class OnlineThompsonState(LinearState):
    """Learns every reward at once (not private), chooses by a posterior sample."""


class OnlineOptimisticState(LinearState):
    """Learns every reward at once (not private), chooses by an upper confidence bound."""


def fresh(
    kind: type[LinearState],
    *,
    dimension: int,
    ridge: float,
    width: float,
    decay: float = 1.0,
    centre: float = 0.0,
    sampling_rate: float = 1.0,
    forced: float = 0.0,
    theta_0: Floats | None = None,
    ends: Integers | None = None,
    noise: Floats | None = None,
) -> LinearState:
    """The state before the first round."""
    root = np.eye(dimension) / math.sqrt(ridge)
    vectors = np.zeros((6, dimension))
    if theta_0 is not None:
        vectors[PRIOR] = vectors[STATISTIC] = ridge * np.asarray(theta_0, dtype=np.float64)
        vectors[COORDINATES] = root @ vectors[PRIOR]
    return kind(
        root=root,
        vectors=vectors,
        noise=np.zeros((0, dimension)) if noise is None else noise,
        ends=np.zeros(0, dtype=np.int64) if ends is None else ends,
        numbers=np.array([width, decay, centre, sampling_rate, forced]),
        counts=np.zeros(3, dtype=np.int64),
    )


@kernel
def rotate(root: Floats, vector: Floats, out: Floats) -> None:
    """out = S' vector."""
    d = vector.shape[0]
    for j in range(d):
        out[j] = 0.0
    for i in range(d):
        x = vector[i]
        for j in range(d):
            out[j] += root[i, j] * x


@kernel
def dot(a: Floats, b: Floats) -> float:
    """a' b."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel
def absorb(state: LinearState, features: Floats) -> float:
    """Add x x' to A; returns 1 / sqrt(1 + x' A^-1 x) and leaves S' x, before the change, in its row."""
    root, w, phi = state.root, state.vectors[COORDINATES], state.vectors[ROTATED]
    d = features.shape[0]
    rotate(root, features, phi)
    grown = 1.0 + dot(phi, phi)
    gain = 1.0 / (grown + math.sqrt(grown))
    along = gain * dot(phi, w)
    for i in range(d):
        pull = 0.0
        for j in range(d):
            pull += root[i, j] * phi[j]
        pull *= gain
        for j in range(d):
            root[i, j] -= pull * phi[j]
    for j in range(d):
        w[j] -= along * phi[j]
    return 1.0 / math.sqrt(grown)


@kernel
def sample_parameter(state: LinearState, rng: Streams) -> None:
    """theta ~ N(A^-1 b, width^2 A^-1), in its row."""
    root, w, z, theta = state.root, state.vectors[COORDINATES], state.vectors[ROTATED], state.vectors[PARAMETER]
    d = w.shape[0]
    width = state.numbers[WIDTH]
    for j in range(d):
        z[j] = w[j] + width * normal(rng, 0)
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += root[i, j] * z[j]
        theta[i] = total


@kernel
def highest(candidates: Floats, theta: Floats) -> int:
    """The candidate with the largest score, the first among equals; theta may go on beyond the features."""
    best = 0
    top = -np.inf
    for a in range(candidates.shape[0]):
        score = 0.0
        for j in range(candidates.shape[1]):
            score += candidates[a, j] * theta[j]
        if score > top:
            top = score
            best = a
    return best


@kernel
def most_optimistic(state: LinearState, candidates: Floats) -> int:
    """The candidate with the largest x' A^-1 b + width sqrt(x' A^-1 x), the first among equals (up to rounding)."""
    phi = state.vectors[ROTATED]
    best = 0
    top = 0.0
    for a in range(candidates.shape[0]):
        rotate(state.root, candidates[a], phi)
        score = dot(phi, state.vectors[COORDINATES]) + state.numbers[WIDTH] * math.sqrt(dot(phi, phi))
        if a == 0 or score > top + 1e-12 * (1.0 + abs(top)):
            top = score
            best = a
    return best


@kernel
def forced(state: LinearState, rng: Streams) -> bool:
    """Whether this round explores at random: with probability min(1, d log t / (t gamma)), Sec 6.2."""
    gamma = state.numbers[FORCED]
    if gamma <= 0.0:
        return False
    t = state.counts[ROUND] + 1.0
    explore = uniform(rng, 1) * t * gamma < state.root.shape[0] * math.log(t)
    if explore:
        state.counts[FORCED_ROUNDS] += 1
    return bool(explore)


@kernel
def collect(state: LinearState, features: Floats, reward: float, rng: Streams) -> None:
    """Add an event to the running sum and release it when its batch ends."""
    weight = reward - state.numbers[CENTRE]
    rate = state.numbers[SAMPLING]
    if rate < 1.0:
        weight = weight / rate if uniform(rng, 1) < rate else 0.0
    d = features.shape[0]
    total, statistic, prior = state.vectors[TOTAL], state.vectors[STATISTIC], state.vectors[PRIOR]
    for j in range(d):
        total[j] += weight * features[j]
    state.counts[ROUND] += 1
    batch = state.counts[BATCH]
    if batch < state.noise.shape[0] and state.counts[ROUND] == state.ends[batch]:
        for j in range(d):
            statistic[j] = prior[j] + total[j] + state.noise[batch, j]
        rotate(state.root, statistic, state.vectors[COORDINATES])
        state.counts[BATCH] += 1
        state.numbers[WIDTH] *= state.numbers[DECAY]


@selects.of(ThompsonState)
@selects.of(OnlineThompsonState)
def _thompson(state: LinearState, candidates: Floats, rng: Streams) -> int:
    if forced(state, rng):
        return below(rng, 1, candidates.shape[0])
    sample_parameter(state, rng)
    return highest(candidates, state.vectors[PARAMETER])


@selects.of(OptimisticState)
@selects.of(OnlineOptimisticState)
def _optimistic(state: LinearState, candidates: Floats, rng: Streams) -> int:
    if forced(state, rng):
        return below(rng, 1, candidates.shape[0])
    return most_optimistic(state, candidates)


@updates.of(ThompsonState)
@updates.of(OptimisticState)
def _batched(state: LinearState, features: Floats, reward: float, rng: Streams) -> None:
    absorb(state, features)
    collect(state, features, reward, rng)


@updates.of(OnlineThompsonState)
@updates.of(OnlineOptimisticState)
def _online(state: LinearState, features: Floats, reward: float, rng: Streams) -> None:
    shrink = absorb(state, features)  # S' x after the change is S' x before it, times this
    weight = reward - state.numbers[CENTRE]
    vectors = state.vectors
    for j in range(features.shape[0]):
        vectors[COORDINATES, j] += weight * shrink * vectors[ROTATED, j]
        vectors[TOTAL, j] += weight * features[j]
        vectors[STATISTIC, j] = vectors[PRIOR, j] + vectors[TOTAL, j]
    state.counts[ROUND] += 1
