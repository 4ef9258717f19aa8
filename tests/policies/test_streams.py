"""The compiled random numbers: known answers, right laws, independent streams."""

import itertools
import math

import numba
import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest, norm

from adaprivate.check import InputError
from adaprivate.compiled import _rare, below, bits, normal, streams, uniform

FALSE_ALARM = 1e-6
EDGE = 3.6541528853610088
"""Where the ziggurat's tail begins."""


@numba.njit
def _bits(words, row, out):
    for i in range(len(out)):
        out[i] = bits(words, row)


@numba.njit
def _uniform(words, row, out):
    for i in range(len(out)):
        out[i] = uniform(words, row)


@numba.njit
def _normal(words, row, out):
    for i in range(len(out)):
        out[i] = normal(words, row)


@numba.njit
def _below(words, row, count, out):
    for i in range(len(out)):
        out[i] = below(words, row, count)


def uniforms(n, seed=0, purpose=1):
    out = np.empty(n)
    _uniform(streams(seed, purpose), 0, out)
    return out


def normals(n, seed=0, purpose=1):
    out = np.empty(n)
    _normal(streams(seed, purpose), 0, out)
    return out


def belows(n, count, seed=0):
    out = np.empty(n, dtype=np.int64)
    _below(streams(seed, 1), 0, count, out)
    return out


def even(counts):
    """Chi-square test that every cell has the same probability."""
    expected = counts.sum() / counts.size
    return ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - FALSE_ALARM, counts.size - 1)


def xoshiro256plusplus(state):
    """The generator as its authors print it, in Python integers."""
    mask = 2**64 - 1

    def rotated(x, k):
        return ((x << k) | (x >> (64 - k))) & mask

    s = [int(word) for word in state]
    while True:
        yield (rotated((s[0] + s[3]) & mask, 23) + s[0]) & mask
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)


# The first outputs from the state (1, 2, 3, 4), as published with the reference implementation's ports.
PUBLISHED = [
    *(41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205),
    *(9973669472204895162, 14011001112246962877, 12406186145184390807, 15849039046786891736, 10450023813501588000),
]


def test_known_answers():
    words = np.zeros((2, 16), dtype=np.uint64)
    words[1, :4] = 1, 2, 3, 4
    out = np.empty(10, dtype=np.uint64)
    _bits(words, 1, out)
    assert [int(word) for word in out] == PUBLISHED
    assert list(itertools.islice(xoshiro256plusplus([1, 2, 3, 4]), 10)) == PUBLISHED
    assert not words[0].any()
    assert not words[1, 4:].any()


@pytest.mark.parametrize(("seed", "purpose"), [(0, 1), (1, 1), (12345, 4), (2**128 - 1, 3)])
def test_bits_and_uniforms_follow_the_generator(seed, purpose):
    words = streams(seed, purpose)
    expected = list(itertools.islice(xoshiro256plusplus(words[0, :4]), 500))
    out = np.empty(500, dtype=np.uint64)
    _bits(words.copy(), 0, out)
    assert [int(word) for word in out] == expected
    assert uniforms(500, seed, purpose).tolist() == [(word >> 11) / 2**53 for word in expected]
    assert belows(500, 7, seed).tolist() == [int(u * 7) for u in uniforms(500, seed)]


def test_numbers_stay_in_range_at_the_ends():
    """The largest and the smallest words a generator can give: uniform < 1, and below never reaches its bound."""
    words = np.zeros((2, 16), dtype=np.uint64)
    words[0, :4] = 0, 0, 1, 0  # gives 0
    words[1, :4] = 2**64 - 1, 0, 0, 1  # rotl(0, 23) + 2^64 - 1
    out = np.empty(1)
    for row, expected in ((0, 0.0), (1, 1 - 2.0**-53)):
        _uniform(words.copy(), row, out)
        assert out[0] == expected
    whole = np.empty(1, dtype=np.int64)
    for count in (1, 2, 3, 5, 7, 100, 1000, 10**6 + 3, 2**40 - 1):
        _below(words.copy(), 1, count, whole)
        assert whole[0] == count - 1


def test_uniform_law():
    draws = uniforms(200_000)
    assert draws.min() >= 0
    assert draws.max() < 1
    assert kstest(draws, "uniform").pvalue > FALSE_ALARM
    assert even(np.bincount((draws * 1000).astype(int), minlength=1000))
    assert even(np.bincount((draws * 2**20 % 1 * 256).astype(int), minlength=256))  # the low bits too
    assert kstest(draws**1.02, "uniform").pvalue < FALSE_ALARM
    assert not even(np.bincount((draws**1.1 * 1000).astype(int), minlength=1000))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 100])
def test_below_is_even(count):
    counts = np.bincount(belows(100_000, count), minlength=count)
    assert len(counts) == count
    if count > 1:
        assert even(counts)
        counts[0] = counts[0] * 3 // 2
        assert not even(counts)


def test_normal_law():
    draws = normals(2_000_000)
    assert kstest(draws[:200_000], "norm").pvalue > FALSE_ALARM
    assert even(np.bincount((norm.cdf(draws) * 2000).astype(int), minlength=2000))
    assert not even(np.bincount((norm.cdf(draws * 1.01) * 2000).astype(int), minlength=2000))
    for scale, fits in ((1, True), (2 / 3, False), (3 / 2, False), (1.005, False)):
        total = (draws**2).sum() / scale**2
        low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(draws))
        assert bool(low < total < high) is fits
    assert kstest(np.sign(draws[:200_000]) * np.abs(draws[:200_000]) ** 1.05, "norm").pvalue < FALSE_ALARM


@numba.njit
def _histogram(words, draws, counts, tail):
    """Counts in cells of 1/50 from -6 to 6, and the draws beyond the edge of the ziggurat."""
    kept = 0
    for _ in range(draws):
        x = normal(words, 0)
        cell = int((x + 6) * 50)
        if 0 <= cell < len(counts):
            counts[cell] += 1
        if (x > EDGE or x < -EDGE) and kept < len(tail):
            tail[kept] = x
            kept += 1
    return kept


def test_normal_law_and_tail_in_detail():
    """A hundred million draws: every cell, and beyond the ziggurat's edge as often, and with the law, as it should be."""
    n = 100_000_000
    counts, tail = np.zeros(600, dtype=np.int64), np.empty(60_000)
    tail = tail[: _histogram(streams(5, 1), n, counts, tail)]
    edges = np.linspace(-6, 6, 601)
    expected = n * (norm.sf(np.abs(edges[:-1])) - norm.sf(np.abs(edges[1:])))
    expected = np.abs(expected)  # differences of the survival function keep their digits in both tails
    large = expected > 20
    assert ((counts - expected) ** 2 / expected)[large].sum() < chi2.ppf(1 - FALSE_ALARM, large.sum())
    for side in (tail[tail > 0], -tail[tail < 0]):
        probability = norm.sf(EDGE)
        low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], n, probability)
        assert low <= len(side) <= high
        assert not low <= len(side) * 2 / 3 <= high
        assert not low <= len(side) * 3 / 2 <= high
        assert side.min() > EDGE
        conditional = norm.sf(side) / probability
        assert kstest(conditional, "uniform").pvalue > FALSE_ALARM
        assert kstest(conditional**0.9, "uniform").pvalue < FALSE_ALARM
        assert kstest(np.exp(-EDGE * (side - EDGE)), "uniform").pvalue < FALSE_ALARM  # an exponential tail is noticed
    assert 5.2 < np.abs(tail).max() < 7.3  # 1e-6 or less at either end


@numba.njit
def _accepted(words, layer, x, calls):
    count = 0
    for _ in range(calls):
        accepted, _ = _rare(words, 0, layer, x)
        count += accepted
    return count


@pytest.mark.parametrize("layer", [1, 2, 50, 128, 254, 255])
def test_the_ziggurats_wedges_follow_the_curve(layer):
    """Between a layer's inner and outer edge a point is kept with the probability that it lies under the density."""
    area, x = 0.00492867323399, [EDGE]
    while len(x) < 255:
        x.append(math.sqrt(-2 * math.log(area / x[-1] + math.exp(-(x[-1] ** 2) / 2))))
    outer = dict(zip(range(255, 0, -1), x, strict=True))[layer]
    inner = x[256 - layer] if layer > 1 else 0.0
    top, bottom = math.exp(-(inner**2) / 2), math.exp(-(outer**2) / 2)
    assert outer * (top - bottom) == pytest.approx(area, rel=1e-8)  # all layers have the same area
    calls = 200_000
    for share in (0.25, 0.5, 0.75):
        point = inner + share * (outer - inner)
        under = (math.exp(-(point**2) / 2) - bottom) / (top - bottom)
        for sign in (1, -1):
            kept = _accepted(streams(7, 1), layer, sign * point, calls)
            low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], calls, under)
            assert low <= kept <= high
            assert not low <= kept * 1.1 <= high


def correlated(a, b):
    """Whether the correlation of two sequences of n independent standardised numbers is too large for chance."""
    statistic = float((a * b).sum()) / math.sqrt(len(a))
    return abs(statistic) > norm.isf(FALSE_ALARM / 2)


def test_successive_draws_are_independent():
    draws = normals(400_000, seed=6)
    for lag in (1, 2, 3, 4, 7, 100):
        assert not correlated(draws[lag:], draws[:-lag])
        assert not correlated((draws[lag:] ** 2 - 1) / math.sqrt(2), (draws[:-lag] ** 2 - 1) / math.sqrt(2))
    assert correlated(draws[1:], 0.98 * draws[:-1] + 0.02 * draws[1:])
    pairs = (uniforms(400_000, seed=6).reshape(-1, 2) * 20).astype(int)
    assert even(np.bincount(pairs[:, 0] * 20 + pairs[:, 1], minlength=400))


def test_streams_of_other_seeds_and_purposes_are_independent():
    n = 100_000
    keys = [(seed, purpose) for seed in (0, 1, 2, 1000) for purpose in (1, 2, 3, 4)]
    drawn = [normals(n, *key) for key in keys]
    for one, two in itertools.combinations(drawn, 2):
        assert not correlated(one, two)
        assert not correlated(one[1:], two[:-1])
        assert not correlated((one**2 - 1) / math.sqrt(2), (two**2 - 1) / math.sqrt(2))
    assert correlated(drawn[0], drawn[1] + 0.04 * drawn[0])


def test_first_draws_over_many_seeds_look_like_draws():
    """Seeds 0, 1, 2, ... are what people use: their streams must not start alike."""
    firsts = np.array([[uniforms(2, seed, purpose) for purpose in (1, 2, 3, 4)] for seed in range(3000)])
    for column in firsts.reshape(3000, 8).T:
        assert kstest(column, "uniform").pvalue > FALSE_ALARM
        assert not correlated((column[1:] - 0.5) * math.sqrt(12), (column[:-1] - 0.5) * math.sqrt(12))
    assert len(np.unique(firsts)) == firsts.size


def test_streams_are_the_same_for_the_same_key_and_rows_do_not_touch():
    assert np.array_equal(streams(3, 1, 2), streams(3, 1, 2))
    assert np.array_equal(streams(3, 2, 1)[1], streams(3, 1)[0])
    words = streams(9, 1, 2)
    assert words.strides[0] >= 128  # never two streams in one cache line
    untouched = words[1].copy()
    _normal(words, 0, np.empty(1000))
    assert np.array_equal(words[1], untouched)
    seeds = [*range(2000), 2**31, 2**32, 2**32 + 1, 2**64 - 1, 2**64, 2**100]
    starts = {streams(seed, purpose)[0, :4].tobytes() for seed in seeds for purpose in (1, 2, 3, 4)}
    assert len(starts) == 4 * len(seeds)


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None, True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InputError, match=r"^Expected seed(=| to be given)"):
        streams(seed, 1)
