"""The filter never overspends, and its transcript tells no more than it claims."""

import math
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.compiled import streams
from adaprivate.policies.arms.filtered_thompson import public_pair
from adaprivate.policies.arms.sampling import COMMITTED, MEAN, PREPULLS, PRICE, ROUND, SPENT, SUM
from adaprivate.policies.policy import Policy
from adaprivate.policies.protocol import select, update


def filtered(**options):
    return policies.settings("filtered-thompson", {"delta": 1e-6, **options})


@settings(max_examples=60, deadline=None)
@given(
    rewards=st.lists(st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1), min_size=1, max_size=40),
    eta=st.sampled_from([0.25, 0.5, 1.0, 1.5]) | st.floats(0.05, 3),
    variance=st.sampled_from([0.25, 1.0, 4.0]) | st.floats(0.05, 50),
    prepulls=st.integers(0, 6),
    hostile=st.booleans(),
    seed=st.integers(0, 1000),
)
@example(rewards=[0.0], eta=1.0, variance=4.0, prepulls=1, hostile=False, seed=0)  # eight rounds spend exactly all
def test_no_arm_ever_pays_more_than_the_budget(rewards, eta, variance, prepulls, hostile, seed):
    """Whatever the rewards, also when chosen after seeing the action, in exact fractions recomputed from actions alone."""
    made = filtered(dimension=3, rounds=120, eta=eta, variance=variance, prepulls=prepulls)
    policy = Policy(made, seed=seed, source=None)
    pulls, paid, limit = [0, 0, 0], [Fraction(0)] * 3, Fraction(eta) ** 2
    for t in range(120):
        decision = policy.decide(np.eye(3))
        committed = policy.state.counts[COMMITTED]
        if t >= 3 * prepulls and committed < 0:
            paid = [p + (1 / (Fraction(variance) * (n + 1)) if n else 0) for p, n in zip(paid, pulls, strict=True)]
        assert max(paid) <= limit
        if committed >= 0:
            assert decision.action == committed
            assert pulls[committed] == max(pulls)
        pulls[decision.action] += 1
        reward = rewards[t % len(rewards)]
        policy.learn(decision, 1 - reward if hostile and decision.action == 0 else reward)
    assert np.asarray(policy.state.values[SPENT]) == pytest.approx([float(p) for p in paid], rel=1e-12)


def test_the_budget_is_used_up_before_it_commits():
    made = filtered(dimension=3, rounds=5000, eta=1.0, variance=2.0, prepulls=3)
    for seed in range(5):
        policy = Policy(made, seed=seed, source=None)
        while policy.state.counts[COMMITTED] < 0:
            decision = policy.decide(np.eye(3))
            policy.learn(decision, float(decision.action == 1))
        values = policy.state.values
        assert max(values[SPENT] + values[PRICE]) > made.limit
        assert max(values[SPENT]) <= 1


def test_rewards_after_the_commitment_change_nothing():
    made = filtered(dimension=3, rounds=400, eta=1.0, variance=2.0, prepulls=3)
    runs = []
    for late in (0.0, 1.0):
        policy, actions = Policy(made, seed=3, source=None), []
        for _ in range(400):
            decision = policy.decide(np.eye(3))
            policy.learn(decision, late if policy.state.counts[COMMITTED] >= 0 else 0.5)
            actions.append(decision.action)
        runs.append(actions)
    assert runs[0] == runs[1]
    assert len(set(runs[0][-100:])) == 1


# --- audit: two worlds that differ in one reward, told apart by the actions alone ----------------------------------------

HONEST, FREE_UNPLAYED, FOUR_TIMES = range(3)


@numba.njit
def _ratio(state, first, own, other, rounds, rng, bug):
    """Log-likelihood ratio of the actions: the first reward of arm 0 was 1, against 0. It really was ``first``."""
    values, pulls, counts = state.values, state.pulls, state.counts
    arms = np.eye(2)
    total = 0.0
    for _ in range(rounds):
        sampled = counts[ROUND] >= 2 * counts[PREPULLS]
        spread = math.sqrt(state.numbers[0] / (pulls[0, 0] + 1) + state.numbers[0] / (pulls[0, 1] + 1))
        high = (values[SUM, 0] + 1 - first) / (pulls[0, 0] + 1) - values[MEAN, 1]
        low = (values[SUM, 0] - first) / (pulls[0, 0] + 1) - values[MEAN, 1]
        action = select(state, arms, rng)
        if counts[COMMITTED] >= 0:
            break
        if sampled:
            sign = 1 if action == 0 else -1
            total += math.log(math.erfc(-sign * high / spread / math.sqrt(2)))
            total -= math.log(math.erfc(-sign * low / spread / math.sqrt(2)))
            if bug == 1:
                values[SPENT, 1 - action] -= values[PRICE, 1 - action]
        reward = other if action == 1 else own
        if action == 0 and pulls[0, 0] == 0:
            reward = first
        update(state, arms[action], reward, rng)
    return total


def measured_mu(bug, eta, trials, *, rewards, prepulls=1, confidence=1 - 1e-6):
    """A lower bound on mu, right with this confidence: thresholds on the ratio, Clopper-Pearson on both errors.

    The threshold is the best on the first half of the trials; the bound uses the second half.
    """
    made = filtered(dimension=2, rounds=4000, eta=eta, variance=1.0, prepulls=prepulls)
    ratios = np.empty((2, trials))
    for first in (0, 1):
        for trial in range(trials):
            state = made.start(np.zeros((0, 2)))
            if bug == FOUR_TIMES:
                state.numbers[1] *= 16
            rng = streams(2 * trial + first, 3, 4)
            ratios[first, trial] = _ratio(state, float(first), *rewards, made.rounds, rng, bug)
    half = trials // 2

    def errors(part, threshold):
        return (part[0] > threshold).sum(), (part[1] <= threshold).sum()

    def mu(false_alarms, misses, bound):
        return stats.norm.ppf(1 - bound(misses)) - stats.norm.ppf(bound(false_alarms))

    thresholds = np.quantile(ratios[:, :half], np.linspace(0.02, 0.98, 97))
    best = max(thresholds, key=lambda t: mu(*errors(ratios[:, :half], t), lambda k: (k + 1) / (half + 2)))
    upper = lambda k: stats.beta.ppf(1 - (1 - confidence) / 2, k + 1, half - k)  # noqa: E731
    return mu(*errors(ratios[:, half:], best), upper)


def test_the_transcript_tells_no_more_than_the_claim_and_broken_filters_are_caught():
    """False alarm 1e-6: the bound exceeds eta in an honest filter no more often. Two plausible bugs exceed it."""
    eta, trials, rewards = 1.0, 4000, (0.2, 0.5)
    honest = measured_mu(HONEST, eta, trials, rewards=rewards)
    assert 0.15 * eta < honest <= eta
    assert measured_mu(FREE_UNPLAYED, eta, trials, rewards=rewards) > eta  # charging only the arm that was played
    assert measured_mu(FOUR_TIMES, eta, trials, rewards=rewards) > eta  # a budget of 4 eta in mu


# --- the automatic choice ---------------------------------------------------------------------------------------------


def test_the_automatic_pair_is_public_and_sensible():
    assert public_pair(5, 100_000, 1.0) == pytest.approx((93, 11.4, 0)[:2], rel=0.01)
    for arms, rounds, eta in ((2, 10, 0.1), (5, 1_000, 1.0), (50, 1_000, 2.0), (10, 10**7, 0.5)):
        prepulls, variance = public_pair(arms, rounds, eta)
        made = filtered(dimension=arms, rounds=rounds, eta=eta)
        assert made.pair == (prepulls, variance)
        assert 1 <= prepulls <= max(1, rounds // (4 * arms))
        assert variance >= 0.25
        assert made.limit < eta**2


def test_the_guarantee_is_the_budget():
    for eta, epsilon in ((1, 4.887), (5, 35.566), (10, 96.717)):
        made = filtered(dimension=5, rounds=100_000, eta=eta)
        assert made.epsilon == pytest.approx(epsilon, abs=6e-4)
        statement = made.guarantee()
        assert (statement.mu, statement.epsilon, statement.delta) == (eta, made.epsilon, 1e-6)
        assert statement.simulated
        assert not statement.exact
    asked = filtered(dimension=5, rounds=1000, epsilon=2.0)
    assert asked.guarantee().epsilon == pytest.approx(2.0, rel=1e-9)
    assert asked.budget == pytest.approx(privacy.gdp_mu(2.0, 1e-6))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("filtered-thompson", {"eta": 0.0}, "Expected eta=0.0 >= 1e-09."),
        ("filtered-thompson", {"eta": 1e-200}, "Expected eta=1e-200 >= 1e-09."),
        ("filtered-thompson", {"prepulls": 21}, "Expected prepulls=21 <= 20."),
        ("filtered-thompson", {"variance": -1.0}, "Expected variance=-1.0 > 0."),
        ("modified-thompson", {"variance": 2.0}, "Expected prepulls=None given with variance."),
        ("modified-thompson", {"eta": 1.0, "prepulls": 4, "variance": 2.0}, "Expected variance=2.0 >= 20 for eta=1."),
        ("modified-thompson", {"calibration": "exact"}, "Expected calibration='exact' in {published, tight}."),
        ("thompson", {"epsilon": 1.0}, "Expected option='epsilon' in {dimension, rounds, delta} for thompson."),
        ("adac-ucb", {"bonus": 0.0}, "Expected bonus=0.0 > 0."),
        ("mishra-thakurta-ts", {"warmup": "some"}, "Expected warmup='some' in {published, none}."),
        ("dp-se", {"epsilon": -1.0}, "Expected epsilon=-1.0 > 0."),
    ],
)
def test_mistakes_are_named(name, options, message):
    with pytest.raises(InputError) as error:
        policies.settings(name, {"dimension": 5, "rounds": 100, **options})
    assert str(error.value) == message
