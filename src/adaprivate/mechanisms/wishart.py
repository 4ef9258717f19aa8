"""Wishart noise on a Gram matrix: the release stays positive definite."""

from __future__ import annotations

import math

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.symmetric import gram_rows, symmetric
from adaprivate.privacy import Participation, Price
from adaprivate.privacy.wishart import least_degrees, wishart_price

_BLOCK = 2**16


class Wishart(Mechanism):
    """A sum of rows' v v' plus row_norm^2 times Wishart noise of ``degrees`` degrees of freedom, mean ``shift`` x identity.

    ``releases`` matrices may hold the same row; the price covers them all, and no more are released. There is no exact
    sampler, so this mechanism serves simulation and comparison with published methods only.
    """

    name = "wishart"

    def __init__(
        self,
        *,
        dimension: int,
        degrees: int,
        noise: Noise,
        participation: Participation,
        row_norm: float = 1.0,
        releases: int = 1,
    ) -> None:
        check.kind("noise", noise, Noise)
        check.expect(
            not noise.exact, "noise", type(noise).__name__, "to be Simulated (for exact noise: symmetric-gaussian)"
        )
        self.dimension = check.whole("dimension", dimension, at_least=1)
        self.degrees = check.whole("degrees", degrees, at_least=least_degrees(dimension, participation.neighbours))
        self.noise = noise
        self.participation = participation
        self.row_norm = check.real("row_norm", row_norm, above=0)
        self.releases = check.whole("releases", releases, at_least=1)
        reach = gram_rows(participation.neighbours, self.row_norm).change
        check.real("participation.change", participation.change, at_most=reach * (1 + 1e-12))
        check.expect(participation.batches == 1, "participation.batches", participation.batches, "== 1: use releases")
        check.expect(
            participation.unit in ("user", "joint"), "participation.unit", participation.unit, "== user: see gram_rows"
        )
        self._released = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.dimension, self.dimension)

    @property
    def price(self) -> Price:
        return wishart_price(self.degrees, self.dimension, self.releases, neighbours=self.participation.neighbours)

    @property
    def shift(self) -> float:
        """The noise's mean is this multiple of the identity; subtracting it makes the release unbiased."""
        return self.degrees * self.row_norm**2

    def _ready(self) -> None:
        check.expect(self._released < self.releases, "releases", self._released + 1, f"<= {self.releases}")

    def _release(self, value: Array) -> Floats:
        matrix = symmetric("value", value, self.dimension)
        noise = np.zeros(self.shape)
        for start in range(0, self.degrees, _BLOCK):
            rows = np.zeros((min(_BLOCK, self.degrees - start), self.dimension))
            normal = self.noise.gaussian(rows, self.row_norm)
            noise += normal.T @ normal
        self._released += 1
        return matrix + (noise + noise.T) / 2

    def entry_std(self) -> float:
        """Standard deviation of the noise in an off-diagonal entry; the diagonal has sqrt(2) times as much."""
        return math.sqrt(self.degrees) * self.row_norm**2


def _example(noise: Noise) -> Wishart:
    return Wishart(dimension=3, degrees=60, noise=noise, participation=gram_rows("add-remove"))


EXAMPLES = (_example,)
