"""Beta-Bernoulli Thompson sampling: the usual Thompson sampling on arms without privacy, the yardstick of the arm policies.

Paper: Agrawal & Goyal 2012, Algorithms 1 and 2.
Guarantee: none.
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams, uniform
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import ArmSettings, arm_of, beta
from adaprivate.policies.core.dispatch import selects, updates


class BetaState(NamedTuple):
    """The beta posterior of each arm's mean, from the uniform prior."""

    ones: Floats
    """One more than the rewards of 1."""
    zeros: Floats
    """One more than the rewards of 0."""


@selects.of(BetaState, offers=True)
def _select(state: BetaState, candidates: Offered, rng: Streams) -> int:
    best, top = 0, -np.inf
    for j in range(state.ones.shape[0]):
        theta = beta(rng, state.ones[j], state.zeros[j])
        if theta > top:
            best, top = j, theta
    return best


@updates.of(BetaState)
def _update(state: BetaState, features: Floats, reward: float, rng: Streams) -> None:
    arm = arm_of(features)
    if 0.0 < reward < 1.0:
        reward = 1.0 if uniform(rng, 1) < reward else 0.0
    state.ones[arm] += reward
    state.zeros[arm] += 1.0 - reward


@dataclass(frozen=True, kw_only=True)
class BetaThompsonSettings(ArmSettings):
    """The arm with the largest sample of Beta(1 + ones, 1 + zeros); a reward between 0 and 1 is rounded at random."""

    name: ClassVar[str] = "beta-thompson"
    private: ClassVar[bool] = False

    def start(self, noise: Floats) -> BetaState:
        """The state before the first round."""
        return BetaState(ones=np.ones(self.dimension), zeros=np.ones(self.dimension))


EXAMPLES = (BetaThompsonSettings(dimension=4, rounds=60),)
