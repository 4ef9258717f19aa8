"""The linear core: a design matrix in square-root form, and the rules that choose.

The design matrix A = ridge I + sum x x' is public. It is kept as a dense S with S S' = A^-1, and the released statistic b
as w = S' b; then theta = S (w + v z), z standard normal, has exactly the law N(A^-1 b, v^2 A^-1), and one more row costs a
rank-one update of S (Potter): four passes over d x d numbers, no factorisation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Dispatch, Record, Streams, below, kernel, normals, on_stack, record, uniform
from adaprivate.offered import Offered, how_many, row
from adaprivate.policies.core.dispatch import counts, reads, selects
from adaprivate.policies.core.lanes import (
    LANES,
    ROOM,
    ROWS,
    drawn_in,
    four_scores,
    keep_best,
    no_best,
    rotated,
    side_by_side,
    small_row,
    small_sample,
    the_best,
    times,
    times_turned,
)
from adaprivate.policies.core.propensities import Propensities, certain, gaussian_best, propensities_of

_U = np.uint64  # of places from 0 on: no code asks whether they are counted from the end
TIE = 1e-12
"""Upper confidence bounds that differ by no more, relative to 1 + theirs, are equal: the first is chosen."""


class LinearState(NamedTuple):
    """Everything a linear policy knows: public, it never holds a reward that was not released."""

    root: Floats
    """S, with S S' = A^-1."""
    coordinates: Floats
    """w = S' b."""
    statistic: Floats
    """b as last released; not kept by policies that learn each reward by itself."""
    prior: Floats
    """ridge theta_0, with which b begins."""
    rotated: Floats
    """The last S' x, or scratch."""
    parameter: Floats
    """The last sampled theta."""
    scalars: Record
    """Exploration ``width``, its ``decay`` per batch, the constant ``gamma`` of forced exploration (0: none), ``shrink``,
    that of S' x by the last row; rounds seen, batches read, rounds of forced exploration."""


class ThompsonState(LinearState):
    """Reads running sums, chooses by a posterior sample."""


class OptimisticState(LinearState):
    """Reads running sums, chooses by an upper confidence bound."""


class OnlineThompsonState(LinearState):
    """Reads the reward of every round, chooses by a posterior sample."""


class OnlineOptimisticState(LinearState):
    """Reads the reward of every round, chooses by an upper confidence bound."""


def aligned(matrix: Floats) -> Floats:
    """A copy that begins where a line of the processor's cache does: reading a large one is a fifth faster."""
    room = np.zeros(matrix.size + 8)  # a view shows its base, with what is before and after it
    start = -room.ctypes.data % 64 // 8
    copy = room[start : start + matrix.size].reshape(matrix.shape)
    copy[...] = matrix
    return copy


def linear_state(
    kind: type[LinearState],
    *,
    dimension: int,
    ridge: float,
    width: float,
    decay: float = 1.0,
    gamma: float = 0.0,
    theta_0: Floats | None = None,
) -> LinearState:
    """The state before the first round."""
    root = aligned(np.eye(dimension) / math.sqrt(ridge))
    prior = np.zeros(dimension) if theta_0 is None else ridge * np.asarray(theta_0, dtype=np.float64)
    return kind(
        root=root,
        coordinates=root @ prior,
        statistic=prior.copy(),
        prior=prior,
        rotated=np.zeros(dimension),
        parameter=np.zeros(dimension),
        scalars=record(
            width=float(width), decay=float(decay), gamma=float(gamma), shrink=1.0, round=0, batch=0, forced_rounds=0
        ),
    )


@kernel
def rotate(root: Floats, vector: Floats, out: Floats) -> None:
    """out = S' vector, the vector followed by 1 if there is room for an intercept."""
    times_turned(root, vector, out)
    d, size = vector.shape[0], out.shape[0]
    if size > d:
        for j in range(size):
            out[j] += root[d, j]


@kernel
def dot(a: Floats, b: Floats) -> float:
    """a' b; ``b`` may go on beyond ``a``."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel
def narrow(root: Floats, phi: Floats, gain: float) -> None:
    """S <- S (I - gain phi phi')."""
    drawn_in(root, phi, gain)


@kernel
def widen(root: Floats, phi: Floats, features: Floats) -> float:
    """Add x x' to A; returns 1 + x' A^-1 x and leaves S' x, both before the change, the latter in ``phi``."""
    rotate(root, features, phi)
    grown = 1.0 + dot(phi, phi)
    narrow(root, phi, 1.0 / (grown + math.sqrt(grown)))
    return grown


@kernel
def absorb(root: Floats, w: Floats, phi: Floats, features: Floats) -> float:
    """Add x x' to A and keep w = S' b; returns 1 / sqrt(1 + x' A^-1 x) and leaves S' x, before the change, in ``phi``."""
    if w.shape[0] <= LANES:
        return float(small_row(root, w, phi, features, 1.0, False))
    grown = widen(root, phi, features)
    along = 1.0 / (grown + math.sqrt(grown)) * dot(phi, w)
    for j in range(w.shape[0]):
        w[j] -= along * phi[j]
    return 1.0 / math.sqrt(grown)


@kernel
def credit(w: Floats, phi: Floats, weight: float) -> None:
    """Add weight x to b, after :func:`absorb`; the weight includes its shrink: S' x is now what it was times that."""
    for j in range(w.shape[0]):
        w[j] += weight * phi[j]


@kernel
def sample_parameter(root: Floats, w: Floats, width: float, z: Floats, theta: Floats, rng: Streams) -> None:
    """theta ~ N(S w, width^2 S S'), as many entries as theta has; ``z`` is scratch."""
    normals(rng, 0, z)
    if w.shape[0] <= LANES:
        small_sample(root, w, width, z, theta)
        return
    for j in range(w.shape[0]):
        z[j] = w[j] + width * z[j]
    times(root, z, theta)


def highest(candidates: Floats | Offered, theta: Floats) -> int:
    """The candidate with the largest score, the first among equals; theta may go on beyond the features."""
    raise TypeError(f"{type(candidates).__name__} cannot be scored")


def most_optimistic(root: Floats, w: Floats, width: float, phi: Floats, candidates: Floats | Offered) -> int:
    """The candidate with the largest x' A^-1 b + width sqrt(x' A^-1 x), the first among equals (up to rounding)."""
    raise TypeError(f"{type(candidates).__name__} cannot be scored")


def most_hopeful(root: Floats, theta: Floats, width: float, phi: Floats, candidates: Floats | Offered) -> int:
    """The candidate with the largest theta' x + width |S' x|, the first among equals (up to rounding)."""
    raise TypeError(f"{type(candidates).__name__} cannot be scored")


@kernel
def highest_of_each(candidates: Any, theta: Floats) -> int:
    """As :func:`highest`, one after the other."""
    scores, best, last = on_stack(ROWS), on_stack(LANES), how_many(candidates) - 1
    no_best(best)
    for first in range(0, last + 1, ROWS):
        a, b, c, d = _U(first), _U(min(first + 1, last)), _U(min(first + 2, last)), _U(min(first + 3, last))
        four_scores(row(candidates, a), row(candidates, b), row(candidates, c), row(candidates, d), theta, scores)
        keep_best(scores, first, best)
    return min(int(the_best(best)), last)


@kernel
def beyond(score: float) -> float:
    """What is larger than this score by more than rounding."""
    return score + TIE * (1.0 + abs(score))


@kernel
def most_optimistic_of_each(root: Floats, w: Floats, width: float, phi: Floats, candidates: Any) -> int:
    """As :func:`most_optimistic`, one after the other."""
    best, bar = 0, -1e300
    block, along, spread = on_stack(ROOM), on_stack(LANES), on_stack(LANES)
    count, size = how_many(candidates), w.shape[0]
    for first in range(0, count, LANES):
        together = side_by_side(candidates, first, size, block)
        if together:
            rotated(root, block, w, width, along, spread)
        for lane in range(min(LANES, count - first)):
            if not together:
                rotate(root, row(candidates, first + lane), phi)
                along[lane], spread[lane] = dot(phi, w), width * math.sqrt(dot(phi, phi))
            score = along[lane] + spread[lane]
            if score > bar:
                best, bar = first + lane, beyond(score)
    return best


@kernel
def most_hopeful_of_each(root: Floats, theta: Floats, width: float, phi: Floats, candidates: Any) -> int:
    """As :func:`most_hopeful`, one after the other."""
    best, bar = 0, -1e300
    block, along, spread = on_stack(ROOM), on_stack(LANES), on_stack(LANES)
    count, size = how_many(candidates), phi.shape[0]
    for first in range(0, count, LANES):
        together = side_by_side(candidates, first, size, block)
        if together:
            rotated(root, block, theta, width, along, spread)
        for lane in range(min(LANES, count - first)):
            features = row(candidates, first + lane)
            if not together:
                rotate(root, features, phi)
                spread[lane] = width * math.sqrt(dot(phi, phi))
            score = dot(features, theta) + spread[lane]
            if score > bar:
                best, bar = first + lane, beyond(score)
    return best


highests = Dispatch(highest, highest_of_each.py_func)  # type: ignore[attr-defined]
optimists = Dispatch(most_optimistic, most_optimistic_of_each.py_func, by="candidates")  # type: ignore[attr-defined]
hopes = Dispatch(most_hopeful, most_hopeful_of_each.py_func, by="candidates")  # type: ignore[attr-defined]
"""Candidates may bring a faster way to the same choice, as a catalogue does (:mod:`adaprivate.policies.core.stock`)."""


@kernel
def solve(root: Floats, vector: Floats, phi: Floats, out: Floats) -> None:
    """out = A^-1 vector; leaves S' vector in ``phi``."""
    rotate(root, vector, phi)
    times(root, phi, out)


@kernel
def factorise(lower: Floats, least: float, instead: float) -> int:
    """Replace the lower triangle of a symmetric matrix by L, L L' = the matrix; the diagonal holds the inverse of L's.

    Pivots that are not above ``least`` become ``instead``; returns how many.
    """
    replaced = 0
    for i in range(lower.shape[1]):
        for j in range(i + 1):
            entry = lower[i, j]
            for m in range(j):
                entry -= lower[i, m] * lower[j, m]
            if j < i:
                lower[i, j] = entry * lower[j, j]
            else:
                if not entry > least:
                    entry = instead
                    replaced += 1
                lower[i, i] = 1.0 / math.sqrt(entry)
    return replaced


@kernel
def inverse_root(lower: Floats, root: Floats) -> None:
    """Upper triangular S with S S' = (L L')^-1, L as :func:`factorise` leaves it."""
    for j in range(root.shape[0]):
        for i in range(j):
            root[j, i] = 0.0
        root[j, j] = lower[j, j]
        for i in range(j + 1, root.shape[0]):
            total = 0.0
            for m in range(j, i):
                total += lower[i, m] * root[j, m]
            root[j, i] = -total * lower[i, i]


@kernel
def forced(state: LinearState, rng: Streams) -> bool:
    """Whether this round explores at random: with probability min(1, d log t / (t gamma)), Sec 6.2."""
    s = state.scalars[0]
    if s.gamma <= 0.0:
        return False
    t = s.round + 1.0
    explore = uniform(rng, 1) * t * s.gamma < state.root.shape[0] * math.log(t)
    if explore:
        s.forced_rounds += 1
    return bool(explore)


@selects.of(ThompsonState, offers=True)
@selects.of(OnlineThompsonState, offers=True)
def _thompson(state: LinearState, candidates: Offered, rng: Streams) -> int:
    if forced(state, rng):
        return below(rng, 1, how_many(candidates))
    sample_parameter(state.root, state.coordinates, state.scalars[0].width, state.rotated, state.parameter, rng)
    return highest(candidates, state.parameter)


@selects.of(OptimisticState, offers=True)
@selects.of(OnlineOptimisticState, offers=True)
def _optimistic(state: LinearState, candidates: Offered, rng: Streams) -> int:
    if forced(state, rng):
        return below(rng, 1, how_many(candidates))
    return most_optimistic(state.root, state.coordinates, state.scalars[0].width, state.rotated, candidates)


@counts.of(ThompsonState)
@counts.of(OptimisticState)
@counts.of(OnlineThompsonState)
@counts.of(OnlineOptimisticState)
def _counted(state: LinearState, features: Floats) -> None:
    s = state.scalars[0]
    s.shrink = absorb(state.root, state.coordinates, state.rotated, features)
    s.round += 1


@reads.of(ThompsonState)
@reads.of(OptimisticState)
def _read_running_sum(state: LinearState, released: Floats) -> None:
    for j in range(released.shape[0]):
        state.statistic[j] = state.prior[j] + released[j]
    rotate(state.root, state.statistic, state.coordinates)
    s = state.scalars[0]
    s.batch += 1
    s.width *= s.decay


@reads.of(OnlineThompsonState)
@reads.of(OnlineOptimisticState)
def _read_reward(state: LinearState, released: Floats) -> None:
    s = state.scalars[0]
    credit(state.coordinates, state.rotated, released[0] * s.shrink)
    s.batch += 1


def mixed_with_forced(state: LinearState, found: Propensities) -> Propensities:
    """These probabilities where the next round may explore at random instead (Sec 6.2)."""
    s = state.scalars[0]
    if s["gamma"] <= 0:
        return found
    t = s["round"] + 1.0
    random = float(min(1.0, len(state.root) * math.log(t) / (t * s["gamma"])))
    count = found.probability.shape[1]
    return Propensities((1 - random) * found.probability + random / count, (1 - random) * found.error)


@propensities_of(ThompsonState)
@propensities_of(OnlineThompsonState)
def _thompson_propensities(state: LinearState, candidates: Floats, **how: Any) -> Propensities:
    rotated = candidates @ state.root
    found = gaussian_best(rotated @ state.coordinates, state.scalars[0]["width"] * rotated, **how)
    return mixed_with_forced(state, found)


@propensities_of(OptimisticState)
@propensities_of(OnlineOptimisticState)
def _optimistic_propensities(state: LinearState, candidates: Floats, **how: Any) -> Propensities:
    unforced = state.scalars.copy()
    unforced["gamma"] = 0.0
    return mixed_with_forced(state, certain(state._replace(scalars=unforced), candidates))
