"""Probabilities of a policy's choices: against closed forms, scipy's orthants, and what the policy does."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.policies.core.linear import COORDINATES, WIDTH
from adaprivate.policies.core.policy import Policy
from adaprivate.policies.core.propensities import choice_probabilities, gaussian_best

D = 5


def learned(name, rounds=40, **options):
    """A policy after some rounds; its candidates were four vectors."""
    policy = Policy(policies.settings(name, {"dimension": D, "rounds": 60, **options}), seed=3, source=None)
    rng = np.random.default_rng(5)
    for _ in range(rounds):
        policy.learn(policy.decide(0.4 * rng.standard_normal((4, D))), float(rng.uniform() < 0.6))
    return policy


def scores(policy, candidates):
    """Mean and covariance of the scores of a linear Thompson policy, from its state."""
    rotated = candidates @ policy.state.root
    return rotated @ policy.state.vectors[COORDINATES], policy.state.numbers[WIDTH] ** 2 * rotated @ rotated.T


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
    width = 1.5 * policy.state.numbers[WIDTH]
    wider = gaussian_best(mean[None], width * (candidates @ policy.state.root)[None], draws=16_384)
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
def test_what_the_policy_does(name, options):
    """10,000 choices within 5 standard deviations of the stated probabilities: false alarm 3e-6 for four candidates."""
    policy = learned(name, **options)
    candidates = 0.4 * np.random.default_rng(2).standard_normal((4, D))
    before = [leaf.tolist() for leaf in policy.state]
    found = policy.propensities(candidates, draws=16_384)
    assert [leaf.tolist() for leaf in policy.state] == before
    counts, n = np.zeros(4), 10_000
    for _ in range(n):
        decision = policy.decide(candidates)
        counts[decision.action] += 1
        policy.withdraw(decision)
    spread = np.sqrt(found.probability * (1 - found.probability) / n) + found.error
    assert (np.abs(counts / n - found.probability) <= 5 * spread + 1e-9).all()
    assert (name == "random") == (np.abs(counts / n - 0.25).max() <= 5 * np.sqrt(0.1875 / n))


@pytest.mark.parametrize("name", ["adaprivate-ucb", "noise-aware-greedy", "noise-aware-ucb", "jdp-linucb-gaussian"])
def test_policies_that_do_not_draw(name):
    policy = learned(name, **({"batch_size": 7} if name.startswith("adaprivate") else {}))
    for seed in range(5):
        candidates = np.random.default_rng(seed).standard_normal((6, D))  # some longer than 1, clipped
        found = policy.propensities(candidates)
        decision = policy.decide(candidates)
        policy.withdraw(decision)
        assert found.probability[decision.action] == 1
        assert found.probability.sum() == 1
        assert (found.error == 0).all()


def test_fixed_arms():
    policy = learned("thompson", rounds=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        policy.learn(policy.decide(np.eye(D)), float(rng.uniform() < 0.5))
    with pytest.raises(InputError, match="to choose by what it released"):  # its means are raw: only sampling hides them
        policy.propensities(np.eye(D))
    found = choice_probabilities(policy.state, np.eye(D)[None])
    found = found._replace(probability=found.probability[0])
    theta = policy.state.values[0] + policy.state.values[1] * rng.standard_normal((200_000, D))
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


def test_observing_is_learning():
    """A decision of someone else's, observed, leaves the same sums as one's own with these features."""
    one, other = learned("adaprivate-ucb", batch_size=7), learned("adaprivate-ucb", batch_size=7)
    candidates = 0.4 * np.random.default_rng(4).standard_normal((4, D))
    decision = one.decide(candidates)
    one.learn(decision, 1.0)
    other.observe(decision.features, 1.0)
    for mine, theirs in zip(one.state, other.state, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert (one.round, one.decided, one.version) == (other.round, other.decided, other.version)
    other.decide(candidates)
    with pytest.raises(InputError, match="open decisions"):
        other.observe(decision.features, 1.0)
    with pytest.raises(InputError, match="reward=2"):
        one.observe(decision.features, 2)
    arms = learned("thompson", rounds=0)
    with pytest.raises(InputError, match="not to be one on fixed arms"):
        arms.observe(np.eye(D)[0], 1.0)
    with pytest.raises(InputError, match="not to be one on fixed arms: its draws are paid for"):
        arms.withdraw(arms.decide(np.eye(D)))


def test_only_the_newest_decision_is_withdrawn():
    policy = learned("lints")
    candidates = np.eye(D)
    decision = policy.decide(candidates)
    policy.withdraw(decision)
    assert policy.open_decision is None
    with pytest.raises(InputError, match="to be the newest"):
        policy.withdraw(decision)
    other = policy.decide(candidates)
    with pytest.raises(InputError, match="open decision"):  # of the same round, and taken back
        policy.learn(decision, 1.0)
    policy.learn(other, 1.0)
