"""Policies on arms without privacy, the yardsticks of the others: UCB1 and Thompson sampling with beta posteriors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, record, uniform
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import ArmSettings, arm_of, beta
from adaprivate.policies.core.dispatch import selects, updates


class OptimisticArmState(NamedTuple):
    """What each arm has earned."""

    total: Floats  # The sum of each arm's rewards.
    pulls: Integers  # How many there are.
    scalars: Record  # ``round``, rounds seen.


@selects.of(OptimisticArmState, offers=True)
def _choose_hopeful(state: OptimisticArmState, candidates: Offered, rng: Streams) -> int:
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
def _add_reward(state: OptimisticArmState, features: Floats, reward: float, rng: Streams) -> None:
    arm = arm_of(features)
    state.total[arm] += reward
    state.pulls[arm] += 1
    state.scalars[0].round += 1


@dataclass(frozen=True, kw_only=True)
class UCB1Settings(ArmSettings):
    """The arm with the largest mean + sqrt(2 log t / n), learning every reward at once.

    Paper: Auer, Cesa-Bianchi & Fischer 2002, Figure 1.
    Guarantee: none.
    Deviates: nothing.
    """

    name: ClassVar[str] = "ucb1"
    private: ClassVar[bool] = False

    def start(self, noise: Floats) -> OptimisticArmState:
        return OptimisticArmState(
            total=np.zeros(self.dimension), pulls=np.zeros(self.dimension, dtype=np.int64), scalars=record(round=0)
        )


class BetaState(NamedTuple):
    """The beta posterior of each arm's mean, from the uniform prior."""

    ones: Floats  # One more than the rewards of 1.
    zeros: Floats  # One more than the rewards of 0.


@selects.of(BetaState, offers=True)
def _choose_beta(state: BetaState, candidates: Offered, rng: Streams) -> int:
    best, top = 0, -np.inf
    for j in range(state.ones.shape[0]):
        theta = beta(rng, state.ones[j], state.zeros[j])
        if theta > top:
            best, top = j, theta
    return best


@updates.of(BetaState)
def _add_bit(state: BetaState, features: Floats, reward: float, rng: Streams) -> None:
    arm = arm_of(features)
    if 0.0 < reward < 1.0:
        reward = 1.0 if uniform(rng, 1) < reward else 0.0
    state.ones[arm] += reward
    state.zeros[arm] += 1.0 - reward


@dataclass(frozen=True, kw_only=True)
class BetaThompsonSettings(ArmSettings):
    """The arm with the largest sample of Beta(1 + ones, 1 + zeros); a reward between 0 and 1 is rounded at random.

    Paper: Agrawal & Goyal 2012, Algorithms 1 and 2.
    Guarantee: none.
    Deviates: nothing.
    """

    name: ClassVar[str] = "beta-thompson"
    private: ClassVar[bool] = False

    def start(self, noise: Floats) -> BetaState:
        return BetaState(ones=np.ones(self.dimension), zeros=np.ones(self.dimension))


EXAMPLES = (
    UCB1Settings(dimension=4, rounds=60),
    BetaThompsonSettings(dimension=4, rounds=60),
)
