"""What a policy refuses, and that a refusal leaves no trace."""

import fractions
import math

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.mechanisms.noise import EVENT_BITS
from adaprivate.runtime.policy import Policy

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
BAD_REWARDS = [-1e-9, 1 + 1e-9, 2, -1, math.nan, math.inf, "1", "", [0.5], np.array([0.5, 0.5]), 1j, 10**400, -(10**400)]
REFUSED = r"^Expected reward to be a number from 0 to 1, or a bool, or .*; it is private and not repeated here\.$"
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


def test_one_vector_is_told_to_be_a_row(kit):
    with pytest.raises(InputError, match=r": one row per candidate, for example \[\[1, 0, 0\]\]\.$"):
        kit.made().decide([0.1] * D)


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
@pytest.mark.parametrize("bad", BAD_REWARDS, ids=[str(i) for i in range(len(BAD_REWARDS))])
def test_bad_rewards_are_refused_without_a_trace(kit, build, bad):
    policy = kit.made(**build)
    decision = policy.decide(kit.offers()[0][0])
    before = kit.everything(policy)
    with pytest.raises(InputError, match=REFUSED):
        policy.learn(decision, bad)
    assert kit.everything(policy) == before
    policy.learn(decision, 1.0)


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
def test_a_round_that_was_observed_took_place_whatever_its_reward(kit, build):
    """Were it dropped, which rounds make up a batch would depend on rewards: a refused one counts as missing."""
    one, two = kit.made(**build), kit.made(**build)
    with pytest.raises(InputError, match=REFUSED):
        one.observe(np.full(5, 0.1), 2.0)
    two.observe(np.full(5, 0.1), None)
    for policy in (one, two):
        policy.advance()
    assert (one.round, one.decided, one.version) == (two.round, two.decided, two.version) == (1, 1, 0)
    if build.get("secure") is None:
        assert kit.everything(one) == kit.everything(two)


@pytest.mark.parametrize(
    "reward", [0, 1, 0.5, np.float64(0.5), np.float32(0.5), np.int64(1), fractions.Fraction(1, 2), True, False, np.True_]
)
def test_any_number_in_range_is_a_reward(kit, reward):
    one, two = kit.made(), kit.made()
    one.learn(one.decide(kit.offers()[0][0]), reward)
    two.learn(two.decide(kit.offers()[0][0]), float(reward))
    assert kit.everything(one) == kit.everything(two)
    one.advance()
    two.advance()
    assert kit.everything(one) == kit.everything(two)


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
def test_a_decision_is_learned_once_and_only_the_open_one(kit, build):
    policy = kit.made(**build)
    candidates, _ = kit.offers()
    first = policy.decide(candidates[0])
    policy.learn(first, 1.0)
    second = policy.decide(candidates[1])
    before = kit.everything(policy)
    with pytest.raises(
        InputError, match=r"^Expected decision\.round=0 to be open: round 1 is \(reward_window=0, and several"
    ):
        policy.learn(first, 1.0)
    assert kit.everything(policy) == before
    policy.learn(second, 0.0)
    before = kit.everything(policy)
    with pytest.raises(InputError, match=r"^Expected decision\.round=1 to be learned once: a reward, or None"):
        policy.learn(second, 0.0)
    assert kit.everything(policy) == before
    policy.advance()
    before = kit.everything(policy)
    with pytest.raises(InputError, match=r"^Expected decision\.round=1 to be open: none is\.$"):
        policy.learn(second, 0.0)
    assert kit.everything(policy) == before


@pytest.mark.parametrize("build", POLICIES, ids=["simulated", "plain", "secure"])
def test_only_the_policys_own_features_are_learned(kit, build):
    """A decision that was altered must not bring in features of its own; one made by another policy is refused."""
    offered = kit.offers()[0][0]
    policy = kit.made(**build)
    decision = policy.decide(offered)
    before = kit.everything(policy)
    other = Policy(policies.settings("lints", {"dimension": D + 3, "rounds": 9}), seed=0, source=None)
    twin = kit.made(**build)
    for foreign in (other.decide(np.eye(D + 3)), twin.decide(offered)):
        with pytest.raises(
            InputError, match=r"^Expected decision to be one of policy [0-9a-f]{12}, not of [0-9a-f]{12}\.$"
        ):
            policy.learn(foreign, 1.0)
        assert kit.everything(policy) == before
    for features in (np.full(D, 9.0), np.zeros(1)):
        policy = kit.made(**build)
        decision = policy.decide(offered)
        policy.learn(decision._replace(features=features), 1.0)
        policy.advance()
        x = decision.features
        if policy.source is not None:  # it was the open decision that was learned
            np.testing.assert_allclose(policy.book._collector.state().astype(float) / 2**EVENT_BITS, x, atol=2.0**-18)
        elif build:
            np.testing.assert_allclose(policy.state.learner.rotated, x, atol=1e-12)  # S'x with S = I
        else:
            np.testing.assert_allclose(policy.state.book.sums[0], x, atol=1e-12)
        design = np.eye(D) + np.outer(x, x)
        root = policy.state.root if policy.source is not None else policy.state.learner.root
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(design), atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("reward_windw", "reward_window"), ("sed", "seed"), ("propensites", "propensities"), ("reward_rnge", "reward_range")],
)
def test_arguments_of_every_policy_are_asked_for_too(wrong, right):
    with pytest.raises(InputError, match=rf"option='{wrong}' .*Did you mean {right}\?"):
        ap.policy("noise-aware", rounds=50, **{wrong: 1})


def test_refusals_say_what_would_help():
    policy = ap.policy("noise-aware", dimension=2, rounds=50, seed=0)
    decision = policy.decide(np.eye(2))
    with pytest.raises(InputError, match=r"reward_range=\(least, greatest\)"):
        policy.learn(decision, 7)
    policy.learn(decision, None)
    with pytest.raises(InputError, match="a reward, or None where none comes, settles it"):
        policy.learn(decision, 1)
    policy.decide(np.eye(2))
    with pytest.raises(InputError, match=r"\(reward_window=0, and several threads at once need more\)"):
        policy.learn(decision, 1)
