"""Blocks of arms with exact noise: lazy-dp-ts, dp-se and their kin. Their law and price: adaprivate.testing.blocks."""

import numpy as np
import pytest

import adaprivate
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.compiled import streams
from adaprivate.mechanisms import Secure, packing
from adaprivate.mechanisms.blocks import BlockPlan
from adaprivate.mechanisms.channels import ITEMS, NOWHERE
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.mechanisms.units import Event
from adaprivate.purposes import Purpose
from adaprivate.runtime.learner import Learner
from adaprivate.runtime.policy import Policy
from adaprivate.testing.books import open_noise

LAZY = ("lazy-dp-ts", "anytime-lazy-ucb", "adap-ucb", "adap-klucb")
EVERY = (*LAZY, "dp-se")
MEANS = (0.9, 0.4, 0.1)


def made(name, rounds=60, **options):
    return Policy(policies.settings(name, {"dimension": 3, "rounds": rounds, **options}), source=Secure())


def play(policy, rounds, rewarded=lambda number: True):
    """Rewards 0.9, 0.4, 0.1, where they come; the actions and the versions they were decided at."""
    seen = []
    for number in range(rounds):
        decision = policy.decide(np.eye(3))
        seen.append((decision.action, decision.version))
        if rewarded(number):
            policy.learn(decision, MEANS[decision.action])
    policy.advance()
    return seen


@pytest.mark.parametrize("name", EVERY)
def test_the_guarantee_is_pure_and_says_what_is_enforced(name):
    policy = made(name, epsilon=0.7)
    play(policy, 60)
    statement = policy.guarantee
    assert (statement.epsilon, statement.delta, statement.unit) == (0.7, 0.0, "event")
    assert statement.exact
    assert not statement.simulated
    names = ("reward-range", "one-arm", "released-schedule", "exact-noise", "secret-noise")
    assert set(statement.enforced) == {privacy.CONDITIONS[one] for one in names}
    assert statement.assumptions == (privacy.CONDITIONS["no-replay"],)


@pytest.mark.parametrize("name", LAZY)
def test_releases_come_when_samples_have_doubled_and_not_when_rewards_come(name):
    """Without noise and with bits for rewards: the same choices and versions whether zeros are told or never come."""
    with open_noise(silent=True):
        told, gone = made(name), made(name)
        told.learner.rng[:], gone.learner.rng[:] = (streams(5, Purpose.EXPLORATION, Purpose.CHOICE) for _ in range(2))
        for _ in range(60):
            one, two = told.decide(np.eye(3)), gone.decide(np.eye(3))
            assert (one.action, one.version) == (two.action, two.version)
            told.learn(one, 0.0)
            assert (told.version, told.round) == (gone.version, gone.round)
        told.finish()
        gone.finish()
    assert told.version == gone.version > 6
    pulls = told.state.arms["pulls"]
    assert told.version == sum(int(np.log2(n + 1)) if not told.settings.holds else int(np.log2(n)) + 1 for n in pulls)


@pytest.mark.parametrize("name", EVERY)
def test_choices_are_a_public_function_of_releases(name):
    """A learner that sees actions and releases alone ends in the policy's own state, bit for bit."""
    rounds = 9000 if name == "dp-se" else 200
    policy = made(name, rounds=rounds, epsilon=2.0)
    heard, kept = [], policy.learner.read
    policy.learner.read = lambda release: (heard.append((policy.learner.done[0], release)), kept(release))
    actions = [action for action, _ in play(policy, rounds)]
    twin = Learner(policy.settings.learner(), streams(0, Purpose.EXPLORATION, Purpose.CHOICE))
    waiting = list(heard)
    for number, action in enumerate(actions, 1):
        if twin.state.scalars.dtype.names and "held" in twin.state.scalars.dtype.names:
            twin.state.scalars["held"] = policy.settings.holds * (action + 1) - 1 if number > 3 else -1
        twin.counted(np.eye(3)[action])
        while waiting and waiting[0][0] == number:
            twin.read(waiting.pop(0)[1])
    assert heard
    assert not waiting
    assert [part.tobytes() for part in twin.state if part.dtype.names is None] == [
        part.tobytes() for part in policy.state if part.dtype.names is None
    ]
    assert twin.state.arms.tolist() == policy.state.arms.tolist()


def test_successive_elimination_releases_every_arm_once_an_epoch_and_then_keeps_nothing():
    rounds = 9000
    policy = made("dp-se", rounds=rounds, epsilon=2.0)
    quota = int(policy.state.scalars["quota"][0])
    assert 3 * quota < rounds
    seen = play(policy, 3 * quota)
    assert [action for action, _ in seen] == [number % 3 for number in range(3 * quota)]
    assert [version for _, version in seen[-3:]] == [0, 1, 2]
    assert policy.version == 3
    assert int(policy.state.scalars["left"][0]) == 1  # the gaps are wide, false alarm below 1e-20
    assert policy.state.arms["left"].tolist() == [True, False, False]
    play(policy, 50)
    assert policy.version == 3
    assert packing.from_bytes(policy.book.to_bytes())["blocks"] == []


@pytest.mark.parametrize("name", EVERY)
def test_saved_and_loaded_it_goes_on(name, tmp_path, kit):
    policy = made(name)
    play(policy, 25)
    policy.save(tmp_path / "p")
    loaded = adaprivate.load(tmp_path / "p")
    assert kit.everything(loaded) == kit.everything(policy)
    assert loaded.guarantee == policy.guarantee
    play(loaded, 35)
    assert loaded.round == 60
    with pytest.raises(InputError, match="to be continued once"):
        play(policy, 35)


def test_a_plan_survives_storage_and_a_book_closes_without_changing():
    plan = BlockPlan(epsilon=1.0)
    assert plan_from_bytes(plan.to_bytes()) == plan
    book = plan.book(Secure())
    book.add(Event(0, np.eye(2)[1], 1.0, channel=ITEMS, block=1))
    book.add(Event(1, np.eye(2)[0], 1.0, channel=NOWHERE))
    book.add(Event(2, np.eye(2)[1], 1.0, channel=ITEMS, block=1, closes=True))
    before = book.to_bytes()
    with open_noise(silent=True) as seen:
        release, after = book.close()
    assert book.to_bytes() == before
    assert (release.values.tolist(), release.batch, seen[0].kind) == ([2.0], 0, "items")
    assert (after.round, after.batch, packing.from_bytes(after.to_bytes())["blocks"]) == (3, 1, [])
    twin = type(book).from_bytes(before, plan, Secure())
    assert twin.to_bytes() == before
    with pytest.raises(InputError, match=r"^Expected event.closes=True == False but for items\.$"):
        after.add(Event(3, np.eye(2)[0], 1.0, channel=NOWHERE, closes=True))
    with pytest.raises(InputError, match="reward"):
        after.add(Event(3, np.eye(2)[0], 1.5, channel=NOWHERE))
    with pytest.raises(InputError, match=r"^Expected delta=1e-05 == 0: blocks cost epsilon alone\.$"):
        BlockPlan(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_an_epsilon_that_exact_noise_cannot_keep_is_refused_beforehand(name):
    settings = policies.settings(name, {"dimension": 3, "rounds": 60, "epsilon": 31.0})
    assert settings.guarantee().simulated
    for refused in (lambda: settings.guarantee(exact_noise=True), lambda: Policy(settings, source=Secure())):
        with pytest.raises(InputError, match=r"^Expected epsilon=31.0 >= 1e-06 and <= 30\.$"):
            refused()
