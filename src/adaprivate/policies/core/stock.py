"""Very many candidates that stay: scored coarsely, and exactly where that could change the choice.

A choice among 100,000 rows is bound by reading them. So each number is kept a second time as a whole number of 16 bits, in
blocks whose columns are contiguous: a quarter of the memory, and 16 rows at a time in vector instructions. A row whose
coarse score, plus a bound of all that rounding may have taken, is not above the best exact score so far cannot be chosen;
every other row is scored in double precision, in order, as :mod:`adaprivate.policies.core.linear` does. The choice is the
same; upper bounds are added up in another order there, so that at the edge of a tie either of two may win.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate.check import Floats, Integers
from adaprivate.compiled import kernel, on_stack, scan
from adaprivate.offered import counting, reading, writing_out
from adaprivate.policies.core.lanes import ROWS, four_scores
from adaprivate.policies.core.linear import (
    TIE,
    dot,
    highest_of_each,
    highests,
    hopes,
    most_hopeful_of_each,
    most_optimistic_of_each,
    optimists,
    rotate,
)

WIDE = 256
"""Rows in a block."""
LEVELS = 32767
"""The largest number of 16 bits."""
HALF_ULP = 2.0**-24
"""Single precision rounds by at most this share."""


class Stock(NamedTuple):
    """A table of items as compiled code reads it; public."""

    table: Floats
    """Feature vectors of norm at most 1 (N, d)."""
    places: Integers
    """Candidate a is row ``places[a]`` of the table; empty: the candidates are all its rows."""
    coarse: npt.NDArray[np.int16]
    """The table in whole numbers of steps (blocks, d, WIDE), the last block filled up with zeros; empty: not kept."""
    reach: float
    """The largest absolute value in the table: LEVELS steps."""


@counting.of(Stock)
def _count(candidates: Stock) -> int:
    chosen = len(candidates.places)
    return chosen if chosen > 0 else len(candidates.table)


@reading.of(Stock)
def _row(candidates: Stock, a: Any) -> Any:
    if candidates.places.shape[0] > 0:
        return candidates.table[candidates.places[a]]
    return candidates.table[a]


@writing_out.of(Stock)
def _write_out(candidates: Stock) -> Floats:
    if candidates.places.shape[0] == 0:
        return candidates.table
    rows = np.empty((candidates.places.shape[0], candidates.table.shape[1]))
    for a in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[a, j] = candidates.table[candidates.places[a], j]
    return rows


@kernel
def exact_score(
    table: Floats, a: int, theta: Floats, width: float, root: Floats, w: Floats, phi: Floats, rotated: bool
) -> float:
    """The score of a row in double precision, as :func:`~adaprivate.policies.core.linear.highest` and its like have it."""
    if width == 0.0 and not rotated:
        scores, first, last = on_stack(ROWS), a - a % ROWS, len(table) - 1  # with its neighbours, as ever
        second, third, fourth = table[min(first + 1, last)], table[min(first + 2, last)], table[min(first + 3, last)]
        four_scores(table[first], second, third, fourth, theta, scores)
        return float(scores[a - first])
    features = table[a]
    rotate(root, features, phi)
    mean = dot(phi, w) if rotated else dot(features, theta)
    return mean + width * math.sqrt(dot(phi, phi))


@kernel
def spread_of(root: Floats, product: Floats) -> float:
    """Fills in S S'; returns a bound of the length of S' x over that of x."""
    total = 0.0
    for i in range(root.shape[0]):
        for k in range(i + 1):
            entry = dot(root[i], root[k])
            product[i, k] = entry
            product[k, i] = entry
            total += entry * entry if i == k else 2.0 * entry * entry
    return math.sqrt(math.sqrt(total))


@kernel
def score_block(
    block: npt.NDArray[np.int16],
    weights: npt.NDArray[np.float32],
    base: np.float32,
    scores: npt.NDArray[np.float32],
) -> np.float32:
    """Coarse theta'x of a block; returns the largest."""
    wide = block.shape[1]
    for b in range(wide):
        scores[b] = base
    for k in range(block.shape[0]):
        weight = weights[k]
        for b in range(wide):
            scores[b] += np.float32(block[k, b]) * weight
    peak = scores[0]
    for b in range(1, wide):
        peak = max(peak, scores[b])
    return peak  # type: ignore[no-any-return]


@kernel
def add_bonus(
    block: npt.NDArray[np.int16],
    square: npt.NDArray[np.float32],
    cross: npt.NDArray[np.float32],
    base: np.float32,
    features: npt.NDArray[np.float32],
    work: npt.NDArray[np.float32],
    scores: npt.NDArray[np.float32],
) -> np.float32:
    """Adds width |S'x| to the scores of a block; returns the largest. ``square``: the lower half, filled up to fours."""
    wide, size = block.shape[1], square.shape[0]
    for k in range(block.shape[0]):
        for b in range(wide):
            features[k, b] = np.float32(block[k, b])
    for b in range(wide):
        work[2, b] = base
    for i in range(0, size, 2):
        for b in range(wide):
            work[0, b] = cross[i]
            work[1, b] = cross[i + 1]
        for k in range(0, i + 2, 4):  # a tile of 2 x 4, for every number read to be used twice
            a0, a1, a2, a3 = square[i, k], square[i, k + 1], square[i, k + 2], square[i, k + 3]
            b0, b1, b2, b3 = square[i + 1, k], square[i + 1, k + 1], square[i + 1, k + 2], square[i + 1, k + 3]
            for b in range(wide):
                x0, x1, x2, x3 = features[k, b], features[k + 1, b], features[k + 2, b], features[k + 3, b]
                work[0, b] += x0 * a0 + x1 * a1 + x2 * a2 + x3 * a3
                work[1, b] += x0 * b0 + x1 * b1 + x2 * b2 + x3 * b3
        for b in range(wide):
            work[2, b] += work[0, b] * features[i, b] + work[1, b] * features[i + 1, b]
    for b in range(wide):
        scores[b] += math.sqrt(max(work[2, b], np.float32(0.0)))
    peak = scores[0]
    for b in range(1, wide):
        peak = max(peak, scores[b])
    return peak  # type: ignore[no-any-return]


@scan
def best_in_stock(
    stock: Stock, theta: Floats, width: float, root: Floats, w: Floats, phi: Floats, rotated: bool, tie: float
) -> int:
    """The row with the largest theta'x + width |S'x|, the first among equals: scores within ``tie``. -1: not found so.

    ``rotated``: the first part is w'S'x, in which an intercept may have a share; theta = S w.
    """
    table, coarse = stock.table, stock.coarse
    blocks, d, wide = coarse.shape
    count, bold = table.shape[0], width > 0.0
    intercept = (rotated or bold) and phi.shape[0] > d
    product = np.empty((root.shape[0], root.shape[0]))
    spread = spread_of(root, product) if bold else 0.0
    scale = width * spread
    for j in range(theta.shape[0] if rotated else d):
        scale += abs(theta[j])
    if not (width >= 0.0 and scale > 1e-200 and scale < 1e200):  # not a number, too
        return -1

    # In units of scale no score is much above 1. What is lost by whole steps, by single precision, and by theta = S w:
    step = stock.reach / LEVELS
    lost = 0.5000001 * step * (math.sqrt(d) if bold else 1.0)
    lost += 2.0 * HALF_ULP * (d + 24.0) * (1.0 if bold or intercept else stock.reach)
    if rotated:
        for i in range(root.shape[0]):
            lost += math.sqrt(dot(root[i], root[i]) * dot(w, w)) / scale * (root.shape[0] + 8.0) * 2.0**-51
    weights = np.empty(d, np.float32)
    for j in range(d):
        weights[j] = theta[j] * (step / scale)
    offset = np.float32(theta[d] / scale) if rotated and intercept else np.float32(0.0)
    fours = (d + 3) // 4 * 4 if bold else 0
    square, cross = np.zeros((fours, fours), np.float32), np.zeros(fours, np.float32)
    features, work = np.zeros((fours, wide), np.float32), np.empty((3, wide), np.float32)
    constant, bonus = 0.0, 0.0
    if bold:
        unit = (width / scale) ** 2
        for i in range(d):
            for k in range(i + 1):
                square[i, k] = product[i, k] * (unit * step * step) * (1.0 if i == k else 2.0)
            if intercept:
                cross[i] = 2.0 * product[d, i] * (unit * step)
        longest = 1.05 + intercept  # of |x|^2
        constant = 4.0 * HALF_ULP * (d + 6.0) * longest + (product[d, d] * unit if intercept else 0.0)
        bonus = 1.0001 * width * spread / scale * math.sqrt(longest)
    best, top = 0, -np.inf
    scores, limit = np.empty(wide, np.float32), np.float32(-np.inf)
    for n in range(blocks):
        peak = score_block(coarse[n], weights, offset, scores)
        if bold and peak + bonus > limit:
            peak = add_bonus(coarse[n], square, cross, np.float32(constant), features, work, scores)
        if peak > limit:
            for b in range(min(wide, count - n * wide)):
                if scores[b] > limit:
                    a = n * wide + b
                    score = exact_score(table, a, theta, width, root, w, phi, rotated)
                    if a == 0 or score > top + tie * (1.0 + abs(top)):
                        best, top = a, score
                        limit = np.float32(top / scale - lost)
    return best


@highests.of(Stock)
def _highest(candidates: Stock, theta: Floats) -> int:
    found = -1
    if candidates.places.shape[0] > 0:
        return highest_of_each(candidates, theta)
    if candidates.coarse.shape[0] > 0:
        found = best_in_stock(candidates, theta, 0.0, np.empty((0, 0)), theta, theta, False, 0.0)
    return found if found >= 0 else highest_of_each(candidates.table, theta)


@optimists.of(Stock)
def _most_optimistic(root: Floats, w: Floats, width: float, phi: Floats, candidates: Stock) -> int:
    found = -1
    if candidates.places.shape[0] == 0 and candidates.coarse.shape[0] > 0:
        theta = np.empty(root.shape[0])
        for i in range(root.shape[0]):
            theta[i] = dot(root[i], w)
        found = best_in_stock(candidates, theta, width, root, w, phi, True, TIE)
    return found if found >= 0 else most_optimistic_of_each(root, w, width, phi, candidates)


@hopes.of(Stock)
def _most_hopeful(root: Floats, theta: Floats, width: float, phi: Floats, candidates: Stock) -> int:
    found = -1
    if candidates.places.shape[0] == 0 and candidates.coarse.shape[0] > 0:
        found = best_in_stock(candidates, theta, width, root, theta, phi, False, TIE)
    return found if found >= 0 else most_hopeful_of_each(root, theta, width, phi, candidates)


def stocked(table: Floats, *, coarse: bool) -> Stock:
    """All rows of a table that is checked, contiguous and nobody else's; with a coarse copy of it, or without."""
    count, d = table.shape
    reach = float(np.abs(table).max())
    blocks = -(-count // WIDE) if coarse and reach > 1e-20 else 0
    steps = np.zeros((blocks, d, WIDE), np.int16)
    for n in range(blocks):
        part = table[n * WIDE : (n + 1) * WIDE]
        steps[n, :, : len(part)] = np.rint(part * (LEVELS / reach)).T
    return Stock(table, np.empty(0, np.int64), steps, reach)
