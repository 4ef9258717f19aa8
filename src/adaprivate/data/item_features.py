"""Feature vectors of items, made of users' ratings: by SVD, or by DP-SVD under differential privacy.

The rating matrix minus its mean, zeros where nothing was rated, is U S V'. Item i gets row i of V S, its leading columns
for smaller dimensions.

DP-SVD (AdaPrivate-TS, Sec 6.3, corrected): each user's row of ratings, minus a public constant, is clipped to norm 1. The
Gram matrix of all rows gets symmetric Gaussian noise. It is *not* divided by their number, which is private. Features are
its leading eigenvectors times the roots of their eigenvalues, negative ones set to 0. Replacing a row moves the Gram matrix
by up to sqrt(2), not by 1 as published (docs/privacy.md, "Private features").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix, diags_array
from scipy.sparse.linalg import LinearOperator, eigsh

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms import Noise
from adaprivate.mechanisms.symmetric import GramSum, SymmetricGaussian, gram_rows
from adaprivate.privacy import Guarantee, Participation, Price

SCALINGS = ("max-norm", "unit", "clip")


def rating_matrix(user: Array, item: Array, rating: Floats, users: int, items: int, centre: float) -> csr_matrix:
    """Sparse (users, items): ratings minus the centre, zero where there is none."""
    return csr_matrix((rating - centre, (user, item)), shape=(users, items))


def truncated_svd(matrix: csr_matrix, dimension: int) -> Floats:
    """V S of the leading singular vectors, a row for each item; signs are fixed by the largest entry."""
    items = matrix.shape[1]
    check.whole("dimension", dimension, at_least=1, at_most=items)
    if 4 * dimension >= items:
        return leading((matrix.T @ matrix).toarray(), dimension)
    turned = matrix.T.tocsr()
    return leading(LinearOperator((items, items), matvec=lambda v: turned @ (matrix @ v), dtype=np.float64), dimension)


def leading(gram: Floats | LinearOperator, dimension: int) -> Floats:
    """V sqrt(values) of the largest eigenvalues of a symmetric matrix; negative ones count as 0 (the PSD projection)."""
    items = gram.shape[0]
    check.whole("dimension", dimension, at_least=1, at_most=items)
    if isinstance(gram, LinearOperator):
        values, vectors = eigsh(gram, k=dimension, which="LA", v0=np.full(items, 1 / np.sqrt(items)))
    else:
        values, vectors = eigh(gram, subset_by_index=[items - dimension, items - 1])
    order = np.argsort(values)[::-1][:dimension]
    values, vectors = values[order], vectors[:, order]
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(dimension)] < 0, -1.0, 1.0)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


def scaled(features: Floats, scaling: str) -> Floats:
    """Norms at most 1: divided by the largest ("max-norm"), each made 1 ("unit"), or cut at the median norm ("clip")."""
    check.one_of("scaling", scaling, SCALINGS)
    norms = np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), 1e-300)
    if scaling == "unit":
        return _within(features / norms)
    if scaling == "clip":
        bound = max(float(np.median(norms)), 1e-300)
        return _within(features / np.maximum(norms, bound))
    return _within(features / norms.max())


def _within(features: Floats) -> Floats:
    """Not longer than 1 by a rounding error."""
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), 1.0))


CALIBRATIONS = ("exact", "published-unsound")


@dataclass(frozen=True)
class PrivateFeatures:
    """Features, a row for each item, and what they cost each person whose ratings made them."""

    features: Floats
    price: Price
    guarantee: Guarantee


def noise_multiplier(epsilon: float, delta: float, neighbours: str = "replace", calibration: str = "exact") -> float:
    """The noise on a diagonal entry, relative to what one person's row can move.

    "published-unsound" is Sec 6.3's: noise for a change of 1 by Eq. 2.8, where a replaced row moves the matrix by sqrt(2).
    """
    if check.one_of("calibration", calibration, CALIBRATIONS) == "exact":
        return privacy.gaussian_sigma(epsilon, delta)
    return privacy.zcdp_sigma(epsilon, delta) / gram_rows(neighbours).change


def feature_guarantee(
    epsilon: float,
    delta: float,
    *,
    neighbours: str = "replace",
    calibration: str = "exact",
    exact_noise: bool = False,
    price: Price | None = None,
) -> Guarantee:
    """What the features promise each person: with "published-unsound" the epsilon that holds, the nominal one beside it."""
    multiplier = noise_multiplier(epsilon, delta, neighbours, calibration)
    return privacy.guarantee(
        price or privacy.GaussianPrice(1 / multiplier),
        gram_rows(neighbours),
        delta,
        enforced=("user-clip", "user-batches", *(("exact-noise", "secret-noise") if exact_noise else ())),
        conditions=("exact-noise",),
        nominal_epsilon=None if calibration == "exact" else epsilon,
        simulated=not exact_noise,
    )


def dp_svd(
    matrix: csr_matrix,
    dimension: int,
    *,
    epsilon: float,
    delta: float,
    noise: Noise,
    neighbours: str = "replace",
    calibration: str = "exact",
) -> PrivateFeatures:
    """Private features of the items (columns) from one row per person; longer rows are clipped to norm 1.

    The columns, the constant taken off the ratings and the dimension must be public.
    """
    items = matrix.shape[1]
    check.whole("dimension", dimension, at_least=1, at_most=items)
    mechanism = SymmetricGaussian(
        dimension=items,
        noise_multiplier=noise_multiplier(epsilon, delta, neighbours, calibration),
        noise=noise,
        participation=gram_rows(neighbours),
    )
    noisy = mechanism.release(_gram(clipped_rows(matrix), noise))
    statement = feature_guarantee(
        epsilon,
        delta,
        neighbours=neighbours,
        calibration=calibration,
        exact_noise=noise.exact,
        price=mechanism.price,
    )
    return PrivateFeatures(leading(noisy, dimension), mechanism.price, statement)


def clipped_rows(matrix: csr_matrix) -> csr_matrix:
    """Rows of norm at most 1."""
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return csr_matrix(diags_array(1 / np.maximum(norms, 1.0)) @ matrix)


def _gram(rows: csr_matrix, noise: Noise) -> Array | GramSum:
    if not noise.exact:
        return np.asarray((rows.T @ rows).toarray())
    total = GramSum(rows.shape[1], noise=noise)
    for person in range(rows.shape[0]):
        total.add(str(person), rows[[person]].toarray()[0])
    return total


def overlapping_guarantee(features: Guarantee, rewards: Price, delta: float, rewards_per_person: int) -> Guarantee:
    """For people whose ratings made the features and who also give at most so many rewards to a bandit.

    They pay for both. ``rewards``: the price of one reward; together, in the worst case in one batch, a person's rewards
    move what is released so many times as far (group privacy of Gaussian noise). People in one part alone pay less.
    """
    check.expect(isinstance(rewards, privacy.GaussianPrice), "rewards", rewards, "to be a Gaussian price")
    check.expect(features.mu is not None, "features.mu", features.mu, "to be known")
    count = check.whole("rewards_per_person", rewards_per_person, at_least=1)
    mu = math.hypot(features.mu or 0.0, privacy.group_mu(rewards.mu, [count]))
    reach = Participation(
        "user",
        "replace",
        1.0,
        protects=f"the ratings of any one person and {count} of their rewards",
        conditions=(*gram_rows("replace").conditions, *privacy.events().conditions),
    )
    check.expect(
        features.neighbours == "replace", "features.neighbours", features.neighbours, "== replace, as the rewards'"
    )
    return privacy.guarantee(
        privacy.GaussianPrice(mu, exact=False),
        reach,
        delta,
        conditions=("exact-noise",),
        simulated=features.simulated,
    )
