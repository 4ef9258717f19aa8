"""Policies on arms that use each reward once: an arm's mean is released anew, with noise, when its samples have doubled.

Between releases an arm's rewards wait in a buffer; only the newest release of an arm counts. With m the released mean of n
rewards, c the constant ``bonus`` and e epsilon (rho in AdaC-UCB), the arm with the largest index is played next:

    Anytime-Lazy-UCB   m + sqrt(c log t / n) + c log t / (e n)
    Lazy-DP-TS         a sample of Beta(q n + 1, (1 - q) n + 1),  q = m + c log t / (e n)
    AdaP-UCB           m + sqrt(c log t / 2n) + c log t / (e n), held until pulls have doubled
    AdaP-KLUCB         the largest q with kl(m + c log t / (e n), q) <= c log t / n, held
    AdaC-UCB           m + sqrt((1 / 2n + 1 / (rho n^2)) c log t), held
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, option
from adaprivate.compiled import Record, Streams, kernel, record
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import BlockedSettings, PureBlockedSettings, arm_of, arm_records, beta, clipped
from adaprivate.policies.core.dispatch import counts, reads, selects
from adaprivate.policies.core.tables import gaussian_tables


class Rule(IntEnum):
    """The algorithm whose index is used."""

    LAZY_UCB = 0
    LAZY_TS = 1
    ADAP_UCB = 2
    ADAP_KLUCB = 3
    ADAC_UCB = 4


class LazyState(NamedTuple):
    """The newest released mean of each arm, and how many rewards wait for the next: public."""

    arms: Record
    """Of each arm: its released ``mean`` and the ``samples`` behind it; how many rewards are ``waiting``, and the
    ``size`` at which they are released; all ``pulls``."""
    scalars: Record
    """The ``rule``; the ``constant`` of its index; its ``budget``, epsilon or rho; whether it ``holds`` an arm until its
    buffer is full, and the arm ``held``, or -1; ``round``, rounds seen; the ``block`` of the last of them, whether it
    ``closes``, and all ``releases``."""


@kernel
def kl_upper(mean: float, level: float) -> float:
    """The largest q in [mean, 1] with kl(mean, q) <= level, for Bernoulli distributions."""
    low, high = mean, 1.0
    for _ in range(40):
        q = 0.5 * (low + high)
        divergence = 0.0
        if mean > 0.0:
            divergence += mean * math.log(mean / q)
        if mean < 1.0:
            divergence += (1.0 - mean) * math.log((1.0 - mean) / (1.0 - q))
        if divergence <= level:
            low = q
        else:
            high = q
    return low


@kernel
def index(rule: int, mean: float, n: float, log_t: float, constant: float, budget: float, rng: Streams) -> float:
    """How promising an arm is: its released mean raised by what sampling and noise may hide."""
    if rule == Rule.LAZY_UCB:
        return mean + math.sqrt(constant * log_t / n) + constant * log_t / (budget * n)
    if rule == Rule.LAZY_TS:
        raised = clipped(mean + constant * log_t / (budget * n))
        return beta(rng, raised * n + 1.0, (1.0 - raised) * n + 1.0)
    if rule == Rule.ADAP_UCB:
        return mean + math.sqrt(constant * log_t / (2.0 * n)) + constant * log_t / (budget * n)
    if rule == Rule.ADAP_KLUCB:
        return kl_upper(clipped(mean + constant * log_t / (budget * n)), constant * log_t / n)
    return mean + math.sqrt((1.0 / (2.0 * n) + 1.0 / (budget * n * n)) * constant * log_t)


@selects.of(LazyState, offers=True)
def _select(state: LazyState, candidates: Offered, rng: Streams) -> int:
    s, arms = state.scalars[0], state.arms.shape[0]
    if s.round < arms:
        return int(s.round)
    if s.held >= 0:
        return int(s.held)
    rule, constant, budget, log_t = s.rule, s.constant, s.budget, math.log(s.round + 1.0)
    best, top = 0, -np.inf
    for j in range(arms):
        a = state.arms[j]
        score = index(rule, a.mean, float(a.samples), log_t, constant, budget, rng)
        if score > top:
            best, top = j, score
    if s.holds:
        s.held = best
    return best


@counts.of(LazyState)
def _counted(state: LazyState, features: Floats) -> None:
    s, arm = state.scalars[0], arm_of(features)
    a = state.arms[arm]
    s.round += 1
    a.pulls += 1
    a.waiting += 1
    s.block = arm
    s.closes = a.waiting == a.size


@reads.of(LazyState)
def _read(state: LazyState, released: Floats) -> None:
    s = state.scalars[0]
    a = state.arms[s.block]
    a.mean = released[0] / a.size
    a.samples = a.size
    a.size = a.pulls if s.holds else 2 * a.size
    a.waiting = 0
    s.held = -1
    s.releases += 1


@dataclass(frozen=True, kw_only=True)
class LazySettings(BlockedSettings):
    """How a lazy policy starts; a policy sets its rule, whether it holds an arm, its constant and its budget."""

    rule: ClassVar[Rule]
    holds: ClassVar[bool] = False

    @property
    def index_numbers(self) -> tuple[float, float]:
        """The constant of the index, and epsilon or rho."""
        raise TypeError("a policy sets its constant and budget")

    def learner(self) -> LazyState:
        constant, budget = self.index_numbers
        return LazyState(
            arms=arm_records(self.dimension, mean=0.0, samples=0, waiting=0, size=1, pulls=0),
            scalars=record(
                rule=int(self.rule),
                constant=float(constant),
                budget=float(budget),
                holds=self.holds,
                held=-1,
                round=0,
                block=-1,
                closes=False,
                releases=0,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class PureLazySettings(LazySettings, PureBlockedSettings):
    """A lazy policy with Laplace noise: the constant of its index is a setting, its budget epsilon."""

    bonus: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("bonus", self.bonus, above=0)

    @property
    def index_numbers(self) -> tuple[float, float]:
        return self.bonus, self.epsilon


@dataclass(frozen=True, kw_only=True)
class AnytimeLazyUCBSettings(PureLazySettings):
    """The largest mean + sqrt(bonus log t / n) + bonus log t / (epsilon n), means from the newest buffer of 1, 2, 4 ...

    Paper: Hu, Huang & Mehta 2021, Anytime-Lazy-UCB.
    Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: reconstructed from Hu & Hegde 2022; the constant 4 (natural logarithm) is the one whose regrets match their
        plots. With exact noise rewards are rounded to bits at random, and sums get discrete Laplace noise instead of
        Laplace noise.
    """

    name: ClassVar[str] = "anytime-lazy-ucb"
    rule: ClassVar[Rule] = Rule.LAZY_UCB
    bonus: float = 4.0


@dataclass(frozen=True, kw_only=True)
class LazyDPTSSettings(PureLazySettings):
    """A beta sample around the released mean raised by bonus log t / (epsilon n), newest buffer of 1, 2, 4 ... only.

    Paper: Hu & Hegde 2022, Lazy-DP-TS.
    Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: natural logarithm (the text says base 2, the curves do not); rewards inside (0, 1) are rounded at random.
        With exact noise sums of these bits get discrete Laplace noise, P(z) ~ e^(-epsilon |z|), in place of Laplace noise.
    """

    name: ClassVar[str] = "lazy-dp-ts"
    rule: ClassVar[Rule] = Rule.LAZY_TS
    bits: ClassVar[bool] = True
    bonus: float = 3.0


@dataclass(frozen=True, kw_only=True)
class AdaPUCBSettings(PureLazySettings):
    """The largest mean + sqrt(bonus log t / 2n) + bonus log t / (epsilon n), held until the arm's pulls have doubled.

    Paper: Azize & Basu 2022, AdaP-UCB.
    Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: with exact noise rewards are rounded to bits at random, and sums get discrete Laplace noise, not Laplace
        noise.
    """

    name: ClassVar[str] = "adap-ucb"
    rule: ClassVar[Rule] = Rule.ADAP_UCB
    holds: ClassVar[bool] = True
    bonus: float = 3.1


@dataclass(frozen=True, kw_only=True)
class AdaPKLUCBSettings(PureLazySettings):
    """The largest q with kl(mean + bonus log t / (epsilon n), q) <= bonus log t / n, held until pulls have doubled.

    Paper: Azize & Basu 2022, AdaP-KLUCB.
    Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: with exact noise rewards are rounded to bits at random, and sums get discrete Laplace noise, not Laplace
        noise.
    """

    name: ClassVar[str] = "adap-klucb"
    rule: ClassVar[Rule] = Rule.ADAP_KLUCB
    holds: ClassVar[bool] = True
    bonus: float = 3.1


CALIBRATIONS = ("zcdp", "exact")


@dataclass(frozen=True, kw_only=True)
class AdaCUCBSettings(LazySettings):
    """The largest mean + sqrt((1 / 2n + 1 / (rho n^2)) bonus log t), held until the arm's pulls have doubled.

    Paper: Azize & Basu, AdaC-UCB (Azize's thesis, Chapter 5).
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: nothing; rho comes from (epsilon, delta) by Eq. 2.8 of AdaPrivate-TS, or from the exact Gaussian curve.
    """

    name: ClassVar[str] = "adac-ucb"
    rule: ClassVar[Rule] = Rule.ADAC_UCB
    holds: ClassVar[bool] = True
    epsilon: float = option(1.0, check.real, above=0)
    delta: float = option(1e-5, check.probability)
    bonus: float = option(3.1, check.real, above=0)
    calibration: str = option("zcdp", check.one_of, options=CALIBRATIONS)

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of the noise on a sum."""
        find = privacy.zcdp_sigma if self.calibration == "zcdp" else privacy.gaussian_sigma
        return find(self.epsilon, self.delta)

    @property
    def index_numbers(self) -> tuple[float, float]:
        return self.bonus, 1 / (2 * self.sigma**2)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Gaussian noise for every release that may come."""
        return gaussian_tables(seeds, (self.rounds.bit_length() + 1, self.dimension), self.sigma)

    @cached_property
    def plan(self) -> SimulationPlan:
        """The exact epsilon of the noise; the one asked for beside it."""
        nominal = self.epsilon if self.calibration == "zcdp" else None
        paid = privacy.GaussianPrice(1 / self.sigma)
        return SimulationPlan(paid=paid, reach=privacy.arm_events(), delta=self.delta, nominal_epsilon=nominal)


EXAMPLES = (
    AnytimeLazyUCBSettings(dimension=4, rounds=60),
    LazyDPTSSettings(dimension=4, rounds=60),
    AdaPUCBSettings(dimension=4, rounds=60),
    AdaPKLUCBSettings(dimension=4, rounds=60),
    AdaCUCBSettings(dimension=4, rounds=60),
    AdaCUCBSettings(dimension=3, rounds=60, calibration="exact"),
)
