"""Gaussian Thompson sampling on arms: one learner and one book for Algorithms 1 and 2 and for the filter.

The samples themselves are the privacy noise: a choice is the release. What an arm's samples cost is a function of how often
it was played, which is public; only the sums of rewards are private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, entry, kernel, normal, record
from adaprivate.mechanisms.book import ArmBook
from adaprivate.mechanisms.plan import SamplingPlan
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import ArmSettings, arm_of
from adaprivate.policies.core.dispatch import counted, counts, selects, updates
from adaprivate.policies.core.propensities import Propensities, copied, gaussian_best, propensities_of


class SamplingState(NamedTuple):
    """What is public of a sampling policy, entry by entry of the arms."""

    pulls: Integers
    spread: Floats
    """sqrt(c / (n + 1)): how wide an arm's samples spread."""
    price: Floats
    """What an arm's rewards pay for one more round, in mu^2."""
    spent: Floats
    """What they have paid."""
    scalars: Record
    """c, the limit on ``spent`` (-1: none), pre-pulls of every arm, rounds seen, the arm committed to (-1: none yet)."""


class ArmSums(NamedTuple):
    """The sums of rewards of each arm, in simulation: private."""

    sums: Floats
    means: Floats
    """sum / (n + 1)."""


class SamplingPair(NamedTuple):
    """A sampling policy in simulation."""

    learner: SamplingState
    book: ArmSums


@kernel
def settled(state: SamplingState) -> int:
    """The arm that is played without sampling: in a pre-pull, or after commitment; else -1, and every arm has paid."""
    s = state.scalars[0]
    arms = state.pulls.shape[0]
    if s.round < s.prepulls * arms:
        return int(s.round // s.prepulls)
    if s.committed >= 0:
        return int(s.committed)
    if s.limit >= 0.0:
        affordable = True
        for j in range(arms):
            if not state.spent[j] + state.price[j] <= s.limit:
                affordable = False
        if not affordable:
            chosen = 0
            for j in range(arms):
                if state.pulls[j] > state.pulls[chosen]:
                    chosen = j
            s.committed = chosen
            return chosen
        for j in range(arms):
            state.spent[j] += state.price[j]
    return -1


@entry
def settled_arm(state: Any) -> int:
    """The same, called from Python."""
    return settled(state)


@selects.of(SamplingPair, offers=True)
def _select(state: SamplingPair, candidates: Offered, rng: Streams) -> int:
    arm = settled(state.learner)
    if arm >= 0:
        return arm
    best, top = 0, -np.inf
    for j in range(state.learner.pulls.shape[0]):
        theta = state.book.means[j] + state.learner.spread[j] * normal(rng, 0)
        if theta > top:
            best, top = j, theta
    return best


@counts.of(SamplingState)
def _counted(state: SamplingState, features: Floats) -> None:
    s = state.scalars[0]
    arm = arm_of(features)
    state.pulls[arm] += 1
    weight = state.pulls[arm] + 1.0
    state.spread[arm] = math.sqrt(s.variance / weight)
    state.price[arm] = 1.0 / (s.variance * weight)
    s.round += 1


@updates.of(SamplingPair)
def _update(state: SamplingPair, features: Floats, reward: float, rng: Streams) -> None:
    counted(state.learner, features)
    arm = arm_of(features)
    state.book.sums[arm] += reward
    state.book.means[arm] = state.book.sums[arm] / (state.learner.pulls[arm] + 1.0)


@propensities_of(SamplingPair)
def _propensities(state: SamplingPair, candidates: Floats, *, draws: int = 512, **how: Any) -> Propensities:
    rows, count, _ = candidates.shape
    arm = int(settled_arm(copied(state.learner)))
    if arm >= 0:
        one = np.zeros((rows, count))
        one[:, arm] = 1.0
        return Propensities(one, np.zeros((rows, count)))
    found = gaussian_best(state.book.means[None], np.diag(state.learner.spread)[None], draws=64 * draws)
    return Propensities(*(np.repeat(part, rows, axis=0) for part in found))


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

    def sampling_plan(self, mu: float, delta: float, nominal_epsilon: float | None = None) -> SamplingPlan:
        """The plan at this mu, an upper bound."""
        return SamplingPlan(
            delta=delta,
            nominal_epsilon=nominal_epsilon,
            arms=self.dimension,
            rounds=self.rounds,
            mu=mu,
            variance=self.pair[1],
            most_pulls=self.sampled_pulls,
        )

    def exact_choice(self, learner: SamplingState, book: ArmBook) -> int:
        """Choose as compiled code does, by exact samples."""
        arm = settled_arm(learner)
        return int(arm) if arm >= 0 else int(np.argmax(book.sample()))

    def learner(self) -> SamplingState:
        """The learner before the first round: public."""
        prepulls, variance = self.pair
        return SamplingState(
            pulls=np.zeros(self.dimension, dtype=np.int64),
            spread=np.full(self.dimension, math.sqrt(variance)),
            price=np.zeros(self.dimension),
            spent=np.zeros(self.dimension),
            scalars=record(variance=float(variance), limit=float(self.limit), prepulls=prepulls, round=0, committed=-1),
        )

    def released(self, state: SamplingPair) -> Floats:
        """Nothing but the choices themselves."""
        return np.zeros(0)

    def start(self, noise: Floats) -> SamplingPair:
        return SamplingPair(self.learner(), ArmSums(np.zeros(self.dimension), np.zeros(self.dimension)))


@dataclass(frozen=True, kw_only=True)
class BudgetedSamplingSettings(SamplingSettings):
    """Thompson sampling made for a budget: epsilon (1 if nothing is given) or ``eta``-GDP, not both; delta either way.

    epsilon, delta, or eta: the budget; mu of Gaussian noise is eta. prepulls: how often every arm is pulled first.
    variance: that of a sample around an arm's mean, times its pulls. These two are b and c of Algorithm 2, chosen from the
    public N, T and eta where not given.
    """

    instead_of_epsilon: ClassVar[tuple[str, ...]] = ("eta",)

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
