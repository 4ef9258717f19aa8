"""Running sums of a stream, released after every batch: one mechanism, many ways to correlate its noise.

A *strategy* is a public lower-triangular matrix C. After batch k the mechanism releases the new rows of C s plus fresh
noise, and decodes everything released so far into an estimate of the running sum s_1 + ... + s_k. One unit touching one
batch moves the rows by at most its change times the largest column norm of C; that, and nothing else, is what the noise
must cover, also when later batches depend on earlier releases (docs/privacy.md, Theorem 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.laws import AdditiveLaw, GaussianLaw
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, Noise, expect_fine_grid, plain_numbers, whole_numbers
from adaprivate.privacy import Participation, Price


class Strategy(ABC):
    """A public encoder C of a stream of ``steps`` increments, and the decoder of its noisy rows into running sums.

    Streams hold floats, or Python integers (dtype object) for exact noise; the encoder must be linear in both. In integers
    its coefficients are whole multiples of 2^-COEFFICIENT_BITS and its rows come out in units that much finer, so C is
    rounded to that grid at construction and is the same matrix in both.
    """

    name: ClassVar[str]
    steps: int

    def attained(self, batches: int) -> bool:
        """Whether the sensitivity of so many participations is attained, so that the price is exact."""
        return batches == 1

    @property
    def rows(self) -> int:
        """How many noisy rows the whole stream releases."""
        return self.steps

    @property
    def kept(self) -> int:
        """Number of released batches, at most, whose exact sums (or mixtures of them) the state holds for later rows."""
        return self.steps - 1

    @abstractmethod
    def start(self, dimension: int, exact: bool) -> Any:
        """The state before the first increment: a NamedTuple of arrays."""

    @abstractmethod
    def encode(self, state: Any, step: int, increment: Array) -> tuple[Array, Any]:
        """The new rows of C s at this step (0-based) and the state after them; repeating the call must give the same."""

    @abstractmethod
    def decode(self, state: Any, step: int, rows: Floats) -> tuple[Floats, Any]:
        """The running-sum estimate from the noisy rows of this step, and the state after it."""

    @abstractmethod
    def sensitivity(self, batches: int = 1, separation: int = 1) -> float:
        """The largest norm of the rows when a unit contributes unit vectors to so many batches, so far apart."""

    @abstractmethod
    def prefix_std(self) -> Floats:
        """Standard deviation of the noise in each running sum when every row carries noise of standard deviation 1."""

    @abstractmethod
    def matrix(self) -> Floats:
        """C, dense: for inspection and for small numbers of steps."""


def one(increment: Array) -> Any:
    """The coefficient 1 in the arithmetic of this increment."""
    return 2**COEFFICIENT_BITS if increment.dtype == object else 1.0


def weighted(weights: Array, vectors: Array) -> Array:
    """The weighted sum of these vectors, each coordinate added up in the same order however many stand beside it.

    Matrix products round differently for different widths; replicas side by side must not depend on their number.
    """
    return np.asarray((weights[:, None] * vectors).sum(axis=0))


def zeros(shape: tuple[int, ...], exact: bool) -> Array:
    """A zero state in floats, or in Python integers."""
    return np.full(shape, 0, dtype=object) if exact else np.zeros(shape)


def on_grid(coefficients: Floats) -> Floats:
    """The coefficients rounded to whole multiples of 2^-COEFFICIENT_BITS (exact in float64)."""
    return np.round(np.asarray(coefficients) * 2.0**COEFFICIENT_BITS) / 2.0**COEFFICIENT_BITS


def grid_integers(coefficients: Floats) -> Array:
    """The same coefficients as Python integers."""
    scaled = np.asarray(coefficients) * 2.0**COEFFICIENT_BITS
    return np.array([int(c) for c in scaled.ravel()], dtype=object).reshape(scaled.shape)


class PrefixState(NamedTuple):
    """All that a running sum remembers: private until the mechanism ends."""

    step: int
    stream: Any


class PrefixSum(Mechanism):
    """Noisy running sums of ``dimension``-vectors under a strategy.

    ``noise_multiplier`` is the standard deviation of the noise relative to what one participating unit can move: the price
    is that of the law at this multiplier, for Gaussian noise ``mu = 1 / noise_multiplier``. ``scales`` gives coordinates
    noise of their own relative size (one each, default 1); the participation's change is then measured in coordinates
    divided by them.
    """

    name = "prefix-sum"

    def __init__(
        self,
        strategy: Strategy,
        *,
        dimension: int,
        noise_multiplier: float,
        noise: Noise,
        participation: Participation | None = None,
        scales: Floats | None = None,
        law: AdditiveLaw = GaussianLaw(),  # noqa: B008  # frozen and without state
    ) -> None:
        check.kind("strategy", strategy, Strategy)
        check.kind("noise", noise, Noise)
        check.kind("participation", participation or privacy.events(), Participation)
        self.strategy = strategy
        self.law = law
        self.dimension = check.whole("dimension", dimension, at_least=1)
        self.noise_multiplier = check.real("noise_multiplier", noise_multiplier, above=0)
        self.noise = noise
        self.participation = participation or privacy.events()
        self.scales = np.ones(self.dimension) if scales is None else check.floats("scales", scales, (self.dimension,))
        check.expect(bool((self.scales > 0).all()), "scales", self.scales.tolist(), "> 0")
        reach = strategy.sensitivity(self.participation.batches, self.participation.separation)
        self.row_std = self.noise_multiplier * self.participation.change * reach * (1 + 2.0**-50)  # products round up
        expect_fine_grid(self.noise_multiplier, self.row_std * float(self.scales.min()), noise)
        self.state = PrefixState(0, strategy.start(self.dimension, noise.exact))

    @property
    def slack(self) -> float:
        """Total variation distance of all draws together from ideal ones."""
        return self.law.slack(self.row_std * float(self.scales.min()), self.strategy.rows * self.dimension, self.noise)

    @property
    def price(self) -> Price:
        return self.law.price(self.noise_multiplier, self.slack, self.strategy.attained(self.participation.batches))

    def _ready(self) -> None:
        check.expect(
            self.state.step < self.strategy.steps,
            "releases",
            self.state.step + 1,
            f"<= {self.strategy.steps}, the strategy's steps",
        )

    def _noisy_rows(self, value: Array) -> tuple[Floats, Any]:
        """The noisy rows of the next batch, and the strategy's state after encoding it."""
        step, stream = self.state
        shape = (self.dimension,)
        increment = (
            whole_numbers("increment", value, shape) if self.noise.exact else plain_numbers("increment", value, shape)
        )
        rows, stream = self.strategy.encode(stream, step, increment)
        return self.law.add(rows, self.row_std * self.scales, self.noise), stream

    def _release(self, value: Array) -> Floats:
        """Take the next batch's sum and return the noisy running sum."""
        step = self.state.step
        rows, stream = self._noisy_rows(value)
        prefix, stream = self.strategy.decode(stream, step, rows)
        self.state = PrefixState(step + 1, stream)
        return prefix.copy()  # the state may keep its own

    def prefix_std(self) -> Floats:
        """Standard deviation of the noise in each running sum, per coordinate of scale 1."""
        return self.row_std * self.strategy.prefix_std()


class NoisyRows(PrefixSum):
    """The same release left undecoded: each batch's noisy row of C s, for a reader who knows the law of the noise."""

    name = "noisy-rows"

    def __init__(self, strategy: Strategy, **options: Any) -> None:
        super().__init__(strategy, **options)
        check.expect(strategy.rows == strategy.steps, "strategy.rows", strategy.rows, f"== {strategy.steps}, one per batch")

    def _release(self, value: Array) -> Floats:
        """Take the next batch's sum and return its noisy row."""
        rows, stream = self._noisy_rows(value)
        self.state = PrefixState(self.state.step + 1, stream)
        return np.asarray(rows[0])
