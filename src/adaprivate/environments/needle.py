"""A few good arms among many that look alike: a world where a policy that does not explore misses the prize.

Every arm is a unit vector; the ``good`` ones point along theta and earn ``low + gap``, all others are orthogonal to it and
earn ``low``. With ``arms`` equal to ``candidates`` the same set is offered every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adaprivate import check
from adaprivate.environments.people import PeopledWorld, check_people, peopled
from adaprivate.environments.synthetic import REWARDS, ArmsWorld, arms_world


@dataclass(frozen=True)
class Needle:
    """``good`` arms of ``arms`` earn ``gap`` more than the rest, and nothing else hints at them.

    ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "needle"
    dimension: int = 20
    arms: int = 20
    candidates: int = 5
    good: int = 1
    low: float = 0.3
    gap: float = 0.4
    reward: str = "bernoulli"
    people: int = 0
    visits: str = "uniform"

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=2)
        check.whole("arms", self.arms, at_least=2)
        check.whole("candidates", self.candidates, at_least=1, at_most=self.arms)
        check.whole("good", self.good, at_least=1, at_most=self.arms)
        check.real("low", self.low, at_least=0, at_most=1)
        check.real("gap", self.gap, above=0, at_most=1 - self.low)
        check.one_of("reward", self.reward, REWARDS)
        check_people(self.people, self.visits)

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


EXAMPLES = (Needle(), Needle(dimension=5, arms=4, candidates=4, reward="uniform"))
