"""How likely each of several jointly Gaussian scores is the largest: the probability of an orthant.

Exact for two scores; for up to eight by Genz's separation of variables on shifted lattices; beyond by drawing scores. Both
are unbiased and come with their standard error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Streams, entry, kernel, normal, streams
from adaprivate.purposes import Purpose

MOST_BY_LATTICE = 8
"""Up to so many candidates the orthant probabilities are integrated on lattices."""
SHIFTS = 8
"""Independent shifts of a lattice; their spread is the error."""


class Propensities(NamedTuple):
    """The probability of each candidate, and its standard error (0: exact up to rounding)."""

    probability: Floats
    error: Floats


@kernel
def _below(x: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@kernel
def _quantile(p: float) -> float:
    """The standard normal quantile, by Acklam's approximation (relative error 1.2e-9)."""
    if p <= 1e-300:
        return -37.0
    if p >= 1.0 - 1e-16:
        return 8.2
    if p < 0.02425 or p > 0.97575:
        q = math.sqrt(-2.0 * math.log(min(p, 1.0 - p)))
        top = -7.784894002430293e-03 * q - 3.223964580411365e-01
        top = ((top * q - 2.400758277161838) * q - 2.549732539343734) * q + 4.374664141464968
        top = top * q + 2.938163982698783
        bottom = (7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996
        x = top / ((bottom * q + 3.754408661907416) * q + 1.0)
        if p > 0.5:
            x = -x
    else:
        q = p - 0.5
        r = q * q
        top = (-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02
        top = ((top * r + 1.383577518672690e02) * r - 3.066479806614716e01) * r + 2.506628277459239
        bottom = (-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02
        x = top * q / (((bottom * r + 6.680131188771972e01) * r - 1.328068155288572e01) * r + 1.0)
    return x


@kernel
def _order(best: int, means: Floats, factors: Floats, order: Integers, room: Floats, bound: Floats, lower: Floats) -> float:
    """Prepare P(score of ``best`` is the largest): the others by how likely they are to stand in its way, and their root.

    Returns 0 if a candidate that differs from ``best`` by a constant beats it, else 1; ``order[-1]`` is how many remain.
    """
    count, rank = factors.shape
    used = 0
    for b in range(count):
        if b == best:
            continue
        square, scale = 0.0, 0.0
        for j in range(rank):
            gap = factors[b, j] - factors[best, j]
            square += gap * gap
            scale += factors[b, j] * factors[b, j] + factors[best, j] * factors[best, j]
        ahead = means[best] - means[b]
        if square <= 1e-24 * scale or square <= 1e-300:  # scores differ by a constant; the first among equals is chosen
            if ahead < -1e-12 * (1.0 + abs(means[b])) or (ahead <= 1e-12 * (1.0 + abs(means[b])) and b < best):
                return 0.0
            continue
        standard = ahead / math.sqrt(square)
        at = used
        while at > 0 and room[at - 1] > standard:
            room[at], order[at] = room[at - 1], order[at - 1]
            at -= 1
        room[at], order[at] = standard, b
        used += 1
    order[count - 1] = used
    for i in range(used):
        square = 0.0
        for k in range(rank):
            gap = factors[order[i], k] - factors[best, k]
            square += gap * gap
        own = square
        bound[i] = means[best] - means[order[i]]
        for j in range(i):
            total = 0.0
            for k in range(rank):
                total += (factors[order[i], k] - factors[best, k]) * (factors[order[j], k] - factors[best, k])
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = total / lower[j, j] if lower[j, j] > 0.0 else 0.0
            own -= lower[i, j] * lower[i, j]
        lower[i, i] = math.sqrt(own) if own > 1e-12 * square else 0.0
        room[i] = math.sqrt(square)
    return 1.0


@kernel
def _volume(used: int, room: Floats, bound: Floats, lower: Floats, u: Floats, y: Floats) -> float:
    """The integrand of Genz at the point u of the unit cube."""
    product = 1.0
    for i in range(used):
        left = bound[i]
        for j in range(i):
            left -= lower[i, j] * y[j]
        if lower[i, i] > 0.0:
            share = _below(left / lower[i, i])
            product *= share
            if i + 1 < used:
                y[i] = _quantile(u[i] * share)
        else:
            y[i] = 0.0
            if left < -1e-9 * room[i]:
                return 0.0
        if product <= 0.0:
            return 0.0
    return product


@entry
def _by_lattice(
    means: Floats, factors: Floats, points: int, roots: Floats, shifts: Floats, out: Floats, error: Floats
) -> None:
    rows, count = means.shape
    order, lower = np.empty(count, dtype=np.int64), np.zeros((count, count))
    room, bound, u, y = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    for row in range(rows):
        for best in range(count):
            out[row, best], error[row, best] = 0.0, 0.0
            if _order(best, means[row], factors[row], order, room, bound, lower) == 0.0:
                continue
            used = order[count - 1]
            if used <= 1:
                out[row, best] = _volume(used, room, bound, lower, u, y)
                continue
            mean, square = 0.0, 0.0
            for s in range(shifts.shape[0]):
                total = 0.0
                for p in range(points):
                    for j in range(used - 1):
                        place = (p + 1) * roots[j] + shifts[s, j] + (row + 1) * roots[j + count]
                        place -= math.floor(place)
                        u[j] = abs(2.0 * place - 1.0)
                    total += _volume(used, room, bound, lower, u, y)
                total /= points
                mean += total
                square += total * total
            n = shifts.shape[0]
            mean /= n
            out[row, best] = mean
            error[row, best] = math.sqrt(max(square / n - mean * mean, 0.0) / (n - 1))


@entry
def _by_drawing(means: Floats, factors: Floats, draws: int, rng: Streams, out: Floats) -> None:
    rows, count = means.shape
    rank = factors.shape[2]
    z = np.empty(rank)
    for row in range(rows):
        for a in range(count):
            out[row, a] = 0.0
        for _ in range(draws):
            for j in range(rank):
                z[j] = normal(rng, 0)
            best, top = 0, -np.inf
            for a in range(count):
                score = means[row, a]
                for j in range(rank):
                    score += factors[row, a, j] * z[j]
                if score > top:
                    top = score
                    best = a
            out[row, best] += 1.0 / draws


def gaussian_best(means: Floats, factors: Floats, *, draws: int = 512, seed: int = 0, lattice: bool = True) -> Propensities:
    """How likely each of the scores means + factors z, z standard normal, is the largest; rows (n, K) and (n, K, r).

    Without ``lattice`` scores are drawn from three candidates on: less exact, many times faster.
    """
    rows, count, rank = factors.shape
    out, error = np.zeros((rows, count)), np.zeros((rows, count))
    if count <= (MOST_BY_LATTICE if lattice else 2):
        primes = [p for p in range(2, 100) if all(p % q for q in range(2, p))][: 2 * count]
        shifts = np.random.default_rng([seed, Purpose.PROPENSITY]).uniform(size=(SHIFTS, count))
        _by_lattice(means, factors, max(1, draws // SHIFTS), np.sqrt(primes), shifts, out, error)
        if count > 2:  # each was integrated by itself
            out /= out.sum(axis=1, keepdims=True)
        return Propensities(out, error)
    if rank > count:  # fewer numbers to draw: a root of the covariance of the scores
        values, basis = np.linalg.eigh(factors @ factors.swapaxes(1, 2))
        factors = np.ascontiguousarray(basis * np.sqrt(np.maximum(values, 0.0))[:, None, :])
    _by_drawing(means, factors, draws, streams(seed, Purpose.PROPENSITY), out)
    spread = np.maximum(out * (1 - out), 1 / draws)  # all draws alike do not make it certain
    return Propensities(out, np.sqrt(spread / draws))
