"""Summaries and paired tests against SciPy, closed forms, and what they promise over many samples."""

import math

import numpy as np
import pytest
from scipy import stats

from adaprivate.check import InputError
from adaprivate.logs import Paired, Summary, paired, summary

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("n", [2, 3, 12, 1000])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_summary_is_students(n, confidence):
    values = np.random.default_rng(n).normal(3, 2, n)
    found = summary(values, confidence)
    low, high = stats.t.interval(confidence, n - 1, loc=values.mean(), scale=stats.sem(values))
    assert found.mean == pytest.approx(values.mean())
    assert found.sem == pytest.approx(stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.n, found.confidence) == (n, confidence)


def test_two_values_by_hand():
    """With one degree of freedom Student's law is Cauchy's: its quantiles are tangents."""
    found = summary([1.0, 3.0], 0.9)
    assert (found.mean, found.sem) == (2.0, 1.0)
    assert found.high - found.mean == pytest.approx(math.tan(math.pi * 0.45))
    against = paired([1.0, 4.0], [0.0, 1.0])  # differences 1 and 3: t = 2
    assert against.t == 2
    assert against.p_value == pytest.approx(1 - 2 * math.atan(2) / math.pi)
    assert against.effect_size == pytest.approx(2 / math.sqrt(2))


@pytest.mark.parametrize("n", [2, 5, 12, 300])
def test_paired_is_scipys(n):
    rng = np.random.default_rng(n)
    theirs = rng.normal(10, 5, n)
    ours = theirs + rng.normal(0.3, 1, n)
    found = paired(ours, theirs, confidence=0.99)
    expected = stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.99)
    difference = ours - theirs
    assert found.difference == pytest.approx(difference.mean())
    assert found.sem == pytest.approx(stats.sem(difference))
    assert found.t == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.effect_size == pytest.approx(difference.mean() / difference.std(ddof=1))
    assert found.n == n


def test_paired_changes_sign_with_its_arguments():
    one, two = [1.0, 2.0, 4.0], [0.5, 2.5, 1.0]
    there, back = paired(one, two), paired(two, one)
    assert (there.difference, there.t, there.effect_size) == (-back.difference, -back.t, -back.effect_size)
    assert (there.p_value, there.sem) == (back.p_value, back.sem)
    assert (there.low, there.high) == (-back.high, -back.low)


def test_pairing_removes_what_both_share():
    """The same gap of 0.1 under noise a hundred times as large: only the paired test sees it."""
    rng = np.random.default_rng(0)
    shared, own = rng.normal(0, 10, 30), rng.normal(0, 0.05, 30)
    assert paired(shared + own + 0.1, shared).p_value < FALSE_ALARM
    assert stats.ttest_ind(shared + own + 0.1, rng.permutation(shared)).pvalue > 0.5


def test_no_spread():
    assert summary([0.1] * 3) == Summary(pytest.approx(0.1), 0.0, pytest.approx(0.1), pytest.approx(0.1), 0.95, 3)
    equal = paired([1.0, 2.0], [1.0, 2.0])
    assert equal == Paired(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.95, 2)
    above = paired([2.0, 3.0], [1.0, 2.0])
    assert (above.t, above.p_value, above.effect_size) == (math.inf, 0.0, math.inf)
    below = paired([1.0, 2.0], [2.0, 3.0])
    assert (below.t, below.p_value, below.effect_size) == (-math.inf, 0.0, -math.inf)


def test_far_tails_keep_their_digits():
    values = np.random.default_rng(1).normal(50, 1, 40)
    found = paired(values, np.zeros(40))
    assert 0 < found.p_value < 1e-50
    assert found.p_value == pytest.approx(2 * stats.t.sf(found.t, 39), rel=1e-9)


def test_integers_lists_and_arrays_alike():
    assert summary([1, 2, 3]) == summary((1.0, 2.0, 3.0)) == summary(np.array([1, 2, 3]))


def test_they_read_well():
    assert str(summary([1.0, 2.0, 3.0])) == "2 +- 0.58 (95 % within -0.484138 .. 4.48414)"
    assert str(paired([2.0, 3.0, 5.0], [1.0, 1.0, 1.0])) == (
        "+2.33333 (95 % within -1.46125 .. +6.12792), p = 0.12, d_z = 1.5, n = 3"
    )


def test_intervals_cover_the_mean_as_often_as_they_say():
    """6,000 samples of 12: the binomial test at false alarm 1e-6; intervals of 2/3 or 3/2 the length are caught."""
    rng = np.random.default_rng(2)
    samples = rng.normal(5, 3, (6000, 12))
    found = [summary(sample, 0.9) for sample in samples]
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 6000, 0.9)

    def covered(stretch):
        return sum(abs(s.mean - 5) <= stretch * (s.high - s.mean) for s in found)

    assert low <= covered(1) <= high
    assert not low <= covered(2 / 3) <= high
    assert not low <= covered(3 / 2) <= high


def test_p_values_are_even_when_nothing_differs():
    rng = np.random.default_rng(3)
    one, two = rng.normal(size=(2, 4000, 8))
    p_values = [paired(a, b).p_value for a, b in zip(one, two, strict=True)]
    assert stats.kstest(p_values, "uniform").pvalue > FALSE_ALARM
    shifted = [paired(a + 0.4, b).p_value for a, b in zip(one, two, strict=True)]
    assert stats.kstest(shifted, "uniform").pvalue < FALSE_ALARM


MISTAKES = [
    (lambda: summary([]), r"^Expected len\(values\)=0 >= 2\.$"),
    (lambda: summary([1.0]), r"^Expected len\(values\)=1 >= 2\.$"),
    (lambda: summary(1.0), r"^Expected values\.shape=\(\) == \(\*,\)\.$"),
    (lambda: summary([[1.0, 2.0]]), r"^Expected values\.shape=\(1, 2\) == \(\*,\)\.$"),
    (lambda: summary([1.0, math.nan]), r"^Expected values\[1\]=nan to be finite\.$"),
    (lambda: summary(["a", "b"]), r"^Expected values to be an array of numbers\.$"),
    (lambda: summary([1.0, 2.0], 1.0), r"^Expected confidence=1\.0 > 0 and < 1\.$"),
    (lambda: summary([1.0, 2.0], 95), r"^Expected confidence=95 > 0 and < 1\.$"),
    (lambda: paired([1.0], [1.0]), r"^Expected len\(ours\)=1 >= 2\.$"),
    (lambda: paired([1.0, 2.0], [1.0]), r"^Expected len\(theirs\)=1 >= 2\.$"),
    (lambda: paired([1.0, 2.0], [1.0, 2.0, 3.0]), r"^Expected len\(ours\)=2 == len\(theirs\)=3\.$"),
    (lambda: paired([1.0, 2.0], [1.0, math.inf]), r"^Expected theirs\[1\]=inf to be finite\.$"),
    (lambda: paired([1.0, 2.0], None), r"^Expected theirs"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=[str(i) for i in range(len(MISTAKES))])
def test_mistakes_are_named_in_one_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
