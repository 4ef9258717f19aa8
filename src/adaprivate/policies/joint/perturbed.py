"""Linear UCB with changing perturbations (Shariff & Sheffet 2018, Algorithm 1): one implementation for every noise.

A round adds x x' to G and y x to u, y = 2 r - 1 being the reward on their scale, [-1, 1]. Choices see V = G + H and u + h,
where (H, h) is noise, shifted by a public multiple of the identity. Released every round, the noise is that of a binary
tree over rounds: of one node for each block of 1, 2, 4, ... rounds, of those that tile the rounds so far. A block inside a
larger complete one is never used again, so one node is drawn per round and one kept per level: memory is O(d^2 log n).
Node noise comes from a stream of the seed with a purpose of its own: it is simulated.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams, entry, kernel, normal, uniform
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import Integers

NONE, GAUSSIAN, WISHART, LAPLACE = range(4)
"""Kinds of node noise."""
# positions in JointState.numbers
WIDTH, SCALE, DEGREES, SHIFT, LEAST, CONFIDENCE, CONSTANT, SUBGAUSSIAN = range(8)
# positions in JointState.counts
ROUND, BATCH, REPAIRED, ROUNDS, KIND = range(5)
# rows of JointState.vectors
TOTAL, STATISTIC, COORDINATES = range(3)


class JointState(NamedTuple):
    """Everything these policies remember. Symmetric matrices are lower triangles, row by row in flat vectors."""

    whitener: Floats
    """W, lower triangular, with W' W = V^-1, V as last released."""
    vectors: Floats
    """The true u, which is private; u + h as last released; W (u + h)."""
    gram: Floats
    """The true G, which is private."""
    above: Floats
    """In row l the noise of all tree levels from l up, H's triangle then h; the last row is zero."""
    resting: Floats
    """What a level adds while none of its blocks is in use: zero, or with Wishart noise a node drawn at the start."""
    noise: Floats
    """Batched releases: the noise of each, H's triangle then h."""
    ends: Integers
    """Batched releases: the round after which each is made. Empty: every round is released, with tree noise."""
    scratch: Floats
    """Room for a (d + 1) x d matrix."""
    numbers: Floats
    """beta; the noise's scale and degrees of freedom; the shift of H; rho_min; 2 log(2 / alpha); S sqrt(rho_max) + gamma;
    sigma."""
    counts: Integers
    """Rounds seen, batches released, pivots raised to rho_min, rounds to release, kind of noise."""
    words: Streams
    """The stream of the tree's noise."""


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
def _add_node(state: Any, source: int, out: Floats, target: int) -> None:
    """out[target] = above[source] + the noise of one node.

    Gaussian: independent entries, sqrt(2) larger on the diagonal of H. Wishart: the first d columns of L L', where L is the
    triangle of a Wishart matrix of size d + 1 (Bartlett): chi on the diagonal, normal below. Laplace: independent entries.
    """
    above, words, scale = state.above, state.words, state.numbers[SCALE]
    d = state.gram.shape[0]
    place = 0
    if state.counts[KIND] == GAUSSIAN:
        for i in range(d):
            for j in range(i + 1):
                size = scale if j < i else scale * math.sqrt(2.0)
                out[target, place] = above[source, place] + size * normal(words, 0)
                place += 1
        for _ in range(d):
            out[target, place] = above[source, place] + scale * normal(words, 0)
            place += 1
    elif state.counts[KIND] == WISHART:
        triangle, degrees = state.scratch, state.numbers[DEGREES]
        for i in range(d + 1):
            for j in range(min(i, d)):
                triangle[i, j] = normal(words, 0)
            if i < d:
                triangle[i, i] = math.sqrt(_chi_square(words, degrees - i))
        for i in range(d + 1):
            for j in range(min(i + 1, d)):
                total = 0.0
                for m in range(j + 1):
                    total += triangle[i, m] * triangle[j, m]
                out[target, place] = above[source, place] + scale * total
                place += 1
    elif state.counts[KIND] == LAPLACE:
        for entry in range(above.shape[1]):
            size = -scale * math.log1p(-uniform(words, 0))
            out[target, entry] = above[source, entry] + (size if uniform(words, 0) < 0.5 else -size)


@kernel
def grow_tree(state: Any, t: int) -> None:
    """Round t (from 1) completes blocks, the largest of which replaces those inside it; row 0 of ``above`` follows."""
    above, resting = state.above, state.resting
    level = 0
    while (t >> level) & 1 == 0:
        level += 1
    _add_node(state, level + 1, above, level)
    for under in range(level - 1, -1, -1):
        for j in range(above.shape[1]):
            above[under, j] = above[under + 1, j] + resting[under, j]


@kernel
def _publish(state: JointState, noise: Floats, row: int) -> None:
    """Factorise V = G + H, find W (u + h) and beta (Prop. 4)."""
    factor, whitener, vectors, numbers = state.scratch, state.whitener, state.vectors, state.numbers
    d = whitener.shape[0]
    least = numbers[LEAST]
    determinant, log_determinant = 1.0, 0.0
    place = 0
    for i in range(d):
        for j in range(i + 1):
            entry = state.gram[i, j] + noise[row, place]
            place += 1
            if j == i:
                entry += numbers[SHIFT]
            for m in range(j):
                entry -= factor[i, m] * factor[j, m]
            if j < i:
                factor[i, j] = entry * factor[j, j]
            else:
                if not entry > 1e-6 * least:
                    entry = least
                    state.counts[REPAIRED] += 1
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
        vectors[STATISTIC, i] = vectors[TOTAL, i] + noise[row, place + i]
        total = 0.0
        for j in range(i + 1):
            total += whitener[i, j] * vectors[STATISTIC, j]
        vectors[COORDINATES, i] = total
    spread = numbers[CONFIDENCE] + log_determinant - d * math.log(least)
    numbers[WIDTH] = numbers[SUBGAUSSIAN] * math.sqrt(max(spread, 0.0)) + numbers[CONSTANT]


@entry
def begin(state: JointState) -> None:
    """Draw what resting levels add, and release nothing but noise: what the first round sees."""
    for level in range(state.resting.shape[0] - 1, -1, -1):
        if state.counts[KIND] == WISHART:
            _add_node(state, state.above.shape[0] - 1, state.resting, level)
        for j in range(state.above.shape[1]):
            state.above[level, j] = state.above[level + 1, j] + state.resting[level, j]
    _publish(state, state.above, 0)


@kernel
def _higher(score: float, top: float) -> bool:
    """Whether the score is larger, by more than rounding: the first among equals is chosen."""
    return score > top + 1e-12 * (1.0 + abs(top))


@selects.of(JointState)
def _select(state: JointState, candidates: Floats, rng: Streams) -> int:
    whitener, w, width = state.whitener, state.vectors[COORDINATES], state.numbers[WIDTH]
    last = candidates.shape[0] - 1
    best = 0
    top = -1e300
    for a in range(0, last + 1, 4):  # four candidates at a time: twice as fast as one by one
        b, c, d = min(a + 1, last), min(a + 2, last), min(a + 3, last)
        score_a, score_b, score_c, score_d = 0.0, 0.0, 0.0, 0.0
        square_a, square_b, square_c, square_d = 0.0, 0.0, 0.0, 0.0
        for i in range(candidates.shape[1]):
            white_a, white_b, white_c, white_d = 0.0, 0.0, 0.0, 0.0
            for j in range(i + 1):
                entry = whitener[i, j]
                white_a += entry * candidates[a, j]
                white_b += entry * candidates[b, j]
                white_c += entry * candidates[c, j]
                white_d += entry * candidates[d, j]
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


@updates.of(JointState)
def _update(state: JointState, features: Floats, reward: float, rng: Streams) -> None:
    y = 2.0 * reward - 1.0
    d = features.shape[0]
    for i in range(d):
        state.vectors[TOTAL, i] += y * features[i]
        for j in range(i + 1):
            state.gram[i, j] += features[i] * features[j]
    state.counts[ROUND] += 1
    t, batch = state.counts[ROUND], state.counts[BATCH]
    if state.ends.shape[0] > 0:
        if batch < state.ends.shape[0] and t == state.ends[batch]:
            _publish(state, state.noise, batch)
            state.counts[BATCH] += 1
    elif t <= state.counts[ROUNDS]:
        if state.counts[KIND] != NONE:
            grow_tree(state, t)
        _publish(state, state.above, 0)
        state.counts[BATCH] += 1


def stream_table(words: Streams) -> Floats:
    """The state of a stream in whole numbers that floats hold exactly, as a row of noise."""
    return np.array([[float(word >> shift & 0xFFFFFFFF) for word in map(int, words[0, :4]) for shift in (32, 0)]])


def stream_of(table: Floats) -> Streams:
    """The stream of :func:`stream_table`."""
    words = np.zeros((1, 16), dtype=np.uint64)
    for place in range(4):
        words[0, place] = (int(table[0, 2 * place]) << 32) | int(table[0, 2 * place + 1])
    return words
