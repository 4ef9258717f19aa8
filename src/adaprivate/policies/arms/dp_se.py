"""DP-SE: successive elimination on fresh, noisy means, each epoch twice as sharp as the one before.

Paper: Sajed & Sheffet 2019, Algorithm 2 (DP-SE).
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: arms take turns within an epoch, and the last epoch ends with the run; beta is 1 / T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, kernel, record
from adaprivate.policies.arms.base import PureArmSettings, arm_of
from adaprivate.policies.core.dispatch import selects, updates


class EliminationState(NamedTuple):
    """The arms that are left, and what this epoch has seen of them."""

    total: Floats
    """The sum of each arm's rewards in this epoch: private."""
    mean: Floats
    """The mean of each arm as last released."""
    order: Integers
    """The arms left, in order; what is beyond their number means nothing."""
    noise: Floats
    """The simulated noise of each release, on the sum (epochs, N)."""
    scalars: Record
    """``epsilon``; ``beta``, the failure probability; ``left``, arms left; the ``epoch``, its ``quota`` of pulls of each,
    and the rounds of it that are ``done``."""


@kernel
def quota(left: float, epoch: float, epsilon: float, beta: float) -> float:
    """How often each arm is pulled in this epoch."""
    gap = 2.0**-epoch
    sampling = 32.0 * math.log(8.0 * left * epoch * epoch / beta) / (gap * gap)
    noise = 8.0 * math.log(4.0 * left * epoch * epoch / beta) / (epsilon * gap)
    return float(math.ceil(max(sampling, noise) + 1.0))


@selects.of(EliminationState)
def _select(state: EliminationState, candidates: Floats, rng: Streams) -> int:
    s = state.scalars[0]
    return int(state.order[s.done % s.left])


@updates.of(EliminationState)
def _update(state: EliminationState, features: Floats, reward: float, rng: Streams) -> None:
    s, total, mean, order = state.scalars[0], state.total, state.mean, state.order
    if s.left == 1:
        return
    total[arm_of(features)] += reward
    s.done += 1
    left, size = s.left, s.quota
    if s.done < left * size:
        return
    epoch = float(s.epoch)
    top = -np.inf
    for place in range(left):
        arm = order[place]
        mean[arm] = (total[arm] + state.noise[s.epoch - 1, arm]) / size
        total[arm] = 0.0
        top = max(top, mean[arm])
    width = math.sqrt(math.log(8.0 * left * epoch * epoch / s.beta) / (2.0 * size))
    width += math.log(4.0 * left * epoch * epoch / s.beta) / (size * s.epsilon)
    kept = 0
    for place in range(left):
        arm = order[place]
        if top - mean[arm] <= 2.0 * width:
            order[kept] = arm
            kept += 1
    s.left = kept
    s.epoch += 1
    s.done = 0
    s.quota = int(min(quota(float(kept), epoch + 1.0, s.epsilon, s.beta), 1e15))


@dataclass(frozen=True, kw_only=True)
class DPSESettings(PureArmSettings):
    """Pulls all arms left equally often, releases their means once, drops those that are clearly worse."""

    name: ClassVar[str] = "dp-se"

    @property
    def first_release(self) -> int:
        """The first epoch."""
        return int(min(self.rounds, self.dimension * quota(self.dimension, 1.0, self.epsilon, 1 / self.rounds)))

    def released(self, state: EliminationState) -> Floats:
        return state.mean

    def start(self, noise: Floats) -> EliminationState:
        """The state before the first round."""
        first = int(min(quota(float(self.dimension), 1.0, self.epsilon, 1 / self.rounds), 1e15))
        return self.blank(
            EliminationState,
            order=np.arange(self.dimension, dtype=np.int64),
            noise=noise,
            scalars=record(
                epsilon=float(self.epsilon), beta=1 / self.rounds, left=int(self.dimension), epoch=1, quota=first, done=0
            ),
        )


EXAMPLES = (DPSESettings(dimension=4, rounds=60),)
