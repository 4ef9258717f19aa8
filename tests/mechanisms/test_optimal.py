"""The optimal strategy is optimal, by its own certificate and by a search that knows nothing of it."""

import numpy as np
import pytest
from scipy.optimize import minimize

from adaprivate.check import InputError
from adaprivate.mechanisms.optimal import Optimal
from adaprivate.mechanisms.toeplitz import SquareRoot

WEIGHTS = {
    "uniform": np.ones_like,
    "falling": lambda k: 1 / k,
    "rising": lambda k: k**2,
    "last": lambda k: 1.0 * (k == k.max()),
    "alternating": lambda k: k % 2,
}
weighted = pytest.mark.parametrize("weighting", WEIGHTS)


def value(strategy, weights):
    return strategy.sensitivity() ** 2 * float(weights @ strategy.prefix_std() ** 2)


@weighted
@pytest.mark.parametrize("steps", [4, 16, 34, 64, 200])
def test_never_worse_than_the_square_root(weighting, steps):
    weights = WEIGHTS[weighting](np.arange(1.0, steps + 1))
    strategy = Optimal(steps, weights)
    assert -1e-9 <= strategy.gap < 1e-5
    assert value(strategy, weights) < 0.96 * value(SquareRoot(steps), weights)
    C = strategy.matrix()
    assert (np.triu(C, 1) == 0).all()
    assert (np.diag(C) > 0).all()
    np.testing.assert_allclose(np.linalg.norm(C, axis=0), 1, rtol=0, atol=1e-5)


@weighted
@pytest.mark.parametrize("steps", [4, 6])
def test_a_direct_search_finds_nothing_better(weighting, steps):
    weights = WEIGHTS[weighting](np.arange(1.0, steps + 1))
    strategy = Optimal(steps, weights)
    A, places = np.tril(np.ones((steps, steps))), np.tril_indices(steps)

    def search(point):
        C = np.zeros((steps, steps))
        C[places] = point
        B = A @ np.linalg.inv(C / np.linalg.norm(C, axis=0))
        return np.log(strategy.weights @ (B**2).sum(axis=1))

    rng = np.random.default_rng(0)
    starts = [np.eye(steps)[places] + 0.1 * rng.random(len(places[0])) for _ in range(3)]
    found = min(minimize(search, start, method="BFGS", options={"gtol": 1e-8}).fun for start in starts)
    assert value(strategy, strategy.weights) == pytest.approx(np.exp(found), rel=1e-4 if weighting == "last" else 1e-5)
    assert value(strategy, strategy.weights) / (1 + strategy.gap) <= np.exp(found) * (1 + 1e-9)


def test_thirty_four_batches_gain_six_per_cent():
    ratio = value(Optimal(34), np.ones(34)) / value(SquareRoot(34), np.ones(34))
    assert np.sqrt(ratio) == pytest.approx(0.94, abs=0.005)


def test_the_same_problem_is_solved_once_and_cannot_be_spoilt():
    first = Optimal(150, np.full(150, 3.0))
    second = Optimal(150)
    assert np.shares_memory(first.row(3), second.row(3))
    first.matrix()[0, 0] = 7
    assert second.matrix()[0, 0] < 1
    with pytest.raises(ValueError, match="read-only"):
        first.row(3)[0] = 7


def test_refusals():
    with pytest.raises(InputError, match=r"Expected steps=2049 <= 2048 for optimal \(use blt for longer streams\)"):
        Optimal(2049)
    for weights in ([1.0, 1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, np.nan, 1.0]):
        with pytest.raises(InputError, match="Expected weights"):
            Optimal(3, np.array(weights))
