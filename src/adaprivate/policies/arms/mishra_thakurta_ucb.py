"""The private UCB of Mishra & Thakurta: running sums of each arm from a tree, and a bonus that covers their noise.

Paper: Mishra & Thakurta 2015, Algorithm 1.
Guarantee: epsilon / N, stated beside the published epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: noise counts the tree's levels (the paper says log T); bonus="experiments" is the interval of their experiments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, record
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import arm_of
from adaprivate.policies.arms.tree import TreeArmSettings, insert
from adaprivate.policies.core.dispatch import selects, updates

BONUSES = ("published", "experiments")


class TreeUCBState(NamedTuple):
    """A noisy running sum for each arm."""

    total: Floats
    """The sum of each arm's rewards as released."""
    nodes: Floats
    """The noise in it, by the level of its tree (levels, N): private."""
    pulls: Integers
    """How often each arm was played."""
    noise: Floats
    """The simulated noise of the node that each round completes."""
    scalars: Record
    """Whether the bonus is as ``published``, and then ``cover``, its Gamma; ``round``, rounds seen."""


@selects.of(TreeUCBState, offers=True)
def _select(state: TreeUCBState, candidates: Offered, rng: Streams) -> int:
    s, arms = state.scalars[0], state.total.shape[0]
    if s.round < arms:
        return int(s.round)
    published, cover, log_t = s.published, s.cover, math.log(s.round + 1.0)
    best, top = 0, -np.inf
    for j in range(arms):
        n = float(state.pulls[j])
        total = state.total[j]
        if published:
            score = total / n + math.sqrt(2.0 * log_t / n) + cover / n
        else:
            total = max(total, 0.0)
            score = total / n + math.sqrt(total * log_t) / n + log_t / n
        if score > top:
            best, top = j, score
    return best


@updates.of(TreeUCBState)
def _update(state: TreeUCBState, features: Floats, reward: float, rng: Streams) -> None:
    s, arm = state.scalars[0], arm_of(features)
    state.pulls[arm] += 1
    state.total[arm] += reward + insert(state.nodes, arm, state.pulls[arm], state.noise[s.round])
    s.round += 1


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaUCBSettings(TreeArmSettings):
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

    @property
    def releases(self) -> tuple[int, int]:
        return self.rounds, 1

    @property
    def noise_scale(self) -> float:
        return self.rounds.bit_length() / self.true_epsilon

    def released(self, state: TreeUCBState) -> Floats:
        return state.total

    def start(self, noise: Floats) -> TreeUCBState:
        """The state before the first round."""
        log_rounds = math.log(max(self.rounds, 3))
        cover = self.dimension * log_rounds**2 / self.epsilon
        cover *= math.log(self.dimension * self.rounds * log_rounds / self.confidence)
        return self.blank(
            TreeUCBState,
            nodes=self.nodes(),
            pulls=np.zeros(self.dimension, dtype=np.int64),
            noise=noise[:, 0],
            scalars=record(published=self.bonus == "published", cover=cover, round=0),
        )


EXAMPLES = (
    MishraThakurtaUCBSettings(dimension=3, rounds=60),
    MishraThakurtaUCBSettings(dimension=4, rounds=60, bonus="experiments"),
)
