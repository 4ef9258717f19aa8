"""The private UCB of Mishra & Thakurta: running sums of each arm from a tree, and a bonus that covers their noise.

Paper: Mishra & Thakurta 2015, Algorithm 1.
Guarantee: epsilon / N, stated beside the published epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: noise counts the tree's levels (the paper says log T); bonus="experiments" is the interval of their experiments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams
from adaprivate.policies.arms.base import ArmState, PureArmSettings, arm_of, laplace_tables
from adaprivate.policies.arms.tree import insert
from adaprivate.policies.core.dispatch import selects, updates

# rows of values: the noisy running sum, then the noise of each level of the tree
SUM, LEVELS = range(2)
BONUSES = ("published", "experiments")


class TreeUCBState(ArmState):
    """``pulls``: of each arm; ``noise``: a row for each round; ``numbers``: the bonus Gamma, or 0; ``counts``: rounds."""


@selects.of(TreeUCBState)
def _select(state: ArmState, candidates: Floats, rng: Streams) -> int:
    arms = state.values.shape[1]
    if state.counts[0] < arms:
        return int(state.counts[0])
    log_t = math.log(state.counts[0] + 1.0)
    cover = state.numbers[0]
    best, top = 0, -np.inf
    for j in range(arms):
        n = float(state.pulls[0, j])
        total = state.values[SUM, j]
        if cover > 0.0:
            score = total / n + math.sqrt(2.0 * log_t / n) + cover / n
        else:
            total = max(total, 0.0)
            score = total / n + math.sqrt(total * log_t) / n + log_t / n
        if score > top:
            best, top = j, score
    return best


@updates.of(TreeUCBState)
def _update(state: ArmState, features: Floats, reward: float, rng: Streams) -> None:
    arm = arm_of(features)
    state.pulls[0, arm] += 1
    fresh = state.noise[state.counts[0], 0]
    state.values[SUM, arm] += reward + insert(state.values, LEVELS, arm, state.pulls[0, arm], fresh)
    state.counts[0] += 1


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaUCBSettings(PureArmSettings):
    """The largest mean + sqrt(2 log t / n) + Gamma / n, means from trees that split epsilon between the arms.

    bonus: "published" is Gamma = N log^2 T log(N T log T / confidence) / epsilon.
    """

    name: ClassVar[str] = "mishra-thakurta-ucb"
    bonus: str = "published"
    confidence: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("bonus", self.bonus, BONUSES)
        check.probability("confidence", self.confidence)

    @property
    def true_epsilon(self) -> float:
        """A reward enters the tree of one arm, and each tree has epsilon / N."""
        return self.epsilon / self.dimension

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The Laplace noise of the tree node that each round completes."""
        return laplace_tables(seeds, (self.rounds, 1), self.rounds.bit_length() / self.true_epsilon)

    def start(self, noise: Floats) -> TreeUCBState:
        """The state before the first round."""
        log_rounds = math.log(max(self.rounds, 3))
        cover = self.dimension * log_rounds**2 / self.epsilon
        cover *= math.log(self.dimension * self.rounds * log_rounds / self.confidence)
        return TreeUCBState(
            values=np.zeros((LEVELS + self.rounds.bit_length() + 1, self.dimension)),
            pulls=np.zeros((1, self.dimension), dtype=np.int64),
            noise=noise,
            numbers=np.array([cover if self.bonus == "published" else 0.0]),
            counts=np.zeros(1, dtype=np.int64),
        )


EXAMPLES = (
    MishraThakurtaUCBSettings(dimension=3, rounds=60),
    MishraThakurtaUCBSettings(dimension=4, rounds=60, bonus="experiments"),
)
