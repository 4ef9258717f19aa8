"""Gaussian Thompson sampling on arms: one state and one pair of functions for Algorithms 1 and 2 and for the filter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams, entry, kernel, normal
from adaprivate.mechanisms.arm_sampler import LARGEST, ArmSampler
from adaprivate.mechanisms.noise import Secure
from adaprivate.policies.arms.base import ArmSettings, ArmState, arm_of, stated
from adaprivate.policies.core.dispatch import selects, updates

# rows of values: sum / (n + 1), sqrt(c / (n + 1)), what the arm's data pays for one more round, what it has paid, its sum
MEAN, SPREAD, PRICE, SPENT, SUM = range(5)
# positions in numbers; the limit is that on SPENT, -1 for none
VARIANCE, LIMIT = range(2)
# positions in counts
ROUND, PREPULLS, COMMITTED = range(3)


class SamplingState(ArmState):
    """``pulls`` has one row: how often each arm was played."""


@kernel
def settled(state: ArmState) -> int:
    """The arm that is played without sampling: in a pre-pull, or after commitment; else -1, and every arm has paid."""
    values, counts = state.values, state.counts
    arms = values.shape[1]
    if counts[ROUND] < counts[PREPULLS] * arms:
        return int(counts[ROUND] // counts[PREPULLS])
    if counts[COMMITTED] >= 0:
        return int(counts[COMMITTED])
    limit = state.numbers[LIMIT]
    if limit >= 0.0:
        affordable = True
        for j in range(arms):
            if not values[SPENT, j] + values[PRICE, j] <= limit:
                affordable = False
        if not affordable:
            chosen = 0
            for j in range(arms):
                if state.pulls[0, j] > state.pulls[0, chosen]:
                    chosen = j
            counts[COMMITTED] = chosen
            return chosen
        for j in range(arms):
            values[SPENT, j] += values[PRICE, j]
    return -1


@entry
def _settled(state: Any) -> int:
    return settled(state)


@selects.of(SamplingState)
def _select(state: ArmState, candidates: Floats, rng: Streams) -> int:
    arm = settled(state)
    if arm >= 0:
        return arm
    values = state.values
    best, top = 0, -np.inf
    for j in range(values.shape[1]):
        theta = values[MEAN, j] + values[SPREAD, j] * normal(rng, 0)
        if theta > top:
            best, top = j, theta
    return best


@updates.of(SamplingState)
def _update(state: ArmState, features: Floats, reward: float, rng: Streams) -> None:
    values = state.values
    arm = arm_of(features)
    state.pulls[0, arm] += 1
    weight = state.pulls[0, arm] + 1.0
    values[SUM, arm] += reward
    values[MEAN, arm] = values[SUM, arm] / weight
    values[SPREAD, arm] = math.sqrt(state.numbers[VARIANCE] / weight)
    values[PRICE, arm] = 1.0 / (state.numbers[VARIANCE] * weight)
    state.counts[ROUND] += 1


@dataclass(frozen=True, kw_only=True)
class SamplingSettings(ArmSettings):
    """Settings of Gaussian Thompson sampling; a policy says how many pre-pulls and which variance."""

    @property
    def pair(self) -> tuple[int, float]:
        """Pre-pulls of every arm, and the variance factor."""
        raise TypeError("a policy sets its pre-pulls and variance")

    @property
    def limit(self) -> float:
        """What the rewards of one arm may pay, in mu^2; -1 for no limit."""
        return -1.0

    @property
    def first_release(self) -> int:
        """The pre-pulls, and the first round."""
        return min(self.rounds, max(1, self.pair[0] * self.dimension))

    @property
    def sampled_pulls(self) -> float:
        """A bound on the pulls of one arm before the last round that samples."""
        return float(self.rounds)

    def exact_sampler(self, source: Secure) -> ArmSampler:
        """What samples with exact noise in place of the compiled code; refused if it could not go on to the last round."""
        variance, most = self.pair[1], LARGEST / (self.sampled_pulls + 1)
        check.expect(variance < most, "variance", variance, f"< {most:.6g} for exact noise over {self.rounds} rounds")
        return ArmSampler(self.dimension, variance, source)

    def exact_choice(self, state: SamplingState, sampler: ArmSampler) -> int:
        """Choose as compiled code does, by exact samples."""
        arm = _settled(state)
        return int(arm) if arm >= 0 else int(np.argmax(sampler.samples()))

    def statement(
        self, mu: float, delta: float, exact_noise: bool, nominal_epsilon: float | None = None
    ) -> privacy.Guarantee:
        """The guarantee at this mu; the curve is an upper bound."""
        slack = self.exact_sampler(Secure()).slack(self.rounds) if exact_noise else 0.0
        price = privacy.GaussianPrice(mu, slack, exact=False)
        return stated(price, delta, nominal_epsilon=nominal_epsilon, exact_noise=exact_noise)

    def start(self, noise: Floats) -> SamplingState:
        """The state before the first round."""
        prepulls, variance = self.pair
        values = np.zeros((5, self.dimension))
        values[SPREAD] = math.sqrt(variance)
        return SamplingState(
            values=values,
            pulls=np.zeros((1, self.dimension), dtype=np.int64),
            noise=noise,
            numbers=np.array([variance, self.limit]),
            counts=np.array([0, prepulls, -1], dtype=np.int64),
        )


@dataclass(frozen=True, kw_only=True)
class BudgetedSamplingSettings(SamplingSettings):
    """Thompson sampling made for a budget: epsilon (1 if nothing is given) or ``eta``-GDP, not both; delta either way.

    prepulls, variance: b and c of Algorithm 2; chosen from the public N, T and eta where not given.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    eta: float | None = None
    prepulls: int | None = None
    variance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check.probability("delta", self.delta)
        if self.eta is not None:
            check.expect(self.epsilon is None, "epsilon", self.epsilon, f"not to be given with eta={self.eta!r}")
            check.real("eta", self.eta, at_least=privacy.LEAST_MU)
        else:
            object.__setattr__(self, "epsilon", check.real("epsilon", self.asked_epsilon, above=0))
            least = f"large enough for a mu of {privacy.LEAST_MU:g}"
            check.expect(self.budget >= privacy.LEAST_MU, "epsilon", self.epsilon, least)
        if self.prepulls is not None:
            check.whole("prepulls", self.prepulls, at_least=0, at_most=self.rounds // self.dimension)
        if self.variance is not None:
            check.real("variance", self.variance, above=0)

    @property
    def asked_epsilon(self) -> float:
        """The epsilon of the budget."""
        if self.eta is not None:
            return privacy.gdp_epsilon(self.eta, self.delta)
        return 1.0 if self.epsilon is None else self.epsilon

    @cached_property
    def budget(self) -> float:
        """The mu that may be spent."""
        return self.eta if self.eta is not None else privacy.gdp_mu(self.asked_epsilon, self.delta)
