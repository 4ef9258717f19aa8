"""Buffered linear Toeplitz: a few decaying buffers stand in for the whole stream, at nearly the square root's error.

C is Toeplitz with c_0 = 1 and c_k = sum_j omega_j theta_j^(k-1), so a row is the increment plus a weighted sum of buffers
u_j <- theta_j u_j + increment, and memory does not grow with the steps (Dvijotham, McMahan et al. 2024).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.special import expit, logit

from adaprivate import blas, check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, Noise
from adaprivate.mechanisms.prefix import PrefixSum, Strategy, weighted, zeros

_PARAMETER_BITS = 40
_BUFFER_BITS = 64


class BltState(NamedTuple):
    """The buffers of the stream (private), those of the decoder, and the noisy running sum."""

    buffers: Array
    estimates: Floats
    prefix: Floats


class Blt(Strategy):
    """Buffers fitted to the number of steps: the least worst-case error that so many can give to one participation."""

    name = "blt"

    def __init__(self, steps: int, buffers: int = 4) -> None:
        self.steps = check.whole("steps", steps, at_least=1)
        self.buffers = check.whole("buffers", buffers, at_least=1, at_most=16)
        thetas, omegas = _fit(self.steps, self.buffers)
        self.thetas, self.omegas = np.array(thetas), np.array(omegas)

    def attained(self, batches: int) -> bool:
        return False  # its sensitivity includes a bound on rounding

    def start(self, dimension: int, exact: bool) -> BltState:
        shape = (self.buffers, dimension)
        return BltState(zeros(shape, exact), np.zeros(shape), np.zeros(dimension))

    def encode(self, state: BltState, step: int, increment: Array) -> tuple[Array, BltState]:
        if increment.dtype == object:  # theta and omega are whole multiples of 2^-40; buffers carry 64 more bits
            thetas, omegas = _integers(self.thetas), _integers(self.omegas)
            carried = (omegas @ state.buffers) >> (_PARAMETER_BITS + _BUFFER_BITS - COEFFICIENT_BITS)
            row = (increment << COEFFICIENT_BITS) + carried
            buffers = ((thetas[:, None] * state.buffers) >> _PARAMETER_BITS) + (increment << _BUFFER_BITS)
        else:
            row = increment + weighted(self.omegas, state.buffers)
            buffers = self.thetas[:, None] * state.buffers + increment
        return row[None, :], state._replace(buffers=buffers)

    def decode(self, state: BltState, step: int, rows: Floats) -> tuple[Floats, BltState]:
        increment = rows[0] - weighted(self.omegas, state.estimates)
        prefix = state.prefix + increment
        return prefix, BltState(state.buffers, self.thetas[:, None] * state.estimates + increment, prefix)

    def coefficients(self) -> Floats:
        """The first column of C."""
        return np.concatenate([[1.0], self.omegas @ self.thetas[:, None] ** np.arange(self.steps - 1)])

    def sensitivity(self, batches: int = 1, separation: int = 1) -> float:
        # Integer rows and buffers are rounded down, so between neighbouring streams an entry of a row may move ``floor``
        # units of 2^-40 further than C moves it: one for the row, and for each buffer its roundings, decaying as it does.
        # That happens only after the first change in that coordinate, which is itself at least 2^-20; so the extra is at
        # most floor 2^-20 times that change, as if every coefficient but the first were larger by so much. This holds for
        # every dimension, change and scales. Floats are charged the same, so that both arithmetics promise the same.
        floor = 1 + 2.0 ** (COEFFICIENT_BITS - _BUFFER_BITS) * float((self.omegas / (1 - self.thetas)).sum())
        raised = self.coefficients()
        raised[1:] += floor * 2.0**-COEFFICIENT_BITS
        return privacy.toeplitz_sensitivity(raised, batches, separation)

    def prefix_std(self) -> Floats:
        level, weights, decays = _running_series(1 - self.thetas, self.omegas)
        running = level + weights @ (1 - decays)[:, None] ** np.arange(self.steps)
        return np.sqrt(np.cumsum(running * running))

    def matrix(self) -> Floats:
        return np.asarray(toeplitz(self.coefficients(), np.zeros(self.steps)))


def _integers(parameters: Floats) -> Array:
    return np.array([int(p) for p in parameters * 2.0**_PARAMETER_BITS], dtype=object)


def _running_series(losses: Floats, omegas: Floats) -> tuple[float, Floats, Floats]:
    """B = A C^-1 is Toeplitz with b_k = level + sum_j weight_j (1 - decay_j)^k, from the buffers' losses 1 - theta.

    Running the encoder backwards, C^-1 has the coefficients 1 and -omega' M^(k-1) 1 with M = diag(theta) - 1 omega'. With
    v = sqrt(omega), M is similar to I - N, N = diag(1 - theta) + v v', symmetric and positive definite; so for N's
    eigenvalues (the decays) and unit eigenvectors q_j they are -sum_j (q_j'v)^2 (1 - decay_j)^(k-1). Add up, and note that
    the level, the limit of b_k, is 1 / sum_k c_k.
    """
    v = np.sqrt(omegas)
    decays, vectors = np.linalg.eigh(np.diag(losses) + np.outer(v, v))
    return 1 / (1 + float((omegas / losses).sum())), (v @ vectors) ** 2 / decays, decays


def _log_error(losses: Floats, omegas: Floats, steps: int) -> float:
    """The logarithm of |first column of C|^2 |last row of B|^2, from geometric sums."""
    column = 1 + omegas @ _geometric(losses, steps - 1) @ omegas
    level, weights, decays = _running_series(losses, omegas)
    mixed = 2 * level * float((weights * (1 - (1 - decays) ** steps) / decays).sum())
    last_row = level * level * steps + mixed + weights @ _geometric(decays, steps) @ weights
    return math.log(column) + math.log(last_row)


def _geometric(losses: Floats, terms: int) -> Floats:
    """For each pair, the sum of ((1 - loss_i) (1 - loss_j))^k over k < terms."""
    pairs = np.add.outer(losses, losses) - np.multiply.outer(losses, losses)
    ratios = np.multiply.outer(1 - losses, 1 - losses)
    return np.asarray((1 - ratios**terms) / pairs)


@lru_cache(maxsize=256)
@blas.one_thread()
def _fit(steps: int, buffers: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Thetas in (0, 1) and positive omegas with sum below 1, so that C falls; whole multiples of 2^-40."""

    def unpack(point: Floats) -> tuple[Floats, Floats]:
        odds = np.exp(point[buffers:])
        return expit(point[:buffers]), odds / (1 + odds.sum())

    losses = 0.5 * steps ** -(1 - (np.arange(buffers) + 0.5) / buffers)
    roots = np.sqrt(losses)
    start = np.concatenate([logit(losses), np.log(roots / roots.sum())])
    options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9}
    found = minimize(
        lambda point: _log_error(*unpack(point), steps),
        start,
        method="L-BFGS-B",
        jac="3-point",
        bounds=[(-25, 25)] * len(start),
        options=options,
    )
    losses, omegas = unpack(found.x)
    grid = 2.0**_PARAMETER_BITS
    thetas = np.floor((1 - losses) * grid) / grid
    return tuple(thetas.tolist()), tuple((np.floor(omegas * grid) / grid).tolist())


def _example(noise: Noise) -> PrefixSum:
    return PrefixSum(Blt(steps=5, buffers=2), dimension=2, noise_multiplier=1.5, noise=noise)


EXAMPLES = (_example,)
