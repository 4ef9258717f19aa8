"""Feature vectors of items, made of other people's ratings, and public rules for their length.

The rating matrix minus its mean, zeros where nothing was rated, is U S V'; item i gets row i of V S, its leading columns
for smaller dimensions.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, eigsh

from adaprivate import check
from adaprivate.check import Array, Floats

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
