"""Room for the designs of batches: where there is little, a batch is folded into others, whose sums then stand for its own.

After batch k posteriors read H = sum a_kj X_j and sum a_kj^2 D_j, X_j and D_j the batch's sums of f e' and f f'. The
weights a are public and smooth in k: of many batches a few columns of a give all others. So when room is needed, the batch
whose column is most nearly a combination of the others' from now on, a_kj = sum_i c_i a_ki for all k to come, is added to
them c_i times, and forgotten; what is read is scaled to the mean diagonal that it is known to have. So it is exact but for
rounding where batches are alike, or the columns combinations; else what is believed of public designs is off a little, not
what is released.
"""

from __future__ import annotations

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import routine

ROOM = 2**22
"""Bytes that the sums of batches may take before any are folded,"""
LEAST = 6
"""and so many batches are held in any case."""
SWEEPS = 100


def places(batches: int, size: int) -> int:
    """How many batches are held at once, of so many and the one that follows."""
    return min(batches + 1, max(LEAST, ROOM // (8 * size * size + 4 * size * (size + 1))))


@routine
def fold(
    k: int,
    held: Integers,
    sizes: Floats,
    influence: Floats,
    relevance: Floats,
    designs: Floats,
    crosses: Floats,
) -> int:
    """Make room for a batch after the k-th was read, all places being ``held``: the place that is then free.

    Designs are added with weights >= 0, so that they stay positive semidefinite; f e' with any.
    """
    count, steps = held.shape[0], influence.shape[0] - k
    wide, square = np.zeros((steps, count)), np.zeros((steps, count))
    for r in range(steps):
        total, squares = 0.0, 0.0
        for j in range(k + r + 1):
            total += abs(relevance[k + r, j]) * sizes[j]
            squares += influence[k + r, j] ** 2 * sizes[j]
        for p in range(count):
            wide[r, p] = relevance[k + r, held[p]] / max(total, 1e-300)
            square[r, p] = influence[k + r, held[p]] ** 2 / max(squares, 1e-300)
    own = np.zeros(count)  # errors are relative to all that is read, however small the batch is
    for p in range(count):
        own[p] = sizes[held[p]]
    gram = np.zeros((count, count))
    other = np.zeros((count, count))
    trace = 0.0
    for p in range(count):
        for q in range(count):
            for r in range(steps):
                gram[p, q] += wide[r, p] * wide[r, q] * own[p] * own[q]
                other[p, q] += square[r, p] * square[r, q] * own[p] * own[q]
        trace += gram[p, p]
    for p in range(count):
        gram[p, p] += 1e-15 * trace + 1e-300
    inverse = np.linalg.inv(gram)  # what the others leave of column p is 1 over its diagonal
    out = 0
    for p in range(1, count):
        if inverse[p, p] > inverse[out, out]:
            out = p
    share = np.zeros(count)
    for _ in range(SWEEPS):  # least squares with weights >= 0, one by one
        for p in range(count):
            if p != out and other[p, p] > 0.0:
                rest = other[p, out]
                for q in range(count):
                    rest -= other[p, q] * share[q]
                share[p] = max(0.0, share[p] + rest / other[p, p])
    size = crosses.shape[1]
    for p in range(count):
        if p == out:
            continue
        scale = own[p] / own[out]
        cross, design = -inverse[out, p] / inverse[out, out] * scale, share[p] * scale
        for i in range(size):
            for j in range(size):
                crosses[p, i, j] += cross * crosses[out, i, j]
        for i in range(designs.shape[1]):
            designs[p, i] += design * designs[out, i]
    for i in range(size):
        for j in range(size):
            crosses[out, i, j] = 0.0
    for i in range(designs.shape[1]):
        designs[out, i] = 0.0
    return out
