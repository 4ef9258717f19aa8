"""Bits that clients flipped: taken as they are, anything else refused, and nothing is flipped twice.

Exact draws come from the operating system and are not seeded; false alarms 1e-9.
"""

import numpy as np
import pytest
from scipy import stats

import adaprivate
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.laws import randomised_response
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.testing import policy_checks
from adaprivate.testing.books import open_noise

ROUNDS = 30
OPTIONS = {"dimension": 3, "rounds": ROUNDS, "channel": "flip", "local": True, "epsilon": 1.0}
LAW = RandomisedResponse(1.0)


def made(**options):
    return adaprivate.policy("noise-aware-ts", **{**OPTIONS, **options}, source=Secure())


@pytest.fixture
def heard(monkeypatch):
    """What learners were told."""
    from adaprivate.runtime.learner import Learner

    seen, read = [], Learner.read
    monkeypatch.setattr(Learner, "read", lambda self, release: seen.append(release.values.tolist()) or read(self, release))
    return seen


@pytest.mark.parametrize("window", [0, 4])
def test_a_clients_bit_is_told_as_it_is(heard, window, monkeypatch):
    def refused(keep):
        raise AssertionError("a client's bit was flipped again")

    monkeypatch.setattr(randomised_response, "_flipper", refused)
    bits = [True, 0, 1.0, False, 1, 0.0] * (ROUNDS // 6)
    policy = made(reward_window=window)
    for bit in bits:
        policy.learn(policy.decide(np.eye(3)), bit)
    policy.finish()
    assert heard == [[LAW.told(float(bit)) - 0.5] for bit in bits]
    assert policy.version == policy.round == ROUNDS


@pytest.mark.parametrize("wrong", [0.5, 0.123456789, 1.5, -1, float("nan"), "1", 2, [1]])
def test_anything_else_is_refused_and_not_repeated(wrong):
    policy = made()
    decision = policy.decide(np.eye(3))
    with pytest.raises(InputError, match=r"^Expected reward to be .*; it is private and not repeated here\.$") as refused:
        policy.learn(decision, wrong)
    assert str(wrong) not in str(refused.value).replace("0 or 1", "").replace("0 to 1", "")
    policy.learn(decision, 1)  # it is still open
    policy.finish()
    assert policy.version == 1


@pytest.mark.parametrize("missing", [0.5, 0.0, 1.0])
@pytest.mark.parametrize("window", [0, 4])
def test_a_bit_that_never_comes_is_replaced_and_flipped_here(missing, window):
    """Whether nobody told it or None was told: a flip of the public stand-in, so that its absence does not show."""
    with open_noise() as seen:
        for silence in (False, True):
            policy = made(rounds=400, missing=missing, reward_window=window)
            for _ in range(200):
                decision = policy.decide(np.eye(3))
                if silence:
                    policy.learn(decision, None)
                    with pytest.raises(InputError, match="to be learned once"):
                        policy.learn(decision, 1)
            policy.finish()
            assert policy.version == 200
    assert [draw.kind for draw in seen] == ["flip"] * 400
    flips = sum(int(draw.drawn[0] != 0) for draw in seen)
    assert stats.binomtest(flips, 400, 1 - LAW.keep).pvalue > 1e-9
    ones = sum(int(draw.values[0]) for draw in seen)
    assert stats.binomtest(ones, 400, missing).pvalue > 1e-9


def test_simulated_noise_is_refused():
    text = r"^Expected local=True to come with source=Secure\(\): clients draw noise of their own\.$"
    with pytest.raises(InputError, match=text):
        adaprivate.policy("noise-aware-ts", **OPTIONS, seed=0)


def test_a_local_policy_is_saved_with_the_bits_that_wait(heard, tmp_path):
    policy = made(reward_window=3)
    for bit in (1, 0, 1):
        policy.learn(policy.decide(np.eye(3)), bit)
    policy.save(tmp_path / "p")
    loaded = adaprivate.load(tmp_path / "p")
    assert loaded.settings.local
    loaded.finish()
    assert heard == [[LAW.told(bit) - 0.5] for bit in (1, 0, 1)]
    assert loaded.guarantee == policy.guarantee


def test_the_guarantee_rests_on_the_clients():
    statement = made().guarantee
    assert (statement.epsilon, statement.delta) == (1.0, 0.0)
    for name in ("client-flip", "exact-noise", "secret-noise"):
        assert privacy.CONDITIONS[name] in statement.assumptions
        assert privacy.CONDITIONS[name] not in statement.enforced


@pytest.mark.parametrize("check", [name for name in policy_checks() if "channels" in name or "guarantee" in name])
def test_its_stand_ins_pass_the_suite(check):
    policy_checks()[check](policies.settings("noise-aware-ts", OPTIONS))


@pytest.mark.parametrize("channel", ["auto", "items", "gaussian"])
def test_only_flips_are_local(channel):
    with pytest.raises(InputError, match=rf"^Expected channel='{channel}' == 'flip' where local\.$"):
        policies.settings("noise-aware-ts", {**OPTIONS, "channel": channel})
