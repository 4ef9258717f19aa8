"""Linear UCB with changing perturbations (Shariff & Sheffet 2018, Algorithm 1), and the trees of noise that perturb it.

A round adds x x' to G and y x to u, y = 2 r - 1 being the reward on their scale, [-1, 1]. Choices see V = G + H and u + h,
where (H, h) is noise, shifted by a public multiple of the identity. Released every round, the noise is that of a binary
tree over rounds: one node for each block of 1, 2, 4, ... rounds, those that tile the rounds so far.

A block inside a larger complete one is never used again, so one node is drawn per round and one kept per level: memory is
O(entries log n). Row l of ``above`` is the noise of all levels from l up, row 0 what a release adds; the last row is zero.
The entries are a matrix's lower triangle, row by row, then a vector. Node noise comes from a stream of the seed with a
purpose of its own: it is simulated.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, entry, kernel, normal, uniform
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import factorise, inverse_root, most_optimistic, rotate
from adaprivate.policies.core.propensities import certain, propensities_of


@kernel
def completed(t: int) -> int:
    """The level of the largest block that round t (from 1) completes; its node replaces those inside it."""
    level = 0
    while (t >> level) & 1 == 0:
        level += 1
    return level


@kernel
def settle(above: Floats, resting: Floats, level: int) -> None:
    """Bring the rows below ``level``, at rest, up to date: each adds its row of ``resting``, where it has one."""
    for under in range(level - 1, -1, -1):
        rests = under < resting.shape[0]
        for j in range(above.shape[1]):
            above[under, j] = above[under + 1, j] + (resting[under, j] if rests else 0.0)


@kernel
def grow_gaussian(above: Floats, t: int, d: int, scale: float, words: Streams) -> None:
    """Round t completes a node with independent entries, sqrt(2) larger on the diagonal of the triangle (d, d)."""
    level = completed(t)
    place = 0
    for i in range(d):
        for j in range(i + 1):
            size = scale if j < i else scale * math.sqrt(2.0)
            above[level, place] = above[level + 1, place] + size * normal(words, 0)
            place += 1
    for _ in range(d):
        above[level, place] = above[level + 1, place] + scale * normal(words, 0)
        place += 1
    settle(above, above[:0], level)


@kernel
def grow_laplace(above: Floats, t: int, scale: float, words: Streams) -> None:
    """Round t completes a node with independent entries."""
    level = completed(t)
    for place in range(above.shape[1]):
        size = -scale * math.log1p(-uniform(words, 0))
        above[level, place] = above[level + 1, place] + (size if uniform(words, 0) < 0.5 else -size)
    settle(above, above[:0], level)


@kernel
def add_wishart(
    above: Floats, source: int, out: Floats, target: int, scale: float, degrees: int, triangle: Floats, words: Streams
) -> None:
    """out[target] = above[source] + a node's noise: the first d columns of a Wishart matrix of size d + 1.

    That is L L', by Bartlett: chi on the diagonal of the triangle L, normal below; ``triangle`` is room for it.
    """
    d = triangle.shape[1]
    for i in range(d + 1):
        for j in range(min(i, d)):
            triangle[i, j] = normal(words, 0)
        if i < d:
            triangle[i, i] = math.sqrt(_chi_square(words, degrees - i))
    place = 0
    for i in range(d + 1):
        for j in range(min(i + 1, d)):
            total = 0.0
            for m in range(j + 1):
                total += triangle[i, m] * triangle[j, m]
            out[target, place] = above[source, place] + scale * total
            place += 1


@kernel
def grow_wishart(
    above: Floats, resting: Floats, t: int, scale: float, degrees: int, triangle: Floats, words: Streams
) -> None:
    """Round t completes a node with Wishart noise."""
    level = completed(t)
    add_wishart(above, level + 1, above, level, scale, degrees, triangle, words)
    settle(above, resting, level)


@kernel
def _chi_square(words: Streams, degrees: float) -> float:
    """A chi-square number (Marsaglia & Tsang 2000); degrees >= 2."""
    size = 0.5 * degrees - 1.0 / 3.0
    slope = 1.0 / math.sqrt(9.0 * size)
    while True:
        x = normal(words, 0)
        v = 1.0 + slope * x
        if v > 0.0:
            v = v * v * v
            u = uniform(words, 0)
            if u < 1.0 - 0.0331 * x * x * x * x or math.log(u) < 0.5 * x * x + size * (1.0 - v + math.log(v)):
                return 2.0 * size * v


@kernel
def perturb(gram: Floats, total: Floats, noise: Floats, shift: float, lower: Floats, vector: Floats) -> None:
    """What is released: the lower triangle of gram + H + shift I, and total + h; the noise is H's triangle, then h."""
    d, place = total.shape[0], 0
    for i in range(d):
        for j in range(i + 1):
            lower[i, j] = gram[i, j] + noise[place]
            place += 1
        lower[i, i] += shift
    for i in range(d):
        vector[i] = total[i] + noise[place + i]


def entries(dimension: int) -> int:
    """How many numbers a node has: a triangle and a vector."""
    return dimension * (dimension + 3) // 2


class Law(IntEnum):
    """What the noise of a tree's node is drawn from."""

    NONE = 0
    GAUSSIAN = 1
    WISHART = 2


class JointState(NamedTuple):
    """Everything these policies remember. Symmetric matrices are lower triangles, row by row in flat vectors."""

    root: Floats  # S, upper triangular, with S S' = V^-1, V as last released.
    gram: Floats  # The true G: private.
    total: Floats  # The true u: private.
    statistic: Floats  # u + h as last released.
    coordinates: Floats  # S' (u + h).
    rotated: Floats  # Scratch.
    above: Floats
    """The noise of the tree: private. In row l that of all levels from l up, H's triangle then h; the last row is zero."""
    resting: Floats
    """Wishart noise: what a level adds while none of its blocks is in use, a node drawn at the start: private."""
    noise: Floats  # Batched releases: the simulated noise of each, H's triangle then h.
    ends: Integers  # Batched releases: the round after which each is made. Empty: every round is released, with tree noise.
    scratch: Floats  # Room for a (d + 1) x d matrix.
    scalars: Record
    """``width``, beta; the ``law``, ``scale`` and ``degrees`` of freedom of node noise; the ``shift`` of H; ``rho_min``;
    ``confidence``, 2 log(2 / alpha); ``constant``, S sqrt(rho_max) + gamma; ``subgaussian``, sigma; ``rounds`` to release;
    ``round`` and ``batch``, rounds seen and releases made; ``repaired``, pivots raised to rho_min."""
    words: Streams  # The stream of the tree's noise: private.


@kernel
def _publish(state: JointState, noise: Floats) -> None:
    """Find a root of V^-1, V = G + H, then S' (u + h) and beta (Prop. 4)."""
    factor, s = state.scratch, state.scalars[0]
    d, least = state.root.shape[0], s.rho_min
    perturb(state.gram, state.total, noise, s.shift, factor, state.statistic)
    s.repaired += factorise(factor, 1e-6 * least, least)
    inverse_root(factor, state.root)
    rotate(state.root, state.statistic, state.coordinates)
    log_determinant = 0.0
    for i in range(d):
        log_determinant -= 2.0 * math.log(factor[i, i])
    spread = s.confidence + log_determinant - d * math.log(least)
    s.width = s.subgaussian * math.sqrt(max(spread, 0.0)) + s.constant


@entry
def begin(state: JointState) -> None:
    """Draw what resting levels add, and release nothing but noise: what the first round sees."""
    s, levels = state.scalars[0], state.resting.shape[0]
    for level in range(levels - 1, -1, -1):
        add_wishart(state.above, levels, state.resting, level, s.scale, s.degrees, state.scratch, state.words)
    settle(state.above, state.resting, levels)
    _publish(state, state.above[0])


@selects.of(JointState, offers=True)
def _select(state: JointState, candidates: Offered, rng: Streams) -> int:
    return most_optimistic(state.root, state.coordinates, state.scalars[0].width, state.rotated, candidates)


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
            _publish(state, state.noise[s.batch])
            s.batch += 1
    elif s.round <= s.rounds:
        if s.law == Law.GAUSSIAN:
            grow_gaussian(above, s.round, d, s.scale, state.words)
        elif s.law == Law.WISHART:
            grow_wishart(above, state.resting, s.round, s.scale, s.degrees, state.scratch, state.words)
        _publish(state, above[0])
        s.batch += 1
