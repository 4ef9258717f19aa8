"""A world whose parameter wanders: what was learned long ago no longer holds.

theta moves along straight lines between independent random directions, one every ``period`` rounds, at constant norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, below
from adaprivate.environments.people import PeopledWorld, check_people, peopled
from adaprivate.environments.protocol import draws, rooms
from adaprivate.environments.synthetic import REWARDS, fill_rewards
from adaprivate.offered import Offered, how_many, offer, offered


class DriftingWorld(NamedTuple):
    """Arms with fixed features, and the directions between which theta moves."""

    arms: Floats
    directions: Floats
    theta: Floats
    """Scratch: theta of this round."""
    numbers: Floats
    """The norm of theta."""
    settings: npt.NDArray[np.int64]
    """Which of REWARDS, and the period."""


@rooms.of(DriftingWorld)
def _room(world: DriftingWorld, count: int, dimension: int) -> Offered:
    return offered(world.arms, count)


@draws.of(DriftingWorld)
def _draw(
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

    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "drifting"
    stationary: ClassVar[bool] = False
    dimension: int = 20
    arms: int = 100
    candidates: int = 5
    period: int = 5000
    reward: str = "bernoulli"
    signal: float = 2.0
    people: int = 0
    visits: str = "uniform"

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("arms", self.arms, at_least=1)
        check.whole("candidates", self.candidates, at_least=1)
        check.whole("period", self.period, at_least=1)
        check.one_of("reward", self.reward, REWARDS)
        check.real("signal", self.signal, above=0)
        check_people(self.people, self.visits)

    def world(self, seed: int) -> DriftingWorld | PeopledWorld:
        """The world of this seed."""
        rng = np.random.default_rng([seed, 0])
        arms, directions = (rng.standard_normal((count, self.dimension)) for count in (self.arms, 64))
        for vectors in (arms, directions):
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        settings = np.array([REWARDS.index(self.reward), self.period])
        found = DriftingWorld(arms, directions, np.zeros(self.dimension), np.array([self.signal]), settings)
        return peopled(found, self.people, self.visits, seed)


EXAMPLES = (Drifting(), Drifting(dimension=4, arms=9, candidates=3, period=7, reward="uniform"))
