"""Algorithm 1 and its relatives on the synthetic world, everything written into one numba loop.

``batch`` 0: every reward is learned at once, and nothing is released (``lints``, ``linucb``).
"""

from __future__ import annotations

import math
import time

import numba
import numpy as np

from adaprivate.compiled import _FAST, below, normal, streams, uniform
from adaprivate.purposes import Purpose

KINDS = {"adaprivate-ts": "thompson", "lints": "thompson", "adaprivate-ucb": "optimistic", "linucb": "optimistic"}


@numba.njit(nogil=True, forceinline=True, fastmath=_FAST, error_model="numpy")
def offer(offered, order, shared):
    for a in range(offered.shape[0]):
        swap = a + below(shared, 0, order.shape[0] - a)
        arm = order[swap]
        order[swap] = order[a]
        order[a] = arm
        offered[a] = arm


@numba.njit(nogil=True, forceinline=True, fastmath=_FAST, error_model="numpy")
def along(S, x, phi):
    """phi = S' x, and its square."""
    d = phi.shape[0]
    for j in range(d):
        phi[j] = 0.0
    for i in range(d):
        for j in range(d):
            phi[j] += S[i, j] * x[i]
    square = 0.0
    for j in range(d):
        square += phi[j] * phi[j]
    return square


@numba.njit(nogil=True, forceinline=True, fastmath=_FAST, error_model="numpy")
def learn(S, w, phi, x, reward, total, batch, t, noise):
    """One row more in S, its reward in what is learned from; at the end of a batch a release."""
    d = w.shape[0]
    grown = 1.0 + along(S, x, phi)
    gain = 1.0 / (grown + math.sqrt(grown))
    pulled = 0.0
    for j in range(d):
        pulled += phi[j] * w[j]
    for i in range(d):
        pull = 0.0
        for j in range(d):
            pull += S[i, j] * phi[j]
        pull *= gain
        for j in range(d):
            S[i, j] -= pull * phi[j]
    credit = 0.0 if batch else reward / math.sqrt(grown)
    for j in range(d):
        w[j] += (credit - gain * pulled) * phi[j]
    if batch:
        for j in range(d):
            total[j] += reward * x[j]
        if (t + 1) % batch == 0:
            release = (t + 1) // batch - 1
            for j in range(d):
                w[j] = 0.0
            for i in range(d):
                seen = total[i] + noise[release, i]
                for j in range(d):
                    w[j] += S[i, j] * seen


@numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")
def thompson(arms, arm_means, order, rounds, count, batch, noise, own, shared):
    d = arms.shape[1]
    S, w, phi, z, total, theta = np.eye(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    offered = np.zeros(count, np.int64)
    regret = 0.0
    for t in range(rounds):
        offer(offered, order, shared)
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
            arm = offered[a]
            score = 0.0
            for j in range(d):
                score += arms[arm, j] * theta[j]
            best = max(best, arm_means[arm])
            if score > top:
                top, chosen = score, arm
        mean = arm_means[chosen]
        regret += best - mean
        learn(S, w, phi, arms[chosen], 1.0 if u < mean else 0.0, total, batch, t, noise)
    return regret


@numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")
def optimistic(arms, arm_means, order, rounds, count, batch, noise, own, shared):
    d = arms.shape[1]
    S, w, phi, total = np.eye(d), np.zeros(d), np.zeros(d), np.zeros(d)
    offered = np.zeros(count, np.int64)
    regret = 0.0
    for t in range(rounds):
        offer(offered, order, shared)
        u = uniform(shared, 1)
        top, best, chosen = -np.inf, 0.0, 0
        for a in range(count):
            arm = offered[a]
            width = math.sqrt(along(S, arms[arm], phi))
            score = width
            for j in range(d):
                score += phi[j] * w[j]
            best = max(best, arm_means[arm])
            if a == 0 or score > top + 1e-12 * (1.0 + abs(top)):
                top, chosen = score, arm
        mean = arm_means[chosen]
        regret += best - mean
        learn(S, w, phi, arms[chosen], 1.0 if u < mean else 0.0, total, batch, t, noise)
    return regret


def play(policy, place, seed, noise):
    """Processor seconds of the rounds of one run, and its regret: the engine's, to the last figures."""
    state = place.world(seed)
    own = streams(seed, Purpose.EXPLORATION, Purpose.CHOICE)
    shared = streams(seed, Purpose.ROUNDS, Purpose.REWARDS)
    loop = thompson if KINDS[policy.name] == "thompson" else optimistic
    batch = getattr(policy, "batch_size", 0)
    order, table = state.order.copy(), np.ascontiguousarray(noise.reshape(-1, place.dimension))
    given = state.arms, state.means, order, policy.rounds, place.candidates, batch, table, own, shared
    started = time.thread_time()
    regret = loop(*given)
    return time.thread_time() - started, regret
