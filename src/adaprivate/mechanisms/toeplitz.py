"""Toeplitz strategies: every row of C is the same filter, so the noise of a batch is paid back by the batches after it."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize

from adaprivate import blas, check, privacy
from adaprivate.check import Floats
from adaprivate.mechanisms.history import History
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.prefix import PrefixSum, on_grid

_FITTED_BITS = 12


class Toeplitz(History):
    """C with ``coefficients`` down its first column and their shifts beside it; zeros follow the last one given.

    The coefficients must fall from a positive first one to no less than 0: then the earliest batches are the worst.
    """

    name = "toeplitz"

    def __init__(self, steps: int, coefficients: Floats) -> None:
        self.steps = check.whole("steps", steps, at_least=1)
        c = on_grid(check.floats("coefficients", coefficients, (None,))[: self.steps])
        check.expect(len(c) > 0 and c[0] > 0, "coefficients", c.tolist(), "to begin with a number > 0")
        falling = bool((c >= 0).all() and (np.diff(c) <= 0).all())
        check.expect(falling, "coefficients", c.tolist(), "nonnegative and nonincreasing")
        self.coefficients = c

    def row(self, step: int) -> Floats:
        return self.coefficients[: step + 1]

    def attained(self, batches: int) -> bool:
        return True

    def sensitivity(self, batches: int = 1, separation: int = 1) -> float:
        width = len(self.coefficients)
        batches = min(batches, -(-self.steps // separation))
        if batches == 1 or separation >= width:  # the columns do not overlap; the last may be cut short by the end
            last = self.coefficients[: self.steps - (batches - 1) * separation]
            return math.sqrt((batches - 1) * _square(self.coefficients) + _square(last))
        padded = np.concatenate([self.coefficients, np.zeros(self.steps - width)])
        return privacy.toeplitz_sensitivity(padded, batches, separation)

    def prefix_std(self) -> Floats:
        running = np.cumsum(inverse_series(self.coefficients, self.steps))
        return np.sqrt(np.cumsum(running * running))


class SquareRoot(Toeplitz):
    """C = A^(1/2), A the matrix of running sums: the best Toeplitz C for the largest error; remembers the whole stream."""

    name = "sqrt"

    def __init__(self, steps: int) -> None:
        super().__init__(steps, square_root(check.whole("steps", steps, at_least=1)))


class Banded(Toeplitz):
    """Remembers the last ``bands`` batches, and suits users who return late, after that many or more.

    The coefficients are fitted to the number of steps: the least worst-case error that so many can give to one
    participation (jax-privacy's banded Toeplitz strategies have, by default, the least mean square instead).
    """

    name = "banded"

    def __init__(self, steps: int, bands: int = 16) -> None:
        self.bands = check.whole("bands", bands, at_least=1)
        steps = check.whole("steps", steps, at_least=1)
        super().__init__(steps, np.array(_fit(steps, min(self.bands, steps))))


def square_root(count: int) -> Floats:
    """The first coefficients of (1 - x)^(-1/2)."""
    return np.cumprod(np.concatenate([[1.0], 1 - 1 / (2 * np.arange(1.0, count))]))


def inverse_series(series: Floats, count: int) -> Floats:
    """The first coefficients of 1 / series, by Newton's iteration g <- g (2 - series g), which doubles the right ones."""
    inverse = np.array([1 / series[0]])
    while len(inverse) < count:
        size = 2 * len(inverse)
        transform = np.fft.rfft(inverse, 2 * size)
        product = np.fft.irfft(transform * transform * np.fft.rfft(series[:size], 2 * size), 2 * size)[:size]
        inverse = 2 * np.pad(inverse, (0, size - len(inverse))) - product
    return inverse[:count]


def _log_error(later: Floats, steps: int) -> tuple[float, Floats]:
    """The logarithm of |first column of C|^2 |last row of A C^-1|^2, c = (1, later), and its gradient.

    As power series, A C^-1 is 1 / ((1 - x) c(x)), and its derivative by c_j is -x^j times the same over c(x).
    """
    c = np.concatenate([[1.0], later])
    inverse = inverse_series(c, steps)
    running = np.cumsum(inverse)
    size = 2 << (steps - 1).bit_length()
    transform = np.fft.rfft(running, size)
    again = np.fft.irfft(transform * np.fft.rfft(inverse, size), size)[:steps]
    slopes = np.fft.irfft(transform * np.fft.rfft(again, size).conj(), size)[1 : len(c)]  # running' (again, j later)
    last_row, column = _square(running), _square(c)
    return math.log(last_row) + math.log(column), 2 * (later / column - slopes / last_row)


@lru_cache(maxsize=256)
@blas.one_thread()
def _fit(steps: int, bands: int) -> tuple[float, ...]:
    """The falling coefficients of least worst-case error, from the square root's, which are the best for as many steps.

    Whole multiples of 2^-12, so that machines whose sums round differently find the same; that costs less than 1e-7.
    """
    start = square_root(bands)
    if bands in (1, steps):
        return tuple(start.tolist())
    with np.errstate(over="ignore", invalid="ignore"):  # of steps too long, which the search takes back
        found = minimize(
            _log_error,
            start[1:],
            args=(steps,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, 1)] * (bands - 1),
            options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-7},
        )
        fitted = np.minimum.accumulate(np.round(np.concatenate([[1.0], found.x]) * 2.0**_FITTED_BITS) / 2.0**_FITTED_BITS)
        better = _log_error(fitted[1:], steps)[0] <= _log_error(start[1:], steps)[0]
    return tuple((fitted if better else start).tolist())


def _square(column: Floats) -> float:
    return float(column @ column)


def _square_root_example(noise: Noise) -> PrefixSum:
    return PrefixSum(SquareRoot(steps=6), dimension=3, noise_multiplier=1.5, noise=noise)


def _banded_example(noise: Noise) -> PrefixSum:
    return PrefixSum(Banded(steps=9, bands=4), dimension=2, noise_multiplier=2.0, noise=noise)


EXAMPLES = (_square_root_example, _banded_example)
