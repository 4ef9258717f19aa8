"""The core of the noise-aware policies: the posterior of the parameter given everything released, the noise's law known.

Rewards are taken to be centre + theta'e, e = (x, 1). A flip tells theta'e of one event, a block of an item's rewards
that of the item: rank-one updates. In Gaussian sums an event adds (reward - centre) f to its batch's sum s_j, f the
direction of e; they are released as noisy rows y = C s + noise. Public weights w (mechanisms/informative.py) turn the
rows so far into one statistic, with a = C'w:

    w'y ~ N(H theta, M),   H = sum a_j f e',   M = v sum a_j^2 f f' + |w|^2 N,   N the covariance of a row's noise,

so theta has the precision P + A + H'M^-1 H, P the prior's and A that of flips and items. All is d x d.
"""

from __future__ import annotations

import math

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import kernel, routine
from adaprivate.policies.core.lanes import LANES, small_row
from adaprivate.policies.core.linear import dot, narrow, rotate


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


@kernel
def variance_by(rate: float, deviation: float) -> float:
    """The variance of rewards, 0 or 1, whose mean is known to about a deviation: the largest that is likely."""
    nearest = min(max(0.5, rate - deviation), rate + deviation)
    nearest = min(max(nearest, 0.003), 0.997)
    return nearest * (1.0 - nearest)


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
def gauge(dimension: int, design: Floats, cross: Floats, out: Floats) -> None:
    """Of a batch's sums f e' and f f' the means of their diagonals along the features, and their last entries."""
    size = cross.shape[0]
    for i in range(4):
        out[i] = 0.0
    for i in range(dimension):
        out[0] += cross[i, i] / dimension
        out[1] += design[i * (i + 1) // 2 + i] / dimension
    out[2], out[3] = cross[size - 1, size - 1], design[design.shape[0] - 1]


@routine
def weigh_rows(
    k: int,
    dimension: int,
    encoder: Floats,
    gauges: Floats,
    ridge: float,
    reward_variance: float,
    row_covariance: Floats,
    factor: Floats,
    decoder: Floats,
    influence: Floats,
    relevance: Floats,
) -> None:
    """Row k of the weights w and of a = C'w, from how much each batch says of theta by now; ``factor`` gets its row k.

    In any one direction s_j = g_j theta + noise of variance v q_j, g and q the means of the diagonals of sum f e' and
    sum f f': so Cov(y) = (Cg)(Cg)'/ridge + C diag(v q) C' + N, and w = Cov(y)^-1 C g / ridge.
    """
    g, q = gauges[:, 0], gauges[:, 1]
    noise = 0.0
    for i in range(dimension):
        noise += row_covariance[i, i] / dimension
    seen = np.zeros(k + 1)
    for i in range(k + 1):
        for j in range(i + 1):
            seen[i] += encoder[i, j] * g[j]
    for m in range(k + 1):  # the covariance with each earlier row, and the next row of its root
        total = seen[k] * seen[m] / ridge + (noise if m == k else 0.0)
        for j in range(m + 1):
            total += reward_variance * encoder[k, j] * encoder[m, j] * q[j]
        for j in range(m):
            total -= factor[k, j] * factor[m, j]
        factor[k, m] = math.sqrt(max(total, 1e-12 * noise)) if m == k else total / factor[m, m]
    w = seen / ridge
    for i in range(k + 1):
        for j in range(i):
            w[i] -= factor[i, j] * w[j]
        w[i] /= factor[i, i]
    for i in range(k, -1, -1):
        for j in range(i + 1, k + 1):
            w[i] -= factor[j, i] * w[j]
        w[i] /= factor[i, i]
    if not (w * w).sum() > 0.0:  # nobody said anything of theta yet, and any weights do
        w[k] = 1.0
    for j in range(k + 1):
        decoder[k, j] = w[j]
        total = 0.0
        for i in range(j, k + 1):
            total += encoder[i, j] * w[i]
        influence[k, j] = total
        relevance[k, j] = total


@routine
def gauged(dimension: int, mean: float, matrix: Floats) -> None:
    """Scale what was read of folded sums so that its mean diagonal along the features is what it is known to be."""
    found = 0.0
    for i in range(dimension):
        found += matrix[i, i] / dimension
    if 0.5 * mean < found < 2.0 * mean:
        for i in range(matrix.shape[0]):
            for j in range(matrix.shape[1]):
                matrix[i, j] *= mean / found


@routine
def add_rows(
    k: int,
    dimension: int,
    rows: Floats,
    held: Integers,
    designs: Floats,
    crosses: Floats,
    gauges: Floats,
    decoder: Floats,
    influence: Floats,
    relevance: Floats,
    drift: float,
    row_covariance: Floats,
    reward_variance: float,
    information: Floats,
    weighted: Floats,
) -> None:
    """Add what the rows up to k tell about theta to ``information`` and ``weighted``.

    ``held``: the batch whose sums are in each place, others folded into them.
    """
    size = weighted.shape[0]
    H = np.zeros((size, size))
    M = np.zeros((size, size))
    statistic = np.zeros(size)
    spread, straight, squared = 0.0, 0.0, 0.0
    for j in range(k + 1):
        w = decoder[k, j]
        spread += w * w
        straight += relevance[k, j] * gauges[j, 0]
        squared += influence[k, j] ** 2 * gauges[j, 1]
        for i in range(size):
            statistic[i] += w * rows[j, i]
    for p in range(held.shape[0]):
        if held[p] < 0:
            continue
        relevant, square, place = relevance[k, held[p]], influence[k, held[p]] * influence[k, held[p]], 0
        for i in range(size):
            for m in range(size):
                H[i, m] += relevant * crosses[p, i, m]
            for m in range(i + 1):
                M[i, m] += square * designs[p, place + m]
            place += i + 1
    if k >= held.shape[0]:  # some were folded: their mean diagonals are what they were
        gauged(dimension, straight, H)
        gauged(dimension, squared, M)
    for i in range(size):
        for m in range(i + 1):
            M[i, m] = reward_variance * M[i, m] + spread * row_covariance[i, m]
            if drift > 0.0:
                for j in range(size):
                    M[i, m] += drift * H[i, j] * H[m, j]
            M[m, i] = M[i, m]
        M[i, i] *= 1.0 + 1e-12
    # with M = L L': H' M^-1 H = W' W and H' M^-1 statistic = W' u for W = L^-1 H, u = L^-1 statistic
    factor_out(np.linalg.cholesky(M), H, statistic)  # type: ignore[arg-type]
    for i in range(size):
        for j in range(size):
            weighted[j] += H[i, j] * statistic[i]
            for m in range(size):
                information[j, m] += H[i, j] * H[i, m]


@routine
def settle(
    information: Floats,
    weighted: Floats,
    ridge: float,
    intercept_mean: float,
    intercept_precision: float,
    adapts: bool,
    root: Floats,
    coordinates: Floats,
    mean: Floats,
) -> None:
    """The posterior given this information, into ``root``, ``coordinates`` and ``mean``; the former are overwritten."""
    size = root.shape[0]
    n = size
    if intercept_precision > 0.0:  # the intercept has a prior of its own, and is integrated out
        n = size - 1
        weighted[n] += intercept_precision * intercept_mean
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
def tell(root: Floats, w: Floats, mean: Floats, phi: Floats, event: Floats, strength: float, value: float) -> None:
    """Learn that theta'e is ``value``, with this precision; ``phi`` is scratch."""
    size = w.shape[0]
    rotate(root, event, phi)
    square, along, expected = dot(phi, phi), dot(phi, w), dot(event, mean)
    grown = 1.0 + strength * square
    gain = strength / (grown + math.sqrt(grown))  # S <- S (I - gain phi phi')
    step = strength * (value - expected) / grown
    for i in range(size):
        pull = 0.0
        for j in range(size):
            pull += root[i, j] * phi[j]
        mean[i] += pull * step
        pull *= gain
        for j in range(size):
            root[i, j] -= pull * phi[j]
    stretch = strength * value * (1.0 - gain * square) - gain * along
    for j in range(size):
        w[j] += stretch * phi[j]


@kernel
def foresee(root: Floats, w: Floats, phi: Floats, event: Floats, strength: float) -> None:
    """Shrink the covariance that choices explore by as this event's reward will, once released; the mean stays."""
    if w.shape[0] <= LANES:
        small_row(root, w, phi, event, strength, True)
        return
    rotate(root, event, phi)
    square, along = dot(phi, phi), dot(phi, w)
    grown = 1.0 + strength * square
    gain = strength / (grown + math.sqrt(grown))
    narrow(root, phi, gain)
    stretch = along * gain / (1.0 - gain * square)
    for j in range(w.shape[0]):
        w[j] += stretch * phi[j]
