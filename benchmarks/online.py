"""Deciding and learning from Python, simulated and with exact noise: python benchmarks/online.py [--quick] [--json FILE].

What is compared takes turns in one run; processor time. "Between releases" is the best of several turns in which no batch
was released (unless every round is a release), "with releases" the mean of all turns, from round 1,000 on: noise is drawn
there, and early batches are short. Targets are judged with releases. Percentiles are of single calls by the clock on the
wall: whatever else the machine does is in them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import sys
import time
import warnings

import numpy as np

import adaprivate
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from measuring import target

SIZES = ((20, 5), (5, 25), (100, 10))
NAMES = ("adaprivate-ts", "noise-aware", "noise-aware-ts", "rr-linucb", "linucb", "user")
PEOPLE, TURN, BEGUN = 5_000, 200, 1_000


def made(name, d, exact, reward_window=0):
    """A policy; "user" is noise-aware, for people."""
    given = {"dimension": d, "rounds": 200_000, "reward_window": reward_window} | (
        {"source": Secure()} if exact else {"seed": 1}
    )
    if name == "user":
        return adaprivate.policy("noise-aware", epsilon=1.0, delta=1e-6, unit="user", **given)
    if name != "linucb":
        given["epsilon"] = 1.0
    if name not in ("linucb", "rr-linucb"):
        given["delta"] = 1e-6
    if name == "adaprivate-ts":
        given["batch_size"] = 300
    return adaprivate.policy(name, **given)


class Course:
    """A policy on its way, with what it is offered."""

    def __init__(self, name, d, k, exact):
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((512, k, d))
        self.offered = list(rows / np.linalg.norm(rows, axis=-1, keepdims=True))
        self.rewards = rng.integers(2, size=512).astype(float).tolist()
        self.policy, self.people, self.at = made(name, d, exact), name == "user", 0
        self.best, self.best_learn, self.total, self.turns = math.inf, math.inf, 0.0, 0
        self.waiting = made(name, d, exact, reward_window=TURN)
        self.go(BEGUN)

    def go(self, count):
        """So many decisions, each learned at once."""
        decide, learn = self.policy.decide, self.policy.learn
        for i in range(self.at, self.at + count):
            decision = decide(self.offered[i % 512], user=i % PEOPLE) if self.people else decide(self.offered[i % 512])
            learn(decision, self.rewards[i % 512])
        self.at += count

    def turn(self):
        """Take a turn, timed; turns without a release compete for the best."""
        before, started = self.policy.version, time.process_time()
        self.go(TURN)
        spent = (time.process_time() - started) / TURN * 1e6
        every = self.policy.version - before >= TURN  # each round is a release, by its nature
        if self.policy.version == before or every:
            self.best = min(self.best, spent)
        self.total, self.turns = self.total + spent, self.turns + 1
        self.best_learn = min(self.best_learn, self.lessons())

    def lessons(self):
        """What learning takes by itself, of a policy whose rewards may wait."""
        decisions = [self.waiting.decide(self.offered[i], **({"user": i} if self.people else {})) for i in range(TURN)]
        learn, started = self.waiting.learn, time.process_time()
        for i, decision in enumerate(decisions):
            learn(decision, self.rewards[i])
        return (time.process_time() - started) / TURN * 1e6

    def percentiles(self, count):
        """p50, p99 and p99.9 of decide and of learn, in microseconds."""
        spent = np.zeros((2, count))
        for n in range(count):
            i = self.at + n
            user = {"user": i % PEOPLE} if self.people else {}
            begun = time.perf_counter()
            decision = self.policy.decide(self.offered[i % 512], **user)
            middle = time.perf_counter()
            self.policy.learn(decision, self.rewards[i % 512])
            spent[:, n] = middle - begun, time.perf_counter() - middle
        self.at += count
        shares = np.percentile(spent * 1e6, (50, 99, 99.9), axis=1).round(1)
        return {
            part: dict(zip(("p50", "p99", "p99.9"), shares[:, n].tolist(), strict=True)) for n, part in enumerate(PARTS)
        }


PARTS = ("decide", "learn")
WITH = "decide and learn, with releases"


def compared(name, d, k, turns, count):
    """Simulated and exact noise, taking turns, in microseconds."""
    courses = {}
    for exact in (False, True):
        with contextlib.suppress(InputError):
            courses["exact" if exact else "simulated"] = Course(name, d, k, exact)
    for _ in range(turns):
        for course in courses.values():
            course.turn()
    found = {}
    for kind, course in courses.items():
        found[kind] = {
            "decide and learn, between releases": round(course.best, 2),
            WITH: round(course.total / course.turns, 2),
            "learn": round(course.best_learn, 2),
            "latency": course.percentiles(count),
        }
    if len(found) == 2:
        one, other = found["exact"], found["simulated"]
        for part in ("decide and learn, between releases", WITH, "learn"):
            found[f"exact / simulated, {part}"] = round(one[part] / other[part], 2)
    return found


class _Kept(logging.Handler):
    def emit(self, record):
        self.format(record)


def logging_cost(turns):
    """What a decision costs more where public events are logged: by randomised response, each is a release."""
    log = logging.getLogger("adaprivate")
    handler, course, level = _Kept(), Course("rr-linucb", 20, 5, False), log.level
    best = {"off": math.inf, "on": math.inf}
    try:
        for _ in range(turns):
            for kind in best:
                log.setLevel(logging.DEBUG if kind == "on" else logging.WARNING)
                (log.addHandler if kind == "on" else log.removeHandler)(handler)
                started = time.process_time()
                course.go(TURN)
                best[kind] = min(best[kind], (time.process_time() - started) / TURN * 1e6)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return {kind: round(value, 2) for kind, value in best.items()}


def measured(quick: bool) -> dict:
    """All of it, by size and policy, in microseconds."""
    turns, count = (10, 1_000) if quick else (40, 5_000)
    sizes = SIZES[:1] if quick else SIZES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {f"d {d} K {k}": {name: compared(name, d, k, turns, count) for name in NAMES} for d, k in sizes}
        notes = __doc__.partition("\n\n")[2].replace("\n", " ").strip()
        return found | {"a release logged, rr-linucb": logging_cost(turns), "targets": list(goals(found)), "notes": notes}


def goals(found):
    """Exact noise at most twice simulated, in learning alone and in all there is."""
    for size, policies in found.items():
        for name, values in policies.items():
            for part in ("learn", WITH):
                if f"exact / simulated, {part}" in values:
                    yield target(
                        f"{size}, {name}: exact over simulated, {part}", values[f"exact / simulated, {part}"], most=2.0
                    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    found = measured(arguments.quick)
    for size, policies in found.items():
        if size in ("targets", "notes"):
            continue
        sys.stdout.write(f"{size}\n")
        for name, values in policies.items():
            sys.stdout.write(f"  {name}: {json.dumps(values)}\n")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
