"""What a policy refuses, and that a refusal leaves no trace."""

import fractions
import math

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.policies.core.linear import TOTAL
from adaprivate.policies.core.policy import Policy

D = 5
BAD_CANDIDATES = [
    np.zeros((0, D)),
    np.zeros((3, D + 1)),
    np.zeros((3, D - 1)),
    np.zeros(D),
    np.zeros((1, 3, D)),
    [],
    None,
    "text",
    [["a"] * D],
    [[0.0] * D, [0.0]],
    [[None] * D],
    [[math.nan] + [0.0] * (D - 1)],
    [[0.0] * D, [0.0] * (D - 1) + [math.inf]],
    [[-math.inf] + [0.0] * (D - 1)],
    [[1e200] * D],
    [[10**400] + [0] * (D - 1)],
]
BAD_REWARDS = [-1e-9, 1 + 1e-9, 2, -1, math.nan, math.inf, "1", "", True, False, [0.5], np.array([0.5, 0.5]), 1j, 10**400]
POLICIES = [{}, {"name": "linucb"}, {"secure": True}]


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
@pytest.mark.parametrize("bad", BAD_CANDIDATES, ids=[str(i) for i in range(len(BAD_CANDIDATES))])
@pytest.mark.parametrize("opened", [False, True], ids=["none-open", "one-open"])
def test_bad_candidates_are_refused_without_a_trace(kit, build, bad, opened):
    policy = kit.made(**build)
    candidates, rewards = kit.offers(3)
    kit.play(policy, candidates, rewards)
    if opened:
        policy.decide(candidates[0])
    before = kit.everything(policy)
    with pytest.raises(InputError, match=r"^Expected candidates"):
        policy.decide(bad)
    assert kit.everything(policy) == before


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
@pytest.mark.parametrize("bad", BAD_REWARDS, ids=[str(i) for i in range(len(BAD_REWARDS))])
def test_bad_rewards_are_refused_without_a_trace(kit, build, bad):
    policy = kit.made(**build)
    decision = policy.decide(kit.offers()[0][0])
    before = kit.everything(policy)
    with pytest.raises(InputError, match=r"^Expected reward="):
        policy.learn(decision, bad)
    assert kit.everything(policy) == before
    policy.learn(decision, 1.0)


@pytest.mark.parametrize("reward", [0, 1, 0.5, np.float64(0.5), np.float32(0.5), np.int64(1), fractions.Fraction(1, 2)])
def test_any_number_in_range_is_a_reward(kit, reward):
    one, two = kit.made(), kit.made()
    one.learn(one.decide(kit.offers()[0][0]), reward)
    two.learn(two.decide(kit.offers()[0][0]), float(reward))
    assert kit.everything(one) == kit.everything(two)


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
def test_a_decision_is_learned_once_and_only_the_open_one(kit, build):
    policy = kit.made(**build)
    candidates, _ = kit.offers()
    first = policy.decide(candidates[0])
    policy.learn(first, 1.0)
    second = policy.decide(candidates[1])
    before = kit.everything(policy)
    with pytest.raises(InputError, match=r"^Expected decision\.round=0 == 1"):
        policy.learn(first, 1.0)
    assert kit.everything(policy) == before
    policy.learn(second, 0.0)
    before = kit.everything(policy)
    with pytest.raises(InputError, match=r"^Expected decision\.round=1 "):
        policy.learn(second, 0.0)
    assert kit.everything(policy) == before


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
def test_only_the_policys_own_features_are_learned(kit, build):
    """A decision that was altered, or made by another policy, must not bring in features of its own."""
    policy = kit.made(**build)
    decision = policy.decide(kit.offers()[0][0])
    before = kit.everything(policy)
    other = Policy(policies.settings("lints", {"dimension": D + 3, "rounds": 9}), seed=0, source=None)
    foreign = other.decide(np.eye(D + 3))
    for forged in (decision._replace(features=np.full(D, 9.0)), foreign, decision._replace(features=np.zeros(1))):
        try:
            policy.learn(forged, 1.0)
        except InputError:
            assert kit.everything(policy) == before
            continue
        x = policy.state.vectors[TOTAL]
        np.testing.assert_allclose(x, decision.features, atol=1e-12)  # it was the open decision that was learned
        policy = kit.made(**build)
        decision = policy.decide(kit.offers()[0][0])
        before = kit.everything(policy)
