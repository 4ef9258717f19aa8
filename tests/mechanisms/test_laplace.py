"""Laplace noise: the scale that pure epsilon-DP needs, never a rounding error less, on floats and on the exact grid."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import EventSum
from adaprivate.mechanisms.laplace import Laplace
from adaprivate.mechanisms.noise import NOISE_BITS, Secure, Simulated

FALSE_ALARM = 1e-6
SOURCES = {"simulated": lambda: Simulated(3), "secure": Secure}


def scale_is(draws, scale):
    """Two-sided test at false-alarm rate 1e-6: twice the sum of |x| / scale is chi-square with 2 n degrees of freedom."""
    statistic = 2 * np.abs(draws).sum() / scale
    return chi2.ppf(FALSE_ALARM / 2, 2 * len(draws)) < statistic < chi2.isf(FALSE_ALARM / 2, 2 * len(draws))


@pytest.mark.parametrize("source", SOURCES)
def test_noise_has_the_stated_scale_with_power(source):
    noise = SOURCES[source]()
    mechanism = Laplace(dimension=2000, epsilon=0.5, l1_change=2.0, noise=noise)
    value = np.arange(2000) - 1000
    draws = mechanism.release((value * 2**20).astype(object) if noise.exact else value) - value
    assert scale_is(draws, 4.0)
    assert not scale_is(draws, 4.0 * 2 / 3)
    assert not scale_is(draws, 4.0 * 3 / 2)
    assert kstest(draws / 4, "laplace").pvalue > FALSE_ALARM
    assert (draws * 2**NOISE_BITS == np.round(draws * 2**NOISE_BITS)).all() == noise.exact


def test_scale_is_never_below_the_exact_quotient():
    """A shift of D grid points costs D / scale of a discrete Laplace law: at most epsilon in exact arithmetic."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        epsilon, change = rng.uniform(1e-3, 10), rng.uniform(1e-3, 10)
        mechanism = Laplace(dimension=1, epsilon=epsilon, l1_change=change, noise=Secure())
        assert Fraction(change) <= Fraction(epsilon) * Fraction(mechanism.scale)
        assert mechanism.scale == pytest.approx(change / epsilon, rel=1e-15)
        dimension = int(rng.integers(1, 60))
        default = Laplace(dimension=dimension, epsilon=epsilon, noise=Secure(), participation=privacy.events(1.0, change))
        assert Fraction(default.l1_change) ** 2 >= dimension * Fraction(change) ** 2
        assert default.l1_change == pytest.approx(math.sqrt(dimension) * change, rel=1e-15)


def test_the_default_covers_every_event_the_collector_lets_through():
    """Two rewards for the same features, summed on the exact grid, differ in l1 by at most the default change."""
    rng = np.random.default_rng(1)
    mechanism = Laplace(dimension=5, epsilon=1.0, noise=Secure())
    worst = 0.0
    for _ in range(300):
        features = np.sign(rng.normal(size=5)) * rng.uniform(0.4, 0.5, 5)
        sums = []
        for reward in (0.0, 1.0):
            batch = EventSum(5, noise=Secure())
            batch.add(features, reward)
            sums.append(batch.take())
        worst = max(worst, float(np.abs(sums[1] - sums[0]).sum()) / 2**20)
    assert 0.99 * math.sqrt(5) < worst <= mechanism.l1_change


def test_price_is_pure_and_the_guarantee_needs_no_delta():
    mechanism = Laplace(dimension=1, epsilon=0.7, noise=Simulated(0))
    assert mechanism.price == privacy.PurePrice(0.7)
    statement = mechanism.guarantee(0.0)
    assert (statement.epsilon, statement.delta, statement.unit, statement.neighbours) == (0.7, 0.0, "event", "replace")


def test_a_smaller_l1_change_is_a_condition_of_the_guarantee():
    text = privacy.CONDITIONS["l1-change"]
    narrow = Laplace(dimension=4, epsilon=1.0, l1_change=1.0, noise=Simulated(0))
    assert text in narrow.guarantee(1e-6).assumptions
    assert text not in Laplace(dimension=4, epsilon=1.0, noise=Simulated(0)).guarantee(1e-6).assumptions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 0}, r"Expected dimension=0 >= 1\."),
        ({"epsilon": 0}, r"Expected epsilon=0 > 0\."),
        ({"epsilon": math.nan}, r"Expected epsilon=nan > 0\."),
        ({"l1_change": -1}, r"Expected l1_change=-1 > 0\."),
        ({"l1_change": 1e300, "epsilon": 1e-300}, r"Expected scale=inf to be finite\."),
        ({"participation": privacy.users(1.0, 3, "replace")}, r"Expected participation.batches=3 == 1\."),
    ],
)
def test_refuses_bad_settings(change, message):
    with pytest.raises(InputError, match=message):
        Laplace(**{"dimension": 2, "epsilon": 1.0, "noise": Simulated(0), **change})


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3), r"Expected value.shape=\(3,\) == \(2,\)\."),
        ([0.0, math.nan], r"Expected value\[1\]=nan to be finite\."),
        ([math.inf, 0.0], r"Expected value\[0\]=inf to be finite\."),
    ],
)
def test_refuses_bad_values(source, value, message):
    with pytest.raises(InputError, match=message):
        Laplace(dimension=2, epsilon=1.0, noise=SOURCES[source]()).release(value)


def test_exact_noise_refuses_floats():
    with pytest.raises(InputError, match=r"Expected value.dtype='float64' to be whole numbers of the grid"):
        Laplace(dimension=2, epsilon=1.0, noise=Secure()).release(np.zeros(2))


@pytest.mark.parametrize("source", SOURCES)
def test_refuses_a_second_release(source):
    mechanism = Laplace(dimension=2, epsilon=1.0, noise=SOURCES[source]())
    mechanism.release(np.full(2, 0, dtype=object if source == "secure" else float))
    with pytest.raises(InputError, match=r"Expected releases=2 <= 1: a second release"):
        mechanism.release(np.full(2, 0, dtype=object if source == "secure" else float))


def test_the_participation_is_not_changed_in_place():
    participation = privacy.events()
    Laplace(dimension=2, epsilon=1.0, l1_change=1.0, noise=Simulated(0), participation=participation)
    assert participation == dataclasses.replace(privacy.events())
