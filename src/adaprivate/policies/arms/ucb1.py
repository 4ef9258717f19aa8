"""UCB1: the upper confidence bound on arms without privacy, a yardstick.

Paper: Auer, Cesa-Bianchi & Fischer 2002, Figure 1.
Guarantee: none.
Deviates: nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams
from adaprivate.policies.arms.base import ArmSettings, ArmState, arm_of
from adaprivate.policies.core.dispatch import selects, updates


class OptimisticArmState(ArmState):
    """``values``: the sum of each arm's rewards; ``pulls``: how many there are; ``counts``: rounds."""


@selects.of(OptimisticArmState)
def _select(state: ArmState, candidates: Floats, rng: Streams) -> int:
    arms = state.values.shape[1]
    t = state.counts[0]
    if t < arms:
        return int(t)
    log_t = math.log(t)
    best, top = 0, -np.inf
    for j in range(arms):
        n = state.pulls[0, j]
        index = state.values[0, j] / n + math.sqrt(2.0 * log_t / n)
        if index > top:
            best, top = j, index
    return best


@updates.of(OptimisticArmState)
def _update(state: ArmState, features: Floats, reward: float, rng: Streams) -> None:
    arm = arm_of(features)
    state.values[0, arm] += reward
    state.pulls[0, arm] += 1
    state.counts[0] += 1


@dataclass(frozen=True, kw_only=True)
class UCB1Settings(ArmSettings):
    """The arm with the largest mean + sqrt(2 log t / n), learning every reward at once."""

    name: ClassVar[str] = "ucb1"
    private: ClassVar[bool] = False

    def start(self, noise: Floats) -> OptimisticArmState:
        """The state before the first round."""
        return OptimisticArmState(
            values=np.zeros((1, self.dimension)),
            pulls=np.zeros((1, self.dimension), dtype=np.int64),
            noise=noise,
            numbers=np.zeros(0),
            counts=np.zeros(1, dtype=np.int64),
        )

    def guarantee(self, *, exact_noise: bool = False) -> None:
        """None: this policy protects nobody."""


EXAMPLES = (UCB1Settings(dimension=4, rounds=60),)
