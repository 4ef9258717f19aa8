"""Arms that all pay alike, but for one that pays more; which one depends on the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, uniform
from adaprivate.environments.protocol import draws


class LuckyArmWorld(NamedTuple):
    """The world of one seed: arrays only, read by compiled code."""

    means: Floats


@draws.of(LuckyArmWorld)
def _draw(world: LuckyArmWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams) -> None:
    """Stream 1 decides all rewards by one number, whatever is chosen: paired runs then differ by their choices alone."""
    u = uniform(rng, 1)
    for arm in range(means.shape[0]):
        for j in range(means.shape[0]):
            candidates[arm, j] = 1.0 if j == arm else 0.0
        means[arm] = world.means[arm]
        rewards[arm] = 1.0 if u < world.means[arm] else 0.0


@dataclass(frozen=True)
class LuckyArm:
    """One of ``arms`` pays 1 with probability ``high``, all others with probability ``low``."""

    name: ClassVar[str] = "lucky-arm"
    fixed_arms: ClassVar[bool] = True
    arms: int = 5
    low: float = 0.3
    high: float = 0.7

    def __post_init__(self) -> None:
        check.whole("arms", self.arms, at_least=2)
        check.real("low", self.low, at_least=0, at_most=1)
        check.real("high", self.high, at_least=self.low, at_most=1)

    @property
    def dimension(self) -> int:
        """One coordinate for each arm."""
        return self.arms

    @property
    def candidates(self) -> int:
        """Every arm, every round."""
        return self.arms

    def world(self, seed: int) -> LuckyArmWorld:
        """The world of this seed."""
        means = np.full(self.arms, self.low)
        means[np.random.default_rng([seed, 0]).integers(self.arms)] = self.high
        return LuckyArmWorld(means)


EXAMPLES = (LuckyArm(), LuckyArm(arms=3, low=0.2, high=0.9))
