"""MABWiser: LinTS and LinUCB, a ridge regression for each arm, inverted anew with every reward."""

import sys

sys.path.append(sys.path.pop(0))  # this file has the library's own name

from mabwiser.mab import MAB, LearningPolicy
from stream import drive


class Peer:
    def __init__(self, dimension, candidates, seed, variant, weights):
        kind = LearningPolicy.LinTS if variant == "lints" else LearningPolicy.LinUCB
        self.bandit = MAB(list(range(candidates)), kind(alpha=1.0, l2_lambda=1.0), seed=seed)
        none = [[0.0] * dimension] * candidates  # it must be fitted before it predicts; rows of zeros teach nothing
        self.bandit.fit(list(range(candidates)), [0] * candidates, none)

    def prepare(self, context, rows):
        return context[None]

    def decide(self, context):
        return self.bandit.predict(context), None

    def learn(self, context, arm, more, reward):
        self.bandit.partial_fit([arm], [reward], context)


drive(Peer)
