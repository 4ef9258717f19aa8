"""Gaussian Thompson sampling on arms: the largest sample of N(sum / (n + 1), c / (n + 1)) is played.

The samples themselves are the privacy noise: a choice is the release. What an arm's samples cost is a function of how
often it was played, which is public; only the sums of rewards are private. Algorithm 1 is plain (c = 1); Algorithm 2
chooses the pre-pulls b and the variance c for a budget; the filter spends a budget round by round, and commits to one
arm when it is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, Integers, option
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
    spread: Floats  # sqrt(c / (n + 1)): how wide an arm's samples spread.
    price: Floats  # What an arm's rewards pay for one more round, in mu^2.
    spent: Floats  # What they have paid.
    scalars: Record
    """c, the limit on ``spent`` (-1: none), pre-pulls of every arm, rounds seen, the arm committed to (-1: none yet)."""


class ArmSums(NamedTuple):
    """The sums of rewards of each arm, in simulation: private."""

    sums: Floats
    means: Floats  # sum / (n + 1).


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
    delta: float = option(1e-5, check.probability)
    eta: float | None = None
    prepulls: int | None = None
    variance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
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


@dataclass(frozen=True, kw_only=True)
class ThompsonSettings(SamplingSettings):
    """The arm with the largest sample of N(sum / (n + 1), 1 / (n + 1)); private, with an epsilon in the thousands.

    Paper: Ou, Avella Medina & Cummings 2024, Algorithm 1.
    Guarantee: sqrt(T / 2)-GDP, event, replace one reward, by docs/privacy.md "Finite arms" (Lemma 3 of the paper).
    Deviates: nothing.
    """

    name: ClassVar[str] = "thompson"
    delta: float = option(1e-5, check.probability)

    @property
    def pair(self) -> tuple[int, float]:
        return 0, 1.0

    @cached_property
    def plan(self) -> SamplingPlan:
        return self.sampling_plan(privacy.thompson_mu(self.rounds, self.dimension), self.delta)  # nothing can be asked for


VARIANCES = ("published", "tight")


@dataclass(frozen=True, kw_only=True)
class ModifiedThompsonSettings(BudgetedSamplingSettings):
    """Every arm ``prepulls`` times, then the largest sample of N(sum / (n + 1), ``variance`` / (n + 1)).

    Paper: Ou, Avella Medina & Cummings 2024, Algorithm 2.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: the paper searches (b, c) by hand; here the pair of least predicted regret on public means is the default.

    calibration: "published" is Lemma 4 (sound, loose), "tight" the same without what Lemma 4 gives away.
    """

    name: ClassVar[str] = "modified-thompson"
    calibration: str = option("published", check.one_of, options=VARIANCES)

    def __post_init__(self) -> None:
        super().__post_init__()
        few = self.prepulls is not None or self.dimension <= privacy.MOST_ARMS_TO_CALIBRATE
        check.expect(few, "prepulls", self.prepulls, f"to be given beyond {privacy.MOST_ARMS_TO_CALIBRATE} arms")
        if self.prepulls is not None and self.variance is not None:
            least = self._variance(self.prepulls)
            check.expect(
                self.variance >= least * (1 - 1e-9), "variance", self.variance, f">= {least:.6g} for eta={self.budget:.6g}"
            )
        check.expect(self.variance is None or self.prepulls is not None, "prepulls", self.prepulls, "given with variance")

    def _variance(self, prepulls: int) -> float:
        published = self.calibration == "published"
        return privacy.thompson_variance(self.budget, self.rounds, self.dimension, prepulls, published=published)

    @cached_property
    def pair(self) -> tuple[int, float]:
        if self.prepulls is not None:
            return self.prepulls, self.variance if self.variance is not None else self._variance(self.prepulls)
        found = privacy.calibrate_thompson(
            rounds=self.rounds, arms=self.dimension, eta=self.budget, published=self.calibration == "published"
        )
        return found.best.prepulls, found.best.variance

    @cached_property
    def plan(self) -> SamplingPlan:
        """That of the true epsilon; the one asked for beside it."""
        prepulls, variance = self.pair
        mu = privacy.thompson_mu(self.rounds, self.dimension, prepulls=prepulls, variance=variance)
        nominal = self.asked_epsilon if self.calibration == "published" else None
        return self.sampling_plan(mu, self.delta, nominal)


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
    """Gaussian Thompson sampling until the next round would overspend, then the arm played most so far.

    Paper: ours; the sampler of Ou, Avella Medina & Cummings 2024 under the filter of Smith & Thakurta 2022.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: from Algorithm 2: a round pays 1 / (c (n + 1)) for each arm, what it really costs, not the worst case over
        all T.
    """

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
    ThompsonSettings(dimension=4, rounds=60),
    ModifiedThompsonSettings(dimension=3, rounds=60, epsilon=4.0, prepulls=5),
    ModifiedThompsonSettings(dimension=4, rounds=80, eta=2.0, delta=1e-6, calibration="tight"),
    FilteredThompsonSettings(dimension=3, rounds=60, epsilon=4.0, prepulls=2),
    FilteredThompsonSettings(dimension=4, rounds=90, eta=2.0, delta=1e-6),
)
