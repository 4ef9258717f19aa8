"""Laplace noise on one vector: pure epsilon-DP, with no delta."""

from __future__ import annotations

import dataclasses
import math

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, Noise, plain_numbers, whole_numbers
from adaprivate.privacy import Participation, Price, PurePrice


class Laplace(Mechanism):
    """A vector plus independent Laplace noise of scale l1_change / epsilon in every entry; released once.

    ``l1_change`` bounds how far one unit moves the vector in the l1 norm. A participation bounds the l2 norm, so by default
    it is sqrt(dimension) times the participation's change, which always holds; a smaller one (a unit touches a single
    entry, say) becomes a condition of the guarantee. Exact noise takes whole numbers of 2^-20 and is exactly epsilon-DP.
    """

    name = "laplace"

    def __init__(
        self,
        *,
        dimension: int,
        epsilon: float,
        noise: Noise,
        participation: Participation | None = None,
        l1_change: float | None = None,
    ) -> None:
        self.dimension = check.whole("dimension", dimension, at_least=1)
        self.epsilon = check.real("epsilon", epsilon, above=0)
        check.kind("noise", noise, Noise)
        self.noise = noise
        self.participation = participation or privacy.events()
        check.expect(self.participation.batches == 1, "participation.batches", self.participation.batches, "== 1")
        if l1_change is None:
            self.l1_change = _up(_up(math.sqrt(self.dimension)) * self.participation.change)
        else:
            self.l1_change = check.real("l1_change", l1_change, above=0)
            conditions = (*self.participation.conditions, "l1-change")
            self.participation = dataclasses.replace(self.participation, conditions=conditions)
        self.scale = check.real("scale", _up(self.l1_change / self.epsilon), above=0)
        self._released = False

    @property
    def price(self) -> Price:
        return PurePrice(self.epsilon)

    def _ready(self) -> None:
        check.expect(not self._released, "releases", 2, "<= 1: a second release of the same data costs again")

    def _release(self, value: Array) -> Floats:
        shape = (self.dimension,)
        if self.noise.exact:
            prepared: Array = whole_numbers("value", value, shape) * 2**COEFFICIENT_BITS
        else:
            prepared = plain_numbers("value", value, shape)
        noisy = self.noise.laplace(prepared, self.scale)
        self._released = True
        return noisy


def _up(number: float) -> float:
    """The next float: at least the true value of a correctly rounded operation."""
    return math.nextafter(number, math.inf)


def _example(noise: Noise) -> Laplace:
    return Laplace(dimension=3, epsilon=0.5, noise=noise)


EXAMPLES = (_example,)
