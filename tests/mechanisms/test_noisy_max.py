"""Report noisy max: its price, and the published one that is false."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, norm

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import NoisyMax, Secure, Simulated

NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def chances(centre, sigma):
    """The probability that each entry is the largest, by quadrature."""
    z = 9 * NODES
    found = []
    for i, (c, s) in enumerate(zip(centre, sigma, strict=True)):
        others = [ndtr((c + s * z - centre[j]) / sigma[j]) for j in range(len(centre)) if j != i]
        found.append(float(9 * (WEIGHTS * norm.pdf(z)) @ np.prod(others, axis=0)))
    return found


def hockey_stick(p, q, epsilon):
    return max(float(np.maximum(np.array(x) - math.exp(epsilon) * np.array(y), 0).sum()) for x, y in ((p, q), (q, p)))


def test_the_price_covers_every_pair_of_neighbours():
    """One entry moved: whatever the others, no epsilon shows more than the curve of max s_i / sigma_i."""
    rng = np.random.default_rng(0)
    closest = 0.0
    for _ in range(60):
        n = rng.integers(2, 5)
        sigma, s = np.exp(rng.normal(size=n)), np.exp(rng.normal(size=n) - 1)
        mechanism = NoisyMax(sensitivities=s, sigmas=sigma, noise=Simulated(0))
        assert mechanism.price.mu == pytest.approx((s / sigma).max())
        centre = rng.normal(size=n)
        for j in range(n):
            moved = centre.copy()
            moved[j] += s[j]
            p, q = chances(centre, sigma), chances(moved, sigma)
            for epsilon in (0.0, 0.3, 1.0):
                shown, allowed = hockey_stick(p, q, epsilon), mechanism.price.delta(epsilon)
                assert shown <= allowed + 1e-9
                closest = max(closest, shown / max(allowed, 1e-9))
    assert closest > 0.5


def test_the_price_is_a_bound_and_says_so():
    """Two equal entries tell no more than their difference: mu = 1 / sqrt 2, not 1."""
    mechanism = NoisyMax(sensitivities=(1, 1), sigmas=(1, 1), noise=Simulated(0))
    assert not mechanism.price.exact
    assert not mechanism.guarantee(1e-5).exact
    for epsilon in (0.0, 0.5, 1.0):
        tried = [
            hockey_stick((p, 1 - p), (q, 1 - q), epsilon)
            for p, q in ((ndtr((x + 1) / math.sqrt(2)), ndtr(x / math.sqrt(2))) for x in np.linspace(-6, 6, 2401))
        ]
        assert max(tried) == pytest.approx(privacy.gdp_delta(math.sqrt(0.5), epsilon), rel=1e-3)
        assert max(tried) < 0.8 * mechanism.price.delta(epsilon)


@pytest.mark.parametrize(
    ("delta", "stated", "shown", "true"), [(1e-5, 1.1630, 2.524e-2, 2.943), (1e-6, 1.2807, 1.775e-2, 3.308)]
)
def test_theorems_6_and_7_are_false(delta, stated, shown, true):
    """Two arms, one pull against many: the other's sample is a threshold, and a half-line is the best Gaussian test."""
    mu = math.sqrt(0.5)
    assert privacy.published_argmax_epsilon(2, delta) == pytest.approx(stated, abs=5e-5)
    assert privacy.gdp_epsilon(mu, delta) == pytest.approx(true, abs=5e-4)
    threshold = stated / mu - mu / 2  # in units of arm 1's spread: where the likelihood ratio is e^stated
    found = []
    for pulls in (1e2, 1e4, 1e8):
        sigma = (mu, 1 / math.sqrt(pulls + 1))
        p = chances((mu * mu, mu * (threshold + mu)), sigma)[0]
        q = chances((0.0, mu * (threshold + mu)), sigma)[0]
        # and by the closed form for two normal numbers
        spread = math.hypot(*sigma)
        exact = ndtr((mu * mu - mu * (threshold + mu)) / spread), ndtr(-mu * (threshold + mu) / spread)
        if pulls < 1e3:  # beyond, the step is too sharp for quadrature
            assert (p, q) == pytest.approx(exact, rel=1e-6)
        found.append(exact[0] - math.exp(stated) * exact[1])
    assert found[-1] == pytest.approx(shown, rel=1e-3)
    assert min(found) > 1000 * delta
    assert found[-1] <= privacy.gdp_delta(mu, stated) * (1 + 1e-9)  # the true price does hold


@pytest.mark.parametrize(("epsilon", "delta", "largest"), [(0.1, 1e-5, 0.0325), (1.0, 1e-5, 0.2681), (3.0, 1e-6, 0.6477)])
def test_lemma_12_is_false(epsilon, delta, largest):
    allowed = 2 * epsilon / math.sqrt(math.log(1 / (2 * delta)))
    assert privacy.gdp_delta(allowed, epsilon) > 100 * delta
    assert privacy.gdp_mu(epsilon, delta) == pytest.approx(largest, abs=6e-5)


@pytest.mark.parametrize("delta", [1e-10, 1e-50])
def test_theorem_6_stays_false_however_small_delta_and_mu(delta):
    """Its epsilon tends to 1 / (2 sqrt 2) of the true one."""
    ratio = privacy.gdp_epsilon(0.01, delta) / privacy.published_argmax_epsilon(2, delta, 0.01)
    assert 2 < ratio < 2 * math.sqrt(2)


@pytest.mark.parametrize("noise", [Simulated(1), Secure()], ids=["simulated", "exact"])
def test_releases_the_largest_with_the_right_frequency(noise):
    """A binomial at one in a million; two thirds and three halves of the noise are told apart."""
    sigma, gap, trials = (1.0, 2.0), 1.5, 3000
    value = np.array([int(gap * 2**20), 0], dtype=object) if noise.exact else np.array([gap, 0.0])
    wins = sum(NoisyMax(sensitivities=(1, 1), sigmas=sigma, noise=noise).release(value)[0] == 0 for _ in range(trials))

    def fits(scale):
        chance = ndtr(gap / (scale * math.hypot(*sigma)))
        return binom.ppf(5e-7, trials, chance) <= wins <= binom.ppf(1 - 5e-7, trials, chance)

    assert fits(1)
    assert not fits(2 / 3)
    assert not fits(3 / 2)


def test_mistakes_are_named():
    for options, message in (
        ({"sensitivities": [1.0], "sigmas": [1.0]}, "Expected entries=1 >= 2."),
        ({"sensitivities": [1.0, 1.0], "sigmas": [1.0]}, "Expected sigmas.shape=(1,) == (2,)."),
        ({"sensitivities": [1.0, 0.0], "sigmas": [1.0, 1.0]}, "Expected sensitivities=[1.0, 0.0] > 0."),
    ):
        with pytest.raises(InputError) as error:
            NoisyMax(**options, noise=Simulated(0))
        assert str(error.value) == message
    once = NoisyMax(sensitivities=[1, 1], sigmas=[1, 1], noise=Simulated(0))
    once.release(np.zeros(2))
    with pytest.raises(InputError, match="releases=2"):
        once.release(np.zeros(2))
