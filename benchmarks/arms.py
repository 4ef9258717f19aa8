"""How fast fixed arms are, as ratios measured in one run: python benchmarks/arms.py [--quick] [--json FILE].

Each policy on five Bernoulli arms through the engine, beside Thompson sampling written into one numba loop by hand and
beside the normal numbers that it draws.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys

import numba
import numpy as np

from adaprivate import environments
from adaprivate.compiled import _FAST, normal, streams, uniform
from adaprivate.simulation import policy_settings, run_one
from engine import timed, turns

ROUNDS, SEED = 500_000, 1
TARGETS = {"thompson, million rounds per second on one core": 5.0}
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


def measure(repeats):
    place = environments.environment("bernoulli-arms")
    items = {}
    for name in POLICIES:
        policy = policy_settings(name, place, ROUNDS, {})
        noise = policy.noise_tables([SEED])[0]
        regret = run_one(policy, place, SEED, noise).regret
        items[name] = timed(run_one, policy, place, SEED, noise)
        if name == "thompson":
            fused = hand_fused(place.world(SEED).means, ROUNDS, streams(SEED, 3, 4), streams(SEED, 1, 2))
            if not math.isclose(regret, fused, rel_tol=1e-9):
                raise SystemExit(f"the two loops play differently: regret {regret} and {fused}")
    means = place.world(SEED).means
    only_samples(5, 1, streams(SEED, 3, 4))
    items["hand-fused thompson"] = lambda: timed(hand_fused, means, ROUNDS, streams(SEED, 3, 4), streams(SEED, 1, 2))()
    items["five normal numbers"] = lambda: timed(only_samples, 5, ROUNDS, streams(SEED, 3, 4))()
    best = turns(items, repeats)
    nanoseconds = {name: round(1e9 * seconds / ROUNDS, 1) for name, seconds in best.items()}
    return {
        "ns per round, five arms": nanoseconds,
        "thompson, million rounds per second on one core": ROUNDS / best["thompson"] / 1e6,
        "generic / hand-fused": best["hand-fused thompson"] / best["thompson"],
        "share of a thompson round spent on its normal numbers": best["five normal numbers"] / best["thompson"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    found = measure(3 if arguments.quick else 15)
    version = f"Python {platform.python_version()}, numba {numba.__version__}, load {os.getloadavg()[0]:.1f}"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {version}"
    lines = [f"machine: {machine}"]
    for name, value in found.items():
        shown = ", ".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else f"{value:.2f}"
        target = TARGETS.get(name)
        verdict = f" (target {target:g}: {'met' if value >= target else 'missed'})" if target is not None else ""
        lines.append(f"{name}: {shown}{verdict}")
    sys.stdout.write("\n".join(lines) + "\n")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine, **found}, file, indent=1)


if __name__ == "__main__":
    main()
