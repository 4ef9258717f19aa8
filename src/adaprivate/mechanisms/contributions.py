"""Sums of contributions whose bounds are enforced here, so that a guarantee may rest on them.

An event contributes ``(reward - centre) * features``. Features longer than 1 are clipped (and counted), rewards outside
[0, 1] are refused. For exact noise everything is integer arithmetic on the grid of :mod:`adaprivate.mechanisms.noise`:
features are truncated towards zero to multiples of 2^-20, rewards to multiples of 2^-30, and products towards zero again.
The bounds survive each truncation exactly (docs/privacy.md, Lemma 9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats, Integers
from adaprivate.grid import REWARD_BITS
from adaprivate.mechanisms.noise import EVENT_BITS, Noise
from adaprivate.privacy import Participation

if TYPE_CHECKING:
    from adaprivate.whole import WholeSum


class Coordinates(Protocol):
    """A public change of coordinates under which every playable feature vector has norm at most 1."""

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""

    def whiten(self, features: Floats) -> Floats:
        """The features in the coordinates where the noise is round."""

    def whiten_rows(self, rows: Floats) -> Floats:
        """The same of several, to the last bit."""


class Collector(ABC):
    """A sum whose bounds are enforced as it grows; a mechanism checks that they are the ones its price rests on."""

    exact: bool
    coordinates: object = None

    @property
    @abstractmethod
    def enforces(self) -> tuple[str, ...]:
        """The conditions of a guarantee that this sum upholds."""

    @abstractmethod
    def reach(self, neighbours: str) -> Participation:
        """How one protected unit can touch what is taken from here."""

    @abstractmethod
    def take(self) -> Array:
        """The sum, ready for ``release``; the next one starts empty."""


class EventCollector(Collector):
    """A collector that a book can keep: it takes events, and can be copied and stored."""

    def inspect(self, event: Any) -> None:
        """Raise for what is wrong with an event, which will be taken in next; changes nothing."""
        check.reward(event.reward)

    @abstractmethod
    def count(self, event: Any) -> bool:
        """Take in one event (:class:`adaprivate.mechanisms.units.Event`); False if the bounds let nothing of it in."""

    @abstractmethod
    def copy(self) -> Self:
        """One with the same contents that shares nothing with this one."""

    def weight(self, number: int, person: int, features: Floats) -> Floats:
        """What a person's visit in round ``number`` is weighted with, where the noise is round: public."""
        raise check.InputError(f"Expected a sum that tells people apart, not {type(self).__name__}.")

    def counts(self) -> dict[str, int]:
        """How many people came, and how many of their visits were counted or came to nothing: public."""
        raise check.InputError(f"Expected a sum that tells people apart, not {type(self).__name__}.")

    def go_on(self, earlier: EventCollector) -> None:
        """Take over what an earlier collector of the same kind holds, under another plan."""
        self.restore(earlier.state())

    @abstractmethod
    def state(self) -> Any:
        """Everything that was collected, in plain values and arrays: private."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Continue from an earlier :meth:`state`."""


class Contribution:
    """What one event adds to a sum, its bounds enforced; in whole numbers of the grid for exact noise."""

    def __init__(self, dimension: int, noise: Noise, centre: float, shape: Coordinates | None) -> None:
        self.dimension = check.whole("dimension", dimension, at_least=1)
        check.kind("noise", noise, Noise)
        self.exact = noise.exact
        self.shape = shape
        if shape is not None:
            check.expect(shape.dimension == dimension, "shape.dimension", shape.dimension, f"== {dimension}")
        self.centre = check.real("centre", centre, at_least=0, at_most=1)
        self.clipped = 0
        """How many feature vectors were too long and were clipped, of those that entered no sum of whole numbers."""
        self.axes: Floats | None = getattr(shape, "axes", None)
        """What each coordinate is multiplied with, where the shape only scales them."""

    @property
    def enforces(self) -> tuple[str, ...]:
        """The conditions that hold of every contribution."""
        return ("reward-range", "feature-norm", *(("catalogue",) if self.shape is not None else ()))

    def zero(self) -> Array:
        """The empty sum."""
        return np.full(self.dimension, 0, dtype=object) if self.exact else np.zeros(self.dimension)

    def bounded(self, features: object) -> Floats:
        """The features where the noise is round, clipped to norm 1."""
        x = check.floats("features", features, (self.dimension,))
        if self.shape is not None:
            x = self.shape.whiten(x)
        norm = float(np.linalg.norm(x))
        return x / norm if norm > 1 else x

    def sums(self) -> WholeSum:
        """An empty sum of these contributions in whole numbers: for exact noise."""
        from adaprivate.whole import WholeSum  # here, for it compiles: accounting does without

        return WholeSum(self.dimension, round(self.centre * 2**REWARD_BITS), self.axes)

    def entered(self, features: object) -> Floats:
        """The features of an event as such a sum takes them."""
        x = check.floats("features", features, (self.dimension,))
        if self.shape is not None and self.axes is None:
            x = self.shape.whiten(x)
        return np.ascontiguousarray(x)

    def entered_rows(self, features: Floats) -> Floats:
        """The same of several events, to the last bit."""
        rows = check.floats("features", features, (None, self.dimension))
        if self.shape is not None and self.axes is None:
            rows = self.shape.whiten_rows(rows)
        return rows

    def __call__(self, features: object, reward: object) -> Array:
        if self.exact:
            whole = self._whole
            whole.take()  # nothing, but for what an interruption may have left of somebody else
            before = whole.clipped
            whole.enter(self.entered(features), check.reward(reward))
            self.clipped += whole.clipped - before
            return whole.take()
        x = check.floats("features", features, (self.dimension,))
        value = check.reward(reward)
        if self.shape is not None:
            x = self.shape.whiten(x)
        norm = float(lengths(x))
        if norm > 1:
            self.clipped += norm > 1 + 1e-9  # rounding of a unit vector is not worth a report
            x = x / norm
        return (value - self.centre) * x

    @cached_property
    def _whole(self) -> WholeSum:
        return self.sums()


def lengths(x: Floats) -> Floats:
    """The norm of a vector, or of each of several: each the same as by itself, to the last bit."""
    return np.asarray(np.sqrt((x * x).sum(axis=-1)))


def whole_numbers_of(x: Floats) -> Integers:
    """Vectors of norm about 1 at most in whole numbers of 2^-EVENT_BITS, towards zero: of norm at most 1, exactly."""
    integers: Integers = (x * 2.0**EVENT_BITS).astype(np.int64)  # which drops the fraction
    while True:  # squares are at most about 2^40: their sum is exact
        longer = (integers * integers).sum(axis=-1) > 4**EVENT_BITS
        if not longer.any():
            return integers
        integers -= np.sign(integers) * longer[..., None]


def whole_vector(x: Floats) -> list[int]:
    """The same as Python's integers."""
    found: list[int] = whole_numbers_of(x).tolist()
    return found


def directed(features: Floats, shape: Coordinates | None = None) -> Floats:
    """The features scaled to norm 1, in these coordinates if any, each row by itself; zero stays zero."""
    x = np.asarray(features, dtype=np.float64)
    if x.ndim > 1:
        largest = np.abs(x).max(axis=-1, initial=0.0, keepdims=True)
        rows = x / np.where(largest > 0, largest, 1.0)
        norms = lengths(rows if shape is None else shape.whiten_rows(rows))[:, None]
        return np.asarray(rows / np.where(norms > 0, norms, 1.0))
    most = max(x.max(initial=0.0), -x.min(initial=0.0))
    if most == 0:
        return x
    x = x / most  # so that no square under- or overflows
    return np.asarray(x / lengths(x if shape is None else shape.whiten(x)))


def towards_zero(numerator: int, denominator: int) -> int:
    """The quotient, its fraction dropped."""
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)
