"""Wishart prices: loss laws against real matrices and a second representation, curves against closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.stats import chi2, norm

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.privacy import GaussianPrice, gdp_delta, gdp_epsilon, gdp_mu
from adaprivate.privacy.wishart import (
    absent_survival,
    least_degrees,
    present_survival,
    published_wishart_degrees,
    replaced_survival,
    wishart_degrees,
    wishart_price,
)

FALSE_ALARM = 1e-6


def wisharts(p, k, n, seed):
    rows = np.random.default_rng(seed).standard_normal((n, k, p))
    return np.einsum("nki,nkj->nij", rows, rows)


def loss(seen, one, other, k):
    """log of the density of M + one + W over that of M + other + W, at seen - M."""
    p = len(one)

    def log_density(s):
        inside = np.linalg.eigvalsh(s)[:, 0] > 0
        value = (k - p - 1) / 2 * np.linalg.slogdet(s)[1] - np.trace(s, axis1=1, axis2=2) / 2
        return np.where(inside, value, -np.inf)

    return log_density(seen - one) - log_density(seen - other)


def distance(sample, survival):
    """Kolmogorov distance between the sample and a law that may have an atom at infinity."""
    ordered = np.sort(sample[np.isfinite(sample)])
    law = survival(ordered)
    steps = np.arange(len(ordered) + 1) / len(sample)
    gap = max(np.abs(1 - law - steps[1:]).max(), np.abs(1 - law - steps[:-1]).max())
    return max(gap, abs(np.isinf(sample).mean() - survival(np.array([np.inf]))[0]))


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("law", [present_survival, absent_survival, replaced_survival])
def test_loss_law_of_real_matrices_with_power(law, p):
    """Dvoretzky-Kiefer-Wolfowitz at false-alarm rate 1e-6; 2/3 and 3/2 of the degrees of freedom left over are rejected."""
    p += law is replaced_survival
    k, n = p + 12, 15_000
    noise = wisharts(p, k, n, seed=p)
    row, other, nothing = np.zeros((3, p, p))
    row[0, 0] = other[-1, -1] = 1
    if law is present_survival:
        sample = loss(noise + row, row, nothing, k)
    elif law is absent_survival:
        sample = loss(noise, nothing, row, k)
    else:
        sample = loss(noise + row, row, other, k)
    threshold = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))
    assert distance(sample, law(k, p)) < threshold
    assert distance(sample, law(p + 8, p)) > threshold
    assert distance(sample, law(p + 18, p)) > threshold


@pytest.mark.parametrize("k", [8, 15, 60, 400])
def test_replaced_law_against_a_second_representation(k):
    """With Z ~ Wishart_2(n), z2 ~ chi2_n, z12^2 / z2 ~ chi2_1 and det Z / z2 ~ chi2_(n-1) are independent."""
    p = 4
    n, a = k - p + 2, (k - p - 1) / 2
    u, du = np.polynomial.legendre.leggauss(400)
    first, b = chi2.isf((1 - u) / 2, n - 1)[:, None], np.linspace(-9, 9, 361)[None, :]
    weight = du[:, None] / 2 * norm.pdf(b) * (b[0, 1] - b[0, 0])
    for x in (-1.5, -0.5, 0.0, 0.3, 1.0, 2.5):
        value = x / math.sqrt(k - p)
        r = math.exp(-value / a)
        room = 1 + first * (1 - r)
        below = np.where(room > 0, chi2.sf((1 + first + b**2) / np.where(room > 0, room, 1), n), 0)
        assert replaced_survival(k, p)(np.array([value]))[0] == pytest.approx(1 - (weight * below).sum(), abs=2e-6)


def closed_form(k, p, square, epsilon):
    """Exact delta of one release for a row of squared norm ``square``, present against absent and the reverse."""
    a, nu = (k - p - 1) / 2, k - p + 1
    present = 0.0
    if square / 2 > epsilon:
        edge = square / math.expm1((square / 2 - epsilon) / a)
        present = chi2.sf(edge, nu) - math.exp(epsilon) * chi2.sf(edge + square, nu)
    edge = -square / math.expm1(-(epsilon + square / 2) / a)
    return present, chi2.cdf(edge, nu) - math.exp(epsilon) * chi2.cdf(edge - square, nu)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2, 1.0])
@pytest.mark.parametrize(("k", "p"), [(6, 3), (20, 3), (120, 10)])
def test_longer_rows_are_never_safer(k, p, epsilon):
    curves = np.array([closed_form(k, p, square, epsilon) for square in np.linspace(0.02, 1, 50)])
    assert (np.diff(curves, axis=0) >= -1e-13).all()


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.2, 1.0])
@pytest.mark.parametrize(("k", "p"), [(6, 3), (20, 3), (120, 10), (2000, 10)])
def test_add_remove_price_is_the_closed_form_rounded_up(k, p, epsilon):
    exact = max(closed_form(k, p, 1.0, epsilon))
    stated = wishart_price(k, p, neighbours="add-remove").delta(epsilon)
    assert exact <= stated <= 1.1 * exact + 1e-14


def test_replace_price_covers_every_pair_of_rows_and_is_nearly_attained():
    """Monte Carlo of delta = E(1 - e^(epsilon - loss))+ for 60 pairs, Bonferroni at false-alarm rate 1e-6."""
    k, p, n, epsilon = 30, 3, 20_000, 0.1
    stated = wishart_price(k, p, neighbours="replace").delta(epsilon)
    noise = wisharts(p, k, n, seed=4)
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((60, 2, p))
    rows *= rng.uniform(0.2, 1, (60, 2, 1)) ** 0.3 / np.linalg.norm(rows, axis=2, keepdims=True)
    rows[0] = np.eye(p)[:2]
    rows[1] = [[1, 0, 0], [0, 0, 0]]
    rows[2] = [[0, 0, 0], [1, 0, 0]]
    found = []
    for v, w in rows:
        one, other = np.outer(v, v), np.outer(w, w)
        excess = np.maximum(0, -np.expm1(epsilon - loss(noise + one, one, other, k)))
        found.append(excess.mean())
        assert excess.mean() - norm.isf(FALSE_ALARM / 60) * excess.std() / math.sqrt(n) <= stated
    assert max(found) == found[0]
    assert found[0] > 0.93 * stated


@pytest.mark.parametrize("nu", [100, 400, 2000])
@pytest.mark.parametrize(("law", "variance"), [(present_survival, 0.5), (absent_survival, 0.5), (replaced_survival, 1.0)])
def test_moments_tend_to_the_central_limit(law, variance, nu):
    """Standard deviation mu and mean mu^2 / 2, mu^2 = 1 / (2 nu) or 1 / nu, up to a few parts in nu."""
    mu = math.sqrt(variance / nu)
    x = np.linspace(-30 * mu, 30 * mu, 60_001)
    above = law(nu + 7, 7)(x)
    mean = x[0] + simpson(above, x=x)
    square = x[0] ** 2 + simpson(2 * x * above, x=x)
    assert mean == pytest.approx(mu**2 / 2, rel=8 / nu)
    assert math.sqrt(square - mean**2) == pytest.approx(mu, rel=5 / nu)


@pytest.mark.parametrize(("neighbours", "half"), [("replace", 1), ("add-remove", 2)])
@pytest.mark.parametrize(("releases", "nu"), [(27, 400), (15, 1000), (64, 4000)])
def test_composition_agrees_with_the_central_limit(releases, nu, neighbours, half):
    price = wishart_price(nu + 5, 5, releases, neighbours=neighbours)
    limit = gdp_epsilon(math.sqrt(releases / (half * nu)), 1e-5)
    assert limit < price.epsilon(1e-5) < 1.05 * limit
    assert not price.exact


@pytest.mark.parametrize(("delta", "releases", "excess", "least"), [(1e-5, 27, 376, 1.11e-5), (0.1, 27, 32, 0.11)])
def test_the_central_limit_alone_would_overspend(delta, releases, excess, least):
    assert excess == math.ceil(releases / gdp_mu(1, delta) ** 2)
    assert least < wishart_price(excess + 6, 6, releases, neighbours="replace").delta(1.0) < 1.2 * delta


def test_price_composes_with_others():
    wishart, gaussian = wishart_price(400, 5, neighbours="replace"), GaussianPrice(0.5)
    both = privacy.compose([wishart, gaussian])
    mu = math.sqrt(0.25 + 1 / 395)
    assert both.epsilon(1e-5) == pytest.approx(gdp_epsilon(mu, 1e-5), rel=0.01)
    assert both.delta(1.0) > gdp_delta(0.5, 1.0)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize(("epsilon", "delta", "releases"), [(1.0, 1e-5, 1), (0.5, 1e-6, 8), (3.0, 1e-3, 1)])
def test_degrees_are_the_fewest_that_suffice(epsilon, delta, releases, neighbours):
    k = wishart_degrees(epsilon, delta, 4, releases, neighbours=neighbours)
    assert wishart_price(k, 4, releases, neighbours=neighbours).delta(epsilon) <= delta
    assert wishart_price(k, 4, releases, neighbours=neighbours).epsilon(delta) <= epsilon * (1 + 1e-12)
    if k > least_degrees(4, neighbours):
        assert wishart_price(k - 1, 4, releases, neighbours=neighbours).delta(epsilon) > delta


@pytest.mark.parametrize(
    ("delta", "n", "releases", "d", "published", "limit"),
    [
        (0.1, 1e4, 15, 5, 71373, 25),
        (0.1, 1e4, 15, 20, 71388, None),
        (0.1, 1e6, 21, 5, 104661, None),
        (0.1, 5e7, 27, 20, 139130, 54),
        (1e-5, 1e4, 15, 5, 668526, 216),
        (1e-5, 1e4, 15, 20, 668541, None),
        (1e-5, 1e6, 21, 20, 955268, None),
        (1e-5, 5e7, 27, 5, 1246733, 383),
        (1e-5, 5e7, 27, 20, 1246748, 398),
    ],
)
def test_published_degrees_and_how_few_are_needed(delta, n, releases, d, published, limit):
    """At epsilon = 1; ``limit`` is d + 1 + releases / mu^2, the central limit's answer for replaced rows."""
    assert releases == math.ceil(math.log2(n)) + 1
    assert published_wishart_degrees(1.0, delta, d + 1, releases) == published
    if limit is not None:
        assert limit < wishart_degrees(1.0, delta, d + 1, releases, neighbours="replace") <= limit + 5


def test_few_degrees_have_infinite_losses():
    price = wishart_price(5, 3, neighbours="add-remove")
    impossible = chi2.cdf(1, 3)
    assert impossible < price.delta(35.0) < impossible * 1.001
    assert price.epsilon(impossible / 2) == math.inf


def test_many_degrees_stay_cheap_and_sound():
    price = wishart_price(1_000_000, 3, 27, neighbours="replace")
    limit = gdp_epsilon(math.sqrt(27e-6), 1e-5)
    assert limit < price.epsilon(1e-5) < limit + 27e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wishart_price(4, 3, neighbours="add-remove"), r"Expected degrees=4 >= 5\."),
        (lambda: wishart_price(5, 3, neighbours="replace"), r"Expected degrees=5 >= 6\."),
        (lambda: wishart_price(12.0, 3, neighbours="replace"), r"Expected degrees=12.0 to be a whole number\."),
        (lambda: wishart_price(12, 0, neighbours="replace"), r"Expected dimension=0 >= 1\."),
        (lambda: wishart_price(12, 3, 0, neighbours="replace"), r"Expected releases=0 >= 1\."),
        (lambda: wishart_price(12, 3, neighbours="swap"), r"Expected neighbours='swap' in {replace, add-remove}\."),
        (lambda: wishart_degrees(0, 1e-5, 3, neighbours="replace"), r"Expected epsilon=0 > 0\."),
        (lambda: wishart_degrees(1, 0, 3, neighbours="replace"), r"Expected delta=0 > 0 and < 1\."),
        (lambda: wishart_degrees(1e-3, 1e-5, 3, 27, neighbours="add-remove"), r"Expected epsilon=0.001 to be well above"),
        (lambda: published_wishart_degrees(-1, 0.1, 3, 5), r"Expected epsilon=-1 > 0\."),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()
