"""Noise shaped to a public catalogue: as private as round noise, and quieter where no item points.

Noise of covariance sigma^2 W hides a reward exactly as well as sigma^2 I does when x' W^-1 x <= 1 for every item x that can
be played. In the coordinates root^-1 x, W = root root', the noise is round and every item has norm at most 1, so mechanisms
and contribution bounds need not know about shapes: they work there, and the release is mapped back.

The least tr(M W) over admissible W: with y = M^1/2 x it is the largest (tr S(p)^1/2)^2, S(p) = sum p_i y_i y_i', over
weights p that sum to 1, and W = M^-1/2 V M^-1/2 for V a multiple of S^1/2 (docs/privacy.md, Lemma 8).
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any

import numpy as np

from adaprivate import blas, check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.independent import Independent
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.prefix import NoisyRows, PrefixSum, Strategy
from adaprivate.mechanisms.symmetric import symmetric
from adaprivate.mechanisms.units import EventSum
from adaprivate.privacy import Participation, Price

_CORE = 4096
"""So many items at most are looked at together, where there are more."""
_BLOCK = 2**14
"""And so many are gone through at once."""
_FLOOR = 1e-6
"""Standard deviations, and square roots of weights, this much smaller than the largest are raised to it."""


class Shape:
    """A public change of coordinates, x = root y, in which the noise is round. It must not depend on private data.

    ``gap``: by how much, relatively, the weighted noise may exceed the least possible; None where nothing was minimised.
    """

    def __init__(self, root: Floats) -> None:
        square = check.floats("root", root, (None, None))
        self.root = check.floats("root", square, (max(1, len(square)),) * 2)
        axes = np.diag(self.root)
        scales = bool(np.count_nonzero(self.root) == np.count_nonzero(axes))  # each coordinate by itself
        with blas.one_thread():
            singular = np.sort(np.abs(axes))[::-1] if scales else np.linalg.svd(self.root, compute_uv=False)
            check.expect(bool(singular[-1] > 1e-12 * singular[0]), "root", self.root.tolist(), "to be invertible")
            self._inverse = np.diag(1 / axes) if scales else np.linalg.inv(self.root)
        self.gap: float | None = None

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        return len(self.root)

    @property
    def covariance(self) -> Floats:
        """W: the covariance in the original coordinates of noise that is round and of variance 1 in the new ones."""
        return self.root @ self.root.T

    def whiten(self, features: Floats) -> Floats:
        """The features in the new coordinates; not clipped, ``EventSum`` and ``UserSum`` clip there and count."""
        return self._inverse @ check.floats("features", features, (self.dimension,))

    def whiten_rows(self, rows: Floats) -> Floats:
        """The same of several rows, to the last bit."""
        if self.axes is not None:
            return np.asarray(rows * self.axes)
        return np.array([self.whiten(row) for row in rows]).reshape(rows.shape)

    @cached_property
    def axes(self) -> Floats | None:
        """What each coordinate is multiplied with, where they are only scaled: sums of zeros are exact."""
        inverse = self._inverse
        axes: Floats = np.diag(inverse).copy()
        return axes if np.array_equal(np.diag(axes), inverse) else None

    def unwhiten(self, vector: Floats) -> Floats:
        """Back to the original coordinates."""
        return self.root @ check.floats("vector", vector, (self.dimension,))

    def clip(self, features: Floats) -> Floats:
        """The features shrunk into the ellipsoid x' W^-1 x <= 1, in the original coordinates."""
        return np.asarray(features / max(1.0, float(np.linalg.norm(self.whiten(features)))))

    @classmethod
    def isotropic(cls, dimension: int) -> Shape:
        """No change of coordinates: for an unknown catalogue with features of norm at most 1."""
        return cls(np.eye(check.whole("dimension", dimension, at_least=1)))

    @classmethod
    def for_catalogue(cls, items: Floats, weight: Floats | None = None, *, tolerance: float = 1e-3) -> Shape:
        """The shape that minimises tr(weight W) while x' W^-1 x <= 1 for every item (a row each; lengths are free).

        Stops once the gap is below ``tolerance``; never worse than the best round shape. Directions that no item has get a
        millionth of the largest standard deviation, so that W is invertible: features there are all but clipped away.
        """
        items = check.floats("items", items, (None, None))
        some = np.any(items != 0, axis=1)
        rows = items if some.all() else items[some]
        check.expect(len(rows) > 0, "items.shape", items.shape, "to hold an item other than 0")
        largest = float(np.abs(rows).max())
        check.expect(1e-100 <= largest <= 1e100, "items", largest, "to have its largest number between 1e-100 and 1e100")
        to_error, from_error = _weight_roots(weight, rows.shape[1])
        enough = 1 + 0.99 * check.real("tolerance", tolerance, above=0)
        sphere = _fitted(np.eye(rows.shape[1]), rows)
        weighted = rows if weight is None else rows @ to_error
        bound, deviations = _least_trace(weighted, enough, _cost(sphere, to_error))
        ellipsoid = _fitted(from_error @ deviations, rows)
        best = min(ellipsoid, sphere, key=lambda shape: _cost(shape, to_error))
        best.gap = max(0.0, _cost(best, to_error) / bound - 1)
        return best


def _weight_roots(weight: Floats | None, dimension: int) -> tuple[Floats, Floats]:
    """M^1/2 and its inverse, with small eigenvalues of M raised so that both exist."""
    if weight is None:
        return np.eye(dimension), np.eye(dimension)
    values, vectors = np.linalg.eigh(symmetric("weight", weight, dimension))
    semidefinite = values[-1] > 0 and values[0] >= -1e-9 * values[-1]
    check.expect(bool(semidefinite), "weight's smallest eigenvalue", values[0], ">= 0, and the weight not 0")
    roots = np.maximum(np.sqrt(np.maximum(values, 0)), _FLOOR * math.sqrt(values[-1]))
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T


def _cost(shape: Shape, to_error: Floats) -> float:
    return float(np.sum((to_error @ shape.root) ** 2))


@blas.one_thread()
def _least_trace(y: Floats, enough: float, known: float) -> tuple[float, Floats]:
    """What :func:`_least_trace_of_few` finds; of many items those that reach furthest, and then those left outside.

    Its bound holds with any items left out, for more of them only raise the least trace.
    """
    if len(y) <= _CORE:
        return _least_trace_of_few(y, enough, known)
    values, vectors = np.linalg.eigh(sum(block.T @ block for block in _blocks(y)))
    kept = values > 1e-14 * values[-1]
    reach = _squares(y, np.asarray(vectors[:, kept] / values[kept] ** 0.25))
    core = np.argpartition(reach, -_CORE // 4)[-_CORE // 4 :]
    while True:
        bound, deviations = _least_trace_of_few(y[core], enough, known)
        reach = _squares(y, np.asarray(np.linalg.inv(deviations).T))
        outside = np.flatnonzero(reach > enough * math.sqrt(bound))
        fresh = np.setdiff1d(outside, core)
        if known <= enough * bound or not fresh.size or len(core) >= 16 * _CORE:
            return bound, deviations
        core = np.union1d(core, fresh[np.argsort(-reach[fresh], kind="stable")[: _CORE // 4]])


def _squares(rows: Floats, change: Floats) -> Floats:
    """The squared norm of every row in other coordinates."""
    return np.concatenate([((block @ change) ** 2).sum(axis=1) for block in _blocks(rows)])


def _blocks(rows: Floats) -> list[Floats]:
    """Views of the rows, few at a time."""
    return [rows[first : first + _BLOCK] for first in range(0, len(rows), _BLOCK)]


def _least_trace_of_few(y: Floats, enough: float, known: float) -> tuple[float, Floats]:
    """A lower bound on the least tr V with y_i' V^-1 y_i <= 1, and a square root of a nearly best V (up to a factor).

    Stops when that V, or one of trace ``known``, is within the factor ``enough`` of the bound. tr S^1/2 is the largest sum
    of sqrt(p_i) q_i' y_i over matrices q of spectral norm 1; holding the best q and maximising over p gives p_i times the
    squared leverage, so every step raises the bound.
    """
    _, spread, axes = np.linalg.svd(y, full_matrices=False)
    axes = axes[spread > 1e-7 * spread[0]]
    inside = y @ axes.T
    p = np.full(len(y), 1 / len(y))
    for _ in range(2000):
        values, vectors = np.linalg.eigh((inside * p[:, None]).T @ inside)
        roots = np.sqrt(np.maximum(values, 1e-15 * values[-1]))
        trace = float(np.sqrt(np.maximum(values, 0)).sum())
        leverage = ((inside @ vectors) ** 2 / roots).sum(axis=1)
        if leverage.max() <= enough * trace or known <= enough * trace**2:
            break
        p = p * leverage**2
        p /= p.sum()
    deviations = np.sqrt(roots)
    basis = axes.T @ vectors
    unseen = np.eye(y.shape[1]) - basis @ basis.T
    return trace**2, (basis * deviations) @ basis.T + _FLOOR * float(deviations.max()) * unseen


@blas.one_thread()
def _longest(shape: Shape, items: Floats) -> float:
    """The largest norm of an item in the shape's coordinates, as computed one by one; or of very many, a bound on that.

    All are gone through in blocks, whose sums may be added up in another order: by so little that few can be the longest.
    """
    inverse, dimension = np.asarray(shape._inverse.T, np.float64), shape.dimension
    rounding = 8 * (dimension + 2) * float(np.finfo(np.float64).eps)
    norms = np.sqrt(_squares(items, inverse))
    sizes = [((np.abs(block) @ np.abs(inverse)) ** 2).sum(axis=1) for block in _blocks(items)]
    errors = rounding * np.sqrt(np.concatenate(sizes))
    candidates = np.flatnonzero(norms + errors >= (norms - errors).max())
    if len(candidates) > _CORE:
        return float((norms + errors).max())
    return max(float(np.linalg.norm(shape.whiten(items[place]))) for place in candidates)


def _fitted(root: Floats, items: Floats) -> Shape:
    """The shape scaled so that every item has norm at most 1 in its coordinates, as computed."""
    scale = _longest(Shape(root), items)
    for safety in (1e-12, 1e-9, 1e-6, 1e-3):
        shape = Shape(root * (scale * (1 + safety)))
        if _longest(shape, items) <= 1:
            return shape
    raise check.InputError("Expected items and weight to be better conditioned.")


def error_weight(items: Floats, events: float, ridge: float) -> Floats:
    """A^-2 with A = ridge I + events x mean of x x': how noise in the sums becomes error in the estimate, predicted.

    A public stand-in for the design matrix: the items played evenly, ``events`` times in all.
    """
    items = check.floats("items", items, (None, None))
    check.expect(len(items) > 0, "items.shape", items.shape, "to hold at least one item")
    events = check.real("events", events, at_least=0)
    design = check.real("ridge", ridge, above=0) * np.eye(items.shape[1]) + events / len(items) * (items.T @ items)
    square = np.linalg.inv(design @ design)
    return np.asarray((square + square.T) / 2)


class ShapedPrefixSum(Mechanism):
    """Running sums under a strategy, with noise shaped to the public catalogue.

    ``release`` takes sums in the shape's coordinates, as ``collector`` gives them, and returns sums in the original ones.
    The participation's change is measured in the shape's coordinates, where every contribution has norm at most 1.
    """

    name = "catalogue"
    _release_kind: type[PrefixSum] = PrefixSum

    def __init__(
        self,
        strategy: Strategy,
        shape: Shape,
        *,
        noise_multiplier: float,
        noise: Noise,
        participation: Participation | None = None,
    ) -> None:
        check.kind("shape", shape, Shape)
        self.coordinates: Shape = shape
        self.dimension = shape.dimension
        self.noise = noise
        base = participation or privacy.events()
        self.participation = dataclasses.replace(base, conditions=(*base.conditions, "catalogue"))
        self.inner = self._release_kind(
            strategy, dimension=shape.dimension, noise_multiplier=noise_multiplier, noise=noise, participation=base
        )

    @property
    def price(self) -> Price:
        return self.inner.price

    @property
    def state(self) -> Any:
        """All that the running sum remembers: private until the mechanism ends."""
        return self.inner.state

    @state.setter
    def state(self, state: Any) -> None:
        self.inner.state = state

    def collector(self, centre: float = 0.0) -> EventSum:
        """A batch sum of events in the shape's coordinates, clipped there: enforces the condition "catalogue"."""
        return EventSum(self.dimension, noise=self.noise, centre=centre, shape=self.coordinates)

    def _ready(self) -> None:
        self.inner._ready()

    def _release(self, value: Array) -> Floats:
        return self.coordinates.unwhiten(self.inner._release(value))

    def prefix_covariance(self, step: int) -> Floats:
        """Covariance of the noise in the running sum after this batch (0-based)."""
        return np.asarray(self.inner.prefix_std()[step] ** 2 * self.coordinates.covariance)


class ShapedRows(ShapedPrefixSum):
    """The same release left undecoded: each batch's noisy row of C s, in the original coordinates."""

    name = "shaped-rows"
    _release_kind = NoisyRows

    @property
    def row_covariance(self) -> Floats:
        """Covariance of the noise in every row."""
        return np.asarray(self.inner.row_std**2 * self.coordinates.covariance)


def _example(noise: Noise) -> ShapedPrefixSum:
    items = np.array([[0.9, 0.1, 0.0], [-0.7, 0.3, 0.1], [0.8, -0.2, 0.05], [0.5, 0.3, -0.1]])
    shape = Shape.for_catalogue(items, error_weight(items, events=100, ridge=1.0))
    return ShapedPrefixSum(Independent(steps=4), shape, noise_multiplier=1.5, noise=noise)


EXAMPLES = (_example,)
