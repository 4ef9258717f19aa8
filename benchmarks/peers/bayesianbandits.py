"""bayesianbandits: one shared Bayesian linear regression on the arms' features, Thompson sampling or an upper quantile."""

import sys

sys.path.append(sys.path.pop(0))

import numpy as np
from bayesianbandits import (
    Arm,
    FunctionArmFeaturizer,
    LipschitzContextualAgent,
    NormalRegressor,
    ThompsonSampling,
    UpperConfidenceBound,
)
from stream import drive


class Peer:
    def __init__(self, dimension, candidates, seed, variant, weights):
        def features(contexts, arms):
            return np.stack([contexts * weights[arm] for arm in arms], axis=2)

        self.agent = LipschitzContextualAgent(
            arms=[Arm(arm) for arm in range(candidates)],
            policy=ThompsonSampling() if variant == "lints" else UpperConfidenceBound(0.84),
            arm_featurizer=FunctionArmFeaturizer(features),
            learner=NormalRegressor(alpha=1.0, beta=1.0),
            random_seed=seed,
        )

    def prepare(self, context, rows):
        return context[None]

    def decide(self, context):
        return self.agent.pull(context)[0], None

    def learn(self, context, arm, more, reward):
        self.agent.select_for_update(arm).update(context, np.array([reward]))


drive(Peer)
