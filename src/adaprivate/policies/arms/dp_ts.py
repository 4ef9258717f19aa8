"""DP-TS: Thompson sampling with beta posteriors on running sums, noise from trees in blocks of doubling length.

Paper: Hu & Hegde 2022, DP-TS.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: a reward between 0 and 1 is rounded at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams, uniform
from adaprivate.policies.arms.base import ArmState, PureArmSettings, arm_of, beta, clipped, laplace_tables
from adaprivate.policies.arms.tree import insert
from adaprivate.policies.core.dispatch import selects, updates

# rows of values: the released sum of whole blocks, the sum in this block, the noise of its tree, then that of each level
BLOCKS, SUM, NOISE, LEVELS = range(4)
# rows of pulls: pulls, blocks released after the first, rewards in this block
PULLS, BLOCK, WAITING = range(3)


class BlockTreeState(ArmState):
    """``noise``: a row for each round, then one for each block of each arm; ``counts``: rounds, rounds in all."""


@selects.of(BlockTreeState)
def _select(state: ArmState, candidates: Floats, rng: Streams) -> int:
    values, pulls = state.values, state.pulls
    arms = values.shape[1]
    if state.counts[0] < arms:
        return int(state.counts[0])
    log_t = math.log2(state.counts[0] + 1.0)
    best, top = 0, -np.inf
    for j in range(arms):
        n = float(pulls[PULLS, j])
        mean = (values[BLOCKS, j] + values[SUM, j] + values[NOISE, j]) / n
        raised = clipped(mean + 6.0 * math.sqrt(8.0) * math.log2(n + 1.0) * log_t / (state.numbers[0] * n))
        theta = beta(rng, raised * n + 1.0, (1.0 - raised) * n + 1.0)
        if theta > top:
            best, top = j, theta
    return best


@updates.of(BlockTreeState)
def _update(state: ArmState, features: Floats, reward: float, rng: Streams) -> None:
    values, pulls, counts = state.values, state.pulls, state.counts
    arm = arm_of(features)
    arms = values.shape[1]
    if 0.0 < reward < 1.0:
        reward = 1.0 if uniform(rng, 1) < reward else 0.0
    scale = 2.0 / state.numbers[0]
    pulls[PULLS, arm] += 1
    pulls[WAITING, arm] += 1
    values[SUM, arm] += reward
    block = pulls[BLOCK, arm]
    if pulls[PULLS, arm] == (1 << (block + 1)) - 1:  # after 1, 3, 7, ... pulls the block joins the released sum
        values[BLOCKS, arm] += values[SUM, arm] + scale * state.noise[counts[1] + block * arms + arm, 0]
        for row in range(SUM, values.shape[0]):
            values[row, arm] = 0.0
        pulls[BLOCK, arm] += 1
        pulls[WAITING, arm] = 0
    else:
        fresh = scale * block * state.noise[counts[0], 0]  # a block of 2^block rewards: block levels are read
        values[NOISE, arm] += insert(values, LEVELS, arm, pulls[WAITING, arm], fresh)
    counts[0] += 1


@dataclass(frozen=True, kw_only=True)
class DPTSSettings(PureArmSettings):
    """A beta sample around the noisy mean raised by 6 sqrt(8) log(n + 1) log(t) / (epsilon n)."""

    name: ClassVar[str] = "dp-ts"

    @property
    def releases(self) -> tuple[int, int]:
        """A draw for each round and for each block of each arm."""
        return self.rounds + (self.rounds.bit_length() + 1) * self.dimension, 1

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Laplace noise of scale 1, which compiled code multiplies by what each release needs."""
        return laplace_tables(seeds, self.releases, 1.0)

    def start(self, noise: Floats) -> BlockTreeState:
        """The state before the first round."""
        return BlockTreeState(
            values=np.zeros((LEVELS + self.rounds.bit_length() + 1, self.dimension)),
            pulls=np.zeros((3, self.dimension), dtype=np.int64),
            noise=noise,
            numbers=np.array([self.epsilon]),
            counts=np.array([0, self.rounds], dtype=np.int64),
        )


EXAMPLES = (DPTSSettings(dimension=3, rounds=60),)
