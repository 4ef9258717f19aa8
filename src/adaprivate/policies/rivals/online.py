"""What the non-private linear policies share: they learn every reward as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.policies.core.linear import LinearState, fresh


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """Settings of a linear policy without privacy."""

    name: ClassVar[str]
    kind: ClassVar[type[LinearState]]
    private: ClassVar[bool] = False

    dimension: int
    rounds: int
    ridge: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("rounds", self.rounds, at_least=1)
        check.real("ridge", self.ridge, above=0)
        check.real("centre", self.centre, at_least=0, at_most=1)

    @property
    def exploration(self) -> float:
        """The exploration width."""
        raise TypeError("a policy sets its exploration width")

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """No noise."""
        return np.zeros((len(seeds), 0, self.dimension))

    def start(self, noise: Floats) -> LinearState:
        """The state before the first round."""
        return fresh(self.kind, dimension=self.dimension, ridge=self.ridge, width=self.exploration, centre=self.centre)

    def guarantee(self, *, exact_noise: bool = False) -> None:
        """None: these policies protect nobody."""
