"""What protecting people costs: python benchmarks/people.py [--people 10000000] [--json FILE].

The ledger of so many people, who come evenly and about once, five and ten times: bytes a person, visits counted a second
(by processor time, compiled), with directions and without; and the whole engine beside single rewards, as ratios.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

from adaprivate import environments, mechanisms
from adaprivate.compiled import entry, kernel, normal, streams, uniform
from adaprivate.mechanisms.units.ledger import followed
from adaprivate.people.ledger import charge, empty_ledger
from adaprivate.people.shares import WAYS, gram, shares
from adaprivate.simulation import policy_settings, run_one

SIZE, BATCHES, VISITS = 21, 60, 10


@kernel
def turn(aim, rng):
    """A random direction."""
    square = 0.0
    for i in range(aim.shape[0]):
        aim[i] = normal(rng, 0)
        square += aim[i] * aim[i]
    for i in range(aim.shape[0]):
        aim[i] /= np.sqrt(square)


@entry
def visit_all(book, gram, shares, way, people, rounds, rng, aim):
    """So many rounds, each of somebody and along a random direction."""
    for t in range(rounds):
        turn(aim, rng)
        person = np.int64(uniform(rng, 1) * people)
        charge(book, gram, shares, way, person, t * BATCHES // rounds, aim)


@entry
def draw_all(people, rounds, rng, aim):
    """The same without a ledger."""
    total = 0
    for _ in range(rounds):
        turn(aim, rng)
        total += np.int64(uniform(rng, 1) * people)
    return total


def used(book):
    """Bytes of a ledger that hold something."""
    people, visits = int(book.scalars["people"][0]), int(book.scalars["visits"][0])
    per_person = sum(getattr(book, name).itemsize for name in ("numbers", "spent", "visits", "latest"))
    per_visit = book.before.itemsize + book.batches.itemsize + book.vectors.shape[1] * book.vectors.itemsize
    return people, visits, 8 * people + per_person * people + per_visit * visits  # two slots of 4 bytes for each person


def ledgers(people):
    """One row for each number of visits and way to weigh them."""
    strategy = mechanisms.strategy("sqrt", BATCHES)
    products = gram(followed(strategy.matrix() / strategy.sensitivity()))
    aim, rows = np.zeros(SIZE), []
    visit_all(empty_ledger(SIZE, 100, 100), products, shares("scalar", 3), 0, 10, 50, streams(0, 1, 2), aim)
    draw_all(10, 50, streams(0, 1, 2), aim)
    for visits, count in ((1, people), (5, people // 10), (10, people // 10)):
        rounds = visits * count
        started = time.process_time()
        draw_all(count, rounds, streams(1, 1, 2), aim)
        drawing = time.process_time() - started
        for way in ("scalar", "directions"):
            book = empty_ledger(SIZE, count, rounds)
            started = time.process_time()
            visit_all(book, products, shares(way, VISITS), WAYS.index(way), count, rounds, streams(1, 1, 2), aim)
            seconds = time.process_time() - started - drawing
            seen, counted, size = used(book)
            rows.append(
                {
                    "people": count,
                    "visits each": visits,
                    "way": way,
                    "people seen": seen,
                    "visits counted": counted,
                    "GB": round(size / 1e9, 3),
                    "bytes a person": round(size / seen, 1),
                    "million visits a second": round(rounds / seconds / 1e6, 3),
                }
            )
            print(rows[-1], flush=True)
            del book
    return rows


def engine(rounds=400_000, people=40_000):
    """Rounds a second of whole simulated policies, d 20, 5 candidates."""
    world = environments.environment("synthetic", {"people": people})
    cases = {
        "single rewards": {"channel": "gaussian"},
        "people, scalar": {"unit": "user", "weights": "scalar"},
        "people, directions": {"unit": "user"},
    }
    rows = []
    for name in ("noise-aware-greedy", "noise-aware"):
        base = None
        for case, options in cases.items():
            settings = policy_settings(name, world, rounds, {"epsilon": 1.0, **options})
            small = policy_settings(name, world, 2000, {"epsilon": 1.0, **options})
            run_one(small, world, 0, small.noise_tables([0])[0])
            best = min(run_one(settings, world, 1, settings.noise_tables([1])[0]).seconds for _ in range(3))
            base = base or best
            rows.append({"policy": name, "protects": case, "million rounds a second": round(rounds / best / 1e6, 3)})
            rows[-1]["times single rewards"] = round(best / base, 2)
            print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    found = {"ledger": ledgers(arguments.people), "engine": engine()}
    found["largest resident GB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)
    print(found["largest resident GB"], "GB resident at most")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)
