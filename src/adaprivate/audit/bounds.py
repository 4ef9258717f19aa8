"""What counts of right and wrong guesses prove about epsilon and mu: exact bounds, at a stated confidence.

A guesser is told a transcript and says which of two neighbouring inputs made it. Under (epsilon, delta) or mu-GDP chances
are limited; whoever does better than the limit allows, more often than luck explains, refutes the claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from adaprivate.check import Array, Floats

CONFIDENCE = 0.999
LUCK = 2.0
"""The best of many thresholds owes something to luck: so many standard errors are taken off."""
COIN, HIGH, LOW = "coin", "high", "low"
"""How counts are read: all guesses as one coin's; guesses "two" against "one"; guesses "one" against "two"."""


def least(successes: Any, trials: Any, alpha: float) -> Floats:
    """The smallest chance that explains so many successes or more with probability ``alpha`` (Clopper & Pearson)."""
    k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1e-12), n - k + 1, alpha), 0.0)


def most(successes: Any, trials: Any, alpha: float) -> Floats:
    """The largest chance that explains so few successes with probability ``alpha`` (Clopper & Pearson)."""
    k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    return np.where(k < n, special.betaincinv(k + 1, np.maximum(n - k, 1e-12), 1 - alpha), 1.0)


@dataclass(frozen=True)
class Counts:
    """How often "two" was guessed in runs of one and of two; numbers, or arrays with one entry for each threshold."""

    false: Any
    ones: Any
    true: Any
    twos: Any

    def scaled(self, trials: int, errors: float) -> Counts:
        """What as many runs, half of each, may be expected to show: worse than these by so many standard errors."""
        half = trials / 2
        false = self.false + errors * np.sqrt(self.false * (1 - self.false / self.ones) + 0.25)
        true = self.true - errors * np.sqrt(self.true * (1 - self.true / self.twos) + 0.25)
        return Counts(half * np.minimum(false / self.ones, 1), half, half * np.maximum(true / self.twos, 0), half)

    def rates(self, how: str, alpha: float) -> tuple[Floats, Floats]:
        """An event's chance under one at most, and under the other at least; both hold with confidence 1 - alpha."""
        if how == HIGH:
            return most(self.false, self.ones, alpha / 2), least(self.true, self.twos, alpha / 2)
        return most(self.twos - self.true, self.twos, alpha / 2), least(self.ones - self.false, self.ones, alpha / 2)

    def right(self, alpha: float) -> Floats:
        """The chance of a right guess at least, where a fair coin said which of the two was played."""
        return least(self.ones - self.false + self.true, self.ones + self.twos, alpha)


def epsilon_bound(counts: Counts, how: str, delta: float, alpha: float) -> Floats:
    """An epsilon below which no (epsilon, delta) explains the counts, with confidence 1 - alpha."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if how == COIN:  # a right guess has a chance of at most (e^epsilon + delta) / (1 + e^epsilon)
            right = counts.right(alpha)
            odds = (right - delta) / (1 - right)
        else:
            rare, often = counts.rates(how, alpha)
            odds = (often - delta) / rare
        return np.where(odds > 1, np.log(np.maximum(odds, 1.0)), 0.0)


def mu_bound(counts: Counts, how: str, alpha: float) -> Floats:
    """A mu below which no mu-GDP explains the counts, with confidence 1 - alpha."""
    if how == COIN:  # a right guess has a chance of at most Phi(mu / 2)
        found = 2 * special.ndtri(counts.right(alpha))
    else:
        rare, often = counts.rates(how, alpha)
        found = special.ndtri(often) - special.ndtri(rare)
    return np.where(found > 0, found, 0.0)


def counted(scores: Floats, two: Array, thresholds: Floats) -> Counts:
    """Guess "two" where a score is above the threshold: the counts at each."""
    ones, twos = np.sort(scores[~two]), np.sort(scores[two])
    above = [len(group) - np.searchsorted(group, thresholds, side="right") for group in (ones, twos)]
    return Counts(above[0], len(ones), above[1], len(twos))


@dataclass(frozen=True)
class Rule:
    """How to guess and how to read the counts; chosen on runs that are not judged by it."""

    threshold: float
    how: str
    promise: float
    """The bound it would reach if the rates stay as they were."""


def best_rule(scores: Floats, two: Array, trials: int, bound: Callable[[Counts, str], Floats]) -> Rule:
    """The threshold and the reading that promise the largest bound on so many more runs.

    Scores are likelihood ratios or nearly, with 0 in the middle: that is the threshold, unless another promises more.
    """
    values = np.unique(scores)
    if len(values) > 400:
        values = np.unique(np.quantile(scores, np.linspace(0, 1, 401)))
    thresholds = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    seen = counted(scores, two, thresholds).scaled(trials, LUCK)
    found = [(bound(seen, how), how) for how in (COIN, HIGH, LOW)]
    best, how = max(found, key=lambda pair: float(np.max(pair[0])))
    place = int(np.argmax(best))
    chosen = Rule(float(thresholds[place]), how, float(best[place]))
    even = Rule(0.0, COIN, float(bound(counted(scores, two, np.zeros(1)).scaled(trials, 0.0), COIN)[0]))
    return chosen if chosen.promise > even.promise else even


# --- many canaries in one run --------------------------------------------------------------------------------------------


def one_run_chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """A bound on the chance of so many right guesses under (epsilon, delta) (Steinke, Nasr & Jagielski 2023, Thm 5.2)."""
    truth = special.expit(epsilon)
    beta = float(stats.binom.sf(right - 1, guesses, truth))
    if delta == 0 or right == 0:
        return min(1.0, beta)
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, truth))
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beta + 2 * alpha * delta * canaries)


def one_run_epsilon(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """The epsilon below which (epsilon, delta) is refuted at this level by the guesses of one run."""
    return _largest(lambda epsilon: one_run_chance(canaries, guesses, right, epsilon, delta) <= alpha, 40.0)


def one_run_refutes(canaries: int, guesses: int, right: int, mu: float, alpha: float) -> bool:
    """Whether so many right guesses have a chance below ``alpha`` under mu-GDP (Mahloujifar, Melis & Chaudhuri 2024).

    Let r(i) and h(i) be the expected shares of all canaries guessed right and wrong when at least i are guessed right. Any
    one canary's bit flipped turns "right, and i of the others too" into "wrong, and i of the others right", so
    h(i) >= Phi(Phi^-1(r(i + 1)) - mu), and what h gains r gains i / (guesses - i) times. Were the chance ``alpha``, r and h
    would grow from there, down to i = 0, to more than the share that was guessed.
    """
    r, h = alpha * right / canaries, alpha * (guesses - right) / canaries
    share = guesses / canaries
    for i in range(right - 1, -1, -1):
        wrong = max(h, float(special.ndtr(special.ndtri(r) - mu)))
        r += i / (guesses - i) * (wrong - h)
        h = wrong
        if r + h > share:
            return True
    return False


def one_run_mu(canaries: int, guesses: int, right: int, alpha: float) -> float:
    """The mu below which mu-GDP is refuted at this level by the guesses of one run."""
    return _largest(lambda mu: one_run_refutes(canaries, guesses, right, mu, alpha), 40.0)


def _largest(refuted: Callable[[float], bool], most: float) -> float:
    """The largest number that is refuted, as all smaller ones are; rounded down."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, most
    while high - low > 1e-4 * max(low, 0.01):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
