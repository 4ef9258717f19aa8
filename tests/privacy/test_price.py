"""Prices and their composition against dp-accounting and brute force."""

import math
import re

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.privacy import EitherPrice, GaussianPrice, PurePrice, SampledGaussianPrice, compose, gaussian_sigma


def test_gaussian_prices_compose_in_squares():
    total = compose([GaussianPrice(0.3), GaussianPrice(0.4)])
    assert total.mu == pytest.approx(0.5)
    assert total.epsilon(1e-5) == privacy.gdp_epsilon(total.mu, 1e-5)


def test_pure_price_is_randomised_response():
    price = PurePrice(1.0)
    p = math.e / (1 + math.e)
    for epsilon in (0.0, 0.4, 0.99):
        assert price.delta(epsilon) == pytest.approx(p - math.exp(epsilon) * (1 - p), rel=1e-12)
        assert price.epsilon(price.delta(epsilon)) == pytest.approx(epsilon, abs=1e-12)
    assert price.epsilon(0.0) == 1.0
    assert price.delta(1.0) == 0.0
    assert compose([PurePrice(0.5), PurePrice(0.25)]).epsilon(0.0) == 0.75


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 40.0])
def test_pure_price_implies_its_mu(epsilon):
    """mu-GDP must be at least as weak everywhere, and touch randomised response somewhere."""
    price = PurePrice(epsilon)
    at = np.linspace(0, epsilon * 0.999, 50)
    assert all(privacy.gdp_delta(price.mu, e) >= price.delta(e) * (1 - 1e-9) for e in at)
    # the total variations agree: that is where the two trade-off curves meet
    assert privacy.gdp_delta(price.mu, 0.0) == pytest.approx(price.delta(0.0), rel=1e-9)


def test_mixed_composition_is_an_upper_bound_close_to_dp_accounting():
    from dp_accounting import dp_event
    from dp_accounting.pld import pld_privacy_accountant

    total = compose([GaussianPrice(0.4), PurePrice(0.5)])
    accountant = pld_privacy_accountant.PLDAccountant()
    accountant.compose(dp_event.GaussianDpEvent(2.5))
    accountant.compose(dp_event.LaplaceDpEvent(2.0))
    laplace = accountant.get_epsilon(1e-5)  # Laplace is one pure mechanism, randomised response the worst
    assert laplace <= total.epsilon(1e-5) <= GaussianPrice(0.4).epsilon(1e-5) + 0.5
    assert total.delta(total.epsilon(1e-5)) <= 1e-5 * (1 + 1e-6)


def test_sampled_prices_stand_alone():
    one = SampledGaussianPrice(2.0, 0.3)
    assert one.delta(one.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-6)
    with pytest.raises(InputError, match="not composed"):
        compose([one, one])


def test_only_what_is_tight_is_called_exact():
    assert GaussianPrice(1.0).exact_at(1e-5)
    assert PurePrice(1.0).exact_at(0.0)
    assert not PurePrice(1.0).exact_at(1e-5)
    assert not compose([GaussianPrice(1.0, exact=False), GaussianPrice(1.0)]).exact
    assert not compose([GaussianPrice(1.0), PurePrice(1.0)]).exact


def test_slack_is_paid_for():
    ideal, real = GaussianPrice(1.0), GaussianPrice(1.0, slack=1e-9)
    assert real.delta(1.0) == pytest.approx(ideal.delta(1.0) + (1 + math.e) * 1e-9)
    assert real.epsilon(1e-5) > ideal.epsilon(1e-5)
    assert real.delta(real.epsilon(1e-5)) <= 1e-5
    mixed = compose([real, PurePrice(0.1)])
    assert mixed.slack == 1e-9
    with pytest.raises(InputError, match="well above the discretization slack"):
        GaussianPrice(1.0, slack=1e-4).epsilon(1e-5)


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_an_epsilon_too_large_for_exact_noise_is_told_how_large_it_may_be(delta):
    """The text names the epsilon, not delta; the limit is the same whatever was asked, it fits, and no more does."""

    def price(epsilon):
        sigma = gaussian_sigma(epsilon, delta)
        return GaussianPrice(1 / sigma, Secure().slack(sigma, 1000))

    limits = set()
    for epsilon in (60.0, 200.0, 1e4):
        words = re.escape(f"Expected epsilon={epsilon:.4g} <= ") + f".* for exact noise at delta={delta:g}: "
        with pytest.raises(InputError, match=words) as no:
            price(epsilon).epsilon(delta)
        limits.add(float(re.search(r"<= ([\d.]+)", str(no.value))[1]))
    (most,) = limits
    assert most <= price(most).epsilon(delta) <= most + 2
    assert price(most).delta(price(most).epsilon(delta)) <= delta
    with pytest.raises(InputError):
        price(most + 0.1).epsilon(delta)


@pytest.mark.parametrize("name", ["noise-aware", "adaprivate-ts", "noise-aware-joint"])
def test_policies_with_an_epsilon_too_large_for_exact_noise_say_so(name):
    asked = {"dimension": 5, "rounds": 1000, "delta": 1e-5, "source": Secure()}
    with pytest.raises(InputError, match=r"^Expected epsilon=[\d.]+ <= [\d.]+ for exact noise at delta=1e-05: ") as refusal:
        _ = ap.policy(name, epsilon=50.0, **asked).guarantee
    most = float(re.search(r"<= ([\d.]+)", str(refusal.value))[1])
    assert ap.policy(name, epsilon=most, **asked).guarantee.epsilon <= most + 2


def test_bad_input():
    with pytest.raises(InputError, match=r"Expected prices=\[\] to be non-empty."):
        compose([])
    with pytest.raises(InputError, match=r"Expected mu=-1 >= 0."):
        GaussianPrice(-1)


def test_one_of_several_prices_is_the_worst_of_them_everywhere():
    """The two curves cross: the pure one ends at its epsilon, the Gaussian one never does."""
    pure, gaussian = PurePrice(1.0), GaussianPrice(privacy.gdp_mu(1.0, 1e-5))
    either = EitherPrice((pure, gaussian))
    at = np.linspace(0, 3, 31)
    for epsilon in at:
        assert either.delta(epsilon) == max(pure.delta(epsilon), gaussian.delta(epsilon))
    assert {pure.delta(e) > gaussian.delta(e) for e in at} == {True, False}
    for delta in (1e-12, 1e-5, 1e-3, 0.1):
        assert either.epsilon(delta) == max(pure.epsilon(delta), gaussian.epsilon(delta))
    assert either.mu == max(pure.mu, gaussian.mu) == pure.mu
    assert EitherPrice((gaussian, pure)).delta(0.5) == either.delta(0.5)


def test_one_of_several_prices_is_exact_where_its_worst_is():
    pure, gaussian = PurePrice(1.0), GaussianPrice(privacy.gdp_mu(1.0, 1e-5))
    either = EitherPrice((pure, gaussian))
    assert either.exact_at(1e-5)  # the Gaussian sets it
    assert not either.exact_at(1e-2)  # the bound for any pure price does
    assert pure.epsilon(1e-2) > gaussian.epsilon(1e-2)
    assert not EitherPrice((pure, GaussianPrice(gaussian.mu, exact=False))).exact_at(1e-5)
    assert EitherPrice((pure,)).exact_at(0.0)
    assert either.exact
    assert not EitherPrice((pure, GaussianPrice(gaussian.mu, exact=False))).exact


def test_one_of_several_prices_pays_for_slack_and_composes_soundly():
    pure, gaussian = PurePrice(0.5), GaussianPrice(0.4, slack=1e-9)
    either = EitherPrice((pure, gaussian))
    assert either.slack == 1e-9
    assert either.delta(1.0) == gaussian.delta(1.0) > GaussianPrice(0.4).delta(1.0)
    other = GaussianPrice(0.3)
    total = compose([either, other])
    assert total.slack == 1e-9
    assert not total.exact
    for one in (pure, gaussian):
        assert total.epsilon(1e-5) >= compose([one, other]).epsilon(1e-5)
    assert compose([either]) is either


def test_one_of_no_prices_is_refused():
    with pytest.raises(InputError, match=r"Expected prices=\(\) to be non-empty."):
        EitherPrice(())
    with pytest.raises(InputError, match=r"Expected price=0.5 to be a Price."):
        EitherPrice((0.5,))
