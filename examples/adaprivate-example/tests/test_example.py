"""The package as its user meets it: found by name, simulated, and doing what it says."""

import numpy as np
import pytest

import adaprivate as ap
from adaprivate.check import InputError
from adaprivate.simulation import run_all
from adaprivate.testing import policy_checks
from adaprivate_example import batch_greedy
from adaprivate_example.epsilon_greedy import EXAMPLES, EpsilonGreedySettings
from adaprivate_example.lucky_arm import LuckyArm


def test_is_found_by_name():
    assert ap.policies.settings_class("epsilon-greedy") is EpsilonGreedySettings
    assert ap.environments.environment("lucky-arm") == LuckyArm()


@pytest.mark.parametrize("check", policy_checks().values(), ids=policy_checks().keys())
@pytest.mark.parametrize("settings", EXAMPLES, ids=["greedy", "curious"])
def test_conforms(settings, check):
    """What adaprivate.testing.check_policy(settings) runs, one by one: that it is as private as it says, too."""
    check(settings, world=LuckyArm(arms=settings.dimension))


@pytest.mark.parametrize("check", policy_checks().values(), ids=policy_checks().keys())
def test_on_released_sums_too(check):
    check(batch_greedy.EXAMPLES[0])


def test_runs_with_exact_noise():
    policy = ap.policy("batch-greedy", dimension=3, rounds=60, batch_size=12, source=ap.Secure(), propensities=True)
    for _ in range(30):
        decision = policy.decide(np.eye(3))
        assert decision.propensity in (pytest.approx(0.05 / 3), pytest.approx(0.95 + 0.05 / 3))
        policy.learn(decision, decision.action == 1)
    assert policy.version == 2
    assert not policy.guarantee.simulated


def test_learns_and_more_privacy_costs():
    rows = ap.simulate(["epsilon-greedy", "random"], "lucky-arm", rounds=2_000, seeds=20, epsilon=[0.01, 5.0]).to_dicts()
    share = {(row["policy"], row["epsilon"]): row["learned_share"] for row in rows}
    assert share["epsilon-greedy", 5.0] > 0.8
    assert share["epsilon-greedy", 5.0] > share["epsilon-greedy", 0.01] + 0.2
    assert abs(share["random", None]) < 0.1


@pytest.mark.parametrize("explore", [0.0, 1.0])
def test_each_release_is_the_mean_of_its_pulls_plus_noise(explore):
    policy = ap.policy("epsilon-greedy", seed=3, dimension=3, rounds=100, explore=explore)
    noise = EpsilonGreedySettings(dimension=3, rounds=100).noise_tables([3])[0]
    waiting, means, level = [[], [], []], np.ones(3), [0, 0, 0]
    for t in range(100):
        decision = policy.decide(np.eye(3))
        assert explore or decision.action == np.argmax(means)
        reward = (t * 7 % 10) / 10
        policy.learn(decision, reward)
        policy.advance()
        arm = decision.action
        waiting[arm].append(reward)
        if len(waiting[arm]) == 2 ** level[arm]:
            means[arm] = np.mean(waiting[arm]) + noise[level[arm], arm] / 2 ** level[arm]
            level[arm] += 1
            waiting[arm] = []
        assert policy.state.means == pytest.approx(means)
    assert not explore or min(level) >= 3


def test_states_its_guarantee_and_refuses_what_it_cannot_promise():
    settings = EpsilonGreedySettings(dimension=3, rounds=100, epsilon=0.5)
    assert (settings.guarantee().epsilon, settings.guarantee().delta) == (0.5, 0.0)
    with pytest.raises(InputError, match="for a policy with exact noise, not epsilon-greedy"):
        settings.guarantee(exact_noise=True)


def test_every_seed_has_one_lucky_arm():
    worlds = [LuckyArm(arms=4, low=0.2, high=0.9).world(seed).means for seed in range(40)]
    assert all(sorted(means) == [0.2, 0.2, 0.2, 0.9] for means in worlds)
    assert len({int(np.argmax(means)) for means in worlds}) == 4


def test_same_seed_same_run():
    settings = EpsilonGreedySettings(dimension=5, rounds=300)
    one, two = (run_all([settings], LuckyArm(), [1, 2])[0] for _ in range(2))
    assert [(run.reward, run.regret) for run in one] == [(run.reward, run.regret) for run in two]
