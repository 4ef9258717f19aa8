"""Context and reward of one round as the unit: sums of e e' and of (r - 1/2) e, moved together no further than by r alone.

e = (sqrt(1 - b^2) x, b) are the features and a public constant, of norm at most 1. Replacing x and r moves the pair
(svec(e e') / sqrt(8), (r - 1/2) e) by at most 1, and r alone can: so private contexts cost what private rewards cost
(docs/privacy.md, Theorem 4). Noise of standard deviation s on (r - 1/2) e is sqrt(8) s on the diagonal of e e'
and 2 s off it. With another public centre c than 1/2, (r - c) e has 2 max(c, 1 - c) times its noise.

Rows are rounded before products are formed: whole numbers of 2^-10, of norm at most 1, and rewards too. What is summed up
are then whole numbers of 2^-20 that nothing has rounded, and the bound above is theirs as it stands.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Array, Floats, Integers
from adaprivate.mechanisms.contributions import Coordinates, EventCollector
from adaprivate.mechanisms.noise import EVENT_BITS, Noise
from adaprivate.mechanisms.units.base import Event, Unit
from adaprivate.privacy import Participation

GRID = 1 << EVENT_BITS // 2
"""Rows and rewards are whole numbers of 1 / GRID, their products of 2^-20."""
DIAGONAL, OFF_DIAGONAL = math.nextafter(math.sqrt(8), math.inf), 2.0
"""The noise of e e' relative to that of (r - 1/2) e, rounded up."""


def listed(width: int, constant: bool) -> tuple[Array, Array]:
    """The rows and columns of the entries of e e' that are summed: the upper triangle, without a corner that is public."""
    rows, columns = np.triu_indices(width)
    kept = len(rows) - 1 if constant else len(rows)
    return rows[:kept], columns[:kept]


class JointSum(EventCollector):
    """The sum over one batch of (e e', (r - centre) e), its upper triangle first: for joint privacy."""

    def __init__(self, dimension: int, *, noise: Noise, intercept: float = 0.0, centre: float = 0.5) -> None:
        check.kind("noise", noise, Noise)
        self.dimension = check.whole("dimension", dimension, at_least=1)
        self.unit = JointUnit(intercept, centre)
        self.exact = noise.exact
        self._rows, self._columns = listed(self.unit.width(dimension), intercept > 0)
        self._total = self._zero()
        self.clipped = 0
        """How many feature vectors were too long and were clipped: private."""

    def _zero(self) -> Array:
        return np.zeros(self.unit.size(self.dimension), dtype=np.int64)  # a round adds 2^20 at most: room for 2^42 of them

    def row(self, features: object) -> Integers:
        """2^10 e in whole numbers, its norm at most 2^10."""
        x = check.floats("features", features, (self.dimension,))
        norm = float(np.linalg.norm(x))
        if norm > 1:
            self.clipped += norm > 1 + 1e-9  # rounding of a unit vector is not worth a report
            x = x / norm
        constant = self.unit.constant
        whole = np.trunc(x * (self.unit.stretch * GRID)).astype(np.int64)
        while int(whole @ whole) > GRID * GRID - constant * constant:
            whole = whole - np.sign(whole)
        return np.append(whole, constant) if constant else whole

    def add(self, features: object, reward: object) -> None:
        """Count one event."""
        value, e = check.reward(reward), self.row(features)
        weight = math.floor(value * GRID + 0.5) - self.unit.middle
        self._total = self._total + np.concatenate([e[self._rows] * e[self._columns], weight * e])

    def count(self, event: Event) -> bool:
        self.add(event.features, event.reward)
        return True

    def copy(self) -> Self:
        twin = copy(self)
        twin._total = self._total.copy()
        return twin

    def take(self) -> Array:
        """The batch's sum, ready for ``release``; the next batch starts empty."""
        total, self._total = self._total, self._zero()
        return np.array(total.tolist(), dtype=object) if self.exact else total / 2.0**EVENT_BITS

    def state(self) -> Array:
        return self._total.copy()

    def restore(self, state: Array) -> None:
        check.expect(np.shape(state) == self._total.shape, "state.shape", np.shape(state), f"== {self._total.shape}")
        self._total = np.array(state, dtype=np.int64)

    @property
    def enforces(self) -> tuple[str, ...]:
        return ("reward-range", "feature-norm")

    def reach(self, neighbours: str) -> Participation:
        return privacy.centred_rows()


@dataclass(frozen=True)
class JointUnit(Unit):
    """Context and reward of any one round, against all who do not see its action; and its reward against everyone.

    ``intercept``: b, the constant that follows the features of every row, rounded down to whole numbers of 2^-10.
    ``centre``: taken off every reward, public, rounded to them.
    """

    name: ClassVar[str] = "joint"
    intercept: float = 0.0
    centre: float = 0.5

    def __post_init__(self) -> None:
        check.real("intercept", self.intercept, at_least=0, below=1)
        check.real("centre", self.centre, at_least=0, at_most=1)
        fits = self.intercept == 0 or self.constant > 0
        check.expect(fits, "intercept", self.intercept, f"== 0, or >= {1 / GRID:g}")

    @property
    def constant(self) -> int:
        """2^10 b."""
        return math.floor(self.intercept * GRID)

    @property
    def middle(self) -> int:
        """2^10 times the centre."""
        return round(self.centre * GRID)

    @property
    def louder(self) -> float:
        """The noise of (r - centre) e relative to what the centre 1/2 needs."""
        return 2 * max(self.middle, GRID - self.middle) / GRID

    @property
    def attained(self) -> bool:
        return self.louder == 1

    @property
    def stretch(self) -> float:
        """What features are multiplied by: sqrt(1 - b^2)."""
        return math.sqrt(GRID * GRID - self.constant**2) / GRID

    def width(self, dimension: int) -> int:
        """The length of e."""
        return dimension + (self.constant > 0)

    @property
    def participation(self) -> Participation:
        return privacy.centred_rows()

    @property
    def also(self) -> tuple[Participation, ...]:
        return (privacy.rewards_of_private_rows(),)

    def size(self, dimension: int) -> int:
        width = self.width(dimension)
        return width * (width + 1) // 2 - (self.constant > 0) + width

    def scales(self, dimension: int) -> Floats:
        width = self.width(dimension)
        rows, columns = listed(width, self.constant > 0)
        return np.concatenate([np.where(rows == columns, DIAGONAL, OFF_DIAGONAL), np.full(width, self.louder)])

    def collector(self, dimension: int, *, noise: Noise, centre: float, shape: Coordinates | None) -> JointSum:
        check.expect(centre == self.centre, "centre", centre, f"== {self.centre}, the unit's own: its noise is made for it")
        check.expect(shape is None, "shape", shape, "None where contexts are private")
        return JointSum(dimension, noise=noise, intercept=self.intercept, centre=self.centre)


UNIT = JointUnit
