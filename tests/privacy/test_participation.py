"""Sensitivities against brute force and random search; the ledger that enforces them."""

import itertools
import math

import numpy as np
import pytest

from adaprivate import privacy
from adaprivate.check import InputError


def test_user_level_noise_of_the_audit_table():
    """sigma / clip needed for epsilon 5, delta 1e-5, by batches per user; the paper uses 1.055 throughout."""
    mu = privacy.gdp_mu(5, 1e-5)
    needed = {1: (0.892, 1.784), 2: (1.261, 2.523), 5: (1.994, 3.989), 10: (2.820, 5.641), 20: (3.989, 7.977)}
    for batches, (add_remove, replace) in needed.items():
        assert privacy.users(1.0, batches, "add-remove").sensitivity / mu == pytest.approx(add_remove, abs=6e-4)
        assert privacy.users(1.0, batches, "replace").sensitivity / mu == pytest.approx(replace, abs=6e-4)


def test_true_epsilon_of_the_published_user_level_recipe():
    mu = 1 / privacy.zcdp_sigma(5, 1e-5)
    for batches, true in {1: (4.12, 9.37), 2: (6.17, 14.44), 10: (16.67, 42.81)}.items():
        for neighbours, epsilon in zip(("add-remove", "replace"), true, strict=True):
            reach = privacy.users(1.0, batches, neighbours).sensitivity
            assert privacy.gdp_epsilon(mu * reach, 1e-5) == pytest.approx(epsilon, abs=6e-3)


def test_replacing_a_clipped_user_can_move_a_sum_by_twice_the_clip():
    features = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert np.linalg.norm(features[0] - features[1]) == privacy.users(1.0, 1, "replace").change


@pytest.mark.parametrize("weight", [0.3, 0.5, 1.0, 1.4, math.sqrt(2), 1.7, 3.0])
def test_joint_sensitivity_bounds_a_random_search_and_is_attained(weight):
    rng = np.random.default_rng(0)

    def statistic(x, r):
        i, j = np.triu_indices(len(x))
        svec = np.outer(x, x)[i, j] * np.where(i == j, 1, math.sqrt(2))
        return np.concatenate([svec, weight * r * x])

    bound = privacy.joint_sensitivity(weight, "replace")
    for _ in range(4000):
        x, y = rng.normal(size=(2, 3))
        x *= rng.uniform() ** 0.2 / np.linalg.norm(x)
        y *= rng.uniform() ** 0.2 / np.linalg.norm(y)
        r, s = rng.uniform(size=2).round(int(rng.integers(0, 3)))
        assert np.linalg.norm(statistic(x, r) - statistic(y, s)) <= bound * (1 + 1e-12)
        assert np.linalg.norm(statistic(x, r)) <= privacy.joint_sensitivity(weight, "add-remove") * (1 + 1e-12)
    cosine = max(-1.0, -weight * weight / 2)
    worst = statistic(np.array([1.0, 0, 0]), 1) - statistic(np.array([cosine, math.sqrt(1 - cosine**2), 0]), 1)
    assert np.linalg.norm(worst) == pytest.approx(bound, rel=1e-12)
    assert np.linalg.norm(statistic(np.array([1.0, 0, 0]), 1)) == pytest.approx(
        privacy.joint_sensitivity(weight, "add-remove")
    )


def test_group_privacy_counts_squares_per_batch():
    rho = privacy.zcdp_rho(5, 1e-5)
    assert rho == pytest.approx(0.44962, abs=5e-6)
    # Sec 4.6: all five or ten events in one batch cost k^2; one per batch costs k
    assert rho / privacy.group_rho(1.0, [5]) == pytest.approx(0.01798, abs=5e-6)
    assert rho / privacy.group_rho(1.0, [10]) == pytest.approx(0.00450, abs=5e-6)
    assert rho / privacy.group_rho(1.0, [1] * 5) == pytest.approx(0.08992, abs=5e-6)
    assert privacy.group_mu(0.5, [3, 4, 0]) == 2.5


def patterns(steps, batches, separation):
    for size in range(1, batches + 1):
        for chosen in itertools.combinations(range(steps), size):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                yield chosen


def brute_force(C, batches, separation):
    """Aligned contributions, worst pattern; exact where the Gram matrix is nonnegative."""
    return max(np.linalg.norm(C[:, list(p)].sum(axis=1)) for p in patterns(C.shape[1], batches, separation))


@pytest.mark.parametrize(("batches", "separation"), [(1, 1), (2, 1), (3, 1), (3, 4), (5, 2), (12, 1), (4, 7)])
def test_toeplitz_sensitivity_equals_brute_force(batches, separation):
    c = np.cumprod([1, *(1 - 1 / (2 * k) for k in range(1, 12))])
    C = np.array([[c[i - j] if i >= j else 0 for j in range(12)] for i in range(12)])
    expected = brute_force(C, batches, separation)
    assert privacy.toeplitz_sensitivity(c, batches, separation) == pytest.approx(expected, rel=1e-12)
    bound = privacy.matrix_sensitivity(C, batches, separation)
    assert expected * (1 - 1e-12) <= bound <= 1.25 * expected


@pytest.mark.parametrize(("batches", "separation"), [(2, 1), (3, 2), (4, 3)])
def test_matrix_sensitivity_covers_contributions_in_any_direction(batches, separation):
    """With mixed signs the worst contributions are not aligned: search directions too."""
    rng = np.random.default_rng(1)
    C = np.tril(rng.normal(size=(9, 9)))
    bound = privacy.matrix_sensitivity(C, batches, separation)
    for chosen in patterns(9, batches, separation):
        for signs in itertools.product([1, -1], repeat=len(chosen)):
            assert np.linalg.norm(C[:, list(chosen)] @ np.array(signs)) <= bound * (1 + 1e-12)


def test_ledger_admits_and_refuses():
    ledger = privacy.UserLedger(batches=2, separation=3)
    assert ledger.admit("ann", 0)
    assert ledger.admit("ann", 0)  # the same batch again is free
    assert not ledger.admit("ann", 2)  # too close
    assert ledger.admit("ann", 3)
    assert not ledger.admit("ann", 9)  # used up
    assert ledger.admit("bob", 9)
    copy = privacy.UserLedger(2, 3)
    copy.restore(ledger.state())
    assert not copy.admit("ann", 20)
    with pytest.raises(InputError, match="Expected batch=1 >= 3"):
        ledger.admit("ann", 1)


def test_bad_input():
    with pytest.raises(InputError, match=r"Expected neighbours='swap' in \{replace, add-remove\}."):
        privacy.users(1.0, 1, "swap")
    with pytest.raises(InputError, match=r"Expected clip=0 > 0."):
        privacy.users(0, 1, "replace")
    with pytest.raises(InputError, match=r"Expected batches=0 >= 1."):
        privacy.users(1.0, 0, "replace")
    with pytest.raises(InputError, match=r"Expected batches=1.5 to be a whole number."):
        privacy.users(1.0, 1.5, "replace")
    with pytest.raises(InputError, match="nonnegative and nonincreasing"):
        privacy.toeplitz_sensitivity(np.array([1.0, 2.0]), 2, 1)
