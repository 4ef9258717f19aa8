"""DP-TS: Thompson sampling with beta posteriors on running sums, noise from trees in blocks of doubling length.

Paper: Hu & Hegde 2022, DP-TS.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: a reward between 0 and 1 is rounded at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, record, uniform
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import arm_of, arm_records, beta, clipped
from adaprivate.policies.arms.tree import TreeArmSettings, insert
from adaprivate.policies.core.dispatch import selects, updates


class BlockTreeState(NamedTuple):
    """Released sums of whole blocks, and a tree for the block of each arm that is still open."""

    total: Floats
    """The sum of each arm's rewards in its open block: private."""
    covered: Floats
    """The noise on it, all levels together: private."""
    nodes: Floats
    """The same by the level of its tree (levels, N): private."""
    arms: Record
    """Of each arm: the sum of whole ``blocks`` as released, how many of them there are (``block``), ``pulls``, and rewards
    ``waiting`` in its open block."""
    noise: Floats
    """The simulated noise of each round's node, of scale 1."""
    block_noise: Floats
    """The simulated noise of each whole block (blocks, N), of scale 1."""
    scalars: Record
    """``epsilon``; ``round``, rounds seen."""


@selects.of(BlockTreeState, offers=True)
def _select(state: BlockTreeState, candidates: Offered, rng: Streams) -> int:
    s, arms = state.scalars[0], state.arms.shape[0]
    if s.round < arms:
        return int(s.round)
    log_t = math.log2(s.round + 1.0)
    best, top = 0, -np.inf
    for j in range(arms):
        n = float(state.arms[j].pulls)
        mean = (state.arms[j].blocks + state.total[j] + state.covered[j]) / n
        raised = clipped(mean + 6.0 * math.sqrt(8.0) * math.log2(n + 1.0) * log_t / (s.epsilon * n))
        theta = beta(rng, raised * n + 1.0, (1.0 - raised) * n + 1.0)
        if theta > top:
            best, top = j, theta
    return best


@updates.of(BlockTreeState)
def _update(state: BlockTreeState, features: Floats, reward: float, rng: Streams) -> None:
    s, arm = state.scalars[0], arm_of(features)
    a = state.arms[arm]
    if 0.0 < reward < 1.0:
        reward = 1.0 if uniform(rng, 1) < reward else 0.0
    scale = 2.0 / s.epsilon
    a.pulls += 1
    a.waiting += 1
    state.total[arm] += reward
    if a.pulls == (1 << (a.block + 1)) - 1:  # after 1, 3, 7, ... pulls the block joins the released sum
        a.blocks += state.total[arm] + scale * state.block_noise[a.block, arm]
        state.total[arm] = 0.0
        state.covered[arm] = 0.0
        for level in range(state.nodes.shape[0]):
            state.nodes[level, arm] = 0.0
        a.block += 1
        a.waiting = 0
    else:
        fresh = scale * a.block * state.noise[s.round]  # a block of 2^block rewards: block levels are read
        state.covered[arm] += insert(state.nodes, arm, a.waiting, fresh)
    s.round += 1


@dataclass(frozen=True, kw_only=True)
class DPTSSettings(TreeArmSettings):
    """A beta sample around the noisy mean raised by 6 sqrt(8) log(n + 1) log(t) / (epsilon n)."""

    name: ClassVar[str] = "dp-ts"

    def released(self, state: BlockTreeState) -> Floats:
        """The noisy sums of whole blocks, and of the open ones."""
        return np.stack([state.arms["blocks"], state.total + state.covered])

    def start(self, noise: Floats) -> BlockTreeState:
        """The state before the first round."""
        return self.blank(
            BlockTreeState,
            nodes=self.nodes(),
            arms=arm_records(self.dimension, blocks=0.0, block=0, pulls=0, waiting=0),
            noise=noise[: self.rounds, 0],
            block_noise=noise[self.rounds :].reshape(-1, self.dimension),
            scalars=record(epsilon=float(self.epsilon), round=0),
        )


EXAMPLES = (DPTSSettings(dimension=3, rounds=60),)
