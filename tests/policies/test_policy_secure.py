"""Exact noise in use: released at batch ends only, of the stated size, and stated in the guarantee."""

import numpy as np
import pytest
from scipy.stats import chi2

from adaprivate import privacy

D, ROUNDS = 5, 60
STRATEGIES = ["independent", "tree", "honaker", "sqrt", "banded", "blt", "optimal"]


@pytest.mark.parametrize("noise", STRATEGIES)
def test_secure_statistic_changes_at_batch_ends_only(kit, noise):
    policy = kit.made(secure=True, noise=noise, theta_0=(0.1, 0.0, -0.2, 0.3, 0.0))
    candidates, rewards = kit.offers(70)
    released = policy.state.statistic.copy()
    assert np.array_equal(released, policy.state.prior)
    for t in range(70):
        kit.play(policy, candidates[t : t + 1], rewards[t : t + 1])
        now = policy.state.statistic
        assert np.array_equal(now, released) is not ((t + 1) % 7 == 0 and t < ROUNDS)
        released = now.copy()
        root = policy.state.root
        np.testing.assert_allclose(root @ policy.state.coordinates, root @ root.T @ released, atol=1e-9)
    assert policy.version == ROUNDS // 7


def test_secure_noise_has_its_stated_size_around_the_true_sums(kit):
    """Releases minus the truth, over many runs: the calibrated standard deviation (false alarm 1e-6, with power)."""
    candidates, rewards = kit.offers(7)
    squares, count = 0.0, 60 * D
    for _ in range(60):
        policy = kit.made(secure=True, rounds=7, calibration="exact", centre=0.5)
        truth = np.zeros(D)
        for offered, reward in zip(candidates, rewards, strict=True):
            decision = policy.decide(offered)
            policy.learn(decision, float(reward))
            truth += (reward - 0.5) * decision.features
        policy.advance()
        error = policy.state.statistic - truth
        squares += float((error**2).sum())
    sigma = privacy.gaussian_sigma(1.0, 1e-5)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], count)
    assert low < squares / sigma**2 < high
    assert not low < squares / (sigma * 2 / 3) ** 2 < high
    assert not low < squares / (sigma * 3 / 2) ** 2 < high


def test_secure_says_what_it_enforces_and_simulated_says_what_it_does_not(kit):
    names = ("exact-noise", "secret-noise")
    texts = {privacy.CONDITIONS[name] for name in names}
    real, simulated = kit.made(secure=True).guarantee, kit.made().guarantee
    assert texts <= set(real.enforced)
    assert not texts & set(real.assumptions)
    assert texts <= set(simulated.assumptions)
    assert not texts & set(simulated.enforced)
    assert real.epsilon == simulated.epsilon
    assert kit.made("lints").guarantee is None
    width = kit.made("adaprivate-ts-adaptive", secure=True, batch_size=5, gamma=0.5)
    kit.play(width, *kit.offers(10))
    assert width.state.scalars[0]["width"] == pytest.approx(1.5 / 4)


def test_secure_exploration_is_never_repeated(kit):
    assert not np.array_equal(kit.made(secure=True).learner.rng, kit.made(secure=True).learner.rng)
