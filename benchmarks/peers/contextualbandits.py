"""contextualbandits: LinTS and LinUCB, a model for each arm in compiled code, float32, Sherman-Morrison."""

import sys

sys.path.append(sys.path.pop(0))

import numpy as np
from contextualbandits.online import LinTS, LinUCB
from stream import drive


class Peer:
    def __init__(self, dimension, candidates, seed, variant, weights):
        shared = {"fit_intercept": False, "method": "sm", "random_state": seed, "njobs": 1}
        if variant == "lints":
            self.bandit = LinTS(candidates, v_sq=1.0, lambda_=1.0, **shared)
        else:
            self.bandit = LinUCB(candidates, alpha=1.0, lambda_=1.0, **shared)
        first = np.arange(candidates)
        self.bandit.partial_fit(np.full((candidates, dimension), 1e-9), first, np.zeros(candidates))

    def prepare(self, context, rows):
        return context[None]

    def decide(self, context):
        return int(self.bandit.predict(context)[0]), None

    def learn(self, context, arm, more, reward):
        self.bandit.partial_fit(context, np.array([arm]), np.array([reward]))


drive(Peer)
