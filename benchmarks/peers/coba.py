"""coba: its LinUCB (one shared model on the arms' features, NumPy, Sherman-Morrison), and Vowpal Wabbit through it."""

import sys

sys.path.append(sys.path.pop(0))

from coba.learners import LinUCBLearner, VowpalSquarecbLearner
from stream import drive


class Peer:
    def __init__(self, dimension, candidates, seed, variant, weights):
        if variant == "linucb":
            self.learner = LinUCBLearner(alpha=1, features=["a"], seed=seed)
        else:
            self.learner = VowpalSquarecbLearner(features=["a"], seed=seed)

    def prepare(self, context, rows):
        return [tuple(map(float, row)) for row in rows]

    def decide(self, actions):
        action, *more = self.learner.predict(None, actions)
        return actions.index(action), more

    def learn(self, actions, arm, more, reward):
        odds, *kept = more
        self.learner.learn(None, actions[arm], reward, odds, **(kept[0] if kept else {}))


drive(Peer)
