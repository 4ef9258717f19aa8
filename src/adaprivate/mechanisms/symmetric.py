"""Gaussian noise on a symmetric matrix: Gram matrices of people's rows, as for private features.

``svec`` lists the upper triangle with off-diagonal entries times sqrt(2), so that its l2 norm is the Frobenius norm. Noise
independent and equal on it has standard deviation s on the diagonal and s / sqrt(2) off it. One person's row v moves the
Gram matrix by at most |v|^2 when added or removed and by sqrt(2) |v|^2 when replaced (orthogonal rows attain it).
"""

from __future__ import annotations

import math

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.contributions import Collector
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, EVENT_BITS, Noise, expect_fine_grid, whole_numbers
from adaprivate.people.identity import user_text
from adaprivate.privacy import GaussianPrice, Participation, Price
from adaprivate.privacy.participation import NEIGHBOURS

_ROW_BITS = EVENT_BITS // 2


def svec(matrix: Floats) -> Floats:
    """The upper triangle row by row, off-diagonal entries times sqrt(2)."""
    square = check.floats("matrix", matrix, (None, None))
    upper = np.triu_indices(len(square))
    entries = symmetric("matrix", square, max(1, len(square)))[upper]
    return np.asarray(entries * np.where(upper[0] == upper[1], 1.0, math.sqrt(2)))


def unsvec(vector: Floats) -> Floats:
    """The symmetric matrix with this svec."""
    entries = check.floats("vector", vector, (None,))
    dimension = (math.isqrt(8 * len(entries) + 1) - 1) // 2
    fits = len(entries) > 0 and dimension * (dimension + 1) == 2 * len(entries)
    check.expect(fits, "vector.shape", entries.shape, "== (d (d + 1) / 2,) for some d")
    upper = np.triu_indices(dimension)
    return _mirror(entries / np.where(upper[0] == upper[1], 1.0, math.sqrt(2)), dimension)


def symmetric(name: str, value: object, dimension: int) -> Floats:
    """A finite symmetric matrix of this size; differences of rounding are averaged away."""
    matrix = check.floats(name, value, (dimension, dimension))
    _expect_mirrored(name, matrix, 1e-9 * float(np.abs(matrix).max()))
    return (matrix + matrix.T) / 2


def _expect_mirrored(name: str, matrix: Array, tolerance: float) -> None:
    skew = matrix - matrix.T
    i, j = (int(index) for index in np.unravel_index(np.abs(skew).argmax(), skew.shape))
    check.expect(bool(abs(skew[i, j]) <= tolerance), f"{name}[{i}, {j}] - {name}[{j}, {i}]", skew[i, j], "== 0")


def gram_rows(neighbours: str, row_norm: float = 1.0) -> Participation:
    """One person's whole row of norm at most ``row_norm`` in a Gram matrix, added or removed, or replaced by another."""
    factor = math.sqrt(2) if check.one_of("neighbours", neighbours, NEIGHBOURS) == "replace" else 1.0
    return Participation(
        "user",
        neighbours,
        factor * check.real("row_norm", row_norm, above=0) ** 2,
        protects="the whole row of any one person",
        conditions=("user-clip", "user-batches", "user-identity", "public-preparation", "secret-noise", "no-replay"),
    )


class GramSum(Collector):
    """The Gram matrix of people's rows, one row of norm at most 1 each, for SymmetricGaussian and Wishart.

    Longer rows are clipped and counted; a second row of the same person is refused. For exact noise rows are truncated
    towards zero to multiples of 2^-10, so that their products are whole numbers of 2^-20 and no sum is ever rounded.
    """

    @property
    def enforces(self) -> tuple[str, ...]:
        return ("user-clip", "user-batches")

    def reach(self, neighbours: str) -> Participation:
        return gram_rows(neighbours)

    def __init__(self, dimension: int, *, noise: Noise) -> None:
        check.kind("noise", noise, Noise)
        self.dimension = check.whole("dimension", dimension, at_least=1)
        self.exact = noise.exact
        self.clipped = 0
        self._people: set[str] = set()
        self._total = self._zero()

    def add(self, person: str, row: object) -> None:
        """Count one person's row."""
        v = check.floats("row", row, (self.dimension,))
        check.expect(isinstance(person, str) and person != "", "person", type(person).__name__, "to be a non-empty str")
        person = user_text(person)
        check.expect(person not in self._people, "row", "a second one of the same person", "to be the only one")
        norm = float(np.linalg.norm(v))
        if norm > 1:
            self.clipped += norm > 1 + 1e-9  # rounding of a unit vector is not worth a report
            v = v / norm
        self._people.add(person)
        if not self.exact:
            self._total = self._total + np.outer(v, v)
            return
        integers = [int(entry) for entry in np.trunc(v * 2.0**_ROW_BITS)]
        while sum(entry * entry for entry in integers) > 4**_ROW_BITS:
            integers = [entry - (entry > 0) + (entry < 0) for entry in integers]
        whole = np.array(integers, dtype=object)
        self._total = self._total + whole[:, None] * whole[None, :]

    def take(self) -> Array:
        """The Gram matrix so far, ready for ``release``; the next starts empty, and people do not enter twice."""
        total, self._total = self._total, self._zero()
        return total

    def _zero(self) -> Array:
        shape = (self.dimension, self.dimension)
        return np.full(shape, 0, dtype=object) if self.exact else np.zeros(shape)


class SymmetricGaussian(Mechanism):
    """A symmetric matrix plus symmetric Gaussian noise, independent and equal in svec; released once.

    The diagonal gets standard deviation s = noise_multiplier x the participation's change (its Frobenius norm), all other
    entries s / sqrt(2). Exact noise takes whole numbers of 2^-20, as ``GramSum`` gives them.
    """

    name = "symmetric-gaussian"

    def __init__(self, *, dimension: int, noise_multiplier: float, noise: Noise, participation: Participation) -> None:
        self.dimension = check.whole("dimension", dimension, at_least=1)
        self.noise_multiplier = check.real("noise_multiplier", noise_multiplier, above=0)
        self.noise = noise
        self.participation = participation
        check.expect(participation.batches == 1, "participation.batches", participation.batches, "== 1")
        self.sigma = self.noise_multiplier * participation.change * (1 + 2.0**-50)  # products round up
        # sqrt(0.5) is above one half's root as a float, and the next float up covers the product's rounding.
        self.off_diagonal = math.nextafter(self.sigma * math.sqrt(0.5), math.inf)
        expect_fine_grid(self.noise_multiplier, self.off_diagonal, noise)
        check.expect(
            participation.unit in ("user", "joint"), "participation.unit", participation.unit, "== user: see gram_rows"
        )
        self._released = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.dimension, self.dimension)

    @property
    def price(self) -> Price:
        off = self.dimension * (self.dimension - 1) // 2
        slack = self.noise.slack(self.sigma, self.dimension) + self.noise.slack(self.off_diagonal, off)
        return GaussianPrice(1 / self.noise_multiplier, slack)

    def _ready(self) -> None:
        check.expect(not self._released, "releases", 2, "<= 1: a second release of the same data costs again")

    def _release(self, value: Array) -> Floats:
        upper = np.triu_indices(self.dimension)
        if self.noise.exact:
            whole = whole_numbers("value", value, self.shape)
            _expect_mirrored("value", whole, 0)
            entries: Array = whole[upper] * 2**COEFFICIENT_BITS
        else:
            entries = symmetric("value", value, self.dimension)[upper]
        noisy = self.noise.gaussian(entries, np.where(upper[0] == upper[1], self.sigma, self.off_diagonal))
        self._released = True
        return _mirror(noisy, self.dimension)


def _mirror(entries: Floats, dimension: int) -> Floats:
    upper = np.triu_indices(dimension)
    matrix = np.empty((dimension, dimension))
    matrix[upper] = entries
    matrix.T[upper] = entries
    return matrix


def _example(noise: Noise) -> SymmetricGaussian:
    return SymmetricGaussian(dimension=3, noise_multiplier=2.0, noise=noise, participation=gram_rows("replace"))


EXAMPLES = (_example,)
