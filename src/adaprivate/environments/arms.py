"""A fixed set of arms, the same every round, with no context: candidate i is the i-th unit vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, uniform
from adaprivate.environments.protocol import draws, rooms
from adaprivate.environments.synthetic import room_of_arms
from adaprivate.offered import Offered, offer


class FixedArmsWorld(NamedTuple):
    """Arms with these mean rewards: Bernoulli, or exponential with these rates, truncated to [0, 1]."""

    arms: Floats
    """The unit vectors."""
    means: Floats
    rates: Floats
    """Empty for Bernoulli rewards."""
    reach: Floats
    """1 - e^-rate of each arm."""


rooms.of(FixedArmsWorld)(room_of_arms)


@draws.of(FixedArmsWorld)
def _draw(
    world: FixedArmsWorld, round_index: int, candidates: Offered, means: Floats, rewards: Floats, rng: Streams
) -> None:
    count = means.shape[0]
    u = uniform(rng, 1)  # one number decides the reward of every arm, so that paired runs differ by their choices alone
    for a in range(count):
        offer(candidates, a, world.arms, a)
        means[a] = world.means[a]
    if world.rates.shape[0] == 0:
        for a in range(count):
            rewards[a] = 1.0 if u < world.means[a] else 0.0
    else:
        for a in range(count):
            rewards[a] = min(1.0, -math.log1p(-u * world.reach[a]) / world.rates[a])


@dataclass(frozen=True)
class BernoulliArms:
    """Arms that pay 0 or 1, by default with means spread evenly from 0.75 down to 0.25 (Ou et al. 2024, Sec 5.1)."""

    name: ClassVar[str] = "bernoulli-arms"
    fixed_arms: ClassVar[bool] = True
    arms: int | None = None
    """5 if neither this nor means are given."""
    means: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.arms is not None:
            check.whole("arms", self.arms, at_least=2)
        if self.means is not None:
            means = check.floats("means", self.means, (None,))
            check.expect(len(means) >= 2, "means", self.means, "to be two or more")
            check.expect(bool(((means >= 0) & (means <= 1)).all()), "means", self.means, "between 0 and 1")
            check.expect(self.arms in (None, len(means)), "arms", self.arms, f"== {len(means)}, the number of means")
            object.__setattr__(self, "means", tuple(means.tolist()))
        count = 5 if self.arms is None else self.arms
        object.__setattr__(self, "arms", count if self.means is None else len(self.means))

    @property
    def dimension(self) -> int:
        """One coordinate for each arm."""
        return self.arms or 5

    @property
    def candidates(self) -> int:
        """Every arm, every round."""
        return self.dimension

    def world(self, seed: int) -> FixedArmsWorld:
        """The same for every seed; only the rewards differ."""
        means = np.linspace(0.75, 0.25, self.dimension) if self.means is None else np.array(self.means)
        return FixedArmsWorld(np.eye(self.dimension), means, np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class ExponentialArms:
    """Arms that pay by exponential distributions of these rates, truncated to [0, 1] (Ou et al. 2024, Sec 5.2)."""

    name: ClassVar[str] = "exponential-arms"
    fixed_arms: ClassVar[bool] = True
    rates: tuple[float, ...] = (0.1, 1.0, 2.0, 5.0, 10.0)

    def __post_init__(self) -> None:
        rates = check.floats("rates", self.rates, (None,))
        check.expect(len(rates) >= 2, "rates", self.rates, "to be two or more")
        for rate in rates:
            check.real("rates", float(rate), at_least=1e-3, at_most=700)
        object.__setattr__(self, "rates", tuple(rates.tolist()))

    @property
    def dimension(self) -> int:
        """One coordinate for each arm."""
        return len(self.rates)

    @property
    def candidates(self) -> int:
        """Every arm, every round."""
        return len(self.rates)

    @property
    def means(self) -> Floats:
        """Exact: 1 / rate - 1 / (e^rate - 1)."""
        rates = np.array(self.rates)
        means: Floats = 1 / rates - 1 / np.expm1(rates)
        return means

    def world(self, seed: int) -> FixedArmsWorld:
        """The same for every seed; only the rewards differ."""
        rates = np.array(self.rates)
        return FixedArmsWorld(np.eye(self.dimension), self.means, rates, -np.expm1(-rates))


EXAMPLES = (BernoulliArms(), BernoulliArms(means=(0.9, 0.2, 0.6)), ExponentialArms())
