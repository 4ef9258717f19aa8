"""Poisson sampling: the closed form is the truth, the published recipe is not."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from adaprivate import privacy
from adaprivate.check import InputError


def test_printed_sigmas():
    sigmas = [privacy.sampled_gaussian_sigma(1, 1e-5, q) for q in (0.1, 0.3, 0.5, 0.7)]
    assert [f"{s:.3f}" for s in sigmas] == ["1.259", "1.942", "2.495", "3.004"]
    assert privacy.sampled_gaussian_sigma(1, 1e-5, 1) == pytest.approx(privacy.gaussian_sigma(1, 1e-5), rel=1e-9)


PUBLISHED = [  # epsilon, q, sigma by the published recipe, its true epsilon; delta = 1e-5
    (0.5, 0.1, 0.3858, 10.08),
    (0.5, 0.5, 1.9290, 1.42),
    (1, 0.1, 0.1145, 67.52),
    (1, 0.3, 0.3434, 14.02),
    (1, 0.5, 0.5723, 7.50),
    (1, 0.7, 0.8012, 5.21),
    (2, 0.5, 0.1419, 52.29),
    (5, 0.1, 0.0012, 325959.92),
]


@pytest.mark.parametrize(("epsilon", "rate", "sigma", "true"), PUBLISHED)
def test_the_published_recipe_is_not_a_guarantee(epsilon, rate, sigma, true):
    ours = privacy.published_sampled_gaussian_sigma(epsilon, 1e-5, rate)
    assert ours == pytest.approx(sigma, abs=5e-5)
    assert privacy.sampled_gaussian_epsilon(ours, 1e-5, rate) == pytest.approx(true, abs=5e-3)
    assert true > epsilon


def test_equation_36_understates_the_renyi_divergence():
    """Against the exact divergence of ((1-q) N(0) + q N(1), N(0)), by quadrature."""
    for rate, sigma, order, printed, exact in [(0.1, 0.5, 2, 0.07696, 0.42917), (0.5, 1.05, 8, 0.57534, 2.83796)]:
        x = np.linspace(-40 * sigma, 40 * sigma + order, 400_001)
        ratio = 1 - rate + rate * np.exp((x - 0.5) / sigma**2)
        moment = np.trapezoid(norm.pdf(x, scale=sigma) * ratio**order, x)
        assert privacy.published_renyi(order, sigma, rate) == pytest.approx(printed, abs=5e-6)
        assert math.log(moment) / (order - 1) == pytest.approx(exact, abs=5e-6)


def test_agrees_with_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as pld

    for rate in (0.1, 0.5):
        for sigma in (0.8, 2.0):
            other = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-4)
            expected = other.get_epsilon_for_delta(1e-5)
            assert privacy.sampled_gaussian_epsilon(sigma, 1e-5, rate) == pytest.approx(expected, abs=3e-3)


def hockey_stick(p, q, order, step):
    return float(np.maximum(p - order * q, 0).sum() * step)


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("sigma", [0.6, 1.5])
def test_the_closed_form_covers_every_replaced_reward_and_is_attained(rate, sigma):
    """sup over rewards (u, u') in [0, 1]^2 of the hockey-stick divergence, by quadrature."""
    grid, step = np.linspace(-14, 15, 60_001, retstep=True)
    base = norm.pdf(grid, scale=sigma)
    for epsilon in (0.2, 1.0, 2.5):
        bound = privacy.sampled_gaussian_delta(sigma, epsilon, rate)
        largest = 0.0
        for u in np.linspace(0, 1, 6):
            p = (1 - rate) * base + rate * norm.pdf(grid, u, sigma)
            for other in np.linspace(0, 1, 6):
                q = (1 - rate) * base + rate * norm.pdf(grid, other, sigma)
                largest = max(largest, hockey_stick(p, q, math.exp(epsilon), step))
        assert largest <= bound + 1e-7
        assert largest == pytest.approx(bound, abs=1e-7)


def test_signed_rewards_break_the_bound():
    """Why the closed form is for rewards in [0, 1]: with +1 against -1 delta is 0.191 where it says 0.098."""
    rate, sigma, epsilon = 0.5, 0.7, 1.0
    grid, step = np.linspace(-12, 12, 60_001, retstep=True)
    p = (1 - rate) * norm.pdf(grid, 0, sigma) + rate * norm.pdf(grid, 1, sigma)
    q = (1 - rate) * norm.pdf(grid, 0, sigma) + rate * norm.pdf(grid, -1, sigma)
    assert hockey_stick(p, q, math.exp(epsilon), step) == pytest.approx(0.19069, abs=1e-4)
    assert privacy.sampled_gaussian_delta(sigma, epsilon, rate) == pytest.approx(0.09812, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 5, 10])
def test_sampling_never_pays_after_rescaling(epsilon):
    rates = np.linspace(0.01, 1, 34)
    rescaled = [privacy.sampled_gaussian_sigma(epsilon, 1e-5, float(q)) / q for q in rates]
    assert all(a > b for a, b in itertools.pairwise(rescaled))


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 30, 200])
@pytest.mark.parametrize("rate", [1e-3, 0.2, 1.0])
def test_round_trip_never_overspends(epsilon, rate):
    sigma = privacy.sampled_gaussian_sigma(epsilon, 1e-6, rate)
    assert privacy.sampled_gaussian_epsilon(sigma, 1e-6, rate) <= epsilon
    assert privacy.sampled_gaussian_epsilon(sigma, 1e-6, rate) == pytest.approx(epsilon, rel=1e-8)


def test_bad_input():
    with pytest.raises(InputError, match=r"Expected sampling_rate=0 > 0 and <= 1."):
        privacy.sampled_gaussian_sigma(1, 1e-5, 0)
    with pytest.raises(InputError, match=r"Expected sampling_rate=1.1 > 0 and <= 1."):
        privacy.sampled_gaussian_epsilon(1, 1e-5, 1.1)
    with pytest.raises(InputError, match=r"Expected epsilon=0.1 > 0.1827"):
        privacy.published_sampled_gaussian_sigma(0.1, 1e-5, 0.5)
    assert privacy.sampled_gaussian_sigma(1, 0.1, 0.05) == 0
