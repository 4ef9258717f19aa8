"""Rounds are counted at public moments: whether and when a reward came shows in nothing but its own release."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from adaprivate import check, policies
from adaprivate.mechanisms import Secure
from adaprivate.runtime.policy import Policy
from adaprivate.testing.suite import whose

EXAMPLES = {name: policies.examples(name) for name in policies.names()}
CASES = [(e, f"{name}-{i}") for name, found in EXAMPLES.items() for i, e in enumerate(found)]
each = pytest.mark.parametrize("settings", [e for e, _ in CASES], ids=[i for _, i in CASES])


def offers(settings, rounds):
    if settings.fixed_arms:
        return np.tile(np.eye(settings.dimension), (rounds, 1, 1))
    return np.random.default_rng(5).standard_normal((rounds, 4, settings.dimension)) / 4


def shown(policy, candidates):
    """What an outsider can see between decisions."""
    visible = [policy.version, policy.round, policy.decided]
    try:
        visible.append(policy.propensities(candidates).probability.tolist() if policy.reward_window else None)
    except check.InputError as error:
        visible.append(str(error))
    return visible


def transcript(policy, candidates, comes):
    """Everything public along a run where only some rewards come; all that do are the value of a missing one."""
    seen = []
    for number, offered in enumerate(candidates):
        decision = policy.decide(offered, **whose(policy.settings, number))
        seen.append((decision.action, decision.version))
        if comes(number):
            policy.learn(decision, policy.settings.missing)
        seen.append(shown(policy, offered))
    policy.advance()
    seen.append(shown(policy, candidates[0]))
    policy.finish()
    seen.append((policy.version, policy.round))
    return seen


@each
@pytest.mark.parametrize("window", [0, 4])
def test_a_missing_reward_looks_like_a_present_one(settings, window):
    """The reward that comes equals what a missing one counts as, so that nothing at all may differ, at any moment."""
    if settings.fixed_arms and window:
        return
    rounds = min(settings.rounds, 40)
    candidates = offers(settings, rounds)
    patterns = [lambda n: True, lambda n: False, lambda n: n % 3 == 1, lambda n: n < rounds - 1]
    seen = [transcript(Policy(settings, seed=3, reward_window=window), candidates, pattern) for pattern in patterns]
    assert all(one == seen[0] for one in seen)


SECURE = [
    policies.settings("adaprivate-ts", {"dimension": 3, "rounds": 60, "batch_size": 5}),
    *(
        policies.settings("noise-aware-greedy", {"dimension": 3, "rounds": 60, "channel": channel})
        for channel in ("auto", "flip", "gaussian", "items")
    ),
]


@pytest.mark.parametrize("settings", SECURE, ids=lambda s: f"{s.name}-{getattr(s, 'channel', '')}")
@pytest.mark.parametrize("window", [0, 3])
def test_with_exact_noise_versions_and_rounds_follow_decisions_alone(settings, window):
    candidates = offers(settings, 60)
    seen = []
    for comes in (True, False):
        policy = Policy(settings, source=Secure(), reward_window=window)
        moments = []
        for offered in candidates:
            decision = policy.decide(offered)
            moments.append((decision.version, policy.version, policy.round))
            if comes:
                policy.learn(decision, 1.0)
            moments.append((policy.version, policy.round, policy.book.batch))
        policy.finish()
        seen.append([*moments, (policy.version, policy.book.batch)])
    assert seen[0] == seen[1]
    assert seen[0][-1][0] == seen[0][-1][1]
    channel = getattr(settings, "channel", "")
    scouted = {"items": getattr(settings, "scouted", 0)}.get(channel, 0)  # of items never seen again
    batches = channel in ("", "gaussian")
    assert seen[0][-1][0] == (len(policy.settings.ends) if batches else 60 - scouted) > 3


@each
def test_learning_releases_nothing(settings):
    policy = Policy(settings, seed=0)
    before = None
    for number, offered in enumerate(offers(settings, min(settings.rounds, 30))):
        decision = policy.decide(offered, **whose(settings, number))
        before = (policy.version, policy.round, str(policy.state))
        policy.learn(decision, 1.0)
        assert (policy.version, policy.round, str(policy.state)) == before


UNKNOWN = r"^Expected policy's state='\w+' to have probabilities that can be computed\.$"
HIDDEN = r"^Expected policy='[\w-]+' to choose by what it released, for its probabilities to be public\.$"
WITHOUT = {
    **dict.fromkeys(("filtered-thompson", "modified-thompson", "thompson"), HIDDEN),
    **dict.fromkeys(("adac-ucb", "adap-klucb", "adap-ucb", "anytime-lazy-ucb", "coreset-elimination", "dp-se"), UNKNOWN),
    **dict.fromkeys(("dp-ts", "lazy-dp-ts", "mishra-thakurta-ts", "mishra-thakurta-ucb", "ucb1", "beta-thompson"), UNKNOWN),
}
"""Policies without probabilities, and what asking for them says."""


@pytest.mark.parametrize("settings", [found[0] for found in EXAMPLES.values()], ids=lambda s: s.name)
@pytest.mark.parametrize("window", [0, 2])
def test_propensities_are_those_of_the_next_decision(settings, window):
    window = 0 if settings.fixed_arms else window
    if settings.name in WITHOUT:
        policy = Policy(settings, seed=1)
        for refused in (policy.propensities, lambda offered: policy.decide(offered, propensity=True)):
            with pytest.raises(check.InputError, match=WITHOUT[settings.name]):
                refused(offers(settings, 1)[0])
        assert policy.decided == 0
        return
    asked, told = (
        Policy(settings, seed=1, reward_window=window),
        Policy(settings, seed=1, reward_window=window, propensities=True),
    )
    rewards = np.random.default_rng(2).uniform(size=50)
    for offered, reward in zip(offers(settings, min(settings.rounds, 50)), rewards, strict=False):
        expected = asked.propensities(offered).probability
        one, two = (policy.decide(offered, **whose(settings, policy.decided)) for policy in (asked, told))
        assert one.propensity is None
        assert one.action == two.action
        assert two.propensity == expected[two.action]
        for policy, decision in ((asked, one), (told, two)):
            policy.learn(decision, float(reward))


def test_a_decision_says_its_propensity_on_request_and_is_drawn_by_it():
    """5,000 decisions of one state: action shares match the stated propensities (chi-square, false alarm 1e-6)."""
    settings = policies.settings("lints", {"dimension": 3, "rounds": 10_000})
    policy = Policy(settings, seed=0)
    candidates = np.random.default_rng(0).standard_normal((4, 3)) / 2
    made = policy.decide_many(np.tile(candidates, (5000, 1, 1)), propensity=True)
    stated = np.array([next(d.propensity for d in made if d.action == a) for a in range(4)])
    counts = np.bincount([d.action for d in made], minlength=4)
    assert stated.sum() == pytest.approx(1, abs=0.01)
    assert stats.chisquare(counts, 5000 * stated / stated.sum()).pvalue > 1e-6
    wrong = np.roll(stated, 1)
    assert stats.chisquare(counts, 5000 * wrong / wrong.sum()).pvalue < 1e-6


def test_a_policy_that_samples_for_privacy_tells_no_probabilities():
    settings = policies.settings("thompson", {"dimension": 3, "rounds": 50})
    message = r"^Expected policy='thompson' to choose by what it released, for its probabilities to be public\.$"
    with pytest.raises(check.InputError, match=message):
        Policy(settings, seed=0, propensities=True)
    policy = Policy(settings, seed=0)
    with pytest.raises(check.InputError, match=message):
        policy.decide(np.eye(3), propensity=True)
    with pytest.raises(check.InputError, match=message):
        policy.propensities(np.eye(3))
    assert policy.decided == 0
    assert dataclasses.is_dataclass(settings)


@pytest.mark.parametrize("channel", ["flip", "gaussian"])
def test_what_is_planned_at_a_decision_is_planned_before_it_chooses(channel):
    """It is the decision of a twin that was told to count first."""
    candidates = np.random.default_rng(6).standard_normal((60, 8, 3)) / 4
    for seed in range(6):
        options = {"dimension": 3, "rounds": 60, "channel": channel, "epsilon": 4.0}
        policy, twin = (Policy(policies.settings("noise-aware-ts", options), seed=seed) for _ in range(2))
        planned = policy.settings.planned
        assert planned is not None
        for number, offered in enumerate(candidates[: planned + 5]):
            twin.advance()
            one, other = policy.decide(offered), twin.decide(offered)
            assert (one.action, one.version) == (other.action, other.version), (seed, number)
            for told, decision in ((policy, one), (twin, other)):
                told.learn(decision, float(number % 2))
        assert policy.settings.planned != planned
        assert policy.settings == twin.settings


@pytest.mark.parametrize("seed", [0, None], ids=["simulated", "exact"])
def test_several_decisions_made_at_once_are_counted_at_once(seed):
    settings = policies.settings("adaprivate-ts", {"dimension": 3, "rounds": 60, "batch_size": 10})
    policy = Policy(settings, seed=seed, source=Secure() if seed is None else None)
    many = policy.decide_many(np.tile(np.eye(3), (3, 1, 1)))
    policy.decide(np.eye(3))
    assert (policy.round, policy.decided) == (3, 4)
    for decision in many:
        with pytest.raises(check.InputError, match="to be open") as refused:
            policy.learn(decision, 1.0)
        assert refused.value.reason == "late"


def test_whoever_goes_on_knows_which_rounds_close_nothing():
    """After planning on and from a file: what counts and chooses in one step ends where the batch does."""
    options = {"dimension": 3, "rounds": 60, "channel": "gaussian"}
    policy = Policy(policies.settings("noise-aware-ts", options), source=Secure())
    for _ in range(62):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    assert (policy.round, policy.settings.rounds) == (61, 120)  # planned on after round 60
    assert policy._engine.fused_until == policy.book.sums_until > policy.round
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded._engine.fused_until == loaded.book.sums_until > loaded.round
