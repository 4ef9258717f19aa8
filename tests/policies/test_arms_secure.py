"""Thompson sampling on arms with exact noise from the operating system. Nothing is seeded: false alarms are stated."""

import math

import numpy as np
import pytest
from scipy import stats

import adaprivate
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated
from adaprivate.mechanisms.arm_sampler import ArmSampler
from adaprivate.runtime.policy import Policy

FALSE_ALARM = 1e-9
CASES = {
    "thompson": {},
    "modified-thompson": {"eta": 1.0},
    "filtered-thompson": {"eta": 1.0, "prepulls": 2, "variance": 2.0},
}


def made(name, **options):
    settings = policies.settings(name, {"dimension": 3, "rounds": 60, **CASES[name], **options})
    return Policy(settings, seed=None, source=Secure())


def play(policy, rounds):
    actions = []
    for _ in range(rounds):
        decision = policy.decide(np.eye(3))
        policy.learn(decision, 0.25 * (decision.action + 1))
        actions.append(decision.action)
    policy.advance()
    return actions


def filled(pulls, reward):
    sampler = ArmSampler(2, 2.0, Secure())
    for _ in range(pulls):
        sampler.add(np.array([0.0, 1.0]), reward)
    return sampler


def test_samples_have_the_posterior_law():
    """Kolmogorov-Smirnov, twice at 1e-9; two thirds and three halves of the spread, and a mean of 0, are told apart."""
    sampler = filled(7, 0.5)
    draws = np.array([sampler.samples() for _ in range(2500)])
    for arm, (mean, spread) in enumerate([(0.0, math.sqrt(2)), (3.5 / 8, 0.5)]):
        assert stats.kstest(draws[:, arm], stats.norm(mean, spread).cdf).pvalue > FALSE_ALARM
        for scale in (2 / 3, 3 / 2):
            assert stats.kstest(draws[:, arm], stats.norm(mean, scale * spread).cdf).pvalue < FALSE_ALARM
    assert stats.kstest(draws[:, 1], stats.norm(0, 0.5).cdf).pvalue < FALSE_ALARM
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.15


def test_one_reward_moves_the_sum_by_at_most_one_on_the_grid():
    sums = [int(filled(1, reward).state()[0, 1]) for reward in (0.0, 1e-9, 0.1, 1 / 3, 1.0)]
    assert sums == [0, 0, math.floor(0.1 * 2**20), 2**20 // 3, 2**20]


@pytest.mark.parametrize("name", CASES)
def test_plays_and_states_an_enforced_guarantee(name):
    policy = made(name)
    play(policy, 60)
    statement = policy.guarantee
    assert not statement.simulated
    assert statement.sentence.startswith("This protects")
    assert {privacy.CONDITIONS["exact-noise"], privacy.CONDITIONS["secret-noise"]} <= set(statement.enforced)
    assert privacy.CONDITIONS["no-replay"] in statement.assumptions
    ideal = policy.settings.guarantee()
    assert ideal.epsilon <= statement.epsilon <= ideal.epsilon * 1.01


def test_the_filter_pays_and_commits_with_exact_noise():
    policy = made("filtered-thompson")
    actions = play(policy, 60)
    committed = int(policy.state.scalars[0]["committed"])
    assert committed >= 0
    assert set(actions[-10:]) == {committed}
    assert policy.state.spent.max() <= 1
    assert actions[:6] == [0, 0, 1, 1, 2, 2]


def test_exact_noise_differs_every_time():
    """Two rounds agree by chance about half of the time, 57 of them never (0.6^57 < 1e-12)."""
    first, second = (play(made("thompson"), 60) for _ in range(2))
    assert first != second


def test_saving_keeps_the_exact_sums(kit, tmp_path):
    policy = made("filtered-thompson")
    play(policy, 20)
    policy.save(tmp_path / "p.npz")
    loaded = adaprivate.load(tmp_path / "p.npz")
    assert loaded.book._sampler.state().tolist() == policy.book._sampler.state().tolist()
    assert loaded.book._sampler.state().any()
    assert kit.everything(loaded) == kit.everything(policy)
    assert loaded.guarantee == policy.guarantee
    play(loaded, 40)
    assert loaded.round == 60
    with pytest.raises(InputError, match="to be continued once"):
        policy.decide(np.eye(3))  # a choice is a release


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("modified-thompson", {"dimension": 2, "rounds": 200, "eta": 1.0, "prepulls": 20, "variance": 1e8}),
        ("modified-thompson", {"dimension": 5, "rounds": 10**7, "epsilon": 0.1}),
        ("filtered-thompson", {"dimension": 2, "rounds": 200, "eta": 1.0, "variance": 1e8}),
    ],
)
def test_noise_that_would_fail_during_the_run_is_refused_before_it(name, options):
    settings = policies.settings(name, options)
    message = rf"^Expected variance=.* < .* for exact noise over {settings.rounds} rounds\.$"
    for refused in (lambda: settings.guarantee(exact_noise=True), lambda: Policy(settings, seed=None, source=Secure())):
        with pytest.raises(InputError, match=message):
            refused()
    assert settings.guarantee().simulated


@pytest.mark.parametrize("rewards", [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.5, 0.6, 0.7)])
def test_the_filter_samples_no_longer_than_its_bound(rewards):
    """Its account ends sampling, so that a large variance with many rounds can still be exact."""
    for prepulls, variance, eta in ((1, 1.0, 1.0), (3, 2.0, 1.0), (20, 30.0, 0.3), (5, 0.5, 2.0)):
        settings = policies.settings(
            "filtered-thompson", {"dimension": 3, "rounds": 3000, "eta": eta, "prepulls": prepulls, "variance": variance}
        )
        for seed in range(5):
            policy, most = Policy(settings, seed=seed, source=None), 0
            while policy.round < 3000:
                policy.advance()
                before = policy.state.learner.pulls.max()
                decision = policy.decide(np.eye(3))
                if policy.state.learner.scalars[0]["committed"] >= 0:
                    break
                most = before
                policy.learn(decision, rewards[decision.action])
            assert most <= settings.sampled_pulls < 3000
    many = policies.settings("filtered-thompson", {"dimension": 5, "rounds": 10**7, "epsilon": 0.05})
    assert many.pair[1] * 10**7 > 2**32
    assert not many.guarantee(exact_noise=True).simulated


def test_refuses_what_exact_noise_cannot_keep():
    with pytest.raises(
        InputError, match=r"epsilon=122\.\d <= [\d.]+ for exact noise"
    ):  # even a distance of 1e-24 shows there
        made("filtered-thompson", eta=12.0)
    with pytest.raises(InputError, match="to be exact"):
        ArmSampler(2, 1.0, Simulated(0))
    for name in ("dp-ts", "adac-ucb", "ucb1"):
        settings = policies.settings(name, {"dimension": 3, "rounds": 60})
        with pytest.raises(InputError, match=rf"^Expected source='Secure\(\)' for a policy with exact noise, not {name}"):
            Policy(settings, seed=None, source=Secure())
