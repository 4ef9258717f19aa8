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
        found = expit(offset + scores)
        offset = offset + (world.base_rate - found.mean(axis=1, keepdims=True)) / (found * (1 - found)).mean(
            axis=1, keepdims=True
        )
    return np.asarray(expit(offset + scores))


def poured(world: World, rounds: int, told: Floats, at: Floats, ridge: float, width: float) -> tuple[Floats, Floats]:
    """The ends of stages, and the learned share within each.

    ``told``: the information about an arm's rate after it was played ``at`` times. ``ridge``: its prior precision.
    ``width``: of upper bounds, times sqrt(log(1 + t)).
    """
    rates, noise = rates_of(world), _draws(world.candidates, world.arms)[1]
    K = world.candidates
    prior = (min(world.base_rate, 1 - world.base_rate) / 2.5) ** -2.0
    ends = np.concatenate([[float(K)], np.geomspace(2 * K, rounds, STAGES)])
    played = np.ones_like(rates)
    known = np.zeros_like(rates)
    heard = np.zeros_like(rates)
    best = rates.max(axis=1)
    shares = np.zeros(STAGES)
    for k in range(STAGES):
        t = ends[k + 1]
        reach = width * math.sqrt(math.log1p(t))
        pull = known * ridge / (known + ridge)
        seen = heard / np.maximum(known, 1e-12)
        middle = ((pull * seen).sum(axis=1) + prior * world.base_rate) / (pull.sum(axis=1) + prior)
        middle = middle[:, None]
        mean = (heard + ridge * middle) / (known + ridge)
        low, high = mean.max(axis=1, keepdims=True), mean.max(axis=1, keepdims=True) + reach / math.sqrt(ridge)
        for _ in range(HALVINGS):
            level = (low + high) / 2
            needed = (reach / np.maximum(level - mean, 1e-12)) ** 2 - ridge
            total = np.maximum(np.interp(needed, told, at), played).sum(axis=1, keepdims=True)
            low, high = np.where(total > t, level, low), np.where(total > t, high, level)
        needed = (reach / np.maximum(high - mean, 1e-12)) ** 2 - ridge
        wanted = np.maximum(np.interp(needed, told, at), played)
        rest = t - wanted.sum(axis=1)
        wanted[np.arange(DRAWS), (mean + reach / np.sqrt(known + ridge)).argmax(axis=1)] += np.maximum(rest, 0.0)
        more = wanted - played
        shares[k] = 1 - float(
            ((best[:, None] - rates) * more).sum() / ((best - rates.mean(axis=1)) * more.sum(axis=1)).sum()
        )
        now = np.interp(wanted, at, told)
        step = np.maximum(now - known, 0.0)
        heard += rates * step + np.sqrt(step) * noise[k]
        known, played = now, wanted
    return ends, shares
