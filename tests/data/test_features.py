"""Features: against a dense decomposition, and DP-SVD against the definition of its guarantee."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.data.item_features import (
    clipped_rows,
    dp_svd,
    feature_guarantee,
    leading,
    noise_multiplier,
    overlapping_guarantee,
    rating_matrix,
    scaled,
    truncated_svd,
)
from adaprivate.mechanisms import Secure, Simulated

RNG = np.random.default_rng(0)
DELTA = 1e-5


@pytest.mark.parametrize("dimension", [3, 12])  # by repeated products, and by a full decomposition
def test_truncated_svd_is_v_s(dimension):
    dense = RNG.standard_normal((60, 30)) * (RNG.random((60, 30)) < 0.4)
    found = truncated_svd(csr_matrix(dense), dimension)
    _, S, Vt = np.linalg.svd(dense, full_matrices=False)
    wanted = Vt[:dimension].T * S[:dimension]
    assert np.allclose(np.abs(np.sum(found * wanted, axis=0)), S[:dimension] ** 2)
    assert np.allclose(found @ found.T, wanted @ wanted.T)
    assert (found[np.abs(found).argmax(axis=0), np.arange(dimension)] > 0).all()
    assert np.array_equal(found, truncated_svd(csr_matrix(dense), dimension))
    assert np.allclose(found[:, :2], truncated_svd(csr_matrix(dense), 2))  # smaller dimensions are leading columns


def test_the_nearest_psd_matrix_has_no_negative_values():
    basis = np.linalg.qr(RNG.standard_normal((5, 5)))[0]
    features = leading((basis * [3.0, 2.0, -1.0, -2.0, -5.0]) @ basis.T, 4)
    assert np.allclose(np.linalg.norm(features, axis=0) ** 2, [3, 2, 0, 0])


def test_rating_matrix_and_scalings():
    matrix = rating_matrix(np.array([0, 1]), np.array([2, 0]), np.array([5.0, 2.0]), 2, 3, 3.0).toarray()
    assert matrix.tolist() == [[0, 0, 2], [-1, 0, 0]]
    features = np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])
    assert np.allclose(scaled(features, "max-norm"), features / 5)
    assert np.allclose(scaled(features, "unit"), [[0.6, 0.8], [0, 1], [0, 0], [1, 0]])
    assert np.allclose(scaled(features, "clip"), [[0.6, 0.8], [0, 1], [0, 0], [2 / 3, 0]])  # the median norm is 1.5
    for scaling in ("max-norm", "unit", "clip"):
        assert np.linalg.norm(scaled(RNG.standard_normal((99, 7)), scaling), axis=1).max() <= 1 + 1e-15


@pytest.mark.parametrize(("claimed", "true"), [(1, 1.084), (2, 2.289), (5, 6.171), (10, 13.142)])
def test_the_published_noise_gives_less_privacy_than_stated_and_ours_exactly_it(claimed, true):
    published = feature_guarantee(claimed, DELTA, calibration="published-unsound")
    assert published.epsilon == pytest.approx(true, abs=5e-4)
    assert published.nominal_epsilon == claimed
    assert feature_guarantee(claimed, DELTA).epsilon == pytest.approx(claimed, rel=1e-9)
    assert feature_guarantee(claimed, DELTA, neighbours="add-remove").epsilon == pytest.approx(claimed, rel=1e-9)
    # relative to a replaced row's sqrt(2): 4.901 and 5.276 for a claimed epsilon of 1
    if claimed == 1:
        assert math.sqrt(2) * noise_multiplier(1, DELTA, calibration="published-unsound") == pytest.approx(4.901, abs=5e-4)
        assert math.sqrt(2) * noise_multiplier(1, DELTA) == pytest.approx(5.276, abs=5e-4)
        assert noise_multiplier(1, DELTA, "add-remove") == pytest.approx(3.731, abs=5e-4)


def test_one_replaced_person_moves_the_gram_matrix_by_at_most_sqrt_2_and_can():
    rows = clipped_rows(csr_matrix(3 * RNG.standard_normal((40, 6)))).toarray()
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-15
    short = csr_matrix(np.array([[0.3, 0.4]]))
    assert clipped_rows(short).toarray().tolist() == [[0.3, 0.4]]
    changes = [np.linalg.norm(np.outer(a, a) - np.outer(b, b)) for a in rows for b in rows]
    assert max(changes) <= math.sqrt(2)
    apart = np.eye(6)
    assert np.linalg.norm(np.outer(apart[0], apart[0]) - np.outer(apart[1], apart[1])) == pytest.approx(math.sqrt(2))


def test_the_noise_is_that_of_the_guarantee():
    """Mean square of the svec noise over 200 draws: relative error 1.5 %, so 2/3 and 3/2 of the scale are far off."""
    items, found = 6, []
    empty = csr_matrix(np.zeros((3, items)))
    for seed in range(200):
        features = dp_svd(empty, items, epsilon=1.0, delta=DELTA, noise=Simulated(seed)).features
        found.append(np.sum(np.linalg.norm(features, axis=0) ** 4))  # positive eigenvalues, squared
    sigma = math.sqrt(2) * privacy.gaussian_sigma(1.0, DELTA)
    expected = sigma**2 * items * (items + 1) / 2 / 2  # half of the squared norm is in the positive eigenvalues
    ratio = np.mean(found) / expected
    assert 0.85 < ratio < 1.15
    assert not 0.85 < ratio * 4 / 9 < 1.15
    assert not 0.85 < ratio * 9 / 4 < 1.15


def test_with_many_people_private_features_are_the_public_ones():
    taste = RNG.standard_normal((4000, 2)) * [3.0, 1.5]
    ratings = csr_matrix(taste @ np.linalg.qr(RNG.standard_normal((8, 2)))[0].T)
    found = dp_svd(ratings, 2, epsilon=5.0, delta=DELTA, noise=Simulated(0))
    public = truncated_svd(clipped_rows(ratings), 2)
    assert np.abs(found.features - public).max() < 0.05 * np.abs(public).max()
    assert found.guarantee.simulated
    assert found.guarantee.unit == "user"
    assert found.price.epsilon(DELTA) == pytest.approx(5.0)


def test_exact_noise_protects():
    ratings = csr_matrix(RNG.standard_normal((30, 4)))
    found = dp_svd(ratings, 2, epsilon=1.0, delta=DELTA, noise=Secure())
    assert found.features.shape == (4, 2)
    assert not found.guarantee.simulated
    assert found.guarantee.epsilon <= 1.0 + 1e-9


def test_people_in_both_parts_pay_for_both():
    features, mu = feature_guarantee(1.0, DELTA), privacy.gdp_mu(1.0, DELTA)
    rewards = privacy.GaussianPrice(mu)
    both = overlapping_guarantee(features, rewards, DELTA, 1)
    assert both.mu == pytest.approx(math.sqrt(2) * mu)
    assert both.epsilon == pytest.approx(privacy.gdp_epsilon(math.sqrt(2) * mu, DELTA))
    assert both.unit == "user"
    assert overlapping_guarantee(features, rewards, DELTA, 5).mu == pytest.approx(math.sqrt(26) * mu)
    with pytest.raises(InputError, match=r"^Expected rewards="):
        overlapping_guarantee(features, privacy.PurePrice(1.0), DELTA, 1)


def test_refuses_what_cannot_be():
    for options in ({"dimension": 9}, {"epsilon": 0.0}, {"delta": 1.0}, {"calibration": "loose"}, {"neighbours": "near"}):
        good = {"dimension": 2, "epsilon": 1.0, "delta": DELTA, "noise": Simulated(0)}
        with pytest.raises(InputError, match=rf"^Expected {next(iter(options))}="):
            dp_svd(csr_matrix(np.eye(4)), **{**good, **options})
