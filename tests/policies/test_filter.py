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
from adaprivate.policies.arms.sampling import public_pair
from adaprivate.policies.core.dispatch import select, update
from adaprivate.runtime.policy import Policy


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
        committed = policy.state.learner.scalars[0]["committed"]
        if t >= 3 * prepulls and committed < 0:
            paid = [p + (1 / (Fraction(variance) * (n + 1)) if n else 0) for p, n in zip(paid, pulls, strict=True)]
        assert max(paid) <= limit
        if committed >= 0:
            assert decision.action == committed
            assert pulls[committed] == max(pulls)
        pulls[decision.action] += 1
        reward = rewards[t % len(rewards)]
        policy.learn(decision, 1 - reward if hostile and decision.action == 0 else reward)
    assert np.asarray(policy.state.learner.spent) == pytest.approx([float(p) for p in paid], rel=1e-12)


def test_the_budget_is_used_up_before_it_commits():
    made = filtered(dimension=3, rounds=5000, eta=1.0, variance=2.0, prepulls=3)
    for seed in range(5):
        policy = Policy(made, seed=seed, source=None)
        while policy.state.learner.scalars[0]["committed"] < 0:
            decision = policy.decide(np.eye(3))
            policy.learn(decision, float(decision.action == 1))
        learner = policy.state.learner
        assert max(learner.spent + learner.price) > made.limit
        assert max(learner.spent) <= 1


def test_rewards_after_the_commitment_change_nothing():
    made = filtered(dimension=3, rounds=400, eta=1.0, variance=2.0, prepulls=3)
    runs = []
    for late in (0.0, 1.0):
        policy, actions = Policy(made, seed=3, source=None), []
        for _ in range(400):
            decision = policy.decide(np.eye(3))
            policy.learn(decision, late if policy.state.learner.scalars[0]["committed"] >= 0 else 0.5)
            actions.append(decision.action)
        runs.append(actions)
    assert runs[0] == runs[1]
    assert len(set(runs[0][-100:])) == 1


# --- audit: two worlds that differ in one reward, told apart by the actions alone ----------------------------------------

KNOWN = 10**8
"""Rewards of arm 1 that are known from before: its sample is nearly a threshold, and each action tells the most it can."""


@numba.njit
def _ratios(state, prepulls, rounds, first, free_unplayed, rng, ratios):
    """Log-likelihood ratios of the actions: the first reward of arm 0 was 1, against 0. It really was ``first``.

    Before the rounds that sample, arm 0 has ``prepulls`` rewards, all but the first 1/2; so are all to come. The mean
    of arm 1 lies between what the two worlds make of that, so that either action is about as likely as the other.
    """
    learner, book, scalars = state.learner, state.book, state.learner.scalars[0]
    pulls = learner.pulls
    arms = np.eye(2)
    variance = scalars.variance
    for trial in range(len(ratios)):
        learner.spread[:], learner.price[:], learner.spent[:], book.means[:] = 0.0, 0.0, 0.0, 0.0
        scalars.committed = -1
        scalars.round = 2 * prepulls - 2
        pulls[0], pulls[1] = prepulls - 1, KNOWN - 1
        book.sums[0], book.sums[1] = first + 0.5 * (prepulls - 2), 0.5 * prepulls / (prepulls + 1) * KNOWN
        for arm in range(2):  # the last pre-pull of each
            update(state, arms[arm], 0.5, rng)
        total = 0.0
        for _ in range(rounds - 2 * prepulls):
            high = (book.sums[0] + 1 - first) / (pulls[0] + 1) - book.means[1]
            low = (book.sums[0] - first) / (pulls[0] + 1) - book.means[1]
            spread = math.sqrt(variance / (pulls[0] + 1) + variance / (pulls[1] + 1))
            action = select(state, arms, rng)
            if scalars.committed >= 0:
                break
            sign = 1 if action == 0 else -1
            total += math.log(math.erfc(-sign * high / spread / math.sqrt(2)))
            total -= math.log(math.erfc(-sign * low / spread / math.sqrt(2)))
            if free_unplayed:
                learner.spent[1 - action] -= learner.price[1 - action]
            update(state, arms[action], 0.5, rng)
        ratios[trial] = total


def measured_mu(made, trials, *, overspend=1.0, free_unplayed=False, confidence=1 - 1e-6):
    """A lower bound on mu, right with this confidence: thresholds on the ratio, Clopper-Pearson on both errors.

    The threshold is the best on the first half of the trials; the bound uses the second half. An ``overspend`` of k is a
    filter with k times the budget in mu, or sampling with 1 / k of the spread where there is no filter.
    """
    ratios = np.empty((2, trials))
    for first in (0, 1):
        state = made.start(np.zeros((0, 2)))
        if made.limit > 0:
            state.learner.scalars["limit"] *= overspend**2
        else:
            state.learner.scalars["variance"] /= overspend**2
        rng = streams(first, 3, 4)
        _ratios(state, made.pair[0], made.rounds, float(first), free_unplayed, rng, ratios[first])
    half = trials // 2

    def errors(part, threshold):
        return (part[0] > threshold).sum(), (part[1] <= threshold).sum()

    def mu(part, threshold):
        false_alarms, misses = (stats.beta.ppf(1 - (1 - confidence) / 2, k + 1, half - k) for k in errors(part, threshold))
        return stats.norm.ppf(1 - misses) - stats.norm.ppf(false_alarms)

    thresholds = np.quantile(ratios[:, :half], np.linspace(0.02, 0.98, 97))
    return mu(ratios[:, half:], max(thresholds, key=lambda t: mu(ratios[:, :half], t)))


def test_the_transcript_tells_no_more_than_the_claim_and_broken_filters_are_caught():
    """False alarm 1e-6: the bound exceeds eta in an honest filter no more often. Actions are bits: they tell at most
    sqrt(2 / pi) = 0.8 of eta, and an honest filter comes near that."""
    eta, trials = 2.0, 20_000
    made = filtered(dimension=2, rounds=3000, eta=eta, variance=0.25, prepulls=30)
    honest = measured_mu(made, trials)
    assert 0.7 * eta < honest <= 0.85 * eta
    assert measured_mu(made, trials, free_unplayed=True) > eta  # charging only the arm that was played
    assert measured_mu(made, trials, overspend=1.5) > eta
    assert measured_mu(made, trials // 4, overspend=2.0) > eta


def test_the_transcript_of_modified_thompson_tells_no_more_than_the_claim():
    """As above; its price assumes an arm that is never played again, so that less is attained: a tenth below the filter."""
    for calibration, least in (("published", 0.3), ("tight", 0.6)):
        options = {"dimension": 2, "rounds": 120, "eta": 1.0, "delta": 1e-6, "prepulls": 40, "calibration": calibration}
        made = policies.settings("modified-thompson", options)
        true = made.guarantee().mu
        assert true == pytest.approx(1.0 if calibration == "tight" else math.sqrt(1 / 3), rel=0.02)
        assert least < measured_mu(made, 60_000) <= 0.85 * true
    assert measured_mu(made, 150_000, overspend=1.5) > true
    assert measured_mu(made, 20_000, overspend=2.0) > true


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
        assert made.asked_epsilon == pytest.approx(epsilon, abs=6e-4)
        statement = made.guarantee()
        assert (statement.mu, statement.epsilon, statement.delta) == (eta, made.asked_epsilon, 1e-6)
        assert statement.simulated
        assert not statement.exact
    assert policies.settings("filtered-thompson", {"dimension": 5, "rounds": 100}).epsilon == 1.0
    asked = filtered(dimension=5, rounds=1000, epsilon=2.0)
    assert asked.guarantee().epsilon == pytest.approx(2.0, rel=1e-9)
    assert asked.budget == pytest.approx(privacy.gdp_mu(2.0, 1e-6))


@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize("prepulls", [0, 1, 10])
def test_modified_thompson_never_states_less_than_the_truth(calibration, prepulls):
    """Also with a variance that is below the one asked for by no more than rounding."""
    options = {"dimension": 2, "rounds": 1000, "eta": 1.0, "prepulls": prepulls, "calibration": calibration}
    variance = policies.settings("modified-thompson", options).pair[1] * (1 - 0.9e-9)
    made = policies.settings("modified-thompson", {**options, "variance": variance})
    worst = Fraction(1000 - 2 * prepulls) / (Fraction(variance) * (max(prepulls, 1) + 1))
    assert Fraction(made.guarantee().mu) ** 2 >= worst * (1 - Fraction(1, 2**50))
    if calibration == "tight":
        assert made.guarantee().mu > 1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("filtered-thompson", {"eta": 2.0, "epsilon": 0.1}, "Expected epsilon=0.1 not to be given with eta=2.0."),
        ("modified-thompson", {"eta": 2.0, "epsilon": 1.0}, "Expected epsilon=1.0 not to be given with eta=2.0."),
        ("modified-thompson", {"dimension": 31}, "Expected prepulls to be given beyond 30 arms."),
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
