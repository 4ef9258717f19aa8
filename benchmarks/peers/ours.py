"""adaprivate, by the same door as everybody: a policy object, decide, learn. Variant: POLICY or POLICY:secure."""

import numpy as np
from stream import drive

import adaprivate as ap


class Ours:
    def __init__(self, dimension, candidates, seed, variant, weights):
        name, _, source = variant.partition(":")
        noise = {"source": ap.mechanisms.Secure()} if source == "secure" else {"seed": seed}
        self.policy = ap.policy(name, dimension=dimension, rounds=20_000, **noise)

    def prepare(self, context, rows):
        return np.ascontiguousarray(rows)

    def decide(self, rows):
        decision = self.policy.decide(rows)
        return decision.action, decision

    def learn(self, rows, arm, decision, reward):
        self.policy.learn(decision, reward)


drive(Ours)
