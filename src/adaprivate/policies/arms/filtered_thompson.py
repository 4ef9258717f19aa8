"""Thompson sampling that spends a budget fixed first, round by round, and commits to one arm when it is spent.

Paper: ours; the sampler of Ou, Avella Medina & Cummings 2024 under the filter of Smith & Thakurta 2022.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: from Algorithm 2: a round pays 1 / (c (n + 1)) for each arm, what it really costs, not the worst case over all T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from adaprivate.mechanisms.plan import SamplingPlan
from adaprivate.policies.arms.sampling import BudgetedSamplingSettings


def public_pair(arms: int, rounds: int, eta: float) -> tuple[int, float]:
    """Pre-pulls and variance from N, T and eta alone.

    m = 2 T^(1/3) pre-pulls (more below eta = 1: few looks must suffice), and the variance with which the account lasts
    at least m log T rounds (longer above eta = 1), not below 1/4, the largest variance of a reward in [0, 1]. The constants
    were chosen by simulated regret on Bernoulli worlds of 2 to 20 arms with gaps from 0.01 to 0.3, T = 1000 to 100,000;
    worlds of that kind, close arms among them, are no test of them. The experiment ``filter-pair`` has one held out.
    """
    some = 2 * rounds ** (1 / 3)
    prepulls = max(1, min(math.ceil(some / min(1.0, eta)), rounds // (4 * arms)))
    lasting = some * math.log(rounds + 1) * math.sqrt(max(1.0, eta))
    return prepulls, max(0.25, lasting / (eta * eta * (prepulls + 1)))


@dataclass(frozen=True, kw_only=True)
class FilteredThompsonSettings(BudgetedSamplingSettings):
    """Gaussian Thompson sampling until the next round would overspend, then the arm played most so far."""

    name: ClassVar[str] = "filtered-thompson"

    @cached_property
    def pair(self) -> tuple[int, float]:
        prepulls, variance = public_pair(self.dimension, self.rounds, self.budget)
        return (
            prepulls if self.prepulls is None else self.prepulls,
            variance if self.variance is None else self.variance,
        )

    @property
    def limit(self) -> float:
        """The budget, less what rounding could hide in a sum of so many terms."""
        return self.budget**2 * (1 - (self.rounds + 16) * 2.0**-52)

    @property
    def sampled_pulls(self) -> float:
        """The account ends sampling: R rounds cost at least (N / c) log(1 + R / (N (b + 1))), averaged over the arms."""
        prepulls, variance = self.pair
        lasting = variance * self.budget**2 / self.dimension
        if prepulls == 0 or lasting > 100:
            return float(self.rounds)
        sampled = self.dimension * (prepulls + 1) * math.expm1(lasting)
        return min(float(self.rounds), prepulls + sampled + 2)

    @cached_property
    def plan(self) -> SamplingPlan:
        return self.sampling_plan(self.budget, self.delta)  # fixed first


EXAMPLES = (
    FilteredThompsonSettings(dimension=3, rounds=60, epsilon=4.0, prepulls=2),
    FilteredThompsonSettings(dimension=4, rounds=90, eta=2.0, delta=1e-6),
)
