"""The filter refuses before overspending, exactly; the odometer reads on its public scale."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaprivate import privacy
from adaprivate.check import InputError


@settings(max_examples=300, deadline=None, derandomize=True)
@given(budget=st.floats(1e-3, 50), steps=st.lists(st.floats(0, 20), max_size=60))
def test_never_overspends_and_never_refuses_what_fits(budget, steps):
    account = privacy.GdpFilter(budget)
    spent = Fraction(0)
    for mu in steps:
        fits = spent + Fraction(mu) ** 2 <= Fraction(budget) ** 2
        if fits:
            account.spend(mu)
            spent += Fraction(mu) ** 2
        else:
            with pytest.raises(privacy.BudgetError):
                account.spend(mu)
        assert account.spent == math.sqrt(spent)
        assert account.affords(account.remaining)
        assert not account.affords(math.nextafter(account.remaining, math.inf))


def test_many_tiny_steps_do_not_slip_through():
    account = privacy.GdpFilter(0.1)
    taken = 0
    while account.affords(1e-3):
        account.spend(1e-3)
        taken += 1
    assert taken in (9_999, 10_000)  # 0.1 and 0.001 are not exact in binary
    assert Fraction(1e-3) ** 2 * taken <= Fraction(0.1) ** 2 < Fraction(1e-3) ** 2 * (taken + 1)


def test_a_step_of_exactly_the_budget_fits_and_the_message_says_what_is_left():
    account = privacy.GdpFilter(2.0)
    account.spend(1.2)
    account.spend(account.remaining)
    with pytest.raises(privacy.BudgetError, match=r"Expected mu=0.5 <= .*, what is left of the budget 2."):
        account.spend(0.5)
    account.spend(0.0)


def test_state_survives_json():
    account = privacy.GdpFilter(1.0)
    for _ in range(7):
        account.spend(0.3)
    copy = privacy.GdpFilter.restored(json.loads(json.dumps(account.state())))
    assert copy.state() == account.state()
    with pytest.raises(InputError, match="within the budget"):
        privacy.GdpFilter.restored({"mu": 1.0, "spent_squared": "3/2"})


def test_odometer_reads_the_next_mark():
    meter = privacy.GdpOdometer([0.5, 1.0, 2.0])
    assert meter.reading == 0.5
    assert meter.spend(0.5) == 0.5
    assert meter.spend(0.5) == 1.0
    assert meter.spend(1.0) == 2.0
    assert meter.spend(3.0) == math.inf
    with pytest.raises(InputError, match="to increase"):
        privacy.GdpOdometer([1.0, 1.0])
