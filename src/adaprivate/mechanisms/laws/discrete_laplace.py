"""Discrete Laplace noise, P(z) ~ e^(-epsilon |z|): pure epsilon-DP for a whole-number sum that one unit moves by at most 1.

Moving the sum by 1 changes |z| by at most 1, and so every outcome's odds by a factor of e^epsilon at most, with no delta.
On whole numbers nothing is rounded (docs/privacy.md, "Channels"). With exact noise OpenDP draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from adaprivate import check
from adaprivate.mechanisms.laws.base import CountLaw
from adaprivate.mechanisms.noise import Noise, Simulated
from adaprivate.privacy import Price, PurePrice


@dataclass(frozen=True)
class DiscreteLaplace(CountLaw):
    """Two-sided geometric noise, q^|z| with q = e^-epsilon."""

    name: ClassVar[str] = "discrete-laplace"
    epsilon: float

    def __post_init__(self) -> None:
        check.real("epsilon", self.epsilon, at_least=1e-6, at_most=30)

    @cached_property
    def scale(self) -> float:
        """1 / epsilon, rounded up: by OpenDP's own map a move of 1 costs at most epsilon."""
        scale = 1 / self.epsilon
        while _sampler(scale).map(1) > self.epsilon:
            scale = math.nextafter(scale, math.inf)
        return scale

    @property
    def variance(self) -> float:
        q = math.exp(-self.epsilon)
        return 2 * q / math.expm1(-self.epsilon) ** 2

    def add(self, total: int, source: Noise) -> int:
        if source.exact:
            return total + int(_sampler(self.scale)(0))
        check.kind("source", source, Simulated)
        first, second = source.generator.geometric(-math.expm1(-self.epsilon), size=2)  # type: ignore[attr-defined]
        return total + int(first) - int(second)

    def price(self) -> Price:
        return PurePrice(self.epsilon)


@lru_cache(maxsize=64)
def _sampler(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=scale)


LAW = DiscreteLaplace
