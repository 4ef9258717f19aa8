"""The Wishart mechanism: the right law, its price, and why it refuses exact noise."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms.noise import Secure, Simulated
from adaprivate.mechanisms.symmetric import gram_rows
from adaprivate.mechanisms.wishart import Wishart
from adaprivate.privacy.wishart import wishart_degrees, wishart_price

FALSE_ALARM = 1e-6


def build(**change):
    settings = {"dimension": 3, "degrees": 40, "noise": Simulated(1), "participation": gram_rows("replace"), **change}
    return Wishart(**settings)


def test_noise_is_wishart_with_power():
    """1 / (u' W^-1 u) is chi-square with k - p + 1 degrees of freedom in any direction u, tr W with k p; level 1e-6."""
    mechanism = build(releases=2000, row_norm=2.0, participation=gram_rows("replace", 2.0))
    value = np.diag([5.0, 1.0, 0.0])
    noise = np.array([mechanism.release(value) - value for _ in range(2000)]) / 4
    assert np.array_equal(noise, np.swapaxes(noise, 1, 2))
    u = np.array([2, -1, 2]) / 3
    directional = 1 / np.einsum("i,nij,j->n", u, np.linalg.inv(noise), u)
    trace = np.trace(noise, axis1=1, axis2=2)
    for statistic, degrees in ((directional, 38), (trace, 120)):
        assert kstest(statistic, chi2(degrees).cdf).pvalue > FALSE_ALARM
        assert kstest(statistic * 2 / 3, chi2(degrees).cdf).pvalue < FALSE_ALARM
        assert kstest(statistic * 3 / 2, chi2(degrees).cdf).pvalue < FALSE_ALARM
    assert kstest(directional, chi2(40).cdf).pvalue < FALSE_ALARM
    assert noise[:, 0, 1].std() * 4 == pytest.approx(mechanism.entry_std(), rel=0.1)
    assert noise.mean(axis=0) * 4 == pytest.approx(mechanism.shift * np.eye(3), abs=0.03 * mechanism.shift)


def test_many_degrees_are_drawn_in_blocks():
    mechanism = build(dimension=1, degrees=200_000)
    assert abs(mechanism.release([[0.0]])[0, 0] - 200_000) < 4.9 * math.sqrt(400_000)  # normal at 1e-6


def test_price_covers_all_releases_and_both_kinds_of_neighbours():
    for neighbours in ("replace", "add-remove"):
        mechanism = build(participation=gram_rows(neighbours), releases=4)
        assert mechanism.price is wishart_price(40, 3, 4, neighbours=neighbours)
        assert mechanism.guarantee(1e-3).neighbours == neighbours
    assert build().price.epsilon(1e-5) < build(releases=2).price.epsilon(1e-5)


def test_calibrated_guarantee_is_met_and_not_called_exact():
    degrees = wishart_degrees(1.0, 1e-5, 3, neighbours="add-remove")
    statement = build(degrees=degrees, participation=gram_rows("add-remove")).guarantee(1e-5)
    assert 0.9 < statement.epsilon <= 1.0
    assert not statement.exact
    assert statement.mu is None
    assert privacy.CONDITIONS["exact-noise"] in statement.assumptions


def test_releases_stay_positive_definite():
    assert np.linalg.eigvalsh(build().release(np.zeros((3, 3))))[0] > 0


def test_exact_noise_is_refused_with_a_way_out():
    message = r"Expected noise='Secure' to be Simulated \(for exact noise: symmetric-gaussian\)\."
    with pytest.raises(InputError, match=message):
        build(noise=Secure())


def test_refuses_more_releases_than_were_priced():
    mechanism = build(releases=2)
    mechanism.release(np.zeros((3, 3)))
    mechanism.release(np.zeros((3, 3)))
    with pytest.raises(InputError, match=r"Expected releases=3 <= 2\."):
        mechanism.release(np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 2)), r"Expected value.shape=\(2, 2\) == \(3, 3\)\."),
        (np.full((3, 3), math.nan), r"Expected value\[0, 0\]=nan to be finite\."),
        (np.full((3, 3), math.inf), r"Expected value\[0, 0\]=inf to be finite\."),
        (np.triu(np.ones((3, 3))), r"Expected value\[0, 1\] - value\[1, 0\]=1.0 == 0\."),
    ],
)
def test_refuses_bad_values(value, message):
    with pytest.raises(InputError, match=message):
        build().release(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 0}, r"Expected dimension=0 >= 1\."),
        ({"degrees": 5}, r"Expected degrees=5 >= 6\."),
        ({"degrees": 4, "participation": gram_rows("add-remove")}, r"Expected degrees=4 >= 5\."),
        ({"row_norm": 0}, r"Expected row_norm=0 > 0\."),
        ({"releases": 0}, r"Expected releases=0 >= 1\."),
        ({"participation": gram_rows("replace", 2.0)}, r"Expected participation.change=5.65.* <= 1.41"),
        ({"participation": privacy.users(0.5, 2, "replace")}, r"Expected participation.batches=2 == 1: use releases\."),
    ],
)
def test_refuses_bad_settings(change, message):
    with pytest.raises(InputError, match=message):
        build(**change)
