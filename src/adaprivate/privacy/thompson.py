"""The privacy of Thompson sampling with Gaussian priors on N arms (Ou, Avella Medina & Cummings 2024), and its price.

Every arm is pulled b times first; then each round samples theta_i ~ N(sum_i / (n_i + 1), c / (n_i + 1)) and plays the
largest. A reward of arm j moves theta_j's mean by at most 1 / (n_j + 1), so a round costs mu^2 = 1 / (c (n_j + 1)), where
n_j >= max(b, 1) once that reward is there; pre-pulls look at nothing (docs/privacy.md, Lemma 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.privacy.concentrated import zcdp_epsilon
from adaprivate.privacy.gaussian import gdp_epsilon, gdp_mu

LEAST_MU = 1e-9
"""The smallest budget in mu that can be asked for: below, its square could vanish."""
MOST_ARMS_TO_CALIBRATE = 30
"""Pairs are searched for so many arms at most: predicting their regret takes time that grows as N^2."""


def thompson_mu(rounds: int, arms: int, *, prepulls: int = 0, variance: float = 1.0) -> float:
    """The mu of Thompson sampling: Lemmas 3 and 4 in one, without what they give away."""
    rounds, arms, prepulls, variance = _checked(rounds, arms, prepulls, variance)
    return math.sqrt(max(0, rounds - prepulls * arms) / (variance * (max(prepulls, 1) + 1)))


def published_thompson_mu(rounds: int, *, prepulls: int = 0, variance: float = 1.0) -> float:
    """The mu of Lemma 4, sqrt(T / (c (b + 1))): sound, and loose."""
    rounds, _, prepulls, variance = _checked(rounds, 2, prepulls, variance)
    return math.sqrt(rounds / (variance * (prepulls + 1)))


def _checked(rounds: int, arms: int, prepulls: int, variance: float) -> tuple[int, int, int, float]:
    return (
        check.whole("rounds", rounds, at_least=1),
        check.whole("arms", arms, at_least=2),
        check.whole("prepulls", prepulls, at_least=0),
        check.real("variance", variance, above=0),
    )


def thompson_rdp_epsilon(rounds: int, delta: float) -> float:
    """The epsilon of Algorithm 1 by Theorem 8 (Renyi), at its best order: sound, looser than by mu."""
    return zcdp_epsilon(check.whole("rounds", rounds, at_least=1) / 4, delta)


def _advanced(rounds: int, delta: float, one_round: float, spent: float) -> float:
    """Advanced composition (Dwork, Rothblum & Vadhan 2010) of rounds that are (one_round, spent / rounds)-private."""
    spread = one_round * math.sqrt(2 * rounds * math.log(1 / (delta - spent)))
    return spread + (rounds * one_round * math.expm1(one_round) if one_round < 700 else math.inf)


def thompson_standard_epsilon(rounds: int, delta: float) -> float:
    """The epsilon of Algorithm 1 by composing its rounds, as Corollary 1 meant to: sound, useless."""
    rounds, delta = check.whole("rounds", rounds, at_least=1), check.probability("delta", delta)
    return _least(lambda spent: _advanced(rounds, delta, gdp_epsilon(math.sqrt(0.5), spent / rounds), spent), delta)


def published_thompson_standard_epsilon(rounds: int, arms: int, delta: float) -> float:
    """What Corollary 1 states for Algorithm 1. For reproduction only: it rests on Theorem 7, which is false."""
    rounds, arms = check.whole("rounds", rounds, at_least=1), check.whole("arms", arms, at_least=2)
    delta = check.probability("delta", delta)
    return _least(lambda spent: _advanced(rounds, delta, published_argmax_epsilon(arms, spent / rounds), spent), delta)


def published_argmax_epsilon(arms: int, delta: float, mu: float = math.sqrt(0.5)) -> float:
    """What Theorem 6 (Theorem 7 at this mu) states for the argmax of N noisy means. For reproduction only: it is false."""
    arms = check.whole("arms", arms, at_least=2)
    return 0.5 * mu * math.sqrt(max(0.0, math.log((arms - 1) / (2 * check.probability("delta", delta)))))


def _least(epsilon: object, delta: float) -> float:
    """The best split of delta between the rounds and their composition."""
    found = minimize_scalar(
        lambda x: epsilon(delta / (1 + math.exp(-x))),  # type: ignore[operator]
        bounds=(-20, 20),
        method="bounded",
        options={"xatol": 1e-8},
    )
    return float(found.fun)


# --- which (b, c) ---------------------------------------------------------------------------------------------------


class ThompsonPair(NamedTuple):
    """Pre-pulls b and variance c of Algorithm 2, the mu they give, and the regret to expect on the stated means."""

    prepulls: int
    variance: float
    mu: float
    regret: float


class ThompsonCalibration(NamedTuple):
    """Pairs (b, c) that all spend a budget, and the one that promises the least regret."""

    eta: float
    pairs: tuple[ThompsonPair, ...]
    best: ThompsonPair


def thompson_variance(eta: float, rounds: int, arms: int, prepulls: int, *, published: bool = False) -> float:
    """The least c >= 1 with which ``prepulls`` pulls of every arm first stay within eta (by Lemma 4 if published)."""
    rounds, arms, prepulls, _ = _checked(rounds, arms, prepulls, 1.0)
    left = rounds if published else max(0, rounds - prepulls * arms)
    pulls = prepulls if published else max(prepulls, 1)
    return max(1.0, left / (check.real("eta", eta, at_least=LEAST_MU) ** 2 * (pulls + 1)) * (1 + 1e-12))


def calibrate_thompson(
    *,
    rounds: int,
    arms: int,
    eta: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    means: Sequence[float] | None = None,
    published: bool = False,
) -> ThompsonCalibration:
    """Pairs (b, c) of Algorithm 2 for a budget ``eta`` (or epsilon and delta), and the pair of least predicted regret.

    Regret is predicted for Bernoulli arms of these public ``means`` (default: from 0.75 evenly down to 0.25).
    """
    if eta is None:
        check.expect(epsilon is not None and delta is not None, "eta", eta, "to be given, or epsilon and delta")
        eta = gdp_mu(epsilon or 0.0, delta or 0.0)
    else:
        check.expect(epsilon is None and delta is None, "epsilon", epsilon, "not to be given with eta")
    rounds, arms, _, _ = _checked(rounds, arms, 0, 1.0)
    check.whole("arms", arms, at_most=MOST_ARMS_TO_CALIBRATE)
    world = np.linspace(0.75, 0.25, arms) if means is None else _means(means, arms)
    return _calibrated(check.real("eta", eta, at_least=LEAST_MU), rounds, arms, tuple(world.tolist()), published)


def _means(means: Sequence[float], arms: int | None = None) -> Floats:
    found = check.floats("means", means, (arms,))
    check.expect(bool(((found >= 0) & (found <= 1)).all()), "means", means, "between 0 and 1")
    return found


@lru_cache(maxsize=64)
def _calibrated(eta: float, rounds: int, arms: int, means: tuple[float, ...], published: bool) -> ThompsonCalibration:
    most = max(1, rounds // arms)
    steps = {0, *np.unique(np.geomspace(1, most, 24).astype(int)).tolist()}
    pairs = []
    for b in sorted(steps):
        c = thompson_variance(eta, rounds, arms, b, published=published)
        mu = (
            published_thompson_mu(rounds, prepulls=b, variance=c)
            if published
            else thompson_mu(rounds, arms, prepulls=b, variance=c)
        )
        pairs.append(ThompsonPair(b, c, mu, thompson_regret(means, rounds, prepulls=b, variance=c)))
        if c == 1.0:
            break  # more pre-pulls cost regret and buy nothing
    return ThompsonCalibration(eta, tuple(pairs), min(pairs, key=lambda pair: pair.regret))


_Z = np.linspace(-6, 6, 49)
_WEIGHT = np.exp(-_Z * _Z / 2) / np.exp(-_Z * _Z / 2).sum()


def _shares(centre: Floats, spread: Floats) -> Floats:
    """The probability that each of these independent normal numbers is the largest."""
    points = centre[:, None] + spread[:, None] * _Z
    below = ndtr((points[:, :, None] - centre) / spread)
    for i in range(len(centre)):
        below[i, :, i] = 1.0
    chances = below.prod(axis=2) @ _WEIGHT
    shares: Floats = chances / chances.sum()
    return shares


def thompson_regret(means: Sequence[float], rounds: int, *, prepulls: int = 0, variance: float = 1.0) -> float:
    """The regret to expect of Algorithm 2 on arms of these means: each arm's pulls follow their expected flow."""
    mean = _means(means)
    rounds, arms, prepulls, variance = _checked(rounds, len(mean), prepulls, variance)
    gap = mean.max() - mean
    if prepulls * arms >= rounds:
        cut = np.clip(rounds - prepulls * np.arange(arms), 0, prepulls)
        return float(gap @ cut)
    pulls = np.full(arms, float(prepulls))
    done, end = 0.0, float(rounds - prepulls * arms)
    while done < end:
        step = min(end - done, max(1.0, 0.06 * (done + 0.1 * prepulls * arms)))
        pulls += step * _shares(mean * pulls / (pulls + 1), np.sqrt(variance / (pulls + 1)))
        done += step
    return float(gap @ pulls)
