"""Policies on arms that read running sums of every arm's rewards, with noise from a binary tree.

After n rewards the sum carries one noise for each one-bit of n: that of the nodes that cover the first n. Each reward
completes one node that is read, so one fresh draw for each round is enough. The UCB and Thompson sampling of Mishra &
Thakurta keep a tree for each arm; DP-TS one for each block of doubling length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers, option
from adaprivate.compiled import Record, Streams, kernel, record, uniform
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import PureArmSettings, arm_of, arm_records, beta, clipped
from adaprivate.policies.core.dispatch import selects, updates


@kernel
def insert(nodes: Floats, arm: int, position: int, fresh: float) -> float:
    """Add the noise of the node completed by the reward at ``position`` (from 1); returns the change of the sum's noise.

    ``nodes[level, arm]`` holds the noise of the node of each level that is read now.
    """
    change = fresh
    level = 0
    while position % 2 == 0:
        change -= nodes[level, arm]
        nodes[level, arm] = 0.0
        position //= 2
        level += 1
    nodes[level, arm] = fresh
    return change


@dataclass(frozen=True, kw_only=True)
class TreeArmSettings(PureArmSettings):
    """Settings of a policy with a tree for each arm."""

    @property
    def releases(self) -> tuple[int, int]:
        """A draw for each round, then one for each arm in each release beside the trees, their lengths doubling."""
        return self.rounds + (self.rounds.bit_length() + 1) * self.dimension, 1

    @property
    def noise_scale(self) -> float:
        return 1.0

    def nodes(self) -> Floats:
        """The noise of each level of each arm's tree before the first reward."""
        return np.zeros((self.rounds.bit_length() + 1, self.dimension))


BONUSES = ("published", "experiments")


class TreeUCBState(NamedTuple):
    """A noisy running sum for each arm."""

    total: Floats  # The sum of each arm's rewards as released.
    nodes: Floats  # The noise in it, by the level of its tree (levels, N): private.
    pulls: Integers  # How often each arm was played.
    noise: Floats  # The simulated noise of the node that each round completes.
    scalars: Record  # Whether the bonus is as ``published``, and then ``cover``, its Gamma; ``round``, rounds seen.


@selects.of(TreeUCBState, offers=True)
def _choose_hopeful(state: TreeUCBState, candidates: Offered, rng: Streams) -> int:
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
def _update_hopeful(state: TreeUCBState, features: Floats, reward: float, rng: Streams) -> None:
    s, arm = state.scalars[0], arm_of(features)
    state.pulls[arm] += 1
    state.total[arm] += reward + insert(state.nodes, arm, state.pulls[arm], state.noise[s.round])
    s.round += 1


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaUCBSettings(TreeArmSettings):
    """The largest mean + sqrt(2 log t / n) + Gamma / n, means from trees that split epsilon between the arms.

    Paper: Mishra & Thakurta 2015, Algorithm 1.
    Guarantee: epsilon / N, stated beside the published epsilon | event, replace one reward, by docs/privacy.md "Finite
        arms".
    Deviates: noise counts the tree's levels (the paper says log T); bonus="experiments" is the interval of their
        experiments.

    bonus: "published" is Gamma = N log^2 T log(N T log T / confidence) / epsilon.
    """

    name: ClassVar[str] = "mishra-thakurta-ucb"
    bonus: str = option("published", check.one_of, options=BONUSES)
    confidence: float = option(0.05, check.probability)

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


WARMUPS = ("published", "none")


class TreeBetaState(NamedTuple):
    """Sums of a look at all arms in phase 1, noisy running sums from phase 2 on."""

    looked: Floats  # The sum of each arm's rewards in this look: private.
    total: Floats  # The sum of each arm's rewards since phase 2 as released.
    nodes: Floats  # The noise in it, by the level of its tree (levels, N): private.
    pulls: Integers  # How often each arm was played since phase 2.
    noise: Floats  # The simulated noise of each round's node, of scale 1.
    look_noise: Floats  # The simulated noise of each look (looks, N), of scale 1.
    scalars: Record
    """``epsilon``; the ``gap`` in view; ``log_rounds``, log2 T; the ``scale`` of node noise; ``round``, rounds seen; the
    ``phase``, its ``quota`` of pulls of each arm, and the rounds of it that are ``done``; ``looks`` taken."""


@selects.of(TreeBetaState, offers=True)
def _choose_beta(state: TreeBetaState, candidates: Offered, rng: Streams) -> int:
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
def _update_beta(state: TreeBetaState, features: Floats, reward: float, rng: Streams) -> None:
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

    Paper: Mishra & Thakurta 2015, Algorithm 2.
    Guarantee: epsilon / 2N, stated beside the published epsilon | event, replace one reward, by docs/privacy.md "Finite
        arms".
    Deviates: noise counts the tree's levels; pulls count from phase 2 on, where sums begin; warmup="none" skips phases 1
        and 2.

    warmup: "published" is phases 1 and 2, which outlast T = 10^6; "none" pulls every arm once instead.
    """

    name: ClassVar[str] = "mishra-thakurta-ts"
    warmup: str = option("published", check.one_of, options=WARMUPS)

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


class BlockTreeState(NamedTuple):
    """Released sums of whole blocks, and a tree for the block of each arm that is still open."""

    total: Floats  # The sum of each arm's rewards in its open block: private.
    covered: Floats  # The noise on it, all levels together: private.
    nodes: Floats  # The same by the level of its tree (levels, N): private.
    arms: Record
    """Of each arm: the sum of whole ``blocks`` as released, how many of them there are (``block``), ``pulls``, and rewards
    ``waiting`` in its open block."""
    noise: Floats  # The simulated noise of each round's node, of scale 1.
    block_noise: Floats  # The simulated noise of each whole block (blocks, N), of scale 1.
    scalars: Record  # ``epsilon``; ``round``, rounds seen.


@selects.of(BlockTreeState, offers=True)
def _choose_in_blocks(state: BlockTreeState, candidates: Offered, rng: Streams) -> int:
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
def _update_in_blocks(state: BlockTreeState, features: Floats, reward: float, rng: Streams) -> None:
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
    """A beta sample around the noisy mean raised by 6 sqrt(8) log(n + 1) log(t) / (epsilon n).

    Paper: Hu & Hegde 2022, DP-TS.
    Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: a reward between 0 and 1 is rounded at random.
    """

    name: ClassVar[str] = "dp-ts"

    def released(self, state: BlockTreeState) -> Floats:
        """The noisy sums of whole blocks, and of the open ones."""
        return np.stack([state.arms["blocks"], state.total + state.covered])

    def start(self, noise: Floats) -> BlockTreeState:
        return self.blank(
            BlockTreeState,
            nodes=self.nodes(),
            arms=arm_records(self.dimension, blocks=0.0, block=0, pulls=0, waiting=0),
            noise=noise[: self.rounds, 0],
            block_noise=noise[self.rounds :].reshape(-1, self.dimension),
            scalars=record(epsilon=float(self.epsilon), round=0),
        )


EXAMPLES = (
    MishraThakurtaUCBSettings(dimension=3, rounds=60),
    MishraThakurtaUCBSettings(dimension=4, rounds=60, bonus="experiments"),
    MishraThakurtaTSSettings(dimension=3, rounds=60, epsilon=200.0),
    MishraThakurtaTSSettings(dimension=4, rounds=60, warmup="none"),
    DPTSSettings(dimension=3, rounds=60),
)
