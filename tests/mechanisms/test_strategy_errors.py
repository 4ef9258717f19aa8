"""The errors and sensitivities of prefix-sum strategies against printed tables and brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from adaprivate.check import InputError
from adaprivate.mechanisms.blt import Blt
from adaprivate.mechanisms.independent import Independent
from adaprivate.mechanisms.optimal import Optimal
from adaprivate.mechanisms.toeplitz import Banded, SquareRoot, Toeplitz, _fit, inverse_series, square_root
from adaprivate.mechanisms.tree import Honaker, Tree

FAMILY = {
    "independent": Independent,
    "tree": Tree,
    "honaker": Honaker,
    "sqrt": SquareRoot,
    "banded": Banded,
    "blt": Blt,
    "optimal": Optimal,
}

PRINTED = {  # max and rms of the running sums' noise, per unit of sensitivity
    33: {"independent": "5.74 4.12", "tree": "5.48 3.88", "honaker": "4.44 3.15", "sqrt": "2.18 2.02", "blt": "2.18 2.02"},
    200: {"independent": "14.1 10.0", "tree": "7.48 5.42", "honaker": "5.86 4.23", "sqrt": "2.75 2.59", "blt": "2.75 2.59"},
    1000: {
        "independent": "31.6 22.4",
        "tree": "9.49 7.03",
        "honaker": "7.28 5.36",
        "sqrt": "3.27 3.10",
        "blt": "3.27 3.10",
    },
}


def max_and_rms(std):
    return float(std.max()), float(np.sqrt(np.mean(std**2)))


@pytest.mark.parametrize(("steps", "name"), [(k, n) for k in PRINTED for n in PRINTED[k]])
def test_errors_are_the_published_ones(steps, name):
    strategy = FAMILY[name](steps)
    for value, text in zip(
        max_and_rms(strategy.sensitivity() * strategy.prefix_std()), PRINTED[steps][name].split(), strict=True
    ):
        assert f"{value:.{len(text.split('.')[1])}f}" == text


def test_four_buffers_for_a_thousand_steps_are_the_published_ones():
    strategy = Blt(1000)
    np.testing.assert_allclose(strategy.thetas, [0.99921, 0.98870, 0.92093, 0.56082], rtol=0, atol=5e-5)
    np.testing.assert_allclose(strategy.omegas, [0.03753, 0.06940, 0.16033, 0.22956], rtol=0, atol=5e-5)


@pytest.mark.parametrize(
    "line",
    [
        "1 1 1.000 1.546 8.00 2.39 5.70 2.23",
        "2 1 1.414 2.876 11.31 4.45 8.06 4.15",
        "2 16 1.414 2.522 11.31 3.90 8.06 3.64",
        "5 1 2.236 6.576 17.89 10.16 12.75 9.49",
        "5 12 2.236 4.838 17.89 7.48 12.75 6.98",
        "10 1 3.162 12.199 25.30 18.85 18.03 17.60",
        "10 6 3.162 8.909 25.30 13.77 18.03 12.85",
    ],
)
def test_several_participations_in_64_batches(line):
    batches, separation, *printed = line.split()
    columns = []
    for strategy in (Independent(64), SquareRoot(64)):
        reach = strategy.sensitivity(int(batches), int(separation))
        columns.append((reach, *max_and_rms(reach * strategy.prefix_std())))
    values = [column[i] for i in range(3) for column in columns]
    assert [f"{v:.{len(t.split('.')[1])}f}" for v, t in zip(values, printed, strict=True)] == printed


def worst_pattern(C, batches, separation):
    def admissible(pattern):
        return all(b - a >= separation for a, b in itertools.pairwise(pattern))

    patterns = (p for m in range(1, batches + 1) for p in itertools.combinations(range(C.shape[1]), m) if admissible(p))
    return max(np.linalg.norm(C[:, list(p)].sum(axis=1)) for p in patterns)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize(
    ("batches", "separation"), [(2, 1), (3, 1), (12, 1), (4, 2), (3, 3), (4, 3), (2, 5), (3, 5), (2, 11)]
)
def test_no_pattern_of_participation_exceeds_the_sensitivity(name, batches, separation):
    strategy = Banded(12, bands=5) if name == "banded" else FAMILY[name](12)
    C = strategy.matrix()
    assert (C >= 0).all()  # so contributions that all point the same way are the worst
    worst, claimed = worst_pattern(C, batches, separation), strategy.sensitivity(batches, separation)
    slack = {"tree": 1.05, "honaker": 1.05, "optimal": 1.05, "blt": 1 + 1e-5}.get(name, 1 + 1e-12)
    assert worst * (1 - 1e-12) <= claimed <= worst * slack


def test_banded_columns_that_do_not_overlap_add_in_squares():
    strategy = Banded(100_000)
    assert strategy.sensitivity(20, 16) == pytest.approx(math.sqrt(20) * strategy.sensitivity(), rel=1e-12)
    assert Banded(12, bands=5).sensitivity(3, 5) < math.sqrt(3) * Banded(12, bands=5).sensitivity()


def test_rounding_to_the_grid_costs_nothing_at_a_hundred_thousand_batches():
    steps = 100_000
    lags = np.arange(1, steps)
    exact = np.concatenate([[1.0], np.cumprod(1 - 1 / (2 * lags))])
    np.testing.assert_allclose(SquareRoot(steps).prefix_std(), np.sqrt(np.cumsum(exact**2)), rtol=1e-6)
    impulse = np.zeros(steps)
    impulse[0] = 1
    fitted = np.array(_fit(steps, 16))
    banded = np.cumsum(lfilter([1.0], fitted, impulse))
    np.testing.assert_allclose(Banded(steps).prefix_std(), np.sqrt(np.cumsum(banded**2)), rtol=1e-5)
    np.testing.assert_allclose(inverse_series(exact[:16], steps), lfilter([1.0], exact[:16], impulse), rtol=0, atol=1e-14)


def worst_error(c, steps):
    """Largest standard deviation of a running sum per unit of sensitivity, by dense matrices."""
    column = np.concatenate([c, np.zeros(steps - len(c))])
    C = np.tril(toeplitz(column))
    B = np.linalg.solve(C.T, np.triu(np.ones((steps, steps)))).T
    return np.linalg.norm(column) * np.linalg.norm(B, axis=1).max()


def test_sixteen_bands_have_at_most_jax_privacys_error():
    """Its banded Toeplitz coefficients for 1000 steps, of least mean square error, have 8.57 at worst and 6.28 rms, the
    square root cut off after 16 has 9.97 and 7.14; all per unit of sensitivity of one participation."""
    worst, rms = max_and_rms(Banded(1000).sensitivity() * Banded(1000).prefix_std())
    assert 8.5 < worst < 8.57
    assert 6.28 - 0.005 < rms < 6.28 * 1.01  # the mean is not what is fitted, and cannot be less than its least
    assert worst == pytest.approx(worst_error(Banded(1000).coefficients, 1000), rel=1e-9)


@pytest.mark.parametrize("steps", [3, 10, 60])
def test_two_bands_are_the_best_of_a_fine_grid(steps):
    grid = np.linspace(0, 1, 2001)
    errors = [worst_error(np.array([1.0, c]), steps) for c in grid]
    assert worst_error(Banded(steps, bands=2).coefficients, steps) <= min(errors) * (1 + 1e-7)
    assert Banded(steps, bands=2).coefficients[1] == pytest.approx(grid[np.argmin(errors)], abs=1e-3)


@pytest.mark.parametrize(("steps", "bands"), [(20, 16), (64, 5), (200, 16), (150, 40)])
def test_no_coefficient_of_a_band_could_be_better(steps, bands):
    c = Banded(steps, bands=bands).coefficients
    least = worst_error(c, steps)
    assert least < worst_error(square_root(bands), steps)
    for j in range(1, bands):
        for change in (-0.01, 0.01):
            assert worst_error(c + change * (np.arange(bands) == j), steps) > least


def test_a_band_as_wide_as_the_stream_is_the_square_root():
    for steps in (1, 2, 7, 16):
        np.testing.assert_array_equal(Banded(steps).coefficients, SquareRoot(steps).coefficients)


@pytest.mark.parametrize("coefficients", [[], [0.0], [1.0, 1.1], [1.0, -0.1], [2.0**-22], [math.nan]])
def test_toeplitz_refuses_coefficients_that_do_not_fall(coefficients):
    with pytest.raises(InputError, match="Expected coefficients"):
        Toeplitz(4, np.array(coefficients))


def test_a_tree_covers_blocks_that_are_filled_in_part():
    """Six batches in a row put four in one block of four and two in the next: 6 + 12 + (16 + 4) + 36 squared."""
    tree = FAMILY["tree"](8)
    moved = np.linalg.norm(tree.matrix()[:, :6].sum(axis=1))
    assert moved == pytest.approx(math.sqrt(74))
    assert tree.sensitivity(6) >= moved * (1 - 1e-12)
