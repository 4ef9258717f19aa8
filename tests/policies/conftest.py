"""Shared by the tests of this folder: a world replayed without any policy, and small policies to play with."""

from types import SimpleNamespace

import numba
import numpy as np
import pytest

from adaprivate import policies
from adaprivate.compiled import streams
from adaprivate.environments.protocol import draw
from adaprivate.mechanisms import Secure
from adaprivate.policies.core.policy import Policy
from adaprivate.purposes import Purpose


@numba.njit(nogil=True)
def _play(world, candidates, means, rewards, rng):
    for t in range(len(means)):
        draw(world, t, candidates[t], means[t], rewards[t], rng)


@pytest.fixture(scope="session")
def replay():
    """replay(environment, seed, rounds) -> candidates (T, K, d), means (T, K), rewards (T, K) of that seed's world."""

    def replayed(environment, seed, rounds):
        shape = (rounds, environment.candidates)
        candidates, means, rewards = np.empty((*shape, environment.dimension)), np.empty(shape), np.empty(shape)
        _play(environment.world(seed), candidates, means, rewards, streams(seed, Purpose.ROUNDS, Purpose.REWARDS))
        return candidates, means, rewards

    return replayed


D, ROUNDS = 5, 60


def made(name="adaprivate-ts", seed=0, secure=False, **options):
    """A policy of dimension 5 for 60 rounds, in batches of 7."""
    batches = {"batch_size": 7} if name.startswith("adaprivate") else {}
    settings = policies.settings(name, {"dimension": D, "rounds": ROUNDS, **batches, **options})
    return Policy(settings, seed=None if secure else seed, source=Secure() if secure else None)


def offers(rounds=ROUNDS, seed=0):
    """Four candidates and a reward for each round."""
    rng = np.random.default_rng([seed, 99])
    return 0.4 * rng.standard_normal((rounds, 4, D)), rng.uniform(size=rounds)


def play(policy, candidates, rewards):
    """Decide and learn, round after round."""
    actions = []
    for offered, reward in zip(candidates, rewards, strict=True):
        decision = policy.decide(offered)
        policy.learn(decision, float(reward))
        actions.append(decision.action)
    return actions


def everything(policy):
    """All that a policy remembers, as plain values: equal before and after means nothing was touched."""
    parts = [leaf.tolist() for leaf in policy.state] + [policy._rng.tolist(), policy.round, policy.clipped, policy.version]
    if policy.source is not None:
        parts += [repr(policy._mechanism.state), policy._batch.state().tolist()]
    opened = policy.open_decision
    return [*parts, None if opened is None else (*opened[:4], opened.features.tolist())]


@pytest.fixture(scope="session")
def kit():
    """The functions above."""
    return SimpleNamespace(made=made, offers=offers, play=play, everything=everything)
