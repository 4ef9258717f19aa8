"""While decisions are open, `noise-aware` does not choose the same for all of them; and what a policy says of itself."""

import re
import warnings

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import environments, policies
from adaprivate.mechanisms import Secure
from adaprivate.policies.noise_aware.state import place_of
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import run_all

ARMS = np.eye(6)


def made(name="noise-aware", *, window=0, source=None, **options):
    own = {} if name == "linucb" else {"epsilon": 2.0}
    values = {"dimension": 6, "rounds": 400, **own, **options}
    settings = policies.settings(name, values)
    return Policy(settings, seed=None if source else 3, source=source, reward_window=window)


def play(policy, rounds, seed=0, candidates=None):
    rng = np.random.default_rng(seed)
    actions = []
    for _ in range(rounds):
        offered = ARMS if candidates is None else candidates(rng)
        decision = policy.decide(offered)
        policy.learn(decision, float(rng.uniform() < 0.3 + 0.1 * (decision.action % 5)))
        actions.append(decision.action)
    return np.array(actions)


def learner(policy):
    return getattr(policy.state, "learner", policy.state)


@pytest.mark.parametrize("source", [None, Secure()], ids=["simulated", "exact"])
def test_open_decisions_are_sampled(source):
    """Of 50 decisions made at once no candidate takes more than 40: at random that has a probability of 1e-20."""
    policy = made(window=60, source=source)
    assert max(np.bincount(play(policy, 50))) <= 40
    policy = made(source=source)
    play(policy, 60)
    at_once = [decision.action for decision in policy.decide_many(np.tile(ARMS, (50, 1, 1)))]
    assert len({*at_once}) > 1
    alone = made("noise-aware-ucb", window=60, source=source)
    assert len({*play(alone, 50)}) == 1  # an upper bound, whatever is open


def test_nothing_is_sampled_alone_or_where_candidates_change():
    fresh = lambda rng: rng.standard_normal((4, 6)) / 3  # noqa: E731
    for options, candidates in (({"window": 0}, None), ({"window": 9, "batch_size": 20}, fresh)):
        policy = made(**options)
        play(policy, 80, candidates=candidates)
        before = policy._engine.rng.copy()
        assert policy.settings.choice.changing == (candidates is not None)
        play(policy, 40, seed=1, candidates=candidates)
        assert np.array_equal(policy._engine.rng, before)  # no random number is drawn to explore


def test_open_counts_decisions_not_yet_counted():
    policy = made(window=7)
    for number in range(1, 60):
        play(policy, 1, seed=number)
        assert learner(policy).scalars["open"][0] == policy.decided - policy.round
    policy.consider(ARMS)
    policy.propensities(ARMS)
    assert learner(policy).scalars["open"][0] == policy.decided - policy.round
    policy.finish()
    assert learner(policy).scalars["open"][0] == 0
    policy = made()
    for number in range(20):
        policy.observe(ARMS[number % 6], 1.0)
    assert learner(policy).scalars["open"][0] == 0


def test_propensities_are_those_of_open_decisions():
    """The first of several is certain, the others sampled: shares of 4,000 choices within 5 standard errors."""
    policy = made()
    play(policy, 60)
    policy.advance()
    many = np.tile(ARMS, (4000, 1, 1))
    stated = Policy.from_bytes(policy.to_bytes())._probabilities(many)
    assert sorted(stated[0]) == [0, 0, 0, 0, 0, 1]
    assert np.ptp(stated[1:], axis=0).max() < 0.02  # integrated numerically, each by itself
    actions = [decision.action for decision in policy.decide_many(many)]
    assert stated[0][actions[0]] == 1
    shares = np.bincount(actions[1:], minlength=6) / 3999
    assert np.all(np.abs(shares - stated[1]) <= 5 * np.sqrt(stated[1] * (1 - stated[1]) / 3999) + 2e-3)


def test_a_policy_says_what_it_is():
    policy = made(window=2)
    assert repr(policy) == "<noise-aware: 0 decisions, 0 rounds, 0 releases, simulated noise>"
    play(policy, 60)
    found = re.fullmatch(
        r"<noise-aware: 60 decisions, 57 rounds, (\d+) releases, channel (\w+), simulated noise>", repr(policy)
    )
    assert (int(found[1]), found[2]) == (policy.version, policy.settings.choice.channel)
    assert repr(made("linucb")) == "<linucb: 0 decisions, 0 rounds, 0 releases, simulated noise>"
    assert repr(made(source=Secure())).endswith("exact noise>")


def test_names_are_found_where_users_look():
    assert {"policy", "load", "flip", "InputError", "RewardRefusedError", "LittleToLearnWarning"} <= {*dir(ap)}
    for name in dir(ap):
        assert getattr(ap, name) is not None
    with pytest.raises(ap.InputError, match=r"^Expected rounds to be given for noise-aware\.$"):
        ap.policy("noise-aware", dimension=3, seed=0)


def test_every_policy_warns_and_a_simulation_once():
    place = environments.environment("synthetic", {"dimension": 40, "arms": 0})
    hopeless = policies.settings("noise-aware", {"dimension": 40, "rounds": 300, "epsilon": 0.1})
    with pytest.warns(ap.LittleToLearnWarning) as said:
        run_all([hopeless], place, range(6), jobs=2)
    assert len(said) == 1
    fresh = lambda rng: rng.standard_normal((4, 40)) / 10  # noqa: E731
    for _ in range(2):
        with pytest.warns(ap.LittleToLearnWarning) as said:
            play(Policy(hopeless, seed=1), 40, candidates=fresh)
        assert len(said) == 1
        assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy = Policy(hopeless, seed=1)
        with pytest.raises(ap.LittleToLearnWarning):
            play(policy, 40, candidates=fresh)
        play(policy, 40, candidates=fresh)  # planned on all the same
        assert policy.settings.choice is not None


# --- items: told apart, found out, and not for ever ---------------------------------------------------------------------


def test_items_that_share_a_slot_are_told_apart():
    """Four slots for two items, so that most pairs meet: every one keeps its place, a third finds no room."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        rows = rng.integers(0, 3, size=(3, 2)).astype(float)
        rows[:, 0] = 1.0  # alike in the first coordinate
        items, slots, known, places = np.zeros((2, 2)), np.zeros(4, dtype=np.int64), 0, {}
        for row in rows[[0, 1, 0, 2, 1]]:
            place = place_of(items, slots, known, 2, row.copy())
            key = row.tobytes()
            assert place == places.get(key, known if known < 2 else -1)
            if key not in places and place >= 0:
                places[key], known = place, known + 1


def test_items_that_stop_coming_back_are_flipped():
    """A pool at first, then features that never return: no more items are told apart than twice those foreseen, and 8."""
    rng = np.random.default_rng(1)
    pool = rng.standard_normal((30, 6)) / 4
    policy = made(rounds=4000, epsilon=0.5)
    for number in range(600):
        offered = pool[rng.choice(30, 5, replace=False)] if number < 40 else rng.standard_normal((5, 6)) / 4
        policy.learn(policy.decide(offered), 1.0)
    choice, scalars = policy.settings.choice, learner(policy).scalars[0]
    assert choice.channel == "items"
    assert scalars["items"] == choice.most_items <= 2 * 40 + 8
    assert scalars["channel"] == 0  # the last one was flipped
    assert policy.version > 450


def test_rounds_that_others_decided_are_looked_at_too():
    policy = made(rounds=4000)
    items = np.random.default_rng(2).standard_normal((7, 6)) / 4
    for number in range(60):
        policy.observe(items[number % 7], 1.0)
    assert policy.settings.choice.channel == "items"
    assert policy.settings.choice.most_items <= 2 * 8 + 8


def test_many_candidates_that_stay_are_seen_to_stay():
    policy = Policy(policies.settings("noise-aware", {"dimension": 4, "rounds": 4000}), seed=0)
    offered = np.random.default_rng(3).standard_normal((600, 4)) / 4
    for _ in range(20):
        policy.learn(policy.decide(offered), 0.0)
    assert not policy.settings.choice.changing


def test_equal_features_are_one_item_whatever_the_sign_of_zero():
    policy = made(channel="items")
    for sign in (1.0, -1.0, 1.0):
        policy.learn(policy.decide(np.array([[0.5, sign * 0.0, 0, 0, 0, 0]])), 1.0)
    policy.finish()
    assert learner(policy).scalars["items"][0] == 1


def test_warming_up_after_the_last_batch_touches_nothing():
    """There is no room for a row after the last: a made-up one must not be written there."""
    policy = made(rounds=60, channel="gaussian", source=Secure())
    play(policy, 60)
    policy.finish()
    assert learner(policy).scalars["batch"][0] == len(learner(policy).rows)
    before = policy.learner.to_bytes()
    for _ in range(3):
        policy.warm_up()
    assert policy.learner.to_bytes() == before


def test_none_is_an_answer_too():
    policy = made(window=3)
    decision = policy.decide(ARMS)
    policy.learn(decision, None)
    with pytest.raises(ap.RewardRefusedError) as refused:
        policy.learn(decision, 1.0)
    assert refused.value.reason == "repeated"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reward_variance": 1e-300}, r"^Expected reward_variance=1e-300 >= 0.0001 and <= 0.25\.$"),
        ({"epsilon": 1e-17}, r"^Expected epsilon=1e-17 >= 1e-06 and <= 10000\.$"),
    ],
)
def test_what_would_fail_later_is_refused_now(options, said):
    with pytest.raises(ap.InputError, match=said):
        made(**options)
