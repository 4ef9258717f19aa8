"""zCDP and Renyi conversions: the paper's equations, the tighter one, and dp-accounting."""

import math

import pytest

from adaprivate import privacy
from adaprivate.check import InputError


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1, 10, 50])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_equations_invert_each_other(epsilon, delta):
    rho = privacy.zcdp_rho(epsilon, delta)
    assert privacy.zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-12)
    log_term = math.log(1 / delta)
    assert rho == pytest.approx((math.sqrt(epsilon + log_term) - math.sqrt(log_term)) ** 2, rel=1e-6)  # Eq. 2.8 as printed
    assert privacy.zcdp_sigma(epsilon, delta, 3.0) == pytest.approx(3 / math.sqrt(2 * rho), rel=1e-12)


def test_tight_conversion_matches_the_table_and_stays_above_the_truth():
    """CKS 2020 on the paper's rho at delta 1e-5; the exact Gaussian epsilon is smaller still."""
    expected = {0.1: 0.0686, 0.5: 0.3878, 1: 0.8118, 2: 1.6933, 5: 4.4491, 10: 9.1907}
    for epsilon, tight in expected.items():
        rho = privacy.zcdp_rho(epsilon, 1e-5)
        value = privacy.zcdp_epsilon_tight(rho, 1e-5)
        assert value == pytest.approx(tight, abs=5e-5)
        assert privacy.gdp_epsilon(math.sqrt(2 * rho), 1e-5) < value < epsilon


def test_renyi_conversion_agrees_with_dp_accounting():
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = [1.5, 2, 3, 4, 8, 16, 32, 64]
    curve = [a * 0.05 for a in orders]
    other, _ = rdp.compute_epsilon(orders, curve, 1e-5)
    assert privacy.rdp_epsilon(orders, curve, 1e-5) == pytest.approx(other, rel=1e-12)


def test_compositions_add():
    assert privacy.zcdp_compose([0.1, 0.2, 0.3]) == pytest.approx(0.6)
    assert privacy.rdp_compose([[1.0, 2.0], [0.5, 0.25]]) == [1.5, 2.25]
    assert privacy.gdp_rho(3.0) == 4.5


def test_bad_input():
    with pytest.raises(InputError, match=r"Expected orders=\[1.0\] > 1."):
        privacy.rdp_epsilon([1.0], [0.1], 1e-5)
    with pytest.raises(InputError, match=r"Expected rdp.shape=\(1,\) == \(2,\)."):
        privacy.rdp_epsilon([2, 3], [0.1], 1e-5)
    with pytest.raises(InputError, match=r"Expected rho=-1 >= 0."):
        privacy.zcdp_epsilon(-1, 1e-5)
