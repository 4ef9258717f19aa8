"""Gaussian noise on one vector."""

from __future__ import annotations

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, Noise, expect_fine_grid, plain_numbers, whole_numbers
from adaprivate.privacy import GaussianPrice, Participation, Price


class Gaussian(Mechanism):
    """A vector plus N(0, sigma^2 I), sigma = noise_multiplier x the participation's l2 change; released once.

    Exact noise takes whole numbers of 2^-20.
    """

    name = "gaussian"

    def __init__(
        self, *, dimension: int, noise_multiplier: float, noise: Noise, participation: Participation | None = None
    ) -> None:
        self.dimension = check.whole("dimension", dimension, at_least=1)
        self.noise_multiplier = check.real("noise_multiplier", noise_multiplier, above=0)
        self.noise = noise
        self.participation = participation or privacy.events()
        check.expect(self.participation.batches == 1, "participation.batches", self.participation.batches, "== 1")
        self.sigma = self.noise_multiplier * self.participation.change * (1 + 2.0**-50)  # products round up
        expect_fine_grid(self.noise_multiplier, self.sigma, noise)
        self._released = False

    @property
    def price(self) -> Price:
        return GaussianPrice(1 / self.noise_multiplier, self.noise.slack(self.sigma, self.dimension))

    def _ready(self) -> None:
        check.expect(not self._released, "releases", 2, "<= 1: a second release of the same data costs again")

    def _release(self, value: Array) -> Floats:
        shape = (self.dimension,)
        if self.noise.exact:
            prepared: Array = whole_numbers("value", value, shape) * 2**COEFFICIENT_BITS
        else:
            prepared = plain_numbers("value", value, shape)
        noisy = self.noise.gaussian(prepared, self.sigma)
        self._released = True
        return noisy


def _example(noise: Noise) -> Gaussian:
    return Gaussian(dimension=3, noise_multiplier=2.0, noise=noise)


EXAMPLES = (_example,)
