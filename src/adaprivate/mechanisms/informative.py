"""Correlated noise for a reader who knows its law: rows that tell a Gaussian prior the most.

The reader takes each batch's sum to be s_j = g_j theta_j + noise of variance v g_j in every direction, theta a stationary
Gaussian process with variance 1/p and a public correlation between batches (1: nothing changes over time). From the noisy
rows y = C s + sigma z released so far, all jointly Gaussian, theta_k has the posterior mean w_k'y with
w_k = Cov(y)^-1 Cov(y, theta_k); a share e_k = p w_k'Cov(y, theta_k) of its variance is explained. Choosing by the mean
earns sqrt(e_k) of what knowing theta would (candidates' scores being Gaussian), so that is what C is fitted for. Only
public numbers enter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from adaprivate import blas, check
from adaprivate.check import Floats
from adaprivate.mechanisms.history import Dense
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.prefix import PrefixSum, on_grid
from adaprivate.mechanisms.toeplitz import square_root

LARGEST = 256
_ITERATIONS = 500


@dataclass(frozen=True)
class Reader:
    """What the reader of the rows believes beforehand, for any one direction: public.

    ``information``: g_j, how much batch j says about the direction. ``prior_precision``: p. ``noise_variance``: v.
    ``served``: how many rounds are played on the posterior after batch k. With a ``memory`` the correlation of theta at
    two ``times`` falls as exp(-difference / memory).
    """

    information: tuple[float, ...]
    served: tuple[float, ...]
    prior_precision: float
    noise_variance: float = 0.25
    times: tuple[float, ...] = ()
    memory: float = math.inf

    def __post_init__(self) -> None:
        steps = len(self.information)
        check.expect(steps > 0, "information", self.information, "to be non-empty")
        for name, values in (("information", self.information), ("served", self.served)):
            check.expect(len(values) == steps and min(values) >= 0, name, values, f"to be {steps} numbers >= 0")
        check.real("prior_precision", self.prior_precision, above=0)
        check.real("noise_variance", self.noise_variance, above=0)
        if self.memory != math.inf:
            check.real("memory", self.memory, above=0)
            check.expect(len(self.times) == steps, "times", self.times, f"to be {steps} numbers")

    @property
    def steps(self) -> int:
        """The number of batches."""
        return len(self.information)

    @cached_property
    def correlation(self) -> Floats:
        """Between the theta of any two batches."""
        if self.memory == math.inf:
            return np.ones((self.steps, self.steps))
        times = np.array(self.times)
        return np.asarray(np.exp(-np.abs(times[:, None] - times) / self.memory))

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """The covariance of the batch sums, and that of each sum (row) with each theta (column)."""
        g = np.array(self.information)
        with_theta = g[:, None] * self.correlation / self.prior_precision
        return with_theta * g + np.diag(self.noise_variance * g), with_theta

    @blas.one_thread()
    def weights(self, C: Floats, row_std: float) -> Floats:
        """Row k: the weights w_k of the rows released up to batch k."""
        sums, with_theta = self.moments
        root = cholesky(C @ sums @ C.T + row_std**2 * np.eye(self.steps), lower=True)
        seen = np.triu(solve_triangular(root, C @ with_theta, lower=True))  # column k: the first k rows only
        return np.asarray(solve_triangular(root, seen, lower=True, trans="T").T)

    def variances(self, C: Floats, row_std: float) -> Floats:
        """The posterior variance of each theta."""
        weights = self.weights(C, row_std)
        return np.asarray(1 / self.prior_precision - np.einsum("ki,ik->k", weights, C @ self.moments[1]))


class Informative(Dense):
    """The lower-triangular C that lets a Gaussian reader earn the most: the largest sum of served_k sqrt(e_k).

    ``reader`` says what the rows are for and ``row_std`` how noisy each will be, once C's columns have norm 1; fitted for
    one participation. By default a reader to whom every batch says 1 and who starts with a precision of 1.
    """

    name = "informative"

    def __init__(self, steps: int, reader: Reader | None = None, row_std: float = 1.0) -> None:
        self.steps = check.whole("steps", steps, at_least=1)
        check.expect(self.steps <= LARGEST, "steps", self.steps, f"<= {LARGEST} for informative (use sqrt or blt)")
        self.reader = reader or Reader((1.0,) * self.steps, (1.0,) * self.steps, 1.0)
        check.expect(self.reader.steps == self.steps, "reader.steps", self.reader.steps, f"== {self.steps}")
        self._hold(_fit(self.reader, check.real("row_std", row_std, above=0)))


@lru_cache(maxsize=64)
@blas.one_thread()
def _fit(reader: Reader, row_std: float) -> Floats:
    """L-BFGS over C with columns normalised, from the square root of the running sum; then on the grid."""
    steps = reader.steps
    lower = np.tril_indices(steps)
    sums, with_theta = reader.moments
    served = np.array(reader.served) / max(sum(reader.served), 1e-300)
    precision = reader.prior_precision

    def normalised(parameters: Floats) -> tuple[Floats, Floats]:
        C = np.zeros((steps, steps))
        C[lower] = parameters
        norms = np.sqrt((C * C).sum(axis=0))
        return C / norms, norms

    def value(parameters: Floats) -> tuple[float, Floats]:
        C, norms = normalised(parameters)
        weights = reader.weights(C, row_std)
        correlations = np.sqrt(np.einsum("ki,ik->k", weights, C @ with_theta) * precision + 1e-10)
        # with e_k = w_k' Cov(y, theta_k):  d e_k = 2 w_k' dC (Cov(s, theta_k) - Cov(s) C' w_k)
        rates = served * precision / correlations
        gradient = -(weights * rates[:, None]).T @ (with_theta.T - weights @ C @ sums)
        gradient = (gradient - C * (gradient * C).sum(axis=0)) / norms  # along the column norms nothing changes
        return 1 - float(served @ correlations), gradient[lower]

    start = square_root(steps)[np.maximum(lower[0] - lower[1], 0)]
    found = minimize(
        value, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS, "ftol": 1e-10, "gtol": 1e-7}
    )
    C, _ = normalised(found.x)
    C = C * np.where(np.diag(C) < 0, -1.0, 1.0)[:, None]  # a row's sign is free; forward substitution needs a diagonal
    C[np.diag_indices(steps)] = np.maximum(np.diag(C), 1e-3)
    C = on_grid(C / np.sqrt((C * C).sum(axis=0)))
    C.flags.writeable = False
    return C


def _example(noise: Noise) -> PrefixSum:
    return PrefixSum(Informative(steps=6), dimension=3, noise_multiplier=1.5, noise=noise)


EXAMPLES = (_example,)
