"""Bounds on epsilon and mu from counts: against closed forms, printed values, and how often they are wrong."""

import math

import numpy as np
import pytest
from scipy import special, stats

from adaprivate.audit.attack import audited
from adaprivate.audit.bounds import (
    COIN,
    HIGH,
    LOW,
    Counts,
    epsilon_bound,
    least,
    most,
    mu_bound,
    one_run_chance,
    one_run_epsilon,
    one_run_mu,
    one_run_refutes,
)
from adaprivate.audit.scripts import Pair, Script
from adaprivate.audit.targets import Claim, Target, Transcripts
from adaprivate.audit.trade_off import allowed
from adaprivate.privacy import GaussianPrice, PurePrice, gdp_epsilon


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (70, 5000)])
def test_rates_are_those_of_clopper_and_pearson(successes, trials):
    interval = stats.binomtest(successes, trials).proportion_ci(confidence_level=0.998, method="exact")
    assert least(successes, trials, 0.001) == pytest.approx(interval.low, rel=1e-9)
    assert most(successes, trials, 0.001) == pytest.approx(interval.high, rel=1e-9)


def test_endless_runs_of_randomised_response_give_its_epsilon():
    n, keep = 10**12, special.expit(2.0)
    counts = Counts((1 - keep) * n, n, keep * n, n)
    for how in (COIN, HIGH, LOW):
        assert epsilon_bound(counts, how, 0.0, 1e-3) == pytest.approx(2.0, abs=1e-4)


def test_endless_runs_of_gaussian_noise_give_its_mu():
    n, mu = 10**12, 1.3
    counts = Counts(special.ndtr(-mu / 2) * n, n, special.ndtr(mu / 2) * n, n)
    for how in (COIN, HIGH, LOW):
        assert mu_bound(counts, how, 1e-3) == pytest.approx(mu, abs=1e-4)


def test_delta_is_granted():
    """An event of probability delta under two alone proves nothing at that delta."""
    n = 10**12
    assert epsilon_bound(Counts(0.0, n, 1e-5 * n, n), HIGH, 1.01e-5, 1e-3) == 0
    assert epsilon_bound(Counts(0.0, n, 1e-5 * n, n), HIGH, 0.5e-5, 1e-3) > 10


@pytest.mark.parametrize("how", [COIN, HIGH, LOW])
def test_bounds_are_wrong_as_seldom_as_they_say(how):
    """At level 0.1, 4000 times: wrong in no more than 0.1 of them, which a test at level 1e-6 grants 124 more of."""
    rng, mu, n, alpha, times = np.random.default_rng(5), 0.7, 300, 0.1, 4000
    ones, twos = rng.binomial(n, special.ndtr(-0.1), times), rng.binomial(n, special.ndtr(-0.1 + mu), times)
    epsilon = math.log(special.ndtr(-0.1 + mu) / special.ndtr(-0.1)) if how == HIGH else 10.0
    counts = Counts(ones, n, twos, n)
    most_wrong = stats.binom.isf(1e-6, times, alpha)
    assert (mu_bound(counts, how, alpha) > mu).sum() <= most_wrong
    assert (epsilon_bound(counts, how, 0.0, alpha) > epsilon).sum() <= most_wrong


def test_one_run_gives_the_printed_value():
    """Steinke, Nasr & Jagielski 2023, Appendix D: 75 of 100 guesses among 1000 canaries, delta 1e-4, 95 %."""
    assert one_run_epsilon(1000, 100, 75, 1e-4, 0.05) == pytest.approx(0.673, abs=5e-4)


def test_one_run_without_delta_is_a_binomial():
    assert one_run_chance(50, 50, 40, 1.0, 0.0) == pytest.approx(stats.binom.sf(39, 50, special.expit(1.0)))


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_one_canary_is_told_with_chance_phi_of_half_mu(mu):
    """Mahloujifar, Melis & Chaudhuri 2024 with a single canary: the bound is the exact one."""
    chance = special.ndtr(mu / 2)
    assert one_run_refutes(1, 1, 1, mu, chance + 1e-6)
    assert not one_run_refutes(1, 1, 1, mu, chance - 1e-6)


@pytest.mark.parametrize("share", [1.0, 0.3, 0.05])
def test_one_run_of_gaussian_noise_is_below_its_mu(share):
    """2000 canaries at mu 1: the bound at level 0.001 stays below in 60 runs, and is above 0.2 (it is loose by nature)."""
    rng, m = np.random.default_rng(6), 2000
    for _ in range(60):
        bits = rng.integers(2, size=m) == 1
        lean = np.where(bits, 0.5, -0.5) + rng.standard_normal(m)
        surest = np.argsort(-np.abs(lean))[: int(share * m)]
        right = int(((lean[surest] > 0) == bits[surest]).sum())
        assert 0.15 < one_run_mu(m, len(surest), right, 1e-3) < 1.0


def test_correlated_canaries_do_not_deceive_one_run():
    """All canaries shown at once with probability delta: mu-GDP is refuted by that only where its curve forbids it."""
    mu, m = 3.0, 40
    assert not one_run_refutes(m, m, m, mu, 0.001)
    assert one_run_refutes(m, m, m, 0.1, 0.001)


class Known(Target):
    """A number with Gaussian noise, moved by mu."""

    name = "known"

    def __init__(self, mu, seed):
        self.mu, self.rng = mu, np.random.default_rng(seed)
        self.claim = Claim(gdp_epsilon(mu, 1e-5), 1e-5, mu, True, GaussianPrice(mu))

    def pairs(self):
        one, two = (Script(np.ones((1, 1, 1)), np.array([value]), (1,)) for value in (0.0, 1.0))
        return [Pair(one, two, "a number", (0,))]

    def play(self, script, seeds):
        shown = script.rewards[0] * self.mu + self.rng.standard_normal((len(list(seeds)), 1))
        return Transcripts(shown, np.zeros((len(shown), 1), dtype=np.int64))


def test_whole_audits_are_wrong_as_seldom_as_they_say():
    """At confidence 0.8, 200 audits of noise that is exactly as claimed: 0.2 may be wrong, at level 1e-6 at most 69."""
    wrong = sum(not audited(Known(0.8, seed), trials=400, confidence=0.8).holds for seed in range(200))
    assert wrong <= stats.binom.isf(1e-6, 200, 0.2)


def test_more_runs_prove_more():
    few, many = (audited(Known(1.0, 3), trials=trials) for trials in (1000, 40_000))
    assert few.measured_mu < many.measured_mu
    assert many.share > 0.92


def test_what_a_claim_allows():
    false = np.array([0.01, 0.2, 0.5])
    gaussian = allowed(Claim(1.0, 1e-5, 0.8, True, GaussianPrice(0.8)), false)
    assert gaussian == pytest.approx(special.ndtr(special.ndtri(false) + 0.8), rel=1e-6)
    pure = allowed(Claim(1.0, 0.0, None, False, PurePrice(1.0)), false)
    assert pure == pytest.approx(np.minimum(math.e * false, 1 - (1 - false) / math.e), rel=1e-9)
