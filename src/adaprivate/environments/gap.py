"""A fresh decision set every round, one best action a gap above the rest: the world of Shariff & Sheffet 2018, Section D.

There rewards are -1 or +1 with mean theta' x. Rewards here lie in [0, 1], so theirs are y = 2 r - 1: the mean reward is
(1 + theta' x) / 2, the best action has 0.875, the others lie in [0.125, 0.875 - gap / 2], and regret is half of theirs.
Their variant with Gaussian reward noise is not offered: such rewards leave [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, below, normal, normals
from adaprivate.environments.people import PeopledWorld, check_people, peopled
from adaprivate.environments.protocol import draws
from adaprivate.environments.synthetic import REWARDS, fill_rewards

BEST = 0.75
"""theta' x of the best action, and minus that of the worst one allowed."""


class GapWorld(NamedTuple):
    """Nothing but the direction of rewards: actions are drawn afresh."""

    theta: Floats
    highest: Floats
    """The largest theta' x of an action that is not best, as a one-element array."""
    reward: npt.NDArray[np.int64]
    """Which of REWARDS, as a one-element array."""


@draws.of(GapWorld)
def _draw(world: GapWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams) -> None:
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
    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "gap"
    dimension: int = 5
    candidates: int = 25
    gap: float = 0.1
    reward: str = "bernoulli"
    people: int = 0
    visits: str = "uniform"

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=2)
        check.whole("candidates", self.candidates, at_least=1)
        check.real("gap", self.gap, at_least=0, at_most=BEST)
        check.one_of("reward", self.reward, REWARDS)
        check_people(self.people, self.visits)

    def world(self, seed: int) -> GapWorld | PeopledWorld:
        """The world of this seed."""
        theta = np.random.default_rng([seed, 0]).standard_normal(self.dimension)
        kind = np.array([REWARDS.index(self.reward)], dtype=np.int64)
        found = GapWorld(theta / np.linalg.norm(theta), np.array([BEST - self.gap]), kind)
        return peopled(found, self.people, self.visits, seed)


EXAMPLES = (
    Gap(),
    Gap(dimension=3, candidates=4, gap=0.0, reward="uniform"),
    Gap(dimension=3, candidates=4, people=25, visits="sessions"),
)
