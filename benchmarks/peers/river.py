"""river: LinUCBDisjoint, a Bayesian linear regression for each arm, NumPy."""

import sys

sys.path.append(sys.path.pop(0))

from river.bandit import LinUCBDisjoint
from stream import drive


class Peer:
    def __init__(self, dimension, candidates, seed, variant, weights):
        self.arms = list(range(candidates))
        self.bandit = LinUCBDisjoint(alpha=1.0, beta=1.0, seed=seed)

    def prepare(self, context, rows):
        return dict(enumerate(map(float, context)))

    def decide(self, context):
        return self.bandit.pull(self.arms, context=context), None

    def learn(self, context, arm, more, reward):
        self.bandit.update(arm, context, reward)


drive(Peer)
