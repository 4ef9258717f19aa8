"""Probabilities of a policy's choices: against closed forms, scipy's orthants, and what the policy does."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

import adaprivate as ap
from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.policies.core.propensities import choice_probabilities, gaussian_best
from adaprivate.runtime.policy import Policy

D = 5


def learned(name, rounds=40, **options):
    """A policy after some rounds; its candidates were four vectors."""
    policy = Policy(policies.settings(name, {"dimension": D, "rounds": 60, **options}), seed=3, source=None)
    rng = np.random.default_rng(5)
    for _ in range(rounds):
        policy.learn(policy.decide(0.4 * rng.standard_normal((4, D))), float(rng.uniform() < 0.6))
    policy.advance()
    return policy


def scores(policy, candidates):
    """Mean and covariance of the scores of a linear Thompson policy, from its state."""
    learner = policy.state.learner
    rotated = candidates @ learner.root
    return rotated @ learner.coordinates, learner.scalars[0]["width"] ** 2 * rotated @ rotated.T


def orthant(mean, covariance, best):
    """P(score ``best`` is the largest), by scipy."""
    others = [a for a in range(len(mean)) if a != best]
    contrast = np.array([np.eye(len(mean))[a] - np.eye(len(mean))[best] for a in others])
    gaps = {"mean": contrast @ mean, "cov": contrast @ covariance @ contrast.T, "allow_singular": True}
    return multivariate_normal.cdf(np.zeros(len(others)), **gaps, abseps=1e-5, releps=1e-5, maxpts=1_000_000)


def test_two_candidates_are_exact():
    policy = learned("adaprivate-ts", batch_size=7)
    candidates = 0.2 * np.random.default_rng(1).standard_normal((2, D))
    mean, covariance = scores(policy, candidates)
    spread = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    found = policy.propensities(candidates)
    ahead = (mean[0] - mean[1]) / spread
    assert found.probability == pytest.approx([ndtr(ahead), ndtr(-ahead)], rel=1e-9)
    assert (found.error == 0).all()


@pytest.mark.parametrize("count", [3, 5, 8])
def test_several_candidates_are_orthants(count):
    """Within six stated errors of scipy's orthant (and 1e-4, scipy's own), small probabilities included."""
    policy = learned("lints")
    candidates = np.random.default_rng(count).standard_normal((count, D))
    candidates /= np.linalg.norm(candidates, axis=1).max()
    mean, covariance = scores(policy, candidates)
    found = policy.propensities(candidates, draws=16_384)
    exact = np.array([orthant(mean, covariance, a) for a in range(count)])
    assert (np.abs(found.probability - exact) <= 6 * found.error + 1e-4).all()
    assert found.error.max() < 2e-3
    assert found.probability.sum() == pytest.approx(1, abs=5e-3)
    width = 1.5 * policy.state.learner.scalars[0]["width"]
    wider = gaussian_best(mean[None], width * (candidates @ policy.state.learner.root)[None], draws=16_384)
    assert np.abs(wider.probability[0] - exact).max() > 6 * wider.error.max() + 1e-4


def test_drawing_agrees_with_the_lattice():
    """Four standard errors of 100,000 draws, 12 numbers: false alarm 1e-3, were the seed not fixed."""
    rng = np.random.default_rng(8)
    means, factors = 0.5 * rng.standard_normal((3, 4)), rng.standard_normal((3, 4, 9))
    fine = gaussian_best(means, factors, draws=16_384)
    drawn = gaussian_best(means, factors, draws=100_000, lattice=False)
    assert (np.abs(fine.probability - drawn.probability) <= 4 * np.hypot(fine.error, drawn.error)).all()
    assert drawn.error == pytest.approx(np.sqrt(drawn.probability * (1 - drawn.probability) / 100_000))


def test_many_candidates_of_few_dimensions():
    """Ten candidates in a plane: singular scores, drawn; the same from their covariance."""
    rng = np.random.default_rng(9)
    factors, means = rng.standard_normal((1, 10, 2)), np.zeros((1, 10))
    padded = np.concatenate([factors, np.zeros((1, 10, 20))], axis=2)
    one, other = (gaussian_best(means, f, draws=40_000) for f in (factors, padded))
    assert one.probability.sum() == pytest.approx(1)
    assert (np.abs(one.probability - other.probability) <= 5 * np.hypot(one.error, other.error)).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lints", {}),
        ("adaprivate-ts", {"batch_size": 7, "forced_exploration": 2.0}),
        ("noise-aware-ts", {}),
        ("mishra-thakurta-lints", {}),
        ("random", {}),
    ],
)
def test_what_the_policy_does(kit, name, options):
    """10,000 choices within 5 standard deviations of the stated probabilities: false alarm 3e-6 for four candidates."""
    policy = learned(name, **options)
    candidates = 0.4 * np.random.default_rng(2).standard_normal((4, D))
    before = kit.everything(policy)
    found = policy.propensities(candidates, draws=16_384)
    assert kit.everything(policy) == before
    counts, n = np.zeros(4), 10_000
    for _ in range(n):
        counts[policy.consider(candidates)] += 1
    assert (policy.round, policy.decided, policy.open_decision) == (40, 40, None)
    spread = np.sqrt(found.probability * (1 - found.probability) / n) + found.error
    assert (np.abs(counts / n - found.probability) <= 5 * spread + 1e-9).all()
    assert (name == "random") == (np.abs(counts / n - 0.25).max() <= 5 * np.sqrt(0.1875 / n))


@pytest.mark.parametrize("name", ["adaprivate-ucb", "noise-aware-greedy", "noise-aware-ucb", "jdp-linucb-gaussian"])
def test_policies_that_do_not_draw(name):
    policy = learned(name, **({"batch_size": 7} if name.startswith("adaprivate") else {}))
    for seed in range(5):
        candidates = np.random.default_rng(seed).standard_normal((6, D))  # some longer than 1, clipped
        found = policy.propensities(candidates)
        assert found.probability[policy.consider(candidates)] == 1
        assert found.probability[policy.decide(candidates).action] == 1
        assert found.probability.sum() == 1
        assert (found.error == 0).all()


def test_fixed_arms():
    policy = learned("thompson", rounds=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        policy.learn(policy.decide(np.eye(D)), float(rng.uniform() < 0.5))
    policy.advance()
    assert policy.state.learner.pulls.sum() == 40
    with pytest.raises(InputError, match="to choose by what it released"):  # its means are raw: only sampling hides them
        policy.propensities(np.eye(D))
    found = choice_probabilities(policy.state, np.eye(D)[None])
    found = found._replace(probability=found.probability[0])
    theta = policy.state.book.means + policy.state.learner.spread * rng.standard_normal((200_000, D))
    counted = np.bincount(theta.argmax(axis=1), minlength=D) / 200_000
    assert found.probability == pytest.approx(counted, abs=6e-3)


def test_the_first_among_equals():
    twice = np.tile(np.array([[0.5, 0, 0, 0, 0], [0, 0.5, 0, 0, 0]]), (2, 1))
    for name in ("lints", "linucb"):
        found = learned(name).propensities(twice).probability
        assert found[2] == found[3] == 0
        assert found.sum() == pytest.approx(1, abs=2e-3)


def test_a_policy_without_known_probabilities():
    policy = learned("coreset-elimination")
    with pytest.raises(InputError, match="CoreSetState"):
        choice_probabilities(policy.state, np.ones((1, 2, D)))


def test_observing_is_learning(kit):
    """A decision of someone else's, observed, leaves the same sums as one's own with these features."""
    one, other = learned("adaprivate-ucb", batch_size=7), learned("adaprivate-ucb", batch_size=7)
    candidates = 0.4 * np.random.default_rng(4).standard_normal((4, D))
    decision = one.decide(candidates)
    one.learn(decision, 1.0)
    other.observe(decision.features, 1.0)
    one.advance()
    other.advance()
    scratch = ("learner.rotated", "learner.parameter")  # of choosing
    kit.assert_same_state(one.state, other.state, atol=1e-12, without=scratch)
    assert (one.round, one.decided, one.version) == (other.round, other.decided, other.version) == (41, 41, 5)
    message = r"^Expected reward to be a number from 0 to 1, or a bool, or .*; it is private and not repeated here\.$"
    with pytest.raises(InputError, match=message):
        one.observe(decision.features, 2)
    other.observe(decision.features, None)  # the round took place: it counts as one without a reward
    assert (one.round, one.decided) == (other.round, other.decided) == (41, 42)
    before = kit.everything(one)
    with pytest.raises(InputError, match=r"^Expected features\.shape=\(6,\) == \(5,\)\.$"):
        one.observe(np.zeros(D + 1), 1.0)
    assert kit.everything(one) == before
    arms = learned("thompson", rounds=0)
    with pytest.raises(InputError, match="not to be one on fixed arms: it chooses for itself"):
        arms.observe(np.eye(D)[0], 1.0)
    with pytest.raises(InputError, match="not to be one on fixed arms: its draws are paid for"):
        arms.consider(np.eye(D))
    waiting = Policy(policies.settings("lints", {"dimension": D, "rounds": 60}), seed=3, reward_window=2)
    with pytest.raises(InputError, match="reward_window=2 == 0 to observe"):
        waiting.observe(decision.features, 1.0)


def test_observing_counts_an_open_decision_as_the_next_decision_would(kit):
    """Rounds come one after the other, whoever decides: what was open has had its chance."""
    one, other = learned("adaprivate-ucb", batch_size=7), learned("adaprivate-ucb", batch_size=7)
    candidates, features = np.random.default_rng(4).standard_normal((4, D)) / 5, np.full(D, 0.2)
    late = one.decide(candidates)
    one.observe(features, 1.0)
    other.learn(other.decide(candidates), None)
    other.observe(features, 1.0)
    assert kit.everything(one) == kit.everything(other)
    with pytest.raises(InputError, match=r"^Expected decision\.round=40 to be open: round 41 is"):
        one.learn(late, 1.0)
    one.observe(features, None)
    other.observe(features, other.settings.missing)
    assert kit.everything(one) == kit.everything(other)
    assert one.decided == 43


def test_features_too_long_are_clipped_when_observed():
    policy = learned("lints")
    clipped = policy.clipped
    policy.observe(np.full(D, 3.0), 1.0)
    policy.observe(np.full(D, 0.1), 1.0)
    assert policy.clipped == clipped + 1
    policy.advance()
    short = learned("lints")
    for features in (np.full(D, 1 / np.sqrt(D)), np.full(D, 0.1)):
        short.observe(features, 1.0)
    short.advance()
    np.testing.assert_allclose(policy.state.learner.root, short.state.learner.root, atol=1e-12)


def test_considering_makes_no_decision_but_draws_as_one(kit):
    policy, twin = learned("lints"), learned("lints")
    candidates = np.eye(D)
    before = kit.everything(policy)
    action = policy.consider(candidates)
    assert type(action) is int
    assert policy.open_decision is None
    after = kit.everything(policy)
    changed = [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    names = [*kit.leaves(policy.state), "streams"]
    assert {names[place] for place in changed} == {"learner.rotated", "learner.parameter", "streams"}
    assert twin.decide(candidates).action == action
    assert policy._engine.rng.tolist() == twin._engine.rng.tolist()
    opened = policy.decide(candidates)
    policy.learn(opened, 1.0)
    policy.consider(candidates)  # counts what is due, as a decision would
    assert policy.round == policy.decided == 41
    for bad in (np.zeros((0, D)), np.zeros((2, D + 1)), [[np.nan] * D]):
        with pytest.raises(InputError, match=r"^Expected candidates"):
            policy.consider(bad)


def test_what_is_estimated_errs_afresh_in_every_round():
    """Ten candidates that are alike: 1/10 each, on average over rounds, wherever they stand.

    Each estimate is off by sqrt(p (1 - p) / 4096) = 0.0047, the mean of 200 by 0.00033: six of these, for ten, are exceeded
    with probability 2e-8. One error for all rounds would be seen in every run.
    """
    policy = ap.policy("noise-aware-ts", dimension=10, rounds=1_000, seed=3, propensities=True, reward_window=250)
    found = []
    for _ in range(200):
        policy.decide(np.eye(10))
        found.append(policy._probabilities(np.eye(10)[None])[0])
    assert np.abs(np.mean(found, axis=0) - 0.1).max() < 6 * 0.00033
    assert 0.004 < np.std(found) < 0.0055
