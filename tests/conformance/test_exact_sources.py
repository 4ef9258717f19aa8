"""What production rests on: where exact noise comes from, that choices and releases use it, and what "enforced" says."""

import dataclasses
import os
import stat
import threading

import numpy as np
import opendp.prelude as dp
import pytest

import adaprivate
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated, noise, packing
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.laws import RewardLaw
from adaprivate.mechanisms.plan import KEPT, RewardPlan, SamplingPlan, plan_from_bytes
from adaprivate.mechanisms.units import Event, EventSum
from adaprivate.runtime.decision import Origin, RewardRefusedError, life_and_round
from adaprivate.runtime.policy import Policy
from adaprivate.runtime.storage import Lease
from adaprivate.testing.books import open_noise

BATCHED = policies.settings("adaprivate-ts", {"dimension": 3, "rounds": 40, "batch_size": 5})
AWARE = policies.settings(
    "noise-aware-ts", {"dimension": 3, "rounds": 50, "horizon": 20, "batch_size": 5, "channel": "gaussian"}
)
SAMPLED = [e for name in policies.names() for e in policies.examples(name) if isinstance(e.plan, SamplingPlan)]


def forbidden(*_, **__):
    raise AssertionError("production noise was drawn from NumPy")


@pytest.fixture
def no_numpy(monkeypatch):
    for name in ("default_rng", "normal", "standard_normal", "laplace", "Generator", "random"):
        monkeypatch.setattr(np.random, name, forbidden)


@pytest.fixture
def samplers(monkeypatch):
    """OpenDP replaced by known numbers: every draw is 1, 2, 3, ... grid units; the calls are kept."""
    calls = []

    def make(kind):
        def made(domain, metric, scale):
            def draw(zeros):
                calls.append((kind, str(domain), scale, list(zeros)))
                return [1000 * (place + 1) for place in range(len(zeros))]

            return draw

        return made

    for sampler in (noise._gaussian_sampler, noise._laplace_sampler):
        sampler.cache_clear()
    monkeypatch.setattr(dp.m, "make_gaussian", make("gaussian"))
    monkeypatch.setattr(dp.m, "make_laplace", make("laplace"))
    yield calls
    for sampler in (noise._gaussian_sampler, noise._laplace_sampler):
        sampler.cache_clear()


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_secure_noise_is_what_opendp_drew_and_nothing_else(kind, samplers, no_numpy):
    values = np.array([5, -7, 2**50], dtype=object)
    released = getattr(Secure(), kind)(values, 2.5)
    assert released.tolist() == [(v + 1000 * (j + 1)) / 2**40 for j, v in enumerate(values)]
    ((drawn, domain, scale, zeros),) = samplers
    assert (drawn, scale, zeros) == (kind, 2.5 * 2**40, [0, 0, 0])
    assert "i64" in domain
    assert "3" in domain


def test_a_release_in_use_carries_the_noise_that_opendp_drew(samplers):
    policy = Policy(BATCHED, source=Secure())
    for _ in range(6):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    (call,) = samplers
    assert call[0] == "gaussian"
    assert call[2] == pytest.approx(privacy.zcdp_sigma(1.0, 1e-5) * 2**40, rel=1e-12)
    seen = policy.state.statistic * 2**40 % 2**20  # sums are whole multiples of 2^-20, and so noise is left
    assert seen.tolist() == [1000, 2000, 3000]


@pytest.mark.parametrize("settings", SAMPLED, ids=lambda s: f"{s.name}-{s.dimension}")
def test_arms_are_chosen_by_exact_samples_alone(settings, monkeypatch):
    """Whichever arm the exact noise favours is chosen, and exploration's own stream is not touched."""
    arms, drawn, favoured = settings.dimension, [], [0]

    def added(values, scale, sampler):
        drawn.append(sampler)
        extra = np.where(np.arange(arms) == favoured[0], 50 * np.asarray(scale), 0.0)
        return np.array([v / 2**40 for v in values.tolist()]) + extra

    monkeypatch.setattr(noise, "_add", added)
    policy = Policy(settings, source=Secure())
    before, sampled = policy.learner.rng.copy(), 0
    for number in range(settings.rounds):
        favoured[0], earlier = (number * 7) % arms, len(drawn)
        decision = policy.decide(np.eye(arms))
        policy.learn(decision, 0.5)
        if len(drawn) > earlier:
            sampled += 1
            assert drawn[earlier:] == [noise._gaussian_sampler]
            assert decision.action == favoured[0]
    assert sampled > 0
    assert np.array_equal(policy.learner.rng, before)


def test_samples_stand_around_the_true_sums():
    settings = policies.settings("thompson", {"dimension": 3, "rounds": 60})
    policy = Policy(settings, source=Secure())
    rewards = np.zeros(settings.dimension)
    with open_noise(silent=True) as seen:
        for _ in range(20):
            decision = policy.decide(np.eye(settings.dimension))
            assert [int(v) for v in seen[-1].values] == [round(r * 2**40) for r in rewards]
            policy.learn(decision, 0.75)
            rewards[decision.action] += 0.75
    assert len(seen) == 20


# --- rounds, batches and books ----------------------------------------------------------------------------------------


def test_a_book_takes_every_round_once_and_in_order():
    book = BATCHED.plan.book(Secure())
    book.add(Event(0, np.eye(3)[0], 1.0))
    for wrong in (0, 2):
        with pytest.raises(InputError, match=rf"^Expected event.round={wrong} == 1, the next one\.$"):
            book.add(Event(wrong, np.eye(3)[0], 1.0))
    for number in range(1, 5):
        book.add(Event(number, np.eye(3)[0], 1.0))
    with pytest.raises(InputError, match="to be closed before the next round is counted"):
        book.add(Event(5, np.eye(3)[0], 1.0))
    with open_noise(silent=True):
        release, after = book.close()
        again, _ = book.close()
    assert release.values.tolist() == again.values.tolist() == [5.0, 0.0, 0.0]
    assert after._collector.state().tolist() == [0, 0, 0]
    assert (after.round, after.batch, book.batch) == (5, 1, 0)
    with pytest.raises(InputError, match="to complete batch 1"):
        after.close()


def test_simulated_and_exact_sums_are_of_the_same_events():
    for features in ([0.6, 0.0, -0.3], [3.0, 0.0, 4.0]):
        sums = [EventSum(3, noise=source, centre=0.25) for source in (Simulated(0), Secure())]
        for one in sums:
            one.add(features, 0.75)
        x = np.array(features) / max(1.0, np.linalg.norm(features))
        assert sums[0].take() == pytest.approx(0.5 * x)
        assert [entry / 2**20 for entry in sums[1].take()] == pytest.approx(0.5 * x, abs=2.0**-18)


class Shift(RewardLaw):
    """Tells a reward shifted by a known amount."""

    name = "shift"

    def __init__(self):
        self.told = 0

    def tell(self, reward, source):
        assert source.exact
        self.told += 1
        return reward + 10 * self.told

    def price(self):
        return privacy.PurePrice(1.0)


def test_a_book_that_tells_rewards_never_keeps_one():
    law = Shift()
    book = RewardPlan(delta=0.0, law=law, centre=0.5).book(Secure())
    told = book.arrived(0.25)
    assert (float(told), law.told) == (10.25, 1)
    book.add(Event(0, np.eye(3)[0], told))
    assert law.told == 1  # told once
    assert packing.from_bytes(book.to_bytes())["told"] == 10.25
    release, after = book.close()
    assert release.values.tolist() == [9.75]
    after.add(Event(1, np.eye(3)[0], 0.25))
    assert law.told == 2
    assert packing.from_bytes(after.to_bytes())["told"] == 20.25


def test_learning_counts_nothing():
    policy = Policy(BATCHED, source=Secure())
    for number in range(5):
        decision = policy.decide(np.eye(3))
        assert policy.round == number
        policy.learn(decision, 1.0)
        assert (policy.round, policy.version, policy.book.round) == (number, 0, number)
    policy.advance()
    assert (policy.round, policy.version, policy.book.batch) == (5, 1, 1)


def test_propensities_count_what_is_due_first():
    policy = Policy(BATCHED, source=Secure())
    decision = policy.decide(np.eye(3))
    policy.propensities(np.eye(3))
    assert policy.round == 1
    with pytest.raises(InputError, match="to be open"):
        policy.learn(decision, 1.0)


def test_one_reward_for_one_decision():
    policy = Policy(BATCHED, source=Secure())
    decision = policy.decide(np.eye(3))
    policy.learn(decision, 1.0)
    with pytest.raises(InputError, match="to be learned once"):
        policy.learn(decision, 1.0)


def test_a_token_is_worth_nothing_without_its_mark():
    one, two = Origin("aa", b"1" * 16, "bb"), Origin("aa", b"2" * 16, "bb")
    assert life_and_round(one.token(7), one) == ("bb", 7)
    assert life_and_round(one.token(7), Origin("aa", b"1" * 16, "cc")) == ("bb", 7)
    mark = one.token(7).split(".")[3]
    other = Policy(BATCHED, seed=0).decide(np.eye(3)).token
    for forged in (two.token(7), f"aa.bb.8.{mark}", f"aa.cc.7.{mark}", f"aa.bb.7.{mark[:-1]}", "aa.bb.7.", other):
        with pytest.raises(RewardRefusedError, match="a text that is no token of it") as refused:
            life_and_round(forged, one)
        assert refused.value.reason == "foreign"


# --- saved files ------------------------------------------------------------------------------------------------------


def played(rounds=12):
    policy = Policy(BATCHED, source=Secure())
    for _ in range(rounds):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    return policy


def test_a_saved_policy_is_continued_once(tmp_path):
    policy = played()
    policy.save(tmp_path / "p")
    loaded = adaprivate.load(tmp_path / "p")
    with pytest.raises(InputError, match="to be continued once"):
        adaprivate.load(tmp_path / "p")
    for _ in range(3):
        loaded.learn(loaded.decide(np.eye(3)), 1.0)
        with pytest.raises(InputError, match="to be continued once"):
            policy.decide(np.eye(3))
    loaded.decide(np.eye(3))
    assert loaded.version == 3


def test_the_one_that_saved_takes_the_lease_when_it_releases_again(tmp_path):
    policy = played()
    policy.save(tmp_path / "p")
    for _ in range(5):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    with pytest.raises(InputError, match="the policy that saved it"):
        adaprivate.load(tmp_path / "p")


def test_an_engine_asks_before_it_draws_noise():
    """By itself too, whatever the policy around it has asked: refused, it keeps the batch and draws nothing."""
    asked = []

    def refuses():
        asked.append(True)
        raise InputError("Expected nobody else to go on.")

    policy = played(4)
    engine = policy._engine
    engine._before_noise = refuses
    policy.advance()
    assert not asked
    with open_noise(silent=True) as seen:
        for _ in range(2):
            with pytest.raises(InputError, match="nobody else"):
                engine.count(4, np.eye(3)[0], 1.0)
    assert (len(asked), len(seen)) == (2, 0)
    assert (engine.book.round, engine.book.batch, engine.book.due) == (5, 0, True)


def test_a_lease_is_taken_by_one(tmp_path):
    policy = played()
    policy.save(tmp_path / "p")
    saved = policy._stored.lease.saved
    first, second = Lease(tmp_path / "p", saved), Lease(tmp_path / "p", saved)
    first.take("one")
    first.take("one")
    with pytest.raises(InputError, match="to be continued once"):
        second.take("two")
    with pytest.raises(InputError, match="to be continued once"):
        second.expect_free()
    first.expect_free()


def test_files_are_their_owners_alone(tmp_path):
    old = os.umask(0)
    try:
        policy = played()
        policy.save(tmp_path / "p")
        policy._stored.lease.take("somebody")
    finally:
        os.umask(old)
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_books_and_policies_with_exact_noise_are_not_copied():
    import copy
    import pickle

    policy = played(3)
    for thing in (policy, policy.book):
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(InputError, match="not to be copied or pickled"):
                way(thing)


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["decide", "decide_many", "advance", "learn"])
def test_one_thread_at_a_time(method):
    """While one caller is inside, another waits: it comes in only after the first has left."""
    policy = Policy(BATCHED, seed=0)
    policy.warm_up(3)  # compiling would look like waiting
    decision = policy.decide(np.eye(3))
    calls = {
        "decide": lambda: policy.decide(np.eye(3)),
        "decide_many": lambda: policy.decide_many(np.eye(3)[None]),
        "advance": policy.advance,
        "learn": lambda: policy.learn(decision, 1.0),
    }
    entered = threading.Event()
    thread = threading.Thread(target=lambda: (calls[method](), entered.set()))
    with policy._lock:
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(5)
    thread.join()


# --- statements -------------------------------------------------------------------------------------------------------


def test_what_is_called_enforced_is_what_code_enforces():
    statement = Policy(BATCHED, source=Secure()).guarantee
    names = {name for name, text in privacy.CONDITIONS.items() if text in statement.enforced}
    assert names == {"reward-range", "feature-norm", "one-batch", "public-schedule", "exact-noise", "secret-noise"}
    assumed = {name for name, text in privacy.CONDITIONS.items() if text in statement.assumptions}
    assert assumed == {"public-features", "no-replay"}
    assert not {"no-replay", "public-features", "secret-noise", "exact-noise", "secret-sample", "user-identity"} & {*KEPT}
    simulated = BATCHED.guarantee()
    assert privacy.CONDITIONS["exact-noise"] in simulated.assumptions
    assert simulated.simulated
    assert not statement.simulated


@pytest.mark.parametrize("settings", [BATCHED, AWARE, SAMPLED[0]], ids=lambda s: s.name)
def test_exact_noise_pays_for_its_grid(settings):
    plan = settings.plan
    assert plan.price().slack == 0
    assert plan.price(exact_noise=True).slack > 0
    if isinstance(plan, SamplingPlan):
        return
    if isinstance(plan, ChannelPlan):  # charged before sums are planned, for any that may follow
        ahead = plan.price(exact_noise=True).slack
        longest = settings.extended(settings.extended(settings.learner()).learner()).plan
        assert longest.price(exact_noise=True).slack == ahead
        assert ahead == pytest.approx(2**20 * noise.discrete_gaussian_distance(plan.noise_multiplier * 2**40), rel=1e-9)
        plan = longest.sums
        assert len(plan.epochs) > 1
        assert plan.price(exact_noise=True).slack <= ahead
    slacks = [plan.mechanism(epoch, Secure()).slack for epoch in plan.epochs]
    assert plan.price(exact_noise=True).slack >= max(slacks)
    draws = sum(epoch.strategy.rows for epoch in plan.epochs[:1]) * plan.size
    row_std = plan.mechanism(plan.epochs[0], Secure()).row_std
    assert slacks[0] == pytest.approx(draws * noise.discrete_gaussian_distance(row_std * 2**40), rel=1e-9, abs=0)
    assert len(plan.epochs) == 1 or min(slacks) < max(slacks)


def test_noise_covers_the_strategys_sensitivity_and_the_units_change():
    for name in ("tree", "sqrt", "optimal"):
        plan = dataclasses.replace(BATCHED, noise=name).plan
        (epoch,) = plan.epochs
        columns = np.linalg.norm(epoch.strategy.matrix(), axis=0)
        mechanism = plan.mechanism(epoch, Simulated(0))
        assert mechanism.row_std == pytest.approx(plan.noise_multiplier * columns.max(), rel=1e-9)
        assert mechanism.row_std >= plan.noise_multiplier * columns.max() * (1 - 1e-15)


def test_plans_survive_storage():
    for settings in (BATCHED, AWARE, SAMPLED[0]):
        again = plan_from_bytes(settings.plan.to_bytes())
        assert again.price(exact_noise=True) == settings.plan.price(exact_noise=True)
        assert again.guarantee(settings.name, exact_noise=True) == settings.guarantee(exact_noise=True)


def test_sampling_is_in_the_price():
    kind = policies.settings_class("adaprivate-ts-amp")
    statement = kind(dimension=3, rounds=40, batch_size=5, sampling_rate=0.2).guarantee()
    assert statement.epsilon == pytest.approx(1.0, rel=1e-6)
    assert privacy.CONDITIONS["secret-sample"] in statement.assumptions
