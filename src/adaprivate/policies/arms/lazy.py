"""Policies on arms that use each reward once: an arm's mean is released anew, with noise, when its samples have doubled.

Between releases an arm's rewards wait in a buffer; only the newest release of an arm counts. Five published algorithms
differ in the index they put on the released means, in the size of the buffers, and in whether an arm is held until its
buffer is full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, kernel, uniform
from adaprivate.policies.arms.base import ArmSettings, ArmState, PureArmSettings, arm_of, beta, clipped
from adaprivate.policies.core.dispatch import selects, updates

# rows of values: the released mean, the sum in the buffer
MEAN, BUFFER = range(2)
# rows of pulls: samples behind the released mean, rewards in the buffer, the buffer's size, all pulls, releases
SAMPLES, WAITING, SIZE, PULLS, RELEASES = range(5)
# positions in numbers: the constant of the index, and epsilon or rho
CONSTANT, BUDGET = range(2)
# positions in counts
ROUND, RULE, HOLDS, HELD = range(4)
LAZY_UCB, LAZY_TS, ADAP_UCB, ADAP_KLUCB, ADAC_UCB = range(5)


class LazyState(ArmState):
    """``noise`` (releases, N) is that of each release of each arm, on the sum."""


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
    if rule == LAZY_UCB:
        return mean + math.sqrt(constant * log_t / n) + constant * log_t / (budget * n)
    if rule == LAZY_TS:
        raised = clipped(mean + constant * log_t / (budget * n))
        return beta(rng, raised * n + 1.0, (1.0 - raised) * n + 1.0)
    if rule == ADAP_UCB:
        return mean + math.sqrt(constant * log_t / (2.0 * n)) + constant * log_t / (budget * n)
    if rule == ADAP_KLUCB:
        return kl_upper(clipped(mean + constant * log_t / (budget * n)), constant * log_t / n)
    return mean + math.sqrt((1.0 / (2.0 * n) + 1.0 / (budget * n * n)) * constant * log_t)


@selects.of(LazyState)
def _select(state: ArmState, candidates: Floats, rng: Streams) -> int:
    counts = state.counts
    arms = state.values.shape[1]
    if counts[ROUND] < arms:
        return int(counts[ROUND])
    if counts[HELD] >= 0:
        return int(counts[HELD])
    log_t = math.log(counts[ROUND] + 1.0)
    best, top = 0, -np.inf
    for j in range(arms):
        n = float(state.pulls[SAMPLES, j])
        score = index(counts[RULE], state.values[MEAN, j], n, log_t, state.numbers[CONSTANT], state.numbers[BUDGET], rng)
        if score > top:
            best, top = j, score
    if counts[HOLDS]:
        counts[HELD] = best
    return best


@updates.of(LazyState)
def _update(state: ArmState, features: Floats, reward: float, rng: Streams) -> None:
    values, pulls, counts = state.values, state.pulls, state.counts
    arm = arm_of(features)
    if counts[RULE] == LAZY_TS and 0.0 < reward < 1.0:
        reward = 1.0 if uniform(rng, 1) < reward else 0.0
    values[BUFFER, arm] += reward
    pulls[WAITING, arm] += 1
    pulls[PULLS, arm] += 1
    counts[ROUND] += 1
    if pulls[WAITING, arm] == pulls[SIZE, arm]:
        size = pulls[SIZE, arm]
        values[MEAN, arm] = (values[BUFFER, arm] + state.noise[pulls[RELEASES, arm], arm]) / size
        values[BUFFER, arm] = 0.0
        pulls[SAMPLES, arm] = size
        pulls[WAITING, arm] = 0
        pulls[RELEASES, arm] += 1
        pulls[SIZE, arm] = pulls[PULLS, arm] if counts[HOLDS] else 2 * size
        counts[HELD] = -1


@dataclass(frozen=True, kw_only=True)
class LazySettings(ArmSettings):
    """How a lazy policy starts; a policy sets its rule, whether it holds an arm, its constant and its budget."""

    rule: ClassVar[int]
    holds: ClassVar[bool] = False

    @property
    def index_numbers(self) -> tuple[float, float]:
        """The constant of the index, and epsilon or rho."""
        raise TypeError("a policy sets its constant and budget")

    def start(self, noise: Floats) -> LazyState:
        """The state before the first round."""
        pulls = np.zeros((5, self.dimension), dtype=np.int64)
        pulls[SIZE] = 1
        return LazyState(
            values=np.zeros((2, self.dimension)),
            pulls=pulls,
            noise=noise,
            numbers=np.array(self.index_numbers),
            counts=np.array([0, self.rule, self.holds, -1], dtype=np.int64),
        )


@dataclass(frozen=True, kw_only=True)
class PureLazySettings(LazySettings, PureArmSettings):
    """A lazy policy with Laplace noise: the constant of its index is a setting, its budget epsilon."""

    bonus: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("bonus", self.bonus, above=0)

    @property
    def index_numbers(self) -> tuple[float, float]:
        return self.bonus, self.epsilon
