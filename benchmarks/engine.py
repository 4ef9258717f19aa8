"""How fast the engine is, as ratios measured in one run: python benchmarks/engine.py [--quick] [--json FILE].

Items that are compared take turns, several times over, and each keeps its best time: what else the machine does then
touches all of them alike. Compiling is done before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time

import numba
import numpy as np
from scipy.linalg import solve_triangular

from adaprivate import environments, policies
from adaprivate.compiled import _FAST, below, normal, streams, uniform
from adaprivate.experiments import table1, table2
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import policy_settings, run_all, run_one

D, K, SEED = 20, 5, 1
TARGETS = {
    "generic / hand-fused": 0.75,
    "generic / NumPy": 100.0,
    "two jobs / one": 1.8,
    "noise-aware-ts / lints": 1.0,
    "noise-aware / linucb": 1.0,
}


def settings(name="adaprivate-ts", *, dimension=D, rounds=10_000):
    options = {"batch_size": min(300, rounds)} if name.startswith("adaprivate") else {}
    return policies.settings(name, {"dimension": dimension, "rounds": rounds, **options})


def world(dimension=D, candidates=K):
    return environments.environment("synthetic", {"dimension": dimension, "candidates": candidates})


def turns(items, repeats):
    """The best time of each item, in seconds; the items take turns. Each item returns how long it took."""
    best = dict.fromkeys(items, math.inf)
    for _ in range(repeats):
        for name, item in items.items():
            best[name] = min(best[name], item())
    return best


def timed(function, *arguments, clock=time.process_time):
    """An item: the processor time (or other clock) of one call."""

    def item():
        started = clock()
        function(*arguments)
        return clock() - started

    return item


@numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")
def hand_fused(arms, arm_means, order, rounds, count, batch, noise, own, shared):
    """Algorithm 1 on the synthetic world with everything written into one loop: what a generic loop is measured against."""
    d = arms.shape[1]
    S, w, phi, z = np.eye(d), np.zeros(d), np.zeros(d), np.zeros(d)
    total, theta = np.zeros(d), np.zeros(d)
    chosen_arms = np.zeros(count, np.int64)
    regret = 0.0
    releases = 0
    for t in range(rounds):
        for a in range(count):
            swap = a + below(shared, 0, arms.shape[0] - a)
            arm = order[swap]
            order[swap] = order[a]
            order[a] = arm
            chosen_arms[a] = arm
        u = uniform(shared, 1)
        for j in range(d):
            z[j] = w[j] + normal(own, 0)
        for i in range(d):
            score = 0.0
            for j in range(d):
                score += S[i, j] * z[j]
            theta[i] = score
        top, best, chosen = -np.inf, 0.0, 0
        for a in range(count):
            arm = chosen_arms[a]
            score = 0.0
            for j in range(d):
                score += arms[arm, j] * theta[j]
            best = max(best, arm_means[arm])
            if score > top:
                top, chosen = score, arm
        mean = arm_means[chosen]
        regret += best - mean
        for j in range(d):
            phi[j] = 0.0
        for i in range(d):
            x = arms[chosen, i]
            for j in range(d):
                phi[j] += S[i, j] * x
        square, along = 0.0, 0.0
        for j in range(d):
            square += phi[j] * phi[j]
            along += phi[j] * w[j]
        gain = 1.0 / (1.0 + square + math.sqrt(1.0 + square))
        for i in range(d):
            pull = 0.0
            for j in range(d):
                pull += S[i, j] * phi[j]
            pull *= gain
            for j in range(d):
                S[i, j] -= pull * phi[j]
        reward = 1.0 if u < mean else 0.0
        for j in range(d):
            w[j] -= gain * along * phi[j]
            total[j] += reward * arms[chosen, j]
        if (t + 1) % batch == 0:
            for j in range(d):
                w[j] = 0.0
            for i in range(d):
                x = total[i] + noise[releases, i]
                for j in range(d):
                    w[j] += S[i, j] * x
            releases += 1
    return regret


def fused_once(policy, place, noise):
    state = place.world(SEED)
    own, shared = streams(SEED, 3, 4), streams(SEED, 1, 2)
    return hand_fused(state.arms, state.means, state.order, policy.rounds, K, policy.batch_size, noise, own, shared)


def numpy_literal(arms, means, rounds, batch, noise):
    """The same simulation in NumPy: the world drawn, Algorithm 1 as printed with a Cholesky factor per round, regret."""
    rng = np.random.default_rng(0)
    A, b, batch_b, count, k, regret = np.eye(D), np.zeros(D), np.zeros(D), 0, 0, 0.0
    for _ in range(rounds):
        offered = rng.permutation(len(arms))[:K]
        x, mean = arms[offered], means[offered]
        L = np.linalg.cholesky(A)
        half = solve_triangular(L, b, lower=True, check_finite=False) + rng.standard_normal(D)
        a = np.argmax(x @ solve_triangular(L, half, lower=True, trans="T", check_finite=False))
        regret += mean.max() - mean[a]
        A += np.outer(x[a], x[a])
        batch_b += (rng.random() < mean[a]) * x[a]
        count += 1
        if count >= batch:
            b = b + batch_b + noise[k]
            batch_b, count, k = np.zeros(D), 0, k + 1
    return regret


def against_others(repeats):
    policy, place = settings(rounds=50_000), world()
    noise = policy.noise_tables([SEED])[0]
    generic, fused = run_one(policy, place, SEED, noise).regret, fused_once(policy, place, noise)
    if not math.isclose(generic, fused, rel_tol=1e-9):
        raise SystemExit(f"the two loops play differently: regret {generic} and {fused}")
    arms, means, slow = place.world(SEED).arms, place.world(SEED).means, 2000
    items = {
        "generic": timed(run_one, policy, place, SEED, noise),
        "hand-fused": timed(fused_once, policy, place, noise),
        "NumPy": timed(numpy_literal, arms, means, slow, 300, np.diff(noise, axis=0)),
    }
    best = turns(items, repeats)
    speed = {name: (slow if name == "NumPy" else policy.rounds) / seconds for name, seconds in best.items()}
    return {
        "rounds per second, one core, d 20, K 5": {name: round(value) for name, value in speed.items()},
        "generic / hand-fused": speed["generic"] / speed["hand-fused"],
        "generic / NumPy": speed["generic"] / speed["NumPy"],
    }


def scaling(repeats):
    """Nanoseconds per round as the dimension, and as the number of candidates, grows."""

    def nanoseconds(cases):
        items, rounds = {}, {}
        for name, (dimension, candidates) in cases.items():
            rounds[name] = max(2_000, min(40_000, 10_000_000 // dimension**2))
            policy, place = settings(dimension=dimension, rounds=rounds[name]), world(dimension, candidates)
            noise = policy.noise_tables([SEED])[0]
            run_one(policy, place, SEED, noise)
            items[name] = timed(run_one, policy, place, SEED, noise)
        return {name: 1e9 * seconds / rounds[name] for name, seconds in turns(items, repeats).items()}

    by_dimension = nanoseconds({d: (d, K) for d in (5, 10, 20, 50, 100)})
    by_candidates = nanoseconds({k: (D, k) for k in (2, 5, 20, 100)})
    return {
        "ns per round by d (K 5)": {d: round(ns) for d, ns in by_dimension.items()},
        "ns per round / d^2": {d: round(ns / d**2, 2) for d, ns in by_dimension.items()},
        "ns per round by K (d 20)": {k: round(ns) for k, ns in by_candidates.items()},
        "ns per further candidate": {
            f"{low} to {high}": round((by_candidates[high] - by_candidates[low]) / (high - low), 1)
            for low, high in ((2, 5), (5, 20), (20, 100))
        },
    }


def serving(repeats):
    """Microseconds of decide and learn from Python."""
    rng = np.random.default_rng(0)
    calls = 4000
    candidates = rng.standard_normal((64, K, D)) / (2 * math.sqrt(D))

    def serve(policy):
        for t in range(calls):
            policy.learn(policy.decide(candidates[t % 64]), 0.5)

    items = {}
    for name in ("adaprivate-ts", "adaprivate-ucb", "linucb"):
        policy = Policy(settings(name), seed=0, source=None)
        serve(policy)
        items[name] = timed(serve, policy)
    found = {name: round(1e6 * seconds / calls, 2) for name, seconds in turns(items, repeats).items()}
    return {"decide + learn, microseconds, d 20, K 5": found}


def noise_aware(repeats):
    """A round of the noise-aware policies, batch ends included, against the policies they replace; and their plans."""
    place, rounds = world(), 50_000
    items = {}
    for name in ("lints", "noise-aware-ts", "linucb", "noise-aware", "noise-aware-greedy"):
        policy = settings(name, rounds=rounds)
        noise = policy.noise_tables([SEED])[0]
        run_one(policy, place, SEED, noise)
        items[name] = timed(run_one, policy, place, SEED, noise)
    best = turns(items, repeats)

    def plan(**options):
        made = policies.settings("noise-aware", {"dimension": D, "channel": "gaussian", **options})
        started = time.perf_counter()
        made.extended(made.learner()).learner()  # as after the first offers: rows are fitted, and how they are read
        return round(time.perf_counter() - started, 3)

    return {
        "ns per round, d 20, K 5": {name: round(1e9 * seconds / rounds) for name, seconds in best.items()},
        "noise-aware-ts / lints": best["lints"] / best["noise-aware-ts"],
        "noise-aware / linucb": best["linucb"] / best["noise-aware"],
        "seconds to plan, by batches": {
            33: plan(rounds=9_900, batch_size=300, growth=1.0),
            250: plan(rounds=2_500, batch_size=10, growth=1.0),
            2000: plan(rounds=20_000, batch_size=10, growth=1.0),
        },
    }


def cores(repeats):
    """The same 60 runs on one thread and on two, by the wall clock and by processor time (ratio 1: nothing is lost)."""
    policy, place = settings(), world()
    run_all([policy], place, range(60), jobs=2)

    def both(jobs, clock):
        return timed(lambda: run_all([policy], place, range(60), jobs=jobs), clock=clock)

    clocks = (time.perf_counter, time.process_time)
    best = turns({(jobs, clock): both(jobs, clock) for jobs in (1, 2) for clock in clocks}, repeats)
    wall, processor = ({jobs: best[jobs, clock] for jobs in (1, 2)} for clock in clocks)
    return {
        "seconds for 60 runs by jobs": {jobs: round(seconds, 3) for jobs, seconds in wall.items()},
        "two jobs / one": wall[1] / wall[2],
        "processor time, two jobs / one": processor[2] / processor[1],
    }


def size(part):
    """The bytes of an array, or of everything in a state."""
    return sum(map(size, part)) if isinstance(part, tuple) else part.nbytes


def memory(_):
    policy, place = settings(), world()
    parts = {
        "state": policy.start(policy.noise_tables([0])[0]),
        "world": place.world(0),
        "streams": (streams(0, 1, 2), streams(0, 3, 4)),
    }
    return {"bytes per run, d 20, T 10,000": {name: size(part) for name, part in parts.items()}}


def tables(_):
    """Every setting of Tables 1 and 2, once, on all cores, and what 1,000 seeds would take."""
    place, seeds = world(), 25
    unique = {(s["policy"], tuple(s.get("options", {}).items())) for s in [*table1.SETTINGS, *table2.SETTINGS]}
    chosen = [policy_settings(name, place, 10_000, dict(options)) for name, options in sorted(unique, key=str)]
    run_all(chosen, place, [0])
    started = time.perf_counter()
    run_all(chosen, place, range(seeds))
    seconds = time.perf_counter() - started
    return {
        "Tables 1 and 2": {
            "settings": len(chosen),
            "million rounds per second, all cores": round(len(chosen) * seeds * 10_000 / seconds / 1e6, 2),
            "seconds for 1,000 seeds (estimate)": round(seconds * 1000 / seeds),
        }
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    arguments = parser.parse_args()
    repeats = 5 if arguments.quick else 15
    found = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numba {numba.__version__}, load {os.getloadavg()[0]:.1f}"
    }
    sys.stdout.write(f"machine: {found['machine']}\n")
    for part in (against_others, scaling, noise_aware, serving, cores, memory, tables):
        numbers = part(repeats)
        found |= numbers
        for name, value in numbers.items():
            sys.stdout.write(f"{name}: {_shown(name, value)}\n")
            sys.stdout.flush()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2)


def _shown(name, value):
    if isinstance(value, dict):
        return ", ".join(f"{key}: {entry:,}" for key, entry in value.items())
    target = TARGETS.get(name)
    return f"{value:.2f}" + ("" if target is None else f" (target {target:g}: {'met' if value >= target else 'missed'})")


if __name__ == "__main__":
    main()
