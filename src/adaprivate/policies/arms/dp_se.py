"""DP-SE: successive elimination on fresh, noisy means, each epoch twice as sharp as the one before.

Paper: Sajed & Sheffet 2019, Algorithm 2 (DP-SE).
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: arms take turns within an epoch, and the last epoch ends with the run; beta is 1 / T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams, kernel
from adaprivate.policies.arms.base import ArmState, PureArmSettings, arm_of
from adaprivate.policies.core.dispatch import selects, updates

# positions in numbers
EPSILON, BETA = range(2)
# positions in counts: arms left, epoch, pulls of each arm in it, rounds of it so far
LEFT, EPOCH, QUOTA, DONE = range(4)


class EliminationState(ArmState):
    """``values``: sums of this epoch, then released means; ``pulls``: the arms left, in order; ``noise`` (epochs, N)."""


@kernel
def quota(left: float, epoch: float, epsilon: float, beta: float) -> float:
    """How often each arm is pulled in this epoch."""
    gap = 2.0**-epoch
    sampling = 32.0 * math.log(8.0 * left * epoch * epoch / beta) / (gap * gap)
    noise = 8.0 * math.log(4.0 * left * epoch * epoch / beta) / (epsilon * gap)
    return float(math.ceil(max(sampling, noise) + 1.0))


@selects.of(EliminationState)
def _select(state: ArmState, candidates: Floats, rng: Streams) -> int:
    counts = state.counts
    return int(state.pulls[0, counts[DONE] % counts[LEFT]])


@updates.of(EliminationState)
def _update(state: ArmState, features: Floats, reward: float, rng: Streams) -> None:
    values, order, counts = state.values, state.pulls, state.counts
    if counts[LEFT] == 1:
        return
    values[0, arm_of(features)] += reward
    counts[DONE] += 1
    left, size = counts[LEFT], counts[QUOTA]
    if counts[DONE] < left * size:
        return
    epsilon, beta = state.numbers[EPSILON], state.numbers[BETA]
    epoch = float(counts[EPOCH])
    top = -np.inf
    for place in range(left):
        arm = order[0, place]
        values[1, arm] = (values[0, arm] + state.noise[counts[EPOCH] - 1, arm]) / size
        values[0, arm] = 0.0
        top = max(top, values[1, arm])
    width = math.sqrt(math.log(8.0 * left * epoch * epoch / beta) / (2.0 * size))
    width += math.log(4.0 * left * epoch * epoch / beta) / (size * epsilon)
    kept = 0
    for place in range(left):
        arm = order[0, place]
        if top - values[1, arm] <= 2.0 * width:
            order[0, kept] = arm
            kept += 1
    counts[LEFT] = kept
    counts[EPOCH] += 1
    counts[DONE] = 0
    counts[QUOTA] = int(min(quota(float(kept), epoch + 1.0, epsilon, beta), 1e15))


@dataclass(frozen=True, kw_only=True)
class DPSESettings(PureArmSettings):
    """Pulls all arms left equally often, releases their means once, drops those that are clearly worse."""

    name: ClassVar[str] = "dp-se"

    @property
    def first_release(self) -> int:
        """The first epoch."""
        return int(min(self.rounds, self.dimension * quota(self.dimension, 1.0, self.epsilon, 1 / self.rounds)))

    def start(self, noise: Floats) -> EliminationState:
        """The state before the first round."""
        first = int(min(quota(float(self.dimension), 1.0, self.epsilon, 1 / self.rounds), 1e15))
        return EliminationState(
            values=np.zeros((2, self.dimension)),
            pulls=np.arange(self.dimension, dtype=np.int64)[None, :].copy(),
            noise=noise,
            numbers=np.array([self.epsilon, 1 / self.rounds]),
            counts=np.array([self.dimension, 1, first, 0], dtype=np.int64),
        )


EXAMPLES = (DPSESettings(dimension=4, rounds=60),)
