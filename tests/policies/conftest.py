"""Shared by the tests of this folder: a world replayed without any policy, and small policies to play with."""

from types import SimpleNamespace

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.compiled import entry, streams
from adaprivate.environments.protocol import draw
from adaprivate.mechanisms import Secure
from adaprivate.purposes import Purpose
from adaprivate.runtime.policy import Policy


@entry
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
    policy.advance()
    return actions


def leaves(state):
    """The arrays of a state, nested or not, by the names of their fields."""
    if not isinstance(state, tuple):
        return {"": state}
    return {
        f"{field}.{rest}".rstrip("."): leaf
        for field, part in zip(state._fields, state, strict=True)
        for rest, leaf in leaves(part).items()
    }


def assert_same_state(one, other, rtol=0.0, atol=None, without=()):
    """Two states have the same fields, and in them the same numbers (to a tolerance); records field by field."""
    mine, theirs = leaves(one), leaves(other)
    assert mine.keys() == theirs.keys()
    for field, leaf in mine.items():
        if field in without:
            continue
        assert leaf.dtype == theirs[field].dtype
        for name in leaf.dtype.names or (...,):
            np.testing.assert_allclose(
                leaf[name], theirs[field][name], rtol=rtol, atol=rtol if atol is None else atol, err_msg=f"{field}.{name}"
            )


def everything(policy):
    """All that a policy remembers, as plain values: equal before and after means nothing was touched."""
    parts = [leaf.tolist() for leaf in leaves(policy.state).values()]
    parts += [policy._engine.rng.tolist(), policy.round, policy.decided, policy.clipped, policy.version]
    if policy.source is not None:
        parts += [policy.book.to_bytes(), policy.book.plan.to_bytes(), policy.learner.to_bytes()]
    return [
        *parts,
        [(*e.decision[:4], e.decision.features.tolist(), e.features.tolist(), e.reward) for e in policy._open.values()],
    ]


@pytest.fixture(scope="session")
def kit():
    """The functions above."""
    return SimpleNamespace(
        made=made, offers=offers, play=play, everything=everything, leaves=leaves, assert_same_state=assert_same_state
    )
