"""Worlds made to be hard: good arms that nothing hints at, candidates that never span the space, a parameter that wanders.

And the fresh decision sets of Shariff & Sheffet, with one best action every round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Floats, option
from adaprivate.compiled import Streams, below, normal, normals
from adaprivate.environments.protocol import VISITS, PeopledWorld, draws, peopled, rooms
from adaprivate.environments.synthetic import LINKS, REWARDS, ArmsWorld, arms_world, fill_rewards, room_of_arms
from adaprivate.offered import Offered, how_many, offer


@dataclass(frozen=True)
class Needle:
    """``good`` arms of ``arms`` earn ``gap`` more than the rest, and nothing else hints at them.

    A policy that does not explore misses the prize. Every arm is a unit vector; the ``good`` ones point along theta and
    earn ``low + gap``, all others are orthogonal to it and earn ``low``. With ``arms`` equal to ``candidates`` the same set
    is offered every round.
    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "needle"
    dimension: int = option(20, check.whole, at_least=2)
    arms: int = option(20, check.whole, at_least=2)
    candidates: int = 5
    good: int = 1
    low: float = option(0.3, check.real, at_least=0, at_most=1)
    gap: float = 0.4
    reward: str = option("bernoulli", check.one_of, options=REWARDS)
    people: int = option(0, check.whole, at_least=0)
    visits: str = option("uniform", check.one_of, options=VISITS)

    def __post_init__(self) -> None:
        check.options(self)
        check.whole("candidates", self.candidates, at_least=1, at_most=self.arms)
        check.whole("good", self.good, at_least=1, at_most=self.arms)
        check.real("gap", self.gap, above=0, at_most=1 - self.low)

    def world(self, seed: int) -> ArmsWorld | PeopledWorld:
        """The world of this seed."""
        rng = np.random.default_rng([seed, 0])
        theta = rng.standard_normal(self.dimension)
        theta /= np.linalg.norm(theta)
        arms = rng.standard_normal((self.arms, self.dimension))
        arms -= np.outer(arms @ theta, theta)
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        arms[: self.good] = theta
        found = arms_world(arms, self.low - 0.5 + self.gap * (arms @ theta), "linear", self.reward)
        return peopled(found, self.people, self.visits, seed)


class BlockWorld(NamedTuple):
    """Arms in consecutive blocks; one block is offered at a time."""

    arms: Floats
    means: Floats
    starts: npt.NDArray[np.int64]  # Where each block's arms begin, and the end.
    settings: npt.NDArray[np.int64]  # Which of REWARDS, and the period.


rooms.of(BlockWorld)(room_of_arms)


@draws.of(BlockWorld)
def _draw_from_block(
    world: BlockWorld, round_index: int, candidates: Offered, means: Floats, rewards: Floats, rng: Streams
) -> None:
    blocks = world.starts.shape[0] - 1
    block = (round_index // world.settings[1]) % blocks
    first, last = world.starts[block], world.starts[block + 1]
    for a in range(how_many(candidates)):
        arm = first + below(rng, 0, last - first)
        means[a] = world.means[arm]
        offer(candidates, a, world.arms, arm)
    fill_rewards(world.settings[0], means, rewards, rng)


@dataclass(frozen=True)
class RankDeficient:
    """Candidates confined to ``rank`` coordinates at a time, changing every ``period`` rounds.

    An adversarial world for the exploration of Sec 6.2 of AdaPrivate-TS, which does not define its own. The coordinates are
    cut into blocks of ``rank``; for ``period`` rounds every candidate lies in one block, then in the next. So every
    candidate set is rank-deficient, together they span the space, and a direction can go unseen for a long time.
    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "rank-deficient"
    dimension: int = option(20, check.whole, at_least=1)
    arms: int = 100
    candidates: int = option(5, check.whole, at_least=1)
    rank: int = 5
    period: int = option(500, check.whole, at_least=1)
    link: str = option("logistic", check.one_of, options=LINKS)
    reward: str = option("bernoulli", check.one_of, options=REWARDS)
    signal: float = 2.0
    people: int = option(0, check.whole, at_least=0)
    visits: str = option("uniform", check.one_of, options=VISITS)

    def __post_init__(self) -> None:
        check.options(self)
        check.whole("rank", self.rank, at_least=1, at_most=self.dimension)
        check.whole("arms", self.arms, at_least=-(-self.dimension // self.rank))
        check.real("signal", self.signal, above=0, at_most=0.5 if self.link == "linear" else None)

    def world(self, seed: int) -> BlockWorld | PeopledWorld:
        """The world of this seed."""
        rng = np.random.default_rng([seed, 0])
        theta = rng.standard_normal(self.dimension)
        theta *= self.signal / np.linalg.norm(theta)
        blocks = -(-self.dimension // self.rank)
        starts = np.linspace(0, self.arms, blocks + 1).astype(np.int64)
        arms = np.zeros((self.arms, self.dimension))
        for block in range(blocks):
            inside = slice(block * self.rank, min((block + 1) * self.rank, self.dimension))
            features = rng.standard_normal((starts[block + 1] - starts[block], inside.stop - inside.start))
            arms[starts[block] : starts[block + 1], inside] = features / np.linalg.norm(features, axis=1, keepdims=True)
        plain = arms_world(arms, arms @ theta, self.link, self.reward)
        found = BlockWorld(plain.arms, plain.means, starts, np.array([plain.reward[0], self.period]))
        return peopled(found, self.people, self.visits, seed)


class DriftingWorld(NamedTuple):
    """Arms with fixed features, and the directions between which theta moves."""

    arms: Floats
    directions: Floats
    theta: Floats  # Scratch: theta of this round.
    numbers: Floats  # The norm of theta.
    settings: npt.NDArray[np.int64]  # Which of REWARDS, and the period.


rooms.of(DriftingWorld)(room_of_arms)


@draws.of(DriftingWorld)
def _draw_drifting(
    world: DriftingWorld, round_index: int, candidates: Offered, means: Floats, rewards: Floats, rng: Streams
) -> None:
    period, count = world.settings[1], world.directions.shape[0]
    leg = round_index // period
    part = (round_index % period) / period
    here, there = world.directions[leg % count], world.directions[(leg + 1) % count]
    square = 0.0
    for j in range(here.shape[0]):
        world.theta[j] = (1.0 - part) * here[j] + part * there[j]
        square += world.theta[j] * world.theta[j]
    scale = world.numbers[0] / math.sqrt(max(square, 1e-12))
    for a in range(how_many(candidates)):
        arm = below(rng, 0, world.arms.shape[0])
        offer(candidates, a, world.arms, arm)
        score = 0.0
        for j in range(here.shape[0]):
            score += world.theta[j] * world.arms[arm, j]
        means[a] = 1.0 / (1.0 + math.exp(-scale * score))
    fill_rewards(world.settings[0], means, rewards, rng)


@dataclass(frozen=True)
class Drifting:
    """Unit-norm arms, logistic mean reward, theta somewhere else every ``period`` rounds.

    What was learned long ago no longer holds. theta moves along straight lines between independent random directions, one
    every ``period`` rounds, at constant norm.
    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "drifting"
    stationary: ClassVar[bool] = False
    dimension: int = option(20, check.whole, at_least=1)
    arms: int = option(100, check.whole, at_least=1)
    candidates: int = option(5, check.whole, at_least=1)
    period: int = option(5000, check.whole, at_least=1)
    reward: str = option("bernoulli", check.one_of, options=REWARDS)
    signal: float = option(2.0, check.real, above=0)
    people: int = option(0, check.whole, at_least=0)
    visits: str = option("uniform", check.one_of, options=VISITS)

    def __post_init__(self) -> None:
        check.options(self)

    def world(self, seed: int) -> DriftingWorld | PeopledWorld:
        """The world of this seed."""
        rng = np.random.default_rng([seed, 0])
        arms, directions = (rng.standard_normal((count, self.dimension)) for count in (self.arms, 64))
        for vectors in (arms, directions):
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        settings = np.array([REWARDS.index(self.reward), self.period])
        found = DriftingWorld(arms, directions, np.zeros(self.dimension), np.array([self.signal]), settings)
        return peopled(found, self.people, self.visits, seed)


BEST = 0.75
"""theta' x of the best action, and minus that of the worst one allowed."""


class GapWorld(NamedTuple):
    """Nothing but the direction of rewards: actions are drawn afresh."""

    theta: Floats
    highest: Floats  # The largest theta' x of an action that is not best, as a one-element array.
    reward: npt.NDArray[np.int64]  # Which of REWARDS, as a one-element array.


@draws.of(GapWorld)
def _draw_gap(world: GapWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams) -> None:
    theta, highest = world.theta, world.highest[0]
    count, d = candidates.shape
    best = below(rng, 0, count)
    normals(rng, 0, candidates)
    for a in range(count):
        while True:
            square, along = 0.0, 0.0
            for j in range(d):
                z = candidates[a, j]
                square += z * z
                along += z * theta[j]
            size = 1.0 / math.sqrt(square)
            score = along * size
            if a == best:
                if square - along * along > 1e-4 * square:  # else rounding would show; the direction stays uniform
                    break
            elif score >= -BEST and score <= highest:
                break
            for j in range(d):
                candidates[a, j] = normal(rng, 0)
        if a == best:
            # what is left of z beside theta, at the length that puts theta' x at BEST
            score = BEST
            size = math.sqrt((1.0 - BEST * BEST) / (square - along * along))
            for j in range(d):
                candidates[a, j] = BEST * theta[j] + size * (candidates[a, j] - along * theta[j])
        else:
            for j in range(d):
                candidates[a, j] *= size
        means[a] = 0.5 + 0.5 * score
    fill_rewards(world.reward[0], means, rewards, rng)


@dataclass(frozen=True)
class Gap:
    """Fresh actions uniform on the sphere given theta' x <= 0.75 - ``gap``, and one at 0.75; regret is half the paper's.

    Every action also has theta' x >= -0.75. Rewards here lie in [0, 1], the paper's in [-1, 1]: its regret is twice ours.
    Shariff & Sheffet 2018, Section D. There rewards are -1 or +1 with mean theta' x. Rewards here lie in [0, 1], so theirs
    are y = 2 r - 1: the mean reward is (1 + theta' x) / 2, the best action has 0.875, the others lie in
    [0.125, 0.875 - gap / 2], and regret is half of theirs. Their variant with Gaussian reward noise is not offered: such
    rewards leave [0, 1].
    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "gap"
    dimension: int = option(5, check.whole, at_least=2)
    candidates: int = option(25, check.whole, at_least=1)
    gap: float = option(0.1, check.real, at_least=0, at_most=BEST)
    reward: str = option("bernoulli", check.one_of, options=REWARDS)
    people: int = option(0, check.whole, at_least=0)
    visits: str = option("uniform", check.one_of, options=VISITS)

    def __post_init__(self) -> None:
        check.options(self)

    def world(self, seed: int) -> GapWorld | PeopledWorld:
        """The world of this seed."""
        theta = np.random.default_rng([seed, 0]).standard_normal(self.dimension)
        kind = np.array([REWARDS.index(self.reward)], dtype=np.int64)
        found = GapWorld(theta / np.linalg.norm(theta), np.array([BEST - self.gap]), kind)
        return peopled(found, self.people, self.visits, seed)


EXAMPLES = (
    Needle(),
    Needle(dimension=5, arms=4, candidates=4, reward="uniform"),
    RankDeficient(),
    RankDeficient(dimension=7, rank=3, arms=20, candidates=2, period=10),
    Drifting(),
    Drifting(dimension=4, arms=9, candidates=3, period=7, reward="uniform"),
    Gap(),
    Gap(dimension=3, candidates=4, gap=0.0, reward="uniform"),
    Gap(dimension=3, candidates=4, people=25, visits="sessions"),
)
