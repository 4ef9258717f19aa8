"""Toeplitz strategies: every row of C is the same filter, so the noise of a batch is paid back by the batches after it."""

from __future__ import annotations

import math

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.mechanisms.history import History
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.prefix import PrefixSum, on_grid


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
    """The first ``bands`` coefficients of the square root: remembers that many batches, and suits users who return late."""

    name = "banded"

    def __init__(self, steps: int, bands: int = 16) -> None:
        self.bands = check.whole("bands", bands, at_least=1)
        super().__init__(steps, square_root(self.bands))


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


def _square(column: Floats) -> float:
    return float(column @ column)


def _square_root_example(noise: Noise) -> PrefixSum:
    return PrefixSum(SquareRoot(steps=6), dimension=3, noise_multiplier=1.5, noise=noise)


def _banded_example(noise: Noise) -> PrefixSum:
    return PrefixSum(Banded(steps=9, bands=4), dimension=2, noise_multiplier=2.0, noise=noise)


EXAMPLES = (_square_root_example, _banded_example)
