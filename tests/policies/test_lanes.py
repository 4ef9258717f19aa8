"""What is written as instructions against NumPy, at every size: whole eights, and what is left over in a 4, a 2 and a 1."""

import numpy as np
import pytest

from adaprivate.compiled import entry, normals, streams
from adaprivate.policies.core import linear
from adaprivate.policies.core.lanes import LARGEST, drawn_in, times, times_turned
from adaprivate.policies.noise_aware.posterior import foresee
from adaprivate.policies.noise_aware.state import add_products

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 20, 31]


@entry
def _products(root, vector, straight, turned, phi, gain):
    times(root, vector, straight)
    times_turned(root, vector, turned)
    drawn_in(root, phi, gain)


@entry
def _turned(root, vector, out):
    linear.rotate(root, vector, out)


@entry
def _absorbed(root, w, phi, features):
    return linear.absorb(root, w, phi, features)


@entry
def _foreseen(root, w, phi, event, strength):
    foresee(root, w, phi, event, strength)


@entry
def _multiplied(design, cross, f, e):
    add_products(design, cross, f, e)


@entry
def _drawn(z, rng):
    normals(rng, 0, z)


@entry
def _sampled(root, w, z, theta, rng):
    linear.sample_parameter(root, w, 0.5, z, theta, rng)


@entry
def _highest(candidates, theta):
    return linear.highest(candidates, theta)


@entry
def _optimistic(root, w, width, phi, candidates):
    return linear.most_optimistic(root, w, width, phi, candidates)


@entry
def _hopeful(root, theta, width, phi, candidates):
    return linear.most_hopeful(root, theta, width, phi, candidates)


def guarded(*shape):
    """An array between numbers that must stay as they are, and those numbers."""
    whole = np.full(np.prod(shape) + 32, 7.0)
    return whole[16:-16].reshape(shape), (whole[:16], whole[-16:])


@pytest.mark.parametrize("size", SIZES)
def test_products(size):
    rng = np.random.default_rng(size)
    root, beside = guarded(size, size)
    root[...] = rng.standard_normal((size, size))
    vector, phi = rng.standard_normal((2, size))
    vector[rng.random(size) < 0.3] = 0.0
    expected = root @ vector, root.T @ vector, root @ (np.eye(size) - 0.1 * np.outer(phi, phi))
    (straight, first), (turned, second) = guarded(size), guarded(size)
    _products(root, vector, straight, turned, phi, 0.1)
    for found, wanted in zip((straight, turned, root), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    assert all((numbers == 7.0).all() for pair in (beside, first, second) for numbers in pair)


@pytest.mark.parametrize("size", SIZES)
def test_an_intercept_follows_the_features(size):
    rng = np.random.default_rng(size)
    root, vector, out = rng.standard_normal((size + 1, size + 1)), rng.standard_normal(size), np.zeros(size + 1)
    _turned(root, vector, out)
    np.testing.assert_allclose(out, root.T @ np.append(vector, 1.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_a_row_more(size):
    """Against A + x x', whether the root fits in registers or not."""
    rng = np.random.default_rng(size)
    for extra in (0, 1):  # an intercept
        (root, beside), (w, first), (phi, second) = (
            guarded(size + extra, size + extra),
            guarded(size + extra),
            guarded(size + extra),
        )
        root[...] = np.eye(size + extra) + 0.2 * rng.standard_normal(root.shape)
        w[:] = rng.standard_normal(len(w))
        features = rng.standard_normal(size)
        x = np.append(features, np.ones(extra))
        before, turned, statistic = np.linalg.inv(root @ root.T), root.T @ x, np.linalg.solve(root.T, w)
        shrink = _absorbed(root, w, phi, features)
        assert shrink == pytest.approx(1 / np.sqrt(1 + turned @ turned), rel=1e-12)
        np.testing.assert_allclose(phi, turned, rtol=0, atol=1e-12)
        np.testing.assert_allclose(np.linalg.inv(root @ root.T), before + np.outer(x, x), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(w, root.T @ statistic, rtol=1e-9, atol=1e-9)
        assert all((numbers == 7.0).all() for pair in (beside, first, second) for numbers in pair)


@pytest.mark.parametrize("size", SIZES)
def test_an_event_foreseen(size):
    """A + strength x x', and the mean stays."""
    rng = np.random.default_rng(size)
    (root, beside), (w, first), phi = guarded(size, size), guarded(size), np.zeros(size)
    root[...] = np.eye(size) + 0.2 * rng.standard_normal(root.shape)
    w[:], x = rng.standard_normal((2, size))
    before, mean = np.linalg.inv(root @ root.T), root @ w
    _foreseen(root, w, phi, x, 3.0)
    np.testing.assert_allclose(np.linalg.inv(root @ root.T), before + 3.0 * np.outer(x, x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(root @ w, mean, rtol=1e-9, atol=1e-9)
    assert all((numbers == 7.0).all() for pair in (beside, first) for numbers in pair)


@pytest.mark.parametrize("size", SIZES)
def test_products_of_an_event(size):
    """f f', of which the lower triangle is kept, and f e'."""
    rng = np.random.default_rng(size)
    (design, beside), (cross, around) = guarded(size * (size + 1) // 2), guarded(size, size)
    (f, first), (e, second) = guarded(size), guarded(size)
    f[:], e[:] = rng.standard_normal((2, size))
    f[rng.random(size) < 0.3] = 0.0
    expected = design + np.outer(f, f)[np.tril_indices(size)], cross + np.outer(f, e)
    _multiplied(design, cross, f, e)
    np.testing.assert_allclose(design, expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(cross, expected[1], rtol=0, atol=1e-12)
    assert all((numbers == 7.0).all() for pair in (beside, around, first, second) for numbers in pair)


@pytest.mark.parametrize("size", SIZES)
def test_a_sample(size):
    """theta = S (w + z / 2), z standard normal, of which as many entries are asked for as theta has."""
    rng = np.random.default_rng(size)
    root, w = rng.standard_normal((size, size)), rng.standard_normal(size)
    for count in {size, max(1, size - 1)}:
        (z, first), (theta, second) = guarded(size), guarded(count)
        _sampled(root, w, z, theta, streams(size, 0))
        _drawn(drawn := np.zeros(size), streams(size, 0))
        np.testing.assert_allclose(theta, (root @ (w + 0.5 * drawn))[:count], rtol=0, atol=1e-12)
        assert all((numbers == 7.0).all() for pair in (first, second) for numbers in pair)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 9, 16, 21])
@pytest.mark.parametrize("size", [1, 2, 5, 8, 20, 31])
def test_the_best_of_any_number(size, count):
    rng = np.random.default_rng(1000 * size + count)
    for extra in (0, 1):  # an intercept
        for kept in (1.0, 0.1):  # features that are mostly 0 are looked at one by one
            root = rng.standard_normal((size + extra, size + extra))
            w = rng.standard_normal(size + extra)
            candidates = rng.standard_normal((count, size)) * (rng.random((count, size)) < kept)
            rows = np.hstack([candidates, np.ones((count, extra))]) @ root
            bounds = rows @ w + 0.7 * np.linalg.norm(rows, axis=1)
            phi = np.zeros(size + extra)
            found = _optimistic(root, w, 0.7, phi, candidates)
            assert bounds[found] >= bounds.max() - 1e-9
            assert bounds[:found].max(initial=-np.inf) < bounds[found]
            assert _highest(candidates, w) == np.argmax(candidates @ w[:size])
        if not extra:
            hopes = candidates @ w + 0.7 * np.linalg.norm(rows, axis=1)
            assert hopes[_hopeful(root, w, 0.7, phi, candidates)] >= hopes.max() - 1e-9


def test_the_first_among_equals():
    root, w = np.eye(20), np.zeros(20)
    same = np.tile(np.ones(20) / np.sqrt(20), (19, 1))
    same[:3] *= 0.5
    same[7:] = same[7:][:, ::-1]
    same[11] *= 1 + 1e-14
    assert _optimistic(root, w, 1.0, np.zeros(20), same) == 3
    assert _hopeful(root, w, 1.0, np.zeros(20), same) == 3
    assert _highest(same, np.ones(20)) in (3, 11)
    for count in (1, 2, 9, 10, 11, 12):
        assert _highest(np.ones((count, 4)), np.ones(4)) == 0
    late = np.zeros((11, 4))
    late[[6, 9, 10]] = 1.0  # of another lane each, and the last one, which fills up the four
    assert _highest(late, np.ones(4)) == 6
    late[6] = 0.0
    assert _highest(late, np.ones(4)) == 9
    assert _highest(-1.0 - late, np.ones(4)) == 0


def test_beyond_the_largest_dimension_candidates_are_looked_at_one_by_one():
    size = LARGEST + 3
    rng = np.random.default_rng(0)
    root, w, candidates = rng.standard_normal((size, size)), rng.standard_normal(size), rng.standard_normal((9, size))
    rows = candidates @ root
    found = _optimistic(root, w, 1.0, np.zeros(size), candidates)
    assert found == np.argmax(rows @ w + np.linalg.norm(rows, axis=1))
