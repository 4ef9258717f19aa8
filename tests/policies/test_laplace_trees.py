"""Contextual UCB and Thompson sampling of Mishra & Thakurta against Algorithms 3 and 4 written out in NumPy."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.runtime.policy import Policy

FALSE_ALARM = 1e-6
UCB, TS = "mishra-thakurta-linucb", "mishra-thakurta-lints"
D = 3


def made(name, rounds=80, **options):
    return policies.settings(name, {"dimension": D, "rounds": rounds, **options})


def offers(rounds, seed=0):
    rng = np.random.default_rng([seed, 96])
    candidates = rng.standard_normal((rounds, 6, D))
    norms = np.linalg.norm(candidates, axis=2, keepdims=True)
    return candidates / norms * rng.uniform(0.2, 1, (rounds, 6, 1)), rng.uniform(size=rounds)


def noisy(policy, A, b):
    """The released A and b, from the true ones and the tree's noise at this round."""
    row = policy.state.above[0]
    H = np.zeros((D, D))
    H[np.tril_indices(D)] = row[:-D]
    return np.eye(D) + A + H + np.tril(H, -1).T, b + row[-D:]


@pytest.mark.parametrize("form", ["corrected", "as-printed"])
def test_ucb_is_algorithm_3_action_by_action(form):
    settings = made(UCB, form=form, epsilon=60.0, calibration="tight", alpha=0.7)
    policy = Policy(settings, seed=3, source=None)
    A, b, outcomes = np.zeros((D, D)), np.zeros(D), set()
    for offered, reward in zip(*offers(settings.rounds), strict=True):
        noisy_A, noisy_b = noisy(policy, A, b)
        positive = np.linalg.eigvalsh(noisy_A)[0] > 0
        outcomes.add(bool(positive))
        if positive:
            middle = noisy_A if form == "as-printed" else np.linalg.inv(noisy_A)
            bonus = np.sqrt(np.einsum("ai,ij,aj->a", offered, middle, offered))
            scores = offered @ np.linalg.solve(noisy_A, noisy_b) + 0.7 * bonus
        else:
            scores = offered @ noisy_b + 0.7 * np.linalg.norm(offered, axis=1)
        decision = policy.decide(offered)
        assert decision.action == int(np.argmax(scores))
        policy.learn(decision, float(reward))
        policy.advance()
        x = offered[decision.action]
        A, b = A + np.outer(x, x), b + reward * x
    assert outcomes == {True, False}
    assert 0 < policy.state.scalars[0]["fallbacks"] < settings.rounds


@pytest.mark.parametrize("form", ["corrected", "as-printed"])
def test_thompson_is_algorithm_4(form):
    settings = made(TS, form=form, epsilon=60.0, calibration="tight", alpha=0.7)
    policy = Policy(settings, seed=5, source=None)
    A, b, outcomes = np.zeros((D, D)), np.zeros(D), set()
    for offered, reward in zip(*offers(settings.rounds), strict=True):
        noisy_A, noisy_b = noisy(policy, A, b)
        positive = np.linalg.eigvalsh(noisy_A)[0] > 0
        outcomes.add(bool(positive))
        centre = np.linalg.solve(noisy_A, noisy_b) if positive else noisy_b
        middle = noisy_A if form == "as-printed" else np.linalg.inv(noisy_A)
        decision = policy.decide(offered)
        state = policy.state
        np.testing.assert_allclose(state.estimate, centre, rtol=1e-8)
        np.testing.assert_allclose(state.root @ state.root.T, middle if positive else np.eye(D), rtol=1e-8, atol=1e-10)
        used = state.estimate if form == "as-printed" else state.parameter
        assert decision.action == int(np.argmax(offered @ used))
        policy.learn(decision, float(reward))
        policy.advance()
        x = offered[decision.action]
        A, b = A + np.outer(x, x), b + reward * x
    assert outcomes == {True, False}


def test_thompson_samples_have_covariance_alpha_times_s_s():
    policy = Policy(made(TS, alpha=0.7), seed=5, source=None)
    policy.state.root[:] = [[2.0, 0, 0], [1.0, 0.5, 0], [-1.0, 0.3, 0.1]]
    samples = []
    for _ in range(3000):
        policy.consider(np.eye(D))
        samples.append(policy.state.parameter.copy())
    white = np.linalg.solve(policy.state.root, np.array(samples).T) / math.sqrt(0.7)
    assert kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
    assert kstest(white.ravel() * math.sqrt(0.7), "norm").pvalue < FALSE_ALARM


def test_without_noise_they_are_linucb_and_lints():
    candidates, rewards = offers(300)
    greedy = {"name": "lints", "v": 0.0}
    for name, alpha, parent in (
        (UCB, 0.7, {"name": "linucb", "alpha": 0.7, "ridge": 2.0}),
        (TS, 0.0, {**greedy, "ridge": 2.0}),
    ):
        quiet = Policy(made(name, 300, alpha=alpha, ridge=2.0), seed=1, source=None)
        quiet.state.scalars["scale"] = 0.0
        plain = Policy(
            policies.settings(parent.pop("name"), {"dimension": D, "rounds": 300, **parent}), seed=2, source=None
        )
        for offered, reward in zip(candidates, rewards, strict=True):
            ours, theirs = quiet.decide(offered), plain.decide(offered)
            assert ours.action == theirs.action
            quiet.learn(ours, float(reward))
            plain.learn(theirs, float(reward))
        quiet.advance()
        plain.advance()
        learner = getattr(plain.state, "learner", plain.state)
        inverse, mean = learner.root @ learner.root.T, learner.root @ learner.coordinates
        np.testing.assert_allclose(quiet.state.root @ quiet.state.root.T, inverse, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(quiet.state.estimate, mean, rtol=1e-9)


def test_without_noise_in_one_dimension_thompson_is_lints_with_the_same_normal_numbers():
    """The root of A^-1 is then unique, so that equal streams give equal samples: v^2 = alpha."""
    quiet = Policy(policies.settings(TS, {"dimension": 1, "rounds": 200, "alpha": 0.5}), seed=4, source=None)
    quiet.state.scalars["scale"] = 0.0
    plain = Policy(policies.settings("lints", {"dimension": 1, "rounds": 200, "v": math.sqrt(0.5)}), seed=4, source=None)
    learner = getattr(plain.state, "learner", plain.state)
    rng, actions = np.random.default_rng(4), []
    for _ in range(200):
        offered = rng.uniform(-1, 1, (5, 1))
        ours, theirs = quiet.decide(offered), plain.decide(offered)
        assert ours.action == theirs.action
        np.testing.assert_allclose(quiet.state.parameter, learner.parameter, rtol=1e-9)
        reward = float(rng.uniform() < 0.5 + 0.2 * offered[ours.action, 0])
        quiet.learn(ours, reward)
        plain.learn(theirs, reward)
        actions.append(float(offered[ours.action, 0]))
    assert min(actions) < 0 < max(actions)  # samples of both signs


def test_nodes_are_laplace_and_the_scale_is_the_published_one():
    settings = made(UCB, 2048)
    assert settings.scale == pytest.approx(11 * 9 * 1.0)  # log2(T) / epsilon_0, epsilon_0 = 2 / (9 + 9)
    policy = Policy(settings, seed=0, source=None)
    rows = [np.zeros(9)]
    for _ in range(1500):
        policy.learn(policy.decide(np.zeros((1, D))), 0.0)
        policy.advance()
        rows.append(policy.state.above[0].copy())
    leaves = (np.array(rows[1::2]) - np.array(rows[:-1:2])).ravel() / settings.scale
    assert kstest(leaves, laplace.cdf).pvalue > FALSE_ALARM
    for wrong in (2 / 3, 3 / 2):
        assert kstest(wrong * leaves, laplace.cdf).pvalue < FALSE_ALARM
    # after 1024 = 2^10 rounds one node, after 1023 ten of them
    assert len({tuple(row) for row in rows}) == len(rows)


@pytest.mark.parametrize("dimension", [1, 2, 5, 20])
def test_reach_of_one_row(dimension):
    """No replaced row moves the triangle of x x' and r x by more; half of it is attained by removing one."""
    settings = policies.settings(UCB, {"dimension": dimension, "rounds": 10})
    rng = np.random.default_rng(dimension)
    lower = np.tril_indices(dimension)

    def entries(x, r):
        return np.concatenate([np.outer(x, x)[lower], r * x])

    even = np.full(dimension, dimension**-0.5)
    removed = np.abs(entries(even, 1)).sum()
    assert removed == pytest.approx((dimension + 1) / 2 + math.sqrt(dimension))
    assert settings.row_reach <= 2 * removed + 1e-9
    worst = 0.0
    for _ in range(3000):
        x, z = (row / np.linalg.norm(row) for row in rng.choice([-1, 0, 1], (2, dimension)) + 1e-3)
        worst = max(worst, np.abs(entries(x, 1.0) - entries(z, 1.0)).sum())
    assert settings.row_reach / 2 < worst <= settings.row_reach + 1e-9


def test_the_guarantee_is_the_true_one():
    # T = 1e5: 17 nodes hold a round, the published scale has log2 T = 16.61 of them
    for dimension, reach, factor in ((1, 3, 2), (2, 3 + 2 * math.sqrt(2), 5), (5, 6 + 2 * math.sqrt(5), 20)):
        options = {"dimension": dimension, "rounds": 10**5}
        published = policies.settings(UCB, options).guarantee()
        assert published.epsilon == pytest.approx(17 / math.log2(1e5) * reach / factor)
        assert (published.epsilon > 1) == (dimension <= 2)  # unsound as published there: the true one is stated
        assert published.nominal_epsilon == 1
        assert (published.unit, published.neighbours, published.delta, published.exact) == ("joint", "replace", 0, False)
        tight = policies.settings(TS, {**options, "calibration": "tight"}).guarantee()
        assert tight.epsilon == pytest.approx(1)
        assert tight.nominal_epsilon is None
        assert privacy.CONDITIONS["own-action-hidden"] in tight.assumptions


@pytest.mark.parametrize("name", [UCB, TS])
def test_refuses_bad_settings(name):
    for option, value in (
        *(("epsilon", v) for v in (0, -1, math.nan, math.inf, "1", True)),
        *(("delta", v) for v in (1, -0.1, math.nan)),
        *(("alpha", v) for v in (-1, math.nan)),
        *(("ridge", v) for v in (0, -1)),
        ("calibration", "exact"),
        ("form", "printed"),
        ("dimension", 0),
        *(("rounds", v) for v in (0, 1, 1e3)),
    ):
        with pytest.raises(InputError, match=rf"^Expected {option}(=| to be given)"):
            policies.settings(name, {"dimension": D, "rounds": 80, option: value})
    with pytest.raises(InputError, match=r"^Expected source="):
        Policy(made(name), seed=None, source=Secure())
