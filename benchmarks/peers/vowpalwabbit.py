"""Vowpal Wabbit: --cb_explore_adf on the arms' features, one shared linear model of float32, a gradient step a reward."""

import random
import sys

sys.path.append(sys.path.pop(0))

from stream import drive
from vowpalwabbit import Workspace

WAYS = {"squarecb": "--squarecb", "regcbopt": "--regcbopt --mellowness 0.1", "epsilon-greedy": "--epsilon 0.05"}


class Peer:
    def __init__(self, dimension, candidates, seed, variant, weights):
        self.bandit = Workspace(f"--cb_explore_adf {WAYS[variant]} --cb_type mtr --noconstant --quiet --random_seed {seed}")
        self.random = random.Random(seed)

    def prepare(self, context, rows):
        return [" |a " + " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row)) for row in rows]

    def decide(self, lines):
        examples = self.bandit.parse(lines)  # once: the label is added to what was predicted on
        odds = self.bandit.predict(examples)
        arm = self.random.choices(range(len(odds)), odds)[0]
        return arm, (examples, odds[arm])

    def learn(self, lines, arm, more, reward):
        examples, odds = more
        examples[arm].set_label_string(f"0:{-reward}:{odds}")
        self.bandit.learn(examples)
        self.bandit.finish_example(examples)


drive(Peer)
