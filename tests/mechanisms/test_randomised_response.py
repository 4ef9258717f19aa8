"""Randomised response: what is told of a reward has the stated law, is unbiased, and is all that is kept.

Exact flips come from the operating system and are not seeded: false alarms 1e-9 a test.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from adaprivate import mechanisms, policies
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated, laws
from adaprivate.mechanisms.book import Told
from adaprivate.mechanisms.laws import randomised_response
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.plan import RewardPlan, plan_from_bytes
from adaprivate.mechanisms.units import Event
from adaprivate.runtime.policy import Policy

FALSE_ALARM = 1e-9


@pytest.mark.parametrize("epsilon", [1e-6, 0.0030007, 0.01, 0.064, 0.5, 1.0, 2.0, 5.0, 20.0, 30.0])
def test_never_overspends_and_wastes_nothing(epsilon):
    """The odds of the float that is used, by 50 digits, are at most e^epsilon, and no less than floats can resolve."""
    keep = mpmath.mpf(RandomisedResponse(epsilon).keep)
    with mpmath.workdps(50):
        spent = mpmath.log(keep / (1 - keep))
        assert spent <= mpmath.mpf(epsilon)
        assert spent > epsilon - 1e-9 - 2.0**-50 * math.exp(epsilon)


@pytest.mark.parametrize("epsilon", [1e-6, 0.064, 1.0, 5.0, 30.0])
def test_exactly_so_many_of_all_draws_tell_truly(epsilon, monkeypatch):
    """The last draw that tells truly and the first that does not, of 2^53 alike: p is their share, unrounded."""
    keep = RandomisedResponse(epsilon).keep
    most = Fraction(keep) * 2**53
    assert most.denominator == 1
    for draw, truly in ((0, True), (int(most) - 1, True), (int(most), False), (2**53 - 1, False)):
        monkeypatch.setattr(randomised_response.secrets, "randbits", lambda bits, draw=draw: {53: draw}[bits])
        assert [randomised_response._flipper(keep)(bit) for bit in (True, False)] == [truly, not truly]


@pytest.mark.parametrize("source", [Secure(), Simulated(1)], ids=["exact", "simulated"])
@pytest.mark.parametrize("reward", [0.0, 0.3, 1.0])
def test_tells_one_of_two_values_with_the_stated_odds(source, reward):
    law = RandomisedResponse(1.0)
    n = 4000
    told = np.array([law.tell(reward, source) for _ in range(n)])
    high, low = law.told(1.0), law.told(0.0)
    assert set(np.unique(told)) <= {high, low}
    ones = int((told == high).sum())
    expected = (1 - law.keep) + reward * (2 * law.keep - 1)
    assert stats.binomtest(ones, n, expected).pvalue > FALSE_ALARM
    for epsilon in (2 / 3, 3 / 2):  # power: flips of another epsilon are told apart
        other = RandomisedResponse(epsilon).keep
        if reward != 0.3:
            assert stats.binomtest(ones, n, (1 - other) + reward * (2 * other - 1)).pvalue < FALSE_ALARM
    assert (1 - expected) * low + expected * high == pytest.approx(reward, abs=1e-12)


def test_a_book_of_told_rewards_never_holds_one():
    plan = RewardPlan(delta=0.0, law=RandomisedResponse(2.0), centre=0.5)
    book = plan.book(Secure())
    waiting = book.arrived(0.123456789)
    assert type(waiting) is Told
    assert float(waiting) in (plan.law.told(0.0), plan.law.told(1.0))
    book.add(Event(0, np.ones(2), waiting))
    assert b"123456789" not in book.to_bytes()
    again = type(book).from_bytes(book.to_bytes(), plan, Secure())
    release, after = book.close()
    assert release.values == again.close()[0].values == pytest.approx([float(waiting) - 0.5])
    assert (after.round, after.batch, after.due) == (1, 1, False)
    with pytest.raises(InputError, match="to complete batch 1"):
        after.close()
    assert plan_from_bytes(plan.to_bytes()) == plan


def test_is_found_by_name_and_states_pure_privacy():
    assert laws.named("randomised-response") is RandomisedResponse
    settings = policies.settings("rr-linucb", {"dimension": 3, "rounds": 20, "epsilon": 0.7})
    statement = settings.guarantee(exact_noise=True)
    assert (statement.epsilon, statement.delta, statement.exact) == (pytest.approx(0.7), 0.0, True)
    assert statement.unit == "event"


@pytest.mark.parametrize("name", ["rr-linucb", "rr-lints"])
def test_a_saved_policy_holds_no_reward_that_waits(name, tmp_path):
    policy = Policy(policies.settings(name, {"dimension": 3, "rounds": 50}), source=Secure(), reward_window=5)
    for _ in range(8):
        policy.learn(policy.decide(np.eye(3)), 0.123456789)
    policy.save(tmp_path / "policy")
    loaded = mechanisms.packing.from_bytes((tmp_path / "policy").read_bytes().partition(b"\n")[2])
    assert "123456789" not in repr(loaded)
    assert {entry[6] for entry in loaded["open"]} == {True}


@pytest.mark.parametrize("name", ["rr-linucb", "rr-lints"])
def test_with_next_to_no_flips_it_is_its_parent(name):
    """At epsilon 30 a flip has probability 1e-13, so that bits 0 and 1 are told as they are."""
    parent = name.removeprefix("rr-")
    rng = np.random.default_rng(0)
    offers, bits = rng.standard_normal((150, 4, 3)) / 3, rng.integers(0, 2, 150)
    chosen = []
    for one, options in ((name, {"epsilon": 30.0}), (parent, {})):
        policy = Policy(policies.settings(one, {"dimension": 3, "rounds": 150, **options}), seed=3)
        actions = []
        for offered, bit in zip(offers, bits, strict=True):
            decision = policy.decide(offered)
            policy.learn(decision, float(bit))
            actions.append(decision.action)
        chosen.append(actions)
    assert chosen[0] == chosen[1]


def test_refuses_budgets_it_cannot_keep():
    for epsilon in (0.0, 1e-9, 31.0, math.nan):
        with pytest.raises(InputError, match="Expected epsilon="):
            RandomisedResponse(epsilon)


def test_a_reward_that_never_came_is_told_like_any_other(monkeypatch):
    """Told in clear, its stand-in would show which rounds had no reward."""
    policy = Policy(policies.settings("rr-linucb", {"dimension": 3, "rounds": 60, "centre": 0.5}), source=Secure())
    law, read = policy.book.plan.law, []
    close = type(policy.book).close
    monkeypatch.setattr(type(policy.book), "close", lambda book: read.append(close(book)) or read[-1])
    for number in range(60):
        decision = policy.decide(np.eye(3))
        if number % 2:
            policy.learn(decision, 0.5)
    policy.finish()
    values = {float(release.values[0]) for release, _ in read}
    assert values == {law.told(0.0) - 0.5, law.told(1.0) - 0.5}  # false alarm 2^-59
