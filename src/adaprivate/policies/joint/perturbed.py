"""Linear UCB with changing perturbations (Shariff & Sheffet 2018, Algorithm 1): one implementation for every noise.

A round adds x x' to G and y x to u, y = 2 r - 1 being the reward on their scale, [-1, 1]. Choices see V = G + H and u + h,
where (H, h) is noise, shifted by a public multiple of the identity. Released every round, the noise is that of a binary
tree over rounds.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, entry, kernel
from adaprivate.offered import Offered, how_many, row
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.propensities import certain, propensities_of
from adaprivate.policies.joint.trees import add_wishart, grow_gaussian, grow_wishart, settle


class Law(IntEnum):
    """What the noise of a tree's node is drawn from."""

    NONE = 0
    GAUSSIAN = 1
    WISHART = 2


class JointState(NamedTuple):
    """Everything these policies remember. Symmetric matrices are lower triangles, row by row in flat vectors."""

    whitener: Floats
    """W, lower triangular, with W' W = V^-1, V as last released."""
    gram: Floats
    """The true G: private."""
    total: Floats
    """The true u: private."""
    statistic: Floats
    """u + h as last released."""
    coordinates: Floats
    """W (u + h)."""
    above: Floats
    """The noise of the tree: private. In row l that of all levels from l up, H's triangle then h; the last row is zero."""
    resting: Floats
    """Wishart noise: what a level adds while none of its blocks is in use, a node drawn at the start: private."""
    noise: Floats
    """Batched releases: the simulated noise of each, H's triangle then h."""
    ends: Integers
    """Batched releases: the round after which each is made. Empty: every round is released, with tree noise."""
    scratch: Floats
    """Room for a (d + 1) x d matrix."""
    scalars: Record
    """``width``, beta; the ``law``, ``scale`` and ``degrees`` of freedom of node noise; the ``shift`` of H; ``rho_min``;
    ``confidence``, 2 log(2 / alpha); ``constant``, S sqrt(rho_max) + gamma; ``subgaussian``, sigma; ``rounds`` to release;
    ``round`` and ``batch``, rounds seen and releases made; ``repaired``, pivots raised to rho_min."""
    words: Streams
    """The stream of the tree's noise: private."""


@kernel
def _publish(state: JointState, noise: Floats, row: int) -> None:
    """Factorise V = G + H, find W (u + h) and beta (Prop. 4)."""
    factor, whitener, s = state.scratch, state.whitener, state.scalars[0]
    d = whitener.shape[0]
    least = s.rho_min
    determinant, log_determinant = 1.0, 0.0
    place = 0
    for i in range(d):
        for j in range(i + 1):
            entry = state.gram[i, j] + noise[row, place]
            place += 1
            if j == i:
                entry += s.shift
            for m in range(j):
                entry -= factor[i, m] * factor[j, m]
            if j < i:
                factor[i, j] = entry * factor[j, j]
            else:
                if not entry > 1e-6 * least:
                    entry = least
                    s.repaired += 1
                determinant *= entry
                if determinant > 1e200 or determinant < 1e-200:
                    log_determinant += math.log(determinant)
                    determinant = 1.0
                factor[i, i] = 1.0 / math.sqrt(entry)  # the diagonal holds its inverse
    log_determinant += math.log(determinant)
    for i in range(d):
        for j in range(i):
            total = 0.0
            for m in range(j, i):
                total += factor[i, m] * whitener[m, j]
            whitener[i, j] = -total * factor[i, i]
        whitener[i, i] = factor[i, i]
    for i in range(d):
        state.statistic[i] = state.total[i] + noise[row, place + i]
        total = 0.0
        for j in range(i + 1):
            total += whitener[i, j] * state.statistic[j]
        state.coordinates[i] = total
    spread = s.confidence + log_determinant - d * math.log(least)
    s.width = s.subgaussian * math.sqrt(max(spread, 0.0)) + s.constant


@entry
def begin(state: JointState) -> None:
    """Draw what resting levels add, and release nothing but noise: what the first round sees."""
    s, levels = state.scalars[0], state.resting.shape[0]
    for level in range(levels - 1, -1, -1):
        add_wishart(state.above, levels, state.resting, level, s.scale, s.degrees, state.scratch, state.words)
    settle(state.above, state.resting, levels)
    _publish(state, state.above, 0)


@kernel
def _higher(score: float, top: float) -> bool:
    """Whether the score is larger, by more than rounding: the first among equals is chosen."""
    return score > top + 1e-12 * (1.0 + abs(top))


@selects.of(JointState, offers=True)
def _select(state: JointState, candidates: Offered, rng: Streams) -> int:
    whitener, w, width = state.whitener, state.coordinates, state.scalars[0].width
    last = how_many(candidates) - 1
    best = 0
    top = -1e300
    for a in range(0, last + 1, 4):  # four candidates at a time: twice as fast as one by one
        b, c, d = min(a + 1, last), min(a + 2, last), min(a + 3, last)
        x_a, x_b, x_c, x_d = row(candidates, a), row(candidates, b), row(candidates, c), row(candidates, d)
        score_a, score_b, score_c, score_d = 0.0, 0.0, 0.0, 0.0
        square_a, square_b, square_c, square_d = 0.0, 0.0, 0.0, 0.0
        for i in range(w.shape[0]):
            white_a, white_b, white_c, white_d = 0.0, 0.0, 0.0, 0.0
            for j in range(i + 1):
                entry = whitener[i, j]
                white_a += entry * x_a[j]
                white_b += entry * x_b[j]
                white_c += entry * x_c[j]
                white_d += entry * x_d[j]
            score_a += white_a * w[i]
            score_b += white_b * w[i]
            score_c += white_c * w[i]
            score_d += white_d * w[i]
            square_a += white_a * white_a
            square_b += white_b * white_b
            square_c += white_c * white_c
            square_d += white_d * white_d
        score_a += width * math.sqrt(square_a)
        score_b += width * math.sqrt(square_b)
        score_c += width * math.sqrt(square_c)
        score_d += width * math.sqrt(square_d)
        if _higher(score_a, top):
            best, top = a, score_a
        if _higher(score_b, top):
            best, top = b, score_b
        if _higher(score_c, top):
            best, top = c, score_c
        if _higher(score_d, top):
            best, top = d, score_d
    return best


propensities_of(JointState)(certain)


@updates.of(JointState)
def _update(state: JointState, features: Floats, reward: float, rng: Streams) -> None:
    s, above = state.scalars[0], state.above
    y = 2.0 * reward - 1.0
    d = features.shape[0]
    for i in range(d):
        state.total[i] += y * features[i]
        for j in range(i + 1):
            state.gram[i, j] += features[i] * features[j]
    s.round += 1
    if state.ends.shape[0] > 0:
        if s.batch < state.ends.shape[0] and s.round == state.ends[s.batch]:
            _publish(state, state.noise, s.batch)
            s.batch += 1
    elif s.round <= s.rounds:
        if s.law == Law.GAUSSIAN:
            grow_gaussian(above, s.round, d, s.scale, state.words)
        elif s.law == Law.WISHART:
            grow_wishart(above, state.resting, s.round, s.scale, s.degrees, state.scratch, state.words)
        _publish(state, above, 0)
        s.batch += 1
