"""The work that every library does: a stream that models with one parameter for all, and with one for each arm, can learn.

A context x of length 1, and K arms with public weights s between 1/2 and 1, or minus that: arm k has the features x * s_k
and a click with probability 1 / (1 + exp(-theta' (x * s_k))). A library that knows features of arms is shown those K rows;
one that keeps a model for each arm is shown x, and arm k's parameter is theta * s_k. So all can learn the same clicks, but
those with a model for each arm have K times as much to learn.
"""

from __future__ import annotations

import argparse
import json
import math
import time

import numpy as np

CHUNK, WARM, COMPARED = 100, 300, 1_000
"""Rounds prepared at once; those before the clock starts; and those whose regret is compared."""


def rounds_of(dimension, candidates, seed, first, count):
    """Contexts, rows, mean rewards and uniform numbers of some rounds: the same for everyone."""
    rng = np.random.default_rng([seed, 0])
    theta = rng.standard_normal(dimension)
    theta *= 4 * math.sqrt(dimension) / np.linalg.norm(theta) / math.sqrt(5)
    weights = rng.choice([-1.0, 1.0], (candidates, dimension)) * rng.uniform(0.5, 1.0, (candidates, dimension))
    rng = np.random.default_rng([seed, 1, first])
    contexts = rng.standard_normal((count, dimension))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    rows = contexts[:, None, :] * weights
    return contexts, rows, 1 / (1 + np.exp(-(rows @ theta))), rng.random(count), weights


def overhead():
    """Processor seconds of reading the clock."""
    started = time.thread_time()
    for _ in range(2_000):
        time.thread_time()
    return (time.thread_time() - started) / 2_001


def drive(make):
    """What a library's driver calls: ``make(dimension, candidates, seed, variant, weights)`` has prepare, decide and learn.

    ``prepare(context, rows)`` gives the round in the library's own form, before the clock starts; ``decide(round)`` an arm
    and whatever else; ``learn(round, arm, that, reward)``.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variant", default="")
    asked = parser.parse_args()
    d, count = asked.dimension, asked.candidates
    *_, weights = rounds_of(d, count, asked.seed, 0, 1)
    learner = make(d, count, asked.seed, asked.variant, weights)
    clock, read = time.process_time, overhead()
    spent = whole = split = decided = learned = compared = regret = chance = clicks = 0.0
    played = 0
    while played < asked.rounds and (spent < asked.seconds or played < COMPARED):
        contexts, rows, means, numbers, _ = rounds_of(d, count, asked.seed, played, CHUNK)
        clicked = numbers[:, None] < means
        prepared = [learner.prepare(contexts[t], rows[t]) for t in range(CHUNK)]
        chosen = []
        apart = (played // CHUNK) % 2 == 1
        started = clock()
        if apart:
            for t in range(CHUNK):
                at = time.thread_time()
                arm, more = learner.decide(prepared[t])
                middle = time.thread_time()
                learner.learn(prepared[t], arm, more, 1.0 if clicked[t, arm] else 0.0)
                end = time.thread_time()
                chosen.append(arm)
                if played >= WARM:
                    decided += middle - at - read
                    learned += end - middle - read
        else:
            for t in range(CHUNK):
                arm, more = learner.decide(prepared[t])
                learner.learn(prepared[t], arm, more, 1.0 if clicked[t, arm] else 0.0)
                chosen.append(arm)
        seconds = clock() - started
        spent += seconds
        if played >= WARM and apart:
            split += CHUNK
        elif played >= WARM:
            whole += CHUNK
            compared += seconds
        if played < COMPARED:
            picked = means[np.arange(CHUNK), chosen]
            regret += float((means.max(axis=1) - picked).sum())
            chance += float((means.max(axis=1) - means.mean(axis=1)).sum())
            clicks += float(clicked[np.arange(CHUNK), chosen].sum())
        played += CHUNK
    found = {"round": compared / whole, "decide": decided / split, "learn": learned / split, "rounds": played}
    found |= {"regret": regret, "regret of chance": chance, "clicks": clicks}
    print(json.dumps(found))
