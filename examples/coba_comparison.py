"""Handwritten digits as a bandit in coba: our policies beside coba's own learners, on the same rows in the same order.

A learner sees a picture (16 grey values from -1 to 1, each the mean of four of scikit-learn's 8 x 8 pixels), names a digit,
and is told whether that was right. Needs coba and scikit-learn. Noise is simulated here: the pictures are nobody's.
"""

import argparse

import coba as cb
import numpy as np
from coba.primitives import Categorical
from sklearn.datasets import load_digits

from adaprivate.adapters import CobaLearner, plain_features

DIGITS = [Categorical(digit, list("0123456789")) for digit in "0123456789"]
NORM = 4.0  # of sixteen values from -1 to 1, at most


class Digits:
    """A coba environment: the pictures in the order of this seed."""

    def __init__(self, rows: int, seed: int) -> None:
        self.params = {"rows": rows, "order": seed}

    def read(self):
        """One interaction for each picture: reward 1 for its digit."""
        pictures, labels = load_digits(return_X_y=True)
        small = pictures.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 8 - 1
        order = np.random.default_rng(self.params["order"]).permutation(len(small))[: self.params["rows"]]
        for row in order:
            rewards = [float(label == labels[row]) for label in range(10)]
            yield cb.SimulatedInteraction(tuple(small[row].tolist()), DIGITS, rewards)


def run(rows: int, orders: int, epsilon: float) -> dict[str, tuple[float, float]]:
    """The share of right answers of each learner and its standard error over orders; printed, with what it says."""
    rows = min(rows, len(load_digits().target))
    features = plain_features(16, 10, NORM)
    ours = [
        CobaLearner(name, features, rounds=rows, seed=1, probabilities=False, **options)
        for name, options in [
            ("noise-aware", {"epsilon": epsilon}),
            ("rr-linucb", {"epsilon": epsilon}),
            ("linucb", {}),
            ("tuned-linucb", {}),
        ]
    ]
    theirs = [cb.RandomLearner(), cb.BanditEpsilonLearner(0.1), cb.BanditUCBLearner(), cb.LinUCBLearner(alpha=0.3)]
    experiment = cb.Experiment([Digits(rows, seed) for seed in range(orders)], [*theirs, *ours], cb.SequentialCB("reward"))
    result = experiment.run(quiet=True, processes=1)
    families = {one["learner_id"]: one["family"] for one in result.learners.to_dicts()}
    private = ["not private"] * len(theirs)
    private += [f"epsilon {one.params['epsilon']:g}" if one.settings.private else "not private" for one in ours]
    found: dict[int, dict[int, list[float]]] = {}
    for one in result.interactions.to_dicts():
        found.setdefault(one["learner_id"], {}).setdefault(one["environment_id"], []).append(one["reward"])
    table = {}
    print(f"{rows} digits, {orders} orders: the share of right answers while learning\n")
    for learner, by_order in found.items():
        shares = np.array([np.mean(rewards) for rewards in by_order.values()])
        error = float(shares.std(ddof=1) / np.sqrt(orders)) if orders > 1 else float("nan")
        name = families[learner] if learner < len(theirs) else f"adaprivate {families[learner]}"
        table[name] = (float(shares.mean()), error)
        print(f"  {name:26}{shares.mean():8.3f} ± {error:.3f}   {private[learner]}")
    ahead, simple = table["adaprivate noise-aware"], table["adaprivate rr-linucb"]
    apart = 2 * np.hypot(ahead[1], simple[1])
    verdict = "ahead of" if ahead[0] - simple[0] > apart else "behind" if simple[0] - ahead[0] > apart else "level with"
    best = max(table, key=lambda name: table[name][0])
    print(f"\nnoise-aware is {verdict} plain randomised response (rr-linucb), the simplest private learner there is.")
    print(f"The best, {best}, answers {table[best][0] / max(ahead[0], 1e-9):.1f} times as many rightly as noise-aware.")
    print(f"Guessing has {table['Random'][0]:.3f}; learners that do not look at the picture can have little more.")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_797, help="pictures in each order")
    parser.add_argument("--orders", type=int, default=3, help="orders of the pictures")
    parser.add_argument("--epsilon", type=float, default=1.0)
    run(**vars(parser.parse_args()))
