"""Noise of a binary tree over rounds: one node for each block of 1, 2, 4, ... rounds, those that tile the rounds so far.

A block inside a larger complete one is never used again, so one node is drawn per round and one kept per level: memory is
O(entries log n). Row l of ``above`` is the noise of all levels from l up, row 0 what a release adds; the last row is zero.
The entries are a matrix's lower triangle, row by row, then a vector. Node noise comes from a stream of the seed with a
purpose of its own: it is simulated.
"""

from __future__ import annotations

import math

from adaprivate.check import Floats
from adaprivate.compiled import Streams, kernel, normal, uniform


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
    for entry in range(above.shape[1]):
        size = -scale * math.log1p(-uniform(words, 0))
        above[level, entry] = above[level + 1, entry] + (size if uniform(words, 0) < 0.5 else -size)
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


def entries(dimension: int) -> int:
    """How many numbers a node has: a triangle and a vector."""
    return dimension * (dimension + 3) // 2
