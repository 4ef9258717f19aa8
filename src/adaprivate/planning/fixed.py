"""What is learned of arms that are the same every round: a fluid of rounds, poured where the upper bound is largest.

No closed form is close where candidates never change: the policy must explore, and may settle on a wrong arm. So the
posterior of every arm is followed through stages of time, on fixed draws of the arms' rates: a stage's rounds go to arms so
that their upper bounds stay level, and what they tell is drawn. It takes no simulation of single rounds.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit, logit

from adaprivate.check import Floats
from adaprivate.planning.worlds import World

DRAWS, STAGES, HALVINGS = 256, 24, 18
SEED = 20_240_229
CENTRED = 2.5
"""The mean rate of arms is known to about the base rate over this: as policies take it, and a little better."""


@lru_cache(maxsize=4)
def _draws(arms: int, sphere: bool) -> tuple[Floats, Floats]:
    """Scores of arms in units of their standard deviation, and what noise each stage draws."""
    rng = np.random.default_rng(SEED)
    half = rng.standard_normal((DRAWS // 2, arms))
    scores = np.concatenate([half, -half])
    if sphere:
        scores *= math.sqrt(arms) / np.linalg.norm(scores, axis=1, keepdims=True)
    return scores, rng.standard_normal((STAGES, DRAWS, arms))


def rates_of(world: World) -> Floats:
    """The mean rates (draws, arms): their mean is that of random play."""
    scores = world.spread * _draws(world.candidates, world.arms)[0]
    offset = np.full((len(scores), 1), logit(world.base_rate))
    for _ in range(20):
        rates = expit(offset + scores)
        slope = (rates * (1 - rates)).mean(axis=1, keepdims=True)
        offset = offset + (world.base_rate - rates.mean(axis=1, keepdims=True)) / slope
    return np.asarray(expit(offset + scores))


def poured(world: World, rounds: int, told: Floats, at: Floats, ridge: float, width: float) -> tuple[Floats, Floats]:
    """The ends of stages, and the learned share within each.

    ``told``: the information about an arm's rate after it was played ``at`` times. ``ridge``: its prior precision.
    ``width``: of upper bounds, times sqrt(log(1 + t)).
    """
    rates, noise = rates_of(world), _draws(world.candidates, world.arms)[1]
    K, base = world.candidates, world.base_rate
    sure = (min(base, 1 - base) / CENTRED) ** -2.0
    best = rates.max(axis=1)
    at_stake = best - rates.mean(axis=1)
    ends = np.concatenate([[float(K)], np.geomspace(2 * K, rounds, STAGES)])
    played, known, heard = np.ones_like(rates), np.zeros_like(rates), np.zeros_like(rates)
    shares = np.zeros(STAGES)
    for k in range(STAGES):
        reach = width * math.sqrt(math.log1p(ends[k + 1]))
        pull = known * ridge / (known + ridge)  # of each arm on the mean of all, which is learned too
        middle = ((pull * heard / np.maximum(known, 1e-12)).sum(axis=1) + sure * base) / (pull.sum(axis=1) + sure)
        mean = (heard + ridge * middle[:, None]) / (known + ridge)
        wanted = _levelled(mean, reach, ridge, told, at, played, ends[k + 1])
        top = (mean + reach / np.sqrt(known + ridge)).argmax(axis=1)
        wanted[np.arange(DRAWS), top] += np.maximum(ends[k + 1] - wanted.sum(axis=1), 0.0)
        more = wanted - played
        regret = ((best[:, None] - rates) * more).sum()
        spent = float((at_stake * more.sum(axis=1)).sum())
        shares[k] = 1 - float(regret) / spent if spent > 0 else shares[max(k - 1, 0)]  # a stage without rounds
        now = np.interp(wanted, at, told)
        step = np.maximum(now - known, 0.0)
        heard += rates * step + np.sqrt(step) * noise[k]
        known, played = now, wanted
    return ends, shares


def _levelled(mean: Floats, reach: float, ridge: float, told: Floats, at: Floats, played: Floats, rounds: float) -> Floats:
    """How often each arm has been played when all upper bounds that were higher have come down to one level."""

    def plays(level: Floats) -> Floats:
        needed = (reach / np.maximum(level - mean, 1e-12)) ** 2 - ridge
        return np.maximum(np.interp(needed, told, at), played)

    low = mean.max(axis=1, keepdims=True)
    high = low + reach / math.sqrt(ridge)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        over = plays(level).sum(axis=1, keepdims=True) > rounds
        low, high = np.where(over, level, low), np.where(over, high, level)
    return plays(high)
