"""Candidate sets that never span the space: an adversarial world for the exploration of Sec 6.2.

The paper does not define its adversarial contexts; this is ours. The coordinates are cut into blocks of ``rank``; for
``period`` rounds every candidate lies in one block, then in the next. Every candidate set is rank-deficient, together they
span the space, and a direction can go unseen for a long time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, below
from adaprivate.environments.people import PeopledWorld, check_people, peopled
from adaprivate.environments.protocol import draws, rooms
from adaprivate.environments.synthetic import LINKS, REWARDS, arms_world, fill_rewards
from adaprivate.offered import Offered, how_many, offer, offered


class BlockWorld(NamedTuple):
    """Arms in consecutive blocks; one block is offered at a time."""

    arms: Floats
    means: Floats
    starts: npt.NDArray[np.int64]
    """Where each block's arms begin, and the end."""
    settings: npt.NDArray[np.int64]
    """Which of REWARDS, and the period."""


@rooms.of(BlockWorld)
def _room(world: BlockWorld, count: int, dimension: int) -> Offered:
    return offered(world.arms, count)


@draws.of(BlockWorld)
def _draw(world: BlockWorld, round_index: int, candidates: Offered, means: Floats, rewards: Floats, rng: Streams) -> None:
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

    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "rank-deficient"
    dimension: int = 20
    arms: int = 100
    candidates: int = 5
    rank: int = 5
    period: int = 500
    link: str = "logistic"
    reward: str = "bernoulli"
    signal: float = 2.0
    people: int = 0
    visits: str = "uniform"

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("rank", self.rank, at_least=1, at_most=self.dimension)
        check.whole("arms", self.arms, at_least=-(-self.dimension // self.rank))
        check.whole("candidates", self.candidates, at_least=1)
        check.whole("period", self.period, at_least=1)
        check.one_of("link", self.link, LINKS)
        check.one_of("reward", self.reward, REWARDS)
        check.real("signal", self.signal, above=0, at_most=0.5 if self.link == "linear" else None)
        check_people(self.people, self.visits)

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


EXAMPLES = (RankDeficient(), RankDeficient(dimension=7, rank=3, arms=20, candidates=2, period=10))
