"""The private Thompson sampling of Mishra & Thakurta: the gap is estimated first, then beta posteriors on tree sums.

Paper: Mishra & Thakurta 2015, Algorithm 2.
Guarantee: epsilon / 2N, stated beside the published epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: noise counts the tree's levels; pulls count from phase 2 on, where sums begin; warmup="none" skips phases 1 and 2.
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
from adaprivate.policies.arms.base import ArmState, PureArmSettings, arm_of, beta, laplace_tables
from adaprivate.policies.arms.tree import insert
from adaprivate.policies.core.dispatch import selects, updates

# rows of values: the noisy running sum (in phase 1: the sum of this look), then the noise of each level of the tree
SUM, LEVELS = range(2)
# positions in numbers: epsilon, the gap in view, log2 T, scale of the trees' noise
EPSILON, GAP, LOG, SCALE = range(4)
# positions in counts: rounds, phase, pulls of each arm in it, rounds of it so far, looks taken, rounds in all
ROUND, PHASE, QUOTA, DONE, LOOKS, ROUNDS = range(6)
WARMUPS = ("published", "none")


class TreeBetaState(ArmState):
    """``pulls``: of each arm since phase 2; ``noise``: a row for each round, then one for each arm in each look."""


@selects.of(TreeBetaState)
def _select(state: ArmState, candidates: Floats, rng: Streams) -> int:
    counts = state.counts
    arms = state.values.shape[1]
    if counts[PHASE] < 3:
        return int(counts[DONE] % arms)
    best, top = 0, -np.inf
    for j in range(arms):
        n = float(state.pulls[0, j])
        total = min(n, max(0.0, state.values[SUM, j]))
        theta = beta(rng, total + 1.0, n - total + 1.0)
        if theta > top:
            best, top = j, theta
    return best


@updates.of(TreeBetaState)
def _update(state: ArmState, features: Floats, reward: float, rng: Streams) -> None:
    values, numbers, counts = state.values, state.numbers, state.counts
    arm = arm_of(features)
    arms = values.shape[1]
    if counts[PHASE] == 1:
        values[SUM, arm] += reward
    else:
        state.pulls[0, arm] += 1
        fresh = numbers[SCALE] * state.noise[counts[ROUND], 0]
        values[SUM, arm] += reward + insert(values, LEVELS, arm, state.pulls[0, arm], fresh)
    counts[ROUND] += 1
    counts[DONE] += 1
    if counts[PHASE] == 3 or counts[DONE] < counts[QUOTA] * arms:
        return
    counts[DONE] = 0
    if counts[PHASE] == 2:
        counts[PHASE] = 3
        return
    first, second = -np.inf, -np.inf
    for j in range(arms):
        noise = 2.0 * arms / numbers[EPSILON] * state.noise[counts[ROUNDS] + counts[LOOKS] * arms + j, 0]
        mean = (values[SUM, j] + noise) / counts[QUOTA]
        values[SUM, j] = 0.0
        if mean > first:
            first, second = mean, first
        elif mean > second:
            second = mean
    counts[LOOKS] += 1
    numbers[GAP] *= 0.5
    last = counts[ROUNDS] + (counts[LOOKS] + 1) * arms > state.noise.shape[0]  # no noise is left for another look
    if first - second > numbers[GAP] or last:
        counts[PHASE] = 2
        pulls = 192.0 * numbers[LOG] ** 3 / numbers[EPSILON]
    else:
        pulls = 192.0 * arms * numbers[LOG] / numbers[EPSILON]
    counts[QUOTA] = int(min(math.ceil(pulls / (numbers[GAP] * numbers[GAP])), 1e15))


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaTSSettings(PureArmSettings):
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

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Laplace noise of scale 1 for each round and look, which compiled code multiplies by what each needs."""
        return laplace_tables(seeds, (self.rounds + (self.rounds.bit_length() + 1) * self.dimension, 1), 1.0)

    def start(self, noise: Floats) -> TreeBetaState:
        """The state before the first round."""
        phase = 2 if self.warmup == "none" else 1
        scale = self.rounds.bit_length() / self.true_epsilon
        return TreeBetaState(
            values=np.zeros((LEVELS + self.rounds.bit_length() + 1, self.dimension)),
            pulls=np.zeros((1, self.dimension), dtype=np.int64),
            noise=noise,
            numbers=np.array([self.epsilon, 1.0, math.log2(max(self.rounds, 2)), scale]),
            counts=np.array([0, phase, self._first_quota, 0, 0, self.rounds], dtype=np.int64),
        )


EXAMPLES = (
    MishraThakurtaTSSettings(dimension=3, rounds=60, epsilon=200.0),
    MishraThakurtaTSSettings(dimension=4, rounds=60, warmup="none"),
)
