"""A mechanism takes what a collector enforces only if its price rests on it."""

import numpy as np
import pytest

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import (
    EventSum,
    Gaussian,
    GramSum,
    PrefixSum,
    Secure,
    Shape,
    ShapedPrefixSum,
    Simulated,
    SymmetricGaussian,
    UserSum,
    Wishart,
    gram_rows,
    strategy,
)
from adaprivate.mechanisms.units import EventUnit
from adaprivate.mechanisms.units.joint import JointUnit
from adaprivate.mechanisms.units.ledger import UserLedgerUnit
from adaprivate.mechanisms.units.user import UserUnit

NOISE = Simulated(0)


def running(participation=None, noise=NOISE, steps=3):
    return PrefixSum(strategy("sqrt", steps), dimension=2, noise_multiplier=3.7, noise=noise, participation=participation)


def users(clip, batches, separation=1):
    return UserSum(2, noise=NOISE, clip=clip, batches=batches, separation=separation)


def shaped():
    return ShapedPrefixSum(strategy("sqrt", 3), Shape(np.diag([2.0, 0.5])), noise_multiplier=3.7, noise=NOISE)


MISMATCHES = [
    (running(privacy.users(1.0, 1, "replace")), users(5.0, 1), "moves a sum by at most 10"),
    (running(privacy.users(1.0, 1, "replace")), users(1.0, 30), "in at most 30 batches"),
    (running(privacy.users(1.0, 3, "replace", separation=5)), users(1.0, 3, separation=2), "2 apart"),
    (running(), users(1.0, 1), "one user"),
    (running(privacy.users(1.0, 1, "replace")), EventSum(2, noise=NOISE), "one event"),
    (running(privacy.events(feature_norm=0.1)), EventSum(2, noise=NOISE), "at most 1' to lie"),
    (running(), EventSum(2, noise=Secure()), "collector's noise='exact'"),
    (running(noise=Secure()), EventSum(2, noise=NOISE), "collector's noise='simulated'"),
    (running(), EventSum(2, noise=NOISE, shape=Shape(np.diag([2.0, 0.5]))), "collector's shape"),
    (shaped(), EventSum(2, noise=NOISE), "collector's shape"),
    (
        SymmetricGaussian(dimension=2, noise_multiplier=2.0, noise=NOISE, participation=gram_rows("replace", 0.1)),
        GramSum(2, noise=NOISE),
        "moves a sum by at most 1.41421",
    ),
]


@pytest.mark.parametrize(("mechanism", "collector", "message"), MISMATCHES)
def test_a_collector_that_does_not_fit_is_refused_and_keeps_its_sum(mechanism, collector, message):
    match collector:
        case UserSum():
            collector.add("ann", [0.5, 0.0], 1.0)
        case EventSum():
            collector.add([0.5, 0.0], 1.0)
        case GramSum():
            collector.add("ann", [0.5, 0.0])
    with pytest.raises(InputError, match=message):
        mechanism.release(collector)
    with pytest.raises(InputError, match=message):
        mechanism.guarantee(1e-5, collector)
    assert float(np.asarray(collector.take()).ravel()[0]) != 0


def test_a_collector_that_fits_is_released_and_named_as_enforcing():
    mechanism = running(privacy.users(1.0, 3, "replace", separation=2))
    collector = users(0.9, 2, separation=4)
    collector.add("ann", [0.5, 0.0], 1.0)
    assert privacy.CONDITIONS["user-clip"] in mechanism.guarantee(1e-5, collector).enforced
    mechanism.release(collector)
    assert not collector.take().any()
    other = shaped()
    own = other.collector()
    own.add([1.0, 0.1], 1.0)
    assert other.release(own).shape == (2,)
    assert privacy.CONDITIONS["catalogue"] in other.guarantee(1e-5, own).enforced


def test_a_refused_release_keeps_the_batch():
    mechanism = running(steps=1)
    batch = EventSum(2, noise=NOISE)
    mechanism.release(batch)
    batch.add([0.5, 0.0], 1.0)
    with pytest.raises(InputError, match="Expected releases=2 <= 1"):
        mechanism.release(batch)
    assert batch.take()[0] == 0.5


def test_sums_made_for_exact_noise_do_not_enter_simulated_mechanisms():
    batch = EventSum(2, noise=Secure())
    batch.add([0.5, 0.0], 1.0)
    with pytest.raises(InputError, match="made for exact noise"):
        running().release(batch.take())


def test_simulated_noise_is_said_to_protect_nobody():
    assert "NOBODY IS PROTECTED" in running().guarantee(1e-5).sentence
    assert "NOBODY" not in running(noise=Secure()).guarantee(1e-5).sentence


def test_user_sums_survive_storage():
    one, two = users(1.0, 2), users(1.0, 2)
    one.add("ann", [0.5, 0.5], 1.0)
    one.take()
    one.add("ann", [0.5, 0.0], 1.0)
    two.restore(one.state())
    assert two.take().tolist() == one.take().tolist() == [0.5, 0.0]
    assert not two.add("ann", [1.0, 0.0], 1.0)


@pytest.mark.parametrize("user", [None, 1, 1.5, "", ["a"]])
def test_users_are_known_by_text(user):
    with pytest.raises(InputError, match="to be a non-empty str"):
        users(1.0, 1).add(user, [0.5, 0.0], 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrefixSum("sqrt", dimension=2, noise_multiplier=1.0, noise=NOISE), "strategy='sqrt' to be a Strategy"),
        (lambda: running(noise=0), "noise=0 to be a Noise"),
        (lambda: running(noise=Secure), "to be a Noise"),
        (lambda: running(participation="user"), "participation='user' to be a Participation"),
        (lambda: EventSum(2, noise=None), "noise=None to be a Noise"),
        (lambda: EventSum(3, noise=NOISE, shape=Shape(np.eye(2))), "shape.dimension=2 == 3"),
        (lambda: running().guarantee(1e-5, ("one-batch",)), "to be a Collector"),
        (lambda: Gaussian(dimension=2, noise_multiplier=1e-12, noise=Secure()), "noise_multiplier=1e-12 large enough"),
        (
            lambda: SymmetricGaussian(dimension=2, noise_multiplier=1.0, noise=NOISE, participation=privacy.events()),
            "participation.unit='event' == user",
        ),
        (
            lambda: Wishart(dimension=2, degrees=60, noise=NOISE, participation=privacy.events()),
            "participation.unit='event' == user",
        ),
    ],
)
def test_wrong_parts_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("unit", [EventUnit(), UserUnit(2), UserLedgerUnit(), JointUnit()], ids=lambda unit: unit.name)
def test_no_sum_claims_to_enforce_what_only_callers_can_keep(unit):
    collector = unit.collector(3, noise=Secure(), centre=0.5, shape=None)
    kept = {"public-visits", "user-identity", "public-schedule", "public-features", "no-replay", "own-action-hidden"}
    assert not kept & {*collector.enforces}
