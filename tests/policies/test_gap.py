"""The gap world draws the decision sets of Shariff & Sheffet, Section D."""

import math

import numba
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, kstest

from adaprivate import environments
from adaprivate.check import InputError
from adaprivate.compiled import normal, normals, streams

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(("dimension", "gap"), [(5, 0.1), (5, 0.0), (2, 0.3), (12, 0.75)])
def test_one_best_action_and_the_rest_uniform_below_the_gap(replay, dimension, gap):
    place = environments.environment("gap", {"dimension": dimension, "candidates": 9, "gap": gap})
    theta = place.world(3).theta
    candidates, means, _ = replay(place, 3, 2000)
    assert np.linalg.norm(theta) == pytest.approx(1)
    np.testing.assert_allclose(np.linalg.norm(candidates, axis=2), 1, rtol=1e-12)
    np.testing.assert_allclose(means, (1 + candidates @ theta) / 2, atol=1e-12)
    best = means.argmax(axis=1)
    assert np.all(np.abs(means.max(axis=1) - 0.875) < 1e-15)
    others = np.delete(means.ravel(), np.arange(2000) * 9 + best)
    assert others.min() >= 0.125
    assert others.max() <= 0.875 - gap / 2
    # theta' x of a uniform unit vector has density (1 - s^2)^((d - 3) / 2)
    weight = quad(lambda s: (1 - s * s) ** ((dimension - 3) / 2), -0.75, 0.75 - gap)[0]
    grid = np.linspace(-0.75, 0.75 - gap, 4001)
    density = (1 - grid**2) ** ((dimension - 3) / 2) / weight
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert kstest(2 * others - 1, lambda s: np.interp(s, grid, below)).pvalue > FALSE_ALARM
    assert kstest(1.5 * (2 * others - 1), lambda s: np.interp(s, grid, below)).pvalue < FALSE_ALARM
    # the place of the best action, and its direction beside theta, are uniform
    counts = np.bincount(best, minlength=9)
    assert ((counts - 2000 / 9) ** 2 / (2000 / 9)).sum() < chi2.ppf(1 - FALSE_ALARM, 8)
    beside = candidates[np.arange(2000), best] - 0.75 * theta
    second = beside.T @ beside / 2000 / (1 - 0.75**2) * (dimension - 1)
    expected = np.eye(dimension) - np.outer(theta, theta)
    assert np.abs(second - expected).max() < 5.5 * math.sqrt(2 * (dimension - 1) / 2000)


def test_many_normals_are_those_drawn_one_by_one():
    @numba.njit
    def one_by_one(words, out):
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = normal(words, 1)

    @numba.njit
    def together(words, out):
        normals(words, 1, out)

    first, second = streams(0, 1, 2), streams(0, 1, 2)
    one, many = np.empty((400, 50)), np.empty((400, 50))
    one_by_one(first, one)
    together(second, many)
    assert np.array_equal(one, many)
    assert np.array_equal(first, second)
    assert np.abs(one).max() > 3.7  # the tail was visited


def test_refuses_impossible_gaps():
    for gap in (-0.1, 0.76, math.nan, "wide"):
        with pytest.raises(InputError, match=r"^Expected gap="):
            environments.environment("gap", {"gap": gap})
    with pytest.raises(InputError, match=r"^Expected dimension=1 >= 2"):
        environments.environment("gap", {"dimension": 1})
