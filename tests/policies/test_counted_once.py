"""Whatever interrupts a lesson, no event is counted twice; and what simulation rests on is checked."""

import numpy as np
import pytest

import adaprivate
from adaprivate import environments
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.policies.core import policy as module
from adaprivate.simulation import percent_of, policy_settings, run_all


def test_an_interrupted_lesson_is_not_repeated(monkeypatch):
    policy = adaprivate.policy("adaprivate-ts", dimension=3, rounds=50, batch_size=10, source=Secure())
    decision = policy.decide(np.eye(3))
    policy.learn(decision, 1.0)
    decision = policy.decide(np.eye(3))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "_learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            policy.learn(decision, 1.0)
    with pytest.raises(InputError, match="open decision"):
        policy.learn(decision, 1.0)
    assert sum(policy._batch.state()) <= 2 * 2**20


def test_altering_the_features_of_a_decision_changes_nothing():
    one, two = (adaprivate.policy("lints", dimension=3, rounds=50, seed=0) for _ in range(2))
    altered, plain = one.decide(np.eye(3)), two.decide(np.eye(3))
    altered.features[:] = 5
    one.learn(altered, 1.0)
    two.learn(plain, 1.0)
    assert np.array_equal(one.state.vectors[1], two.state.vectors[1])


def test_features_too_long_for_the_guarantee_stop_a_simulation():
    world = environments.environment("synthetic", {"dimension": 3})

    class Long:
        name, dimension, candidates = "long", 3, 5

        def world(self, seed):
            made = world.world(seed)
            return made._replace(arms=10 * made.arms)

    with pytest.raises(InputError, match=r"features\|\^2=.* <= 1 in long"):
        run_all([policy_settings("adaprivate-ts", world, 400, {"batch_size": 100})], Long(), [0])


def test_percentages_need_the_same_seeds():
    world = environments.environment("synthetic", {"dimension": 3})
    runs = run_all([policy_settings("random", world, 50, {})], world, range(3))[0]
    with pytest.raises(InputError, match="those of the baseline"):
        percent_of(runs, runs[:2])


def test_interruptions_pass_through_unless_finished_work_is_wanted():
    world = environments.environment("synthetic", {"dimension": 3})

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([policy_settings("random", world, 50, {})], world, range(40), jobs=1, progress=stop)
