"""The private Thompson sampling of Mishra & Thakurta: the gap is estimated first, then beta posteriors on tree sums.

Paper: Mishra & Thakurta 2015, Algorithm 2.
Guarantee: epsilon / 2N, stated beside the published epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: noise counts the tree's levels; pulls count from phase 2 on, where sums begin; warmup="none" skips phases 1 and 2.
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
from adaprivate.policies.arms.base import arm_of, beta
from adaprivate.policies.arms.tree import TreeArmSettings, insert
from adaprivate.policies.core.dispatch import selects, updates

WARMUPS = ("published", "none")


class TreeBetaState(NamedTuple):
    """Sums of a look at all arms in phase 1, noisy running sums from phase 2 on."""

    looked: Floats
    """The sum of each arm's rewards in this look: private."""
    total: Floats
    """The sum of each arm's rewards since phase 2 as released."""
    nodes: Floats
    """The noise in it, by the level of its tree (levels, N): private."""
    pulls: Integers
    """How often each arm was played since phase 2."""
    noise: Floats
    """The simulated noise of each round's node, of scale 1."""
    look_noise: Floats
    """The simulated noise of each look (looks, N), of scale 1."""
    scalars: Record
    """``epsilon``; the ``gap`` in view; ``log_rounds``, log2 T; the ``scale`` of node noise; ``round``, rounds seen; the
    ``phase``, its ``quota`` of pulls of each arm, and the rounds of it that are ``done``; ``looks`` taken."""


@selects.of(TreeBetaState, offers=True)
def _select(state: TreeBetaState, candidates: Offered, rng: Streams) -> int:
    s, arms = state.scalars[0], state.total.shape[0]
    if s.phase < 3:
        return int(s.done % arms)
    best, top = 0, -np.inf
    for j in range(arms):
        n = float(state.pulls[j])
        total = min(n, max(0.0, state.total[j]))
        theta = beta(rng, total + 1.0, n - total + 1.0)
        if theta > top:
            best, top = j, theta
    return best


@updates.of(TreeBetaState)
def _update(state: TreeBetaState, features: Floats, reward: float, rng: Streams) -> None:
    s, arm, arms = state.scalars[0], arm_of(features), state.total.shape[0]
    if s.phase == 1:
        state.looked[arm] += reward
    else:
        state.pulls[arm] += 1
        state.total[arm] += reward + insert(state.nodes, arm, state.pulls[arm], s.scale * state.noise[s.round])
    s.round += 1
    s.done += 1
    if s.phase == 3 or s.done < s.quota * arms:
        return
    s.done = 0
    if s.phase == 2:
        s.phase = 3
        return
    first, second = -np.inf, -np.inf
    for j in range(arms):
        noise = 2.0 * arms / s.epsilon * state.look_noise[s.looks, j]
        mean = (state.looked[j] + noise) / s.quota
        state.looked[j] = 0.0
        if mean > first:
            first, second = mean, first
        elif mean > second:
            second = mean
    s.looks += 1
    s.gap *= 0.5
    last = s.looks == state.look_noise.shape[0]  # no noise is left for another look
    if first - second > s.gap or last:
        s.phase = 2
        pulls = 192.0 * s.log_rounds**3 / s.epsilon
    else:
        pulls = 192.0 * arms * s.log_rounds / s.epsilon
    s.quota = int(min(math.ceil(pulls / (s.gap * s.gap)), 1e15))


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaTSSettings(TreeArmSettings):
    """A beta sample of each arm's tree sum, after the gap has been estimated and every arm pulled accordingly.

    warmup: "published" is phases 1 and 2, which outlast T = 10^6; "none" pulls every arm once instead.
    """

    name: ClassVar[str] = "mishra-thakurta-ts"
    warmup: str = "published"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("warmup", self.warmup, WARMUPS)

    @property
    def true_epsilon(self) -> float:
        """A reward enters either one noisy mean or the tree of one arm, each at epsilon / 2N."""
        return self.epsilon / (2 * self.dimension)

    @property
    def _first_quota(self) -> int:
        if self.warmup == "none":
            return 1
        return math.ceil(192 * self.dimension * math.log2(max(self.rounds, 2)) / self.epsilon)

    @property
    def first_release(self) -> int:
        """The first look, or one pull of every arm."""
        return min(self.rounds, self.dimension * self._first_quota)

    def released(self, state: TreeBetaState) -> Floats:
        return state.total

    def start(self, noise: Floats) -> TreeBetaState:
        """The state before the first round."""
        return self.blank(
            TreeBetaState,
            nodes=self.nodes(),
            pulls=np.zeros(self.dimension, dtype=np.int64),
            noise=noise[: self.rounds, 0],
            look_noise=noise[self.rounds :].reshape(-1, self.dimension),
            scalars=record(
                epsilon=float(self.epsilon),
                gap=1.0,
                log_rounds=math.log2(max(self.rounds, 2)),
                scale=self.rounds.bit_length() / self.true_epsilon,
                round=0,
                phase=2 if self.warmup == "none" else 1,
                quota=self._first_quota,
                done=0,
                looks=0,
            ),
        )


EXAMPLES = (
    MishraThakurtaTSSettings(dimension=3, rounds=60, epsilon=200.0),
    MishraThakurtaTSSettings(dimension=4, rounds=60, warmup="none"),
)
