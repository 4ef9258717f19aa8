"""UCB1: the upper confidence bound on arms without privacy, a yardstick.

Paper: Auer, Cesa-Bianchi & Fischer 2002, Figure 1.
Guarantee: none.
Deviates: nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, record
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import ArmSettings, arm_of
from adaprivate.policies.core.dispatch import selects, updates


class OptimisticArmState(NamedTuple):
    """What each arm has earned."""

    total: Floats
    """The sum of each arm's rewards."""
    pulls: Integers
    """How many there are."""
    scalars: Record
    """``round``, rounds seen."""


@selects.of(OptimisticArmState, offers=True)
def _select(state: OptimisticArmState, candidates: Offered, rng: Streams) -> int:
    arms, t = state.total.shape[0], state.scalars[0].round
    if t < arms:
        return int(t)
    log_t = math.log(t)
    best, top = 0, -np.inf
    for j in range(arms):
        n = state.pulls[j]
        index = state.total[j] / n + math.sqrt(2.0 * log_t / n)
        if index > top:
            best, top = j, index
    return best


@updates.of(OptimisticArmState)
def _update(state: OptimisticArmState, features: Floats, reward: float, rng: Streams) -> None:
    arm = arm_of(features)
    state.total[arm] += reward
    state.pulls[arm] += 1
    state.scalars[0].round += 1


@dataclass(frozen=True, kw_only=True)
class UCB1Settings(ArmSettings):
    """The arm with the largest mean + sqrt(2 log t / n), learning every reward at once."""

    name: ClassVar[str] = "ucb1"
    private: ClassVar[bool] = False

    def start(self, noise: Floats) -> OptimisticArmState:
        """The state before the first round."""
        return OptimisticArmState(
            total=np.zeros(self.dimension), pulls=np.zeros(self.dimension, dtype=np.int64), scalars=record(round=0)
        )


EXAMPLES = (UCB1Settings(dimension=4, rounds=60),)
