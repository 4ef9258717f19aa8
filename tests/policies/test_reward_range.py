"""Rewards on a scale of their own: scaled to 0 to 1 by public ends, refused beyond them, the guarantee the same."""

import numpy as np
import pytest

import adaprivate as ap
from adaprivate.mechanisms import Secure

OPTIONS = {"dimension": 3, "rounds": 60, "batch_size": 10}
RANGE = (-2.0, 6.0)


def made(**more):
    return ap.policy("adaprivate-ts", **OPTIONS, **({"seed": 3} | more))


def test_scaled_rewards_teach_what_rewards_from_0_to_1_do():
    plain, scaled = made(), made(reward_range=RANGE)
    for number in range(40):
        ours, theirs = plain.decide(np.eye(3)), scaled.decide(np.eye(3))
        assert ours.action == theirs.action
        share = (number % 9) / 8  # scaled without rounding
        plain.learn(ours, share)
        scaled.learn(theirs, RANGE[0] + 8 * share)
        if number == 20:
            scaled = type(scaled).from_bytes(scaled.to_bytes())
            assert scaled.reward_range == RANGE
    assert plain.version == 3
    assert all(np.array_equal(a, b) for a, b in zip(plain.state.book, scaled.state.book, strict=True))
    assert plain.guarantee == scaled.guarantee
    exact = made(seed=None, source=Secure())
    assert made(seed=None, source=Secure(), reward_range=RANGE).guarantee == exact.guarantee


@pytest.mark.parametrize("reward", [-2.001, 6.001, True, float("nan"), float("inf"), 10**400, "3", [3]])
def test_rewards_beyond_are_refused_and_not_repeated(reward):
    policy = made(reward_range=RANGE)
    decision = policy.decide(np.eye(3))
    with pytest.raises(
        ap.InputError, match=r"^Expected reward to be a number from -2 to 6, its reward_range, and no bool; it"
    ):
        policy.learn(decision, reward)
    policy.learn(decision, 6)  # it is still open


@pytest.mark.parametrize("ends", [(1, 0), (0, 0), (0, float("inf")), (-1e308, 1e308), (0,), 5, "ab", (0, None)])
def test_ranges_that_are_none_are_refused(ends):
    with pytest.raises(ap.InputError, match=r"^Expected reward_range="):
        made(reward_range=ends)


def test_flips_of_clients_are_bits():
    local = {"dimension": 3, "rounds": 60, "channel": "flip", "local": True, "source": Secure()}
    with pytest.raises(ap.InputError, match="where local"):
        ap.policy("noise-aware", **local, reward_range=RANGE)
