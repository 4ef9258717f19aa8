"""Symmetric Gaussian noise and exact Gram matrices: isometry, sensitivities, scales, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms.noise import Secure, Simulated
from adaprivate.mechanisms.symmetric import GramSum, SymmetricGaussian, gram_rows, svec, unsvec

FALSE_ALARM = 1e-6
SOURCES = {"simulated": lambda: Simulated(11), "secure": Secure}


def scale_is(draws, scale):
    """Two-sided chi-square test of the standard deviation at false-alarm rate 1e-6."""
    statistic = float((draws**2).sum() / scale**2)
    return chi2.ppf(FALSE_ALARM / 2, len(draws)) < statistic < chi2.isf(FALSE_ALARM / 2, len(draws))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_svec_keeps_inner_products_and_inverts(dimension):
    rng = np.random.default_rng(dimension)
    a, b = (m + m.T for m in rng.normal(size=(2, dimension, dimension)))
    assert svec(a) @ svec(b) == pytest.approx(np.sum(a * b))
    assert unsvec(svec(a)) == pytest.approx(a)
    assert svec(unsvec(svec(b))) == pytest.approx(svec(b))


def test_sensitivity_of_one_row():
    """|r r' - s s'|_F^2 = |r|^4 + |s|^4 - 2 <r, s>^2: at most 2, attained by orthogonal rows; 1 when a row is removed."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 2, 3))
    rows *= rng.uniform(0, 1, (20_000, 2, 1)) ** 0.2 / np.linalg.norm(rows, axis=2, keepdims=True)
    grams = rows[..., :, None] * rows[..., None, :]
    replaced = np.linalg.norm(grams[:, 0] - grams[:, 1], axis=(1, 2))
    replace, remove = gram_rows("replace").change, gram_rows("add-remove").change
    assert 0.95 * replace < replaced.max() <= replace
    assert np.linalg.norm(np.diag([1, -1, 0])) == replace == math.sqrt(2)
    assert np.linalg.norm(grams[:, 0], axis=(1, 2)).max() <= remove == 1
    assert gram_rows("replace", 3.0).change == 9 * math.sqrt(2)
    assert gram_rows("add-remove", 3.0).change == 9


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("source", SOURCES)
def test_noise_is_equal_in_svec_with_power(source, neighbours):
    noise, d = SOURCES[source](), 45
    mechanism = SymmetricGaussian(dimension=d, noise_multiplier=1.5, noise=noise, participation=gram_rows(neighbours))
    value = np.add.outer(np.arange(d), np.arange(d))
    draws = mechanism.release((value * 2**20).astype(object) if noise.exact else value) - value
    assert np.array_equal(draws, draws.T)
    s = 1.5 * gram_rows(neighbours).change
    off = draws[np.triu_indices(d, 1)]
    for entries, scale in ((svec(draws), s), (off, s / math.sqrt(2))):
        assert scale_is(entries, scale)
        assert not scale_is(entries, scale * 2 / 3)
        assert not scale_is(entries, scale * 3 / 2)
    assert scale_is(np.diag(draws), s)


def test_off_diagonal_scale_is_never_too_small():
    rng = np.random.default_rng(2)
    for multiplier in rng.uniform(0.01, 100, 500):
        participation = gram_rows("replace")
        mechanism = SymmetricGaussian(
            dimension=2, noise_multiplier=multiplier, noise=Simulated(0), participation=participation
        )
        assert 2 * Fraction(mechanism.off_diagonal) ** 2 >= Fraction(mechanism.sigma) ** 2
        assert mechanism.off_diagonal == pytest.approx(mechanism.sigma / math.sqrt(2), rel=1e-15)


def test_price_and_guarantee():
    def build(noise):
        return SymmetricGaussian(dimension=4, noise_multiplier=2.0, noise=noise, participation=gram_rows("replace"))

    assert build(Simulated(0)).price == privacy.GaussianPrice(0.5)
    price = build(Secure()).price
    assert price.mu == 0.5
    assert 0 < price.slack < 1e-20
    statement = build(Secure()).guarantee(1e-5, GramSum(4, noise=Secure()))
    assert statement.unit == "user"
    assert statement.assumptions == tuple(
        privacy.CONDITIONS[name] for name in ("user-identity", "public-preparation", "no-replay")
    )
    assert statement.epsilon == pytest.approx(privacy.gdp_epsilon(0.5, 1e-5))


@pytest.mark.parametrize("source", SOURCES)
def test_gram_sum_adds_clips_and_counts(source):
    noise = SOURCES[source]()
    total = GramSum(3, noise=noise)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(20, 3)) * 0.6
    for i, row in enumerate(rows):
        total.add(f"person {i}", row)
    norms = np.linalg.norm(rows, axis=1)
    clipped = rows / np.maximum(1, norms)[:, None]
    gram = total.take()
    assert total.clipped == (norms > 1).sum() > 0
    unit, precision = (2.0**20, 0.06) if noise.exact else (1.0, 1e-12)
    assert np.asarray(gram / unit, dtype=float) == pytest.approx(clipped.T @ clipped, abs=precision)
    assert not total.take().any()
    mechanism = SymmetricGaussian(dimension=3, noise_multiplier=1.0, noise=noise, participation=gram_rows("add-remove"))
    assert mechanism.release(gram).shape == (3, 3)


def test_exact_neighbours_differ_by_no_more_than_stated():
    """In integers, with rows chosen so that rounding to nearest would exceed norm 1."""
    rng = np.random.default_rng(4)
    worst = 0
    for _ in range(400):
        v = rng.normal(size=4)
        v /= np.linalg.norm(v)
        w = rng.normal(size=4)
        w -= (w @ v) * v
        w *= rng.uniform(1, 3) / np.linalg.norm(w)
        grams = []
        for row in (v, w):
            total = GramSum(4, noise=Secure())
            total.add("other", [0.3, 0.2, 0.1, 0.0])
            total.add("one", row)
            grams.append(total.take())
        assert all(type(entry) is int for entry in grams[0].ravel())
        worst = max(worst, sum(int(e) ** 2 for e in (grams[0] - grams[1]).ravel()))
        removed = GramSum(4, noise=Secure())
        removed.add("other", [0.3, 0.2, 0.1, 0.0])
        assert sum(int(e) ** 2 for e in (grams[0] - removed.take()).ravel()) <= 4**20
    assert 0.98 * 2 * 4**20 < worst <= 2 * 4**20


@pytest.mark.parametrize("source", SOURCES)
def test_gram_sum_refusals(source):
    total = GramSum(2, noise=SOURCES[source]())
    for row, message in (
        ([0.1], r"Expected row.shape=\(1,\) == \(2,\)\."),
        ([0.1, math.nan], r"Expected row\[1\]=nan to be finite\."),
        ([math.inf, 0.1], r"Expected row\[0\]=inf to be finite\."),
    ):
        with pytest.raises(InputError, match=message):
            total.add("a", row)
    total.add("a", [0.1, 0.1])
    total.take()
    with pytest.raises(InputError, match=r"a second one of the same person"):
        total.add("a", [0.1, 0.1])
    with pytest.raises(InputError, match=r"Expected dimension=0 >= 1\."):
        GramSum(0, noise=Simulated(0))


def build(source, **change):
    settings = {"dimension": 2, "noise_multiplier": 1.0, "participation": gram_rows("replace"), **change}
    return SymmetricGaussian(noise=SOURCES[source](), **settings)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 3)), r"Expected value.shape=\(2, 3\) == \(2, 2\)\."),
        ([[0.0, math.nan], [math.nan, 0.0]], r"Expected value\[0, 1\]=nan to be finite\."),
        ([[math.inf, 0.0], [0.0, 0.0]], r"Expected value\[0, 0\]=inf to be finite\."),
        (np.array([[1, 2], [3, 1]]), r"Expected value\[0, 1\] - value\[1, 0\]=-1(\.0)? == 0\."),
    ],
)
def test_refuses_bad_values(source, value, message):
    with pytest.raises(InputError, match=message):
        build(source).release(value.astype(object) if source == "secure" and np.asarray(value).dtype == int else value)


def test_exact_noise_refuses_floats():
    with pytest.raises(InputError, match=r"Expected value.dtype='float64' to be whole numbers of the grid"):
        build("secure").release(np.zeros((2, 2)))


def test_rounding_differences_between_mirrored_entries_are_averaged():
    value = np.array([[1.0, 0.5], [0.5 + 1e-12, 1.0]])
    assert build("simulated").release(value) == pytest.approx(build("simulated").release((value + value.T) / 2))


@pytest.mark.parametrize("source", SOURCES)
def test_refuses_a_second_release(source):
    mechanism = build(source)
    mechanism.release(np.full((2, 2), 0, dtype=object if source == "secure" else float))
    with pytest.raises(InputError, match=r"Expected releases=2 <= 1: a second release"):
        mechanism.release(np.full((2, 2), 0, dtype=object if source == "secure" else float))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("simulated", dimension=0), r"Expected dimension=0 >= 1\."),
        (lambda: build("simulated", noise_multiplier=0), r"Expected noise_multiplier=0 > 0\."),
        (lambda: build("simulated", participation=privacy.users(1.0, 2, "replace")), r"Expected participation.batches=2"),
        (lambda: gram_rows("swap"), r"Expected neighbours='swap' in {replace, add-remove}\."),
        (lambda: gram_rows("replace", 0), r"Expected row_norm=0 > 0\."),
        (lambda: svec(np.zeros((2, 3))), r"Expected matrix.shape=\(2, 3\) == \(2, 2\)\."),
        (lambda: svec(np.zeros(3)), r"Expected matrix.shape=\(3,\) == \(\*, \*\)\."),
        (lambda: svec(np.zeros((0, 0))), r"Expected matrix.shape=\(0, 0\) == \(1, 1\)\."),
        (lambda: unsvec(np.zeros(4)), r"Expected vector.shape=\(4,\) == \(d \(d \+ 1\) / 2,\)"),
        (lambda: unsvec(np.zeros(0)), r"Expected vector.shape=\(0,\) == \(d \(d \+ 1\) / 2,\)"),
    ],
)
def test_refuses_bad_settings(call, message):
    with pytest.raises(InputError, match=message):
        call()
