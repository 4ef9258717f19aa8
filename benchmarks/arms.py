"""Fixed arms: nanoseconds a round on five Bernoulli arms.

Each policy through the engine, beside Thompson sampling written into one numba loop by hand and beside the normal numbers
that it draws. A world's uniform number and the loop's own sums are what ``random`` pays.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from adaprivate import environments
from adaprivate.compiled import _FAST, normal, streams, uniform
from adaprivate.purposes import Purpose
from adaprivate.simulation import policy_settings, run_one
from measuring import target, timed, turns

ROUNDS, SEED = 500_000, 1
TINY = {"rounds": 500, "names": ("thompson", "random"), "repeats": 1}
POLICIES = (
    *("thompson", "filtered-thompson", "ucb1", "dp-se", "anytime-lazy-ucb", "adap-klucb", "adac-ucb"),
    *("lazy-dp-ts", "dp-ts", "mishra-thakurta-ucb", "random", "linucb"),
)


@numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")
def hand_fused(means, rounds, own, shared):
    """Algorithm 1 on Bernoulli arms in one loop; the regret."""
    arms = len(means)
    pulls, sums, mean, spread = np.zeros(arms), np.zeros(arms), np.zeros(arms), np.ones(arms)
    best, regret = means.max(), 0.0
    for _ in range(rounds):
        u = uniform(shared, 1)
        chosen, top = 0, -np.inf
        for j in range(arms):
            theta = mean[j] + spread[j] * normal(own, 0)
            if theta > top:
                chosen, top = j, theta
        regret += best - means[chosen]
        pulls[chosen] += 1
        sums[chosen] += 1.0 if u < means[chosen] else 0.0
        mean[chosen] = sums[chosen] / (pulls[chosen] + 1)
        spread[chosen] = math.sqrt(1 / (pulls[chosen] + 1))
    return regret


@numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")
def only_samples(arms, rounds, own):
    """Nothing but the normal numbers."""
    total = 0.0
    for _ in range(rounds * arms):
        total += normal(own, 0)
    return total


def measured(quick, *, rounds=ROUNDS, names=POLICIES, repeats=None):
    place, repeats = environments.environment("bernoulli-arms"), repeats or (3 if quick else 15)
    items, apart = {}, math.nan
    means = place.world(SEED).means

    def own():
        return streams(SEED, Purpose.EXPLORATION, Purpose.CHOICE)

    def shared():
        return streams(SEED, Purpose.ROUNDS, Purpose.REWARDS)

    for name in names:
        policy = policy_settings(name, place, rounds, {})
        noise = policy.noise_tables([SEED])[0]
        regret = run_one(policy, place, SEED, noise).regret
        items[name] = timed(run_one, policy, place, SEED, noise)
        if name == "thompson":
            apart = abs(regret - hand_fused(means, rounds, own(), shared())) / regret
    only_samples(5, 1, own())
    items["hand-fused thompson"] = lambda: timed(hand_fused, means, rounds, own(), shared())()
    items["five normal numbers"] = lambda: timed(only_samples, 5, rounds, own())()
    best = turns(items, repeats)
    return {
        "nanoseconds a round": {name: 1e9 * seconds / rounds for name, seconds in best.items()},
        "share of a thompson round spent on its normal numbers": best["five normal numbers"] / best["thompson"],
        "targets": [
            target("thompson: relative difference of regret to hand-fused", apart, most=1e-9),
            target("thompson: million rounds a second on one core", rounds / best["thompson"] / 1e6, least=5.0),
            target("thompson: hand-fused time / ours", best["hand-fused thompson"] / best["thompson"], least=0.75),
        ],
        "notes": __doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    }
