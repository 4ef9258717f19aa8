"""Enforced bounds: what enters a sum can never move it further than its participation says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaprivate.check import InputError
from adaprivate.mechanisms import EventSum, UserSum
from adaprivate.mechanisms.noise import EVENT_BITS, Secure, Simulated

UNIT = 2**EVENT_BITS
REWARD = r"^Expected reward to be a number from 0 to 1, or a bool; it is private and not repeated here\.$"
coordinates = st.lists(st.floats(-3, 3), min_size=3, max_size=3)
rewards = st.floats(0, 1)


def length(vector):
    """Exact squared length of an integer vector."""
    return sum(int(v) ** 2 for v in vector)


def single(noise, features, reward, centre=0.0):
    batch = EventSum(3, noise=noise, centre=centre)
    batch.add(features, reward)
    return batch.take()


@settings(max_examples=400, deadline=None, derandomize=True)
@given(features=coordinates, one=rewards, other=rewards, centre=rewards)
def test_replacing_a_reward_moves_an_exact_sum_by_at_most_one(features, one, other, centre):
    a, b = (single(Secure(), features, r, centre) for r in (one, other))
    assert length(a - b) <= UNIT**2
    a, b = (single(Simulated(0), features, r, centre) for r in (one, other))
    assert np.linalg.norm(a - b) <= 1 + 1e-12


@settings(max_examples=200, deadline=None, derandomize=True)
@given(features=coordinates, reward=rewards, centre=rewards)
def test_exact_and_simulated_sums_agree_to_the_grid(features, reward, centre):
    exact = single(Secure(), features, reward, centre).astype(float) / UNIT
    assert exact == pytest.approx(single(Simulated(0), features, reward, centre), abs=3 / UNIT)


def test_unit_vectors_survive_truncation():
    rng = np.random.default_rng(3)
    for _ in range(300):
        x = rng.normal(size=3)
        x /= np.linalg.norm(x)
        contribution = single(Secure(), x, 1.0)
        assert length(contribution) <= UNIT**2
        assert math.sqrt(length(contribution)) >= UNIT * (1 - 1e-5)


def test_sums_add_up_and_start_anew():
    batch = EventSum(2, noise=Secure())
    for _ in range(1000):
        batch.add([0.5, -0.25], 1.0)
    assert batch.take().tolist() == [500 * UNIT, -250 * UNIT]
    assert batch.take().tolist() == [0, 0]


def test_long_features_are_clipped_and_counted():
    batch = EventSum(2, noise=Simulated(0))
    batch.add([3.0, 4.0], 1.0)
    batch.add([0.6, 0.8], 1.0)
    assert batch.clipped == 1
    assert batch.take() == pytest.approx([1.2, 1.6])


@pytest.mark.parametrize("noise", [Simulated(0), Secure()], ids=["simulated", "secure"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    events=st.lists(st.tuples(st.sampled_from("abc"), coordinates, rewards), max_size=25),
    clip=st.floats(0.01, 4),
)
def test_removing_a_user_moves_a_batch_by_at_most_the_clip(noise, events, clip):
    def total(without):
        batch = UserSum(3, noise=noise, clip=clip, batches=5)
        for user, features, reward in events:
            if user != without:
                batch.add(user, features, reward)
        return batch.take()

    moved = total(None) - total("a")
    if noise.exact:
        assert length(moved) <= (clip * UNIT) ** 2
    else:
        assert np.linalg.norm(moved) <= clip * (1 + 1e-9)


def test_users_enter_so_many_batches_and_no_more():
    batch = UserSum(1, noise=Secure(), clip=1.0, batches=2)
    sums = []
    for _ in range(4):
        admitted = [batch.add("ann", [1.0], 1.0) for _ in range(3)]
        assert len(set(admitted)) == 1
        sums.append(int(batch.take()[0]))
    assert sums[0] == sums[1] > 0.99 * UNIT
    assert sums[2] == sums[3] == 0
    assert batch.dropped == 6


@pytest.mark.parametrize(
    ("features", "reward", "message"),
    [
        ([0.1, 0.2], 0.5, r"Expected features.shape=\(2,\) == \(3,\)."),
        ([0.1, math.nan, 0.2], 0.5, r"Expected features\[1\]=nan to be finite."),
        ([0.1, 0.2, 0.3], 1.5, REWARD),
        ([0.1, 0.2, 0.3], -0.1, REWARD),
        ([0.1, 0.2, 0.3], math.nan, REWARD),
        ([0.1, 0.2, 0.3], "good", REWARD),
        ("abc", 0.5, "Expected features to be an array of numbers."),
    ],
)
@pytest.mark.parametrize("noise", [Simulated(0), Secure()], ids=["simulated", "secure"])
def test_bad_events_are_refused_and_leave_the_sum_alone(noise, features, reward, message):
    batch = EventSum(3, noise=noise)
    batch.add([0.5, 0.0, 0.0], 1.0)
    users = UserSum(3, noise=noise, clip=1.0, batches=1)
    with pytest.raises(InputError, match=message):
        batch.add(features, reward)
    with pytest.raises(InputError, match=message):
        users.add("ann", features, reward)
    assert users.ledger.state() == {}
    assert float(batch.take()[0]) == (0.5 * UNIT if noise.exact else 0.5)


@pytest.mark.parametrize("sign", [1, -1])
def test_clipping_in_integers_never_rounds_up(sign):
    """A short vector whose length is no whole number: dividing by its rounded-down length would leave it too long, and so
    would rounding negative entries down."""
    batch = UserSum(2, noise=Secure(), clip=3.5 / UNIT, batches=1)
    batch.add("ann", [sign * 2 / UNIT, sign * 3 / UNIT], 1.0)
    assert 0 < length(batch.take()) <= 3**2
