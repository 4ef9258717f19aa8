"""The best correlated noise there is for a given number of batches: a convex problem, solved to a certified gap."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from adaprivate import blas, check, privacy
from adaprivate.check import Floats
from adaprivate.mechanisms.history import Dense
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.prefix import PrefixSum, on_grid

LARGEST = 2048
_LEAST_WEIGHT = 1e-6
_GAP = 1e-6
_ITERATIONS = 1000


class Optimal(Dense):
    """The lower-triangular C that minimises the weighted sum of the running sums' variances, for one participation.

    ``weights`` (public, at least 0, default all 1) say how much each running sum matters; weights below a millionth of the
    largest count as that. ``gap`` bounds how far the value is above the least possible, relative to it.
    """

    name = "optimal"

    def __init__(self, steps: int, weights: Floats | None = None) -> None:
        self.steps = check.whole("steps", steps, at_least=1)
        check.expect(self.steps <= LARGEST, "steps", self.steps, f"<= {LARGEST} for optimal (use blt for longer streams)")
        given = np.ones(self.steps) if weights is None else check.floats("weights", weights, (self.steps,))
        check.expect(bool((given >= 0).all() and given.max() > 0), "weights", given.tolist(), ">= 0 and not all 0")
        self.weights = np.maximum(given / given.max(), _LEAST_WEIGHT)
        C, self.gap = _solve(self.weights.tobytes())
        self._hold(C)


def _variances(C: Floats) -> Floats:
    """The squared row norms of A C^-1."""
    running = solve_triangular(C.T, np.triu(np.ones_like(C)))
    return np.asarray((running * running).sum(axis=0))


@lru_cache(maxsize=32)
@blas.one_thread()
def _solve(weights: bytes) -> tuple[Floats, float]:
    """C on the grid, and the relative gap between its value and the best dual value found.

    With X = C'C and G = A' diag(w) A the value is tr(G X^-1), convex, under diag(X) <= 1. Multipliers v give
    X(v) = V^-1/2 R V^-1/2 with R = (V^1/2 G V^1/2)^1/2, and the bound tr(R)^2 / sum(v) from below (the dual, scaled best).
    At the optimum diag(X) = 1; v <- v diag(X) is the fixed-point iteration of Denisov et al. (2022), and squaring the
    factor halves the number of rounds.
    """
    w = np.frombuffer(weights)
    steps = len(w)
    later = np.cumsum(w[::-1])[::-1]
    places = np.arange(steps)
    G = later[np.maximum.outer(places, places)]
    v = np.sqrt(later)
    lower = 0.0
    for _ in range(_ITERATIONS):
        half = np.sqrt(v)
        values, vectors = eigh(half[:, None] * G * half, driver="evd")
        roots = np.sqrt(np.maximum(values, 0))
        R = (vectors * roots) @ vectors.T
        diagonal = np.diag(R)  # of V^1/2 X V^1/2
        lower = max(lower, float(roots.sum() ** 2 / v.sum()))
        C = _reverse_cholesky(R / np.sqrt(np.multiply.outer(diagonal, diagonal)))
        if w @ _variances(C) <= (1 + _GAP) * lower:
            break
        v = v * (diagonal / v) ** 2
    C = on_grid(C)
    C.flags.writeable = False
    reach = privacy.matrix_sensitivity(C)
    return C, float(reach**2 * (w @ _variances(C)) / lower - 1)


def _reverse_cholesky(X: Floats) -> Floats:
    """The lower-triangular C with X = C'C."""
    return np.asarray(cholesky(X[::-1, ::-1], lower=True)[::-1, ::-1].T)


def _example(noise: Noise) -> PrefixSum:
    return PrefixSum(Optimal(steps=7), dimension=3, noise_multiplier=1.5, noise=noise)


EXAMPLES = (_example,)
