"""Noise sources: right scale, right law, and every OpenDP trap refused by us."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from adaprivate.check import InputError
from adaprivate.mechanisms.independent import Independent
from adaprivate.mechanisms.noise import NOISE_BITS, Secure, Simulated, discrete_gaussian_distance
from adaprivate.mechanisms.prefix import PrefixSum

FALSE_ALARM = 1e-6
SOURCES = [Simulated(7), Secure()]


def zero(noise, n):
    return np.full(n, 0, dtype=object) if noise.exact else np.zeros(n)


def scale_is(draws, scale):
    """Two-sided chi-square test of the standard deviation at the stated false-alarm rate."""
    statistic = float((draws**2).sum() / scale**2)
    return chi2.ppf(FALSE_ALARM / 2, len(draws)) < statistic < chi2.ppf(1 - FALSE_ALARM / 2, len(draws))


@pytest.mark.parametrize("noise", SOURCES, ids=["simulated", "secure"])
def test_gaussian_scale_with_power(noise):
    draws = noise.gaussian(zero(noise, 2000), 3.73)
    assert scale_is(draws, 3.73)
    assert not scale_is(draws, 3.73 * 2 / 3)
    assert not scale_is(draws, 3.73 * 3 / 2)


@pytest.mark.parametrize("noise", SOURCES, ids=["simulated", "secure"])
def test_laws_with_power(noise):
    gaussian = noise.gaussian(zero(noise, 4000), 1.0)
    laplace = noise.laplace(zero(noise, 4000), 1.0)
    assert kstest(gaussian, "norm").pvalue > FALSE_ALARM
    assert kstest(laplace, "laplace").pvalue > FALSE_ALARM
    assert kstest(laplace, "norm").pvalue < FALSE_ALARM


@pytest.mark.parametrize("noise", SOURCES, ids=["simulated", "secure"])
def test_each_coordinate_can_have_its_own_scale(noise):
    scales = np.array([0.5, 2.0, 8.0])
    draws = np.array([noise.gaussian(zero(noise, 3), scales) for _ in range(700)])
    assert all(scale_is(draws[:, j], scales[j]) for j in range(3))


def test_secure_noise_lands_on_the_grid_and_is_never_repeated():
    draws = Secure().gaussian(zero(Secure(), 200), 1.0) * 2**NOISE_BITS
    assert all(d == round(d) for d in draws)
    assert len(set(draws)) == 200
    again = Secure().gaussian(zero(Secure(), 200), 1.0) * 2**NOISE_BITS
    assert not set(draws) & set(again)  # false alarm below 1e-7: 40,000 pairs, 1e12 grid points per standard deviation


def test_secure_noise_takes_no_seed():
    with pytest.raises(TypeError):
        Secure(seed=1)
    with pytest.raises(TypeError):
        Simulated()


@pytest.mark.parametrize("scale", [2, 5, 50, 500, 5000])
def test_distance_to_the_rounded_gaussian_is_an_upper_bound_and_tight(scale):
    """Against the sum itself; the leading term 0.0202 / S^2 is what it tends to."""
    k = np.arange(-40 * scale, 40 * scale + 1)
    weights = np.exp(-(k**2) / (2.0 * scale**2))
    discrete = weights / weights.sum()
    # differences of the survival function keep relative precision in both tails
    upper = norm.sf((np.abs(k) - 0.5) / scale) - norm.sf((np.abs(k) + 0.5) / scale)
    distance = 0.5 * np.abs(discrete - upper).sum()
    bound = discrete_gaussian_distance(scale)
    assert distance <= bound
    assert bound <= distance * (1 + 4 / scale)
    assert distance * scale**2 == pytest.approx(0.0202, abs=0.0025)


def test_floating_point_noise_betrays_its_input():
    """Why production noise is integer noise: some sums x + noise are impossible for the neighbouring x."""
    rng = np.random.default_rng(0)
    noise = 3.73 * rng.standard_normal(20_000)
    released = 0.0 + noise
    # Under x = 1 a release within 1/2 of zero is 1 + n with n in (-3/2, -1/2): exact, and a multiple of 2^-53.
    impossible = (np.abs(released) < 0.5) & (np.mod(released, 2.0**-53) != 0)
    assert impossible.mean() > 0.03


def mechanism(noise):
    return PrefixSum(Independent(4), dimension=3, noise_multiplier=1.0, noise=noise)


TRAPS = [
    ([1, 2], r"Expected increment.shape=\(2,\) == \(3,\)."),
    ([[1, 2, 3]], r"Expected increment.shape=\(1, 3\) == \(3,\)."),
    ([math.nan, 0, 0], r"Expected increment\[0\]=nan to be finite."),
    ([0, math.inf, 0], r"Expected increment\[1\]=inf to be finite."),
    ([0.5, 0.0, 0.0], "Expected increment.dtype='float64' to be whole numbers of the grid"),
    ([1, 2, 3], "Expected increment.dtype='int64' to be whole numbers of the grid"),
    (["a", "b", "c"], "whole numbers of the grid"),
    ([True, False, True], "whole numbers of the grid"),
    (np.array([0, 0, 2**62], dtype=object), r"^Expected increment\[2\] to be below 2\^62 in size; it is private"),
    ([0, 0, 10**30], r"^Expected increment\[2\] to be below 2\^62 in size; it is private and not repeated here\.$"),
]


@pytest.mark.parametrize(("value", "message"), TRAPS)
def test_traps_are_refused_and_nothing_is_released(value, message):
    secure = mechanism(Secure())
    before = secure.state
    with pytest.raises(InputError, match=message):
        secure.release(value)
    assert secure.state is before


def test_values_beyond_32_bits_do_not_saturate():
    """OpenDP's default integer would stop at 2^31; ours go through to 2^62."""
    secure = mechanism(Secure())
    value = 2**45 + 12_345
    released = secure.release(np.array([value, -value, 0], dtype=object))
    assert released[0] == pytest.approx(value / 2**20, abs=40)  # noise of standard deviation 1
    assert released[1] == pytest.approx(-value / 2**20, abs=40)


def test_scales_too_large_for_exact_noise_are_refused():
    with pytest.raises(InputError, match="Expected scale="):
        Secure().gaussian(zero(Secure(), 2), 1e9)
    with pytest.raises(InputError, match=r"Expected values.dtype='float64'"):
        Secure().gaussian(np.zeros(2), 1.0)


def test_slack_grows_with_the_draws():
    """Each draw is as far from an ideal one as a discrete Gaussian of this scale, in units of the grid, at least."""
    for scale, draws in ((1.0, 1000), (0.01, 7)):
        one = discrete_gaussian_distance(scale * 2**NOISE_BITS)
        assert draws * one <= Secure().slack(scale, draws) <= draws * one * (1 + 1e-9)
