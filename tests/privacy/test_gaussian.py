"""The exact Gaussian curve against mpmath, printed values and google's dp-accounting."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaprivate import privacy
from adaprivate.check import InputError

EPSILONS = (0.1, 0.5, 1, 2, 5, 10)


def oracle_delta(mu, epsilon):
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def test_printed_sigmas():
    exact = [privacy.gaussian_sigma(e, 1e-5) for e in EPSILONS]
    assert [f"{s:.3f}" for s in exact] == ["30.750", "7.032", "3.731", "1.994", "0.892", "0.500"]
    published = [privacy.zcdp_sigma(e, 1e-5) for e in EPSILONS]
    assert [f"{s:.3f}" for s in published] == ["48.089", "9.700", "4.901", "2.499", "1.055", "0.568"]
    true = [privacy.gaussian_epsilon(s, 1e-5) for s in published]
    assert [f"{e:.4f}" for e in true] == ["0.0612", "0.3522", "0.7416", "1.5555", "4.1166", "8.5552"]


def test_printed_gdp_conversions():
    """The values Ou et al. print truncated: 4.88, 35.57, 96.71."""
    assert [round(privacy.gdp_epsilon(mu, 1e-6), 3) for mu in (1, 5, 10)] == [4.887, 35.566, 96.717]


@pytest.mark.parametrize("epsilon", np.geomspace(1e-3, 50, 13))
@pytest.mark.parametrize("delta", np.geomspace(1e-12, 0.1, 9))
def test_agrees_with_mpmath_to_nine_digits_and_never_overspends(epsilon, delta):
    mu = privacy.gdp_mu(epsilon, delta)
    root = mp.findroot(lambda m: mp.log(oracle_delta(m, epsilon)) - mp.log(mp.mpf(delta)), mu)
    assert abs(mu / root - 1) < 1e-9
    assert oracle_delta(mu, epsilon) <= delta
    assert abs(privacy.gdp_delta(mu, epsilon) / oracle_delta(mu, epsilon) - 1) < 1e-11
    back = privacy.gdp_epsilon(float(root), delta)
    assert abs(back / mp.mpf(epsilon) - 1) < 1e-9
    assert oracle_delta(float(root), back) <= delta


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    log_epsilon=st.floats(math.log(1e-6), math.log(500)),
    log_delta=st.floats(math.log(1e-30), math.log(0.9)),
    log_sensitivity=st.floats(-8, 8),
)
def test_calibration_round_trip_never_overspends(log_epsilon, log_delta, log_sensitivity):
    epsilon, delta, sensitivity = math.exp(log_epsilon), math.exp(log_delta), math.exp(log_sensitivity)
    sigma = privacy.gaussian_sigma(epsilon, delta, sensitivity)
    assert privacy.gaussian_epsilon(sigma, delta, sensitivity) <= epsilon
    assert privacy.gaussian_delta(sigma, epsilon, sensitivity) <= delta
    # and it is not wasteful: a millionth less noise would overspend
    assert privacy.gaussian_delta(sigma * (1 - 1e-6), epsilon, sensitivity) > delta


@pytest.mark.parametrize(("mu", "epsilon"), [(1e-9, 1e-9), (1e-4, 3e-4), (30, 0.0), (80, 700), (200, 20_000), (0.3, 8)])
def test_extreme_arguments(mu, epsilon):
    assert abs(privacy.gdp_delta(mu, epsilon) / oracle_delta(mu, epsilon) - 1) < 1e-9


def test_agrees_with_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as pld

    for sigma in (0.7, 1.5, 4.0):
        other = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3)
        for delta in (1e-6, 1e-3):
            assert privacy.gaussian_epsilon(sigma, delta) == pytest.approx(other.get_epsilon_for_delta(delta), abs=2e-3)


def test_composition_is_root_of_squares():
    assert privacy.gdp_compose([3, 4]) == 5
    assert privacy.gdp_compose([]) == 0


def test_zero_epsilon_when_delta_covers_the_shift():
    """Shariff & Sheffet's calibration for (1, 0.1) in truth gives (0, 0.1)."""
    assert privacy.gdp_epsilon(1 / (4 * math.log(4 / 0.1)), 0.1) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: privacy.gaussian_sigma(-1, 1e-5), "Expected epsilon=-1 > 0."),
        (lambda: privacy.gaussian_sigma(0, 1e-5), "Expected epsilon=0 > 0."),
        (lambda: privacy.gaussian_sigma(1, 0), "Expected delta=0 > 0 and < 1."),
        (lambda: privacy.gaussian_sigma(1, 1), "Expected delta=1 > 0 and < 1."),
        (lambda: privacy.gaussian_sigma(float("nan"), 1e-5), "Expected epsilon=nan > 0."),
        (lambda: privacy.gaussian_sigma(float("inf"), 1e-5), "Expected epsilon=inf to be finite."),
        (lambda: privacy.gaussian_sigma("1", 1e-5), "Expected epsilon='1' to be a number."),
        (lambda: privacy.gaussian_sigma(True, 1e-5), "Expected epsilon=True to be a number."),
        (lambda: privacy.gaussian_sigma(1, 1e-5, 0), "Expected sensitivity=0 > 0."),
        (lambda: privacy.gaussian_epsilon(0, 1e-5), "Expected sigma=0 > 0."),
        (lambda: privacy.gdp_delta(-1, 1), "Expected mu=-1 >= 0."),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message
