"""Gaussian noise: mu-GDP with mu the reach over the standard deviation; exact as a discrete Gaussian on an integer grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.check import Array, Floats
from adaprivate.mechanisms.laws.base import AdditiveLaw
from adaprivate.mechanisms.noise import Noise
from adaprivate.privacy import GaussianPrice, Price


@dataclass(frozen=True)
class GaussianLaw(AdditiveLaw):
    """N(0, scale^2), the reach measured in the l2 norm."""

    name: ClassVar[str] = "gaussian"

    def add(self, sums: Array, scale: float | Floats, source: Noise) -> Floats:
        return source.gaussian(sums, scale)

    def price(self, noise_multiplier: float, slack: float = 0.0, attained: bool = True) -> Price:
        return GaussianPrice(1 / noise_multiplier, slack, attained)

    def slack(self, scale: float, draws: int, source: Noise) -> float:
        return source.slack(scale, draws)


LAW = GaussianLaw
