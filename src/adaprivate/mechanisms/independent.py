"""Independent noise on every batch: the mechanism of Algorithm 1 of AdaPrivate-TS."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.prefix import PrefixSum, Strategy, one


class IndependentState(NamedTuple):
    """The noisy running sum so far (already public)."""

    prefix: Floats


class Independent(Strategy):
    """C = I: each batch sum gets fresh noise, the running sum adds them up; noise grows as the root of the batches."""

    name = "independent"

    def __init__(self, steps: int) -> None:
        self.steps = check.whole("steps", steps, at_least=1)

    @property
    def kept(self) -> int:
        return 0

    def attained(self, batches: int) -> bool:
        return True

    def start(self, dimension: int, exact: bool) -> IndependentState:
        return IndependentState(np.zeros(dimension))

    def encode(self, state: IndependentState, step: int, increment: Array) -> tuple[Array, IndependentState]:
        return (increment * one(increment))[None, :], state

    def decode(self, state: IndependentState, step: int, rows: Floats) -> tuple[Floats, IndependentState]:
        prefix = state.prefix + rows[0]
        return prefix, IndependentState(prefix)

    def sensitivity(self, batches: int = 1, separation: int = 1) -> float:
        return math.sqrt(min(batches, -(-self.steps // separation)))

    def prefix_std(self) -> Floats:
        return np.sqrt(np.arange(1.0, self.steps + 1, dtype=np.float64))

    def matrix(self) -> Floats:
        return np.eye(self.steps)


def _example(noise: Noise) -> PrefixSum:
    return PrefixSum(Independent(steps=6), dimension=3, noise_multiplier=1.5, noise=noise)


EXAMPLES = (_example,)
