"""Discrete Laplace noise: the stated law, never more than the stated epsilon, whole numbers throughout.

Exact draws come from the operating system and are not seeded: false alarms 1e-9 a test.
"""

import math

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated, laws
from adaprivate.mechanisms.laws import discrete_laplace
from adaprivate.mechanisms.laws.base import rounded
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.privacy import PurePrice

FALSE_ALARM = 1e-9
EPSILONS = [1e-6, 0.01, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 20.0, 30.0]


def probability(z, epsilon):
    q = math.exp(-epsilon)
    return (1 - q) / (1 + q) * q ** abs(z)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_never_overspends_and_wastes_nothing(epsilon):
    """By OpenDP's own map, and by the 50 digits of the scale that it draws with."""
    law = DiscreteLaplace(epsilon)
    made = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=law.scale)
    assert made.map(1) <= epsilon
    with mpmath.workdps(50):
        spent = 1 / mpmath.mpf(law.scale)
        assert epsilon * (1 - 2.0**-50) < spent <= mpmath.mpf(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS[2:])
def test_its_variance_is_that_of_its_law(epsilon):
    far = math.ceil(60 / epsilon)
    assert sum(probability(z, epsilon) for z in range(-far, far + 1)) == pytest.approx(1, rel=1e-12)
    variance = sum(z * z * probability(z, epsilon) for z in range(-far, far + 1))
    assert DiscreteLaplace(epsilon).variance == pytest.approx(variance, rel=1e-12)
    assert DiscreteLaplace(1.0).variance == pytest.approx(1.84, abs=5e-3)
    assert DiscreteLaplace(1e-6).variance == pytest.approx(2e12, rel=1e-6)


@pytest.mark.parametrize("source", [Secure(), Simulated(1)], ids=["exact", "simulated"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_draws_have_the_stated_law(source, epsilon):
    law, n, total = DiscreteLaplace(epsilon), 6000, 41
    drawn = [law.add(total, source) for _ in range(n)]
    assert {type(value) for value in drawn} == {int}
    far = math.floor(3 / epsilon)

    def alarm(other):
        """The p-value of the counts of -far..far and of both tails, were this the epsilon."""
        inside = [probability(z, other) for z in range(-far, far + 1)]
        tail = (1 - sum(inside)) / 2
        noise = np.array(drawn) - total
        seen = [(noise < -far).sum(), *((noise == z).sum() for z in range(-far, far + 1)), (noise > far).sum()]
        return stats.chisquare(seen, n * np.array([tail, *inside, tail])).pvalue

    assert alarm(epsilon) > FALSE_ALARM
    assert alarm(2 / 3 * epsilon) < FALSE_ALARM  # power
    assert alarm(3 / 2 * epsilon) < FALSE_ALARM


def test_opendp_draws_for_zero_alone_and_sums_stay_whole(monkeypatch):
    asked = []

    class Sampler:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, value):
            asked.append((self.scale, value))
            return -7

        def map(self, distance):
            return distance / self.scale

    monkeypatch.setattr(discrete_laplace, "_sampler", Sampler)
    assert DiscreteLaplace(0.25).add(2**70 + 1, Secure()) == 2**70 - 6
    assert asked == [(4.0, 0)]


def test_simulated_noise_repeats_itself_and_exact_noise_does_not():
    law = DiscreteLaplace(0.01)
    one, other = ([law.add(0, Simulated(5)) for _ in range(3)] for _ in range(2))
    assert one == other
    assert len({law.add(0, Secure()) for _ in range(40)}) > 1


def test_is_found_by_name_and_states_pure_privacy():
    assert laws.named("discrete-laplace") is DiscreteLaplace
    assert DiscreteLaplace(0.7).price() == PurePrice(0.7)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 31.0, math.nan])
def test_refuses_budgets_it_cannot_keep(epsilon):
    with pytest.raises(InputError, match="Expected epsilon="):
        DiscreteLaplace(epsilon)


@pytest.mark.parametrize("source", [Secure(), Simulated(2)], ids=["exact", "simulated"])
def test_rewards_between_0_and_1_are_rounded_without_bias(source):
    assert [rounded(reward, source) for reward in (0.0, 1.0) for _ in range(50)] == [False] * 50 + [True] * 50
    ones = sum(rounded(0.3, source) for _ in range(4000))
    assert stats.binomtest(ones, 4000, 0.3).pvalue > FALSE_ALARM
    assert stats.binomtest(ones, 4000, 0.2).pvalue < FALSE_ALARM
    assert stats.binomtest(ones, 4000, 0.45).pvalue < FALSE_ALARM
