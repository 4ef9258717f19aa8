"""Intervals: of means over seeds, of paired differences, and of weighted sums over the rows of a log.

Intervals and tests over seeds are Student's: exact for normal values, good for means of a dozen runs or more.

Sums over the rows of a log are kept in memory that does not grow with the log. What is taken for independent is a *unit*: a
user where rows name theirs, else a row. Of more than 65,536 of them several share a sum: consecutive rows, or users by a
hash of their number. Sums of independent things are independent, so the spread is still estimated without bias, and no
less exactly than one part in 360.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri, stdtr, stdtrit

from adaprivate import check
from adaprivate.check import Floats, Integers

MOST_UNITS = 1 << 16
FEW_REWARDED = 30
"""An estimate that fewer rewards carry is marked: they are too few for the normal law."""
UNLOGGED = 0.05
"""Where weights average less than 1 by more, and chance does not explain it, what the policy chooses was hardly logged."""
CHANCE = 4.0
"""So many standard errors are more than chance explains."""


class Units:
    """Which sum each row belongs to; ``rows`` and ``people`` are upper bounds."""

    def __init__(self, rows: int, people: int | None) -> None:
        self.by_person = people is not None and people > 1
        self._size = max(1, -(-rows // MOST_UNITS))
        self._hashed = self.by_person and (people or 0) > MOST_UNITS
        self.most = min(people or 0, MOST_UNITS) if self.by_person else max(1, -(-rows // self._size))
        self._numbers: dict[int, int] = {}

    def of(self, people: Integers | None, start: int, rows: int) -> Integers:
        """The sums of these rows, the first of which is row ``start``."""
        if not self.by_person or people is None:
            return np.arange(start, start + rows) // self._size
        if self._hashed:
            mixed = people.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            return ((mixed >> np.uint64(32)) % np.uint64(MOST_UNITS)).astype(np.int64)
        known, place = np.unique(people, return_inverse=True)
        numbers = self._numbers
        return np.array([numbers.setdefault(person, len(numbers)) for person in known.tolist()], dtype=np.int64)[place]


class Carried:
    """What weights c >= 0 carry: the sum y of c r, v of the squares of the units' parts in it, m the most of one unit."""

    def __init__(self, units: Units) -> None:
        self._earned, self._weight = (np.zeros(units.most if units.by_person else 0) for _ in range(2))
        self._by_person = units.by_person
        self._y = self._v = self._m = 0.0

    def add(self, unit: Integers, c: Floats, r: Floats) -> None:
        """Take in rows."""
        if self._by_person:
            np.add.at(self._earned, unit, c * r)
            np.add.at(self._weight, unit, c)
            return
        carried = c * r
        self._y += float(carried.sum())
        self._v += float(carried @ carried)
        self._m = max(self._m, float(c.max(initial=0.0)))

    @property
    def sums(self) -> tuple[float, float, float]:
        """y, v and m."""
        if not self._by_person:
            return self._y, self._v, self._m
        return float(self._earned.sum()), float(self._earned @ self._earned), float(self._weight.max(initial=0.0))

    @property
    def effective(self) -> float:
        """How many units of equal weight carry as much."""
        y, v, _ = self.sums
        return y * y / v if v > 0 else 0.0

    def worth(self, largest: float = 0.0) -> float:
        """The same with one more reward of the largest weight, where that is less: what may be missing counts, too.

        It is the shape of the upper end of :meth:`within`. ``largest``: a weight that is known to be possible.
        """
        y, v, m = self.sums
        m = max(m, largest)
        return min(self.effective, (y + m) ** 2 / (v + m * m)) if m > 0 else self.effective

    def within(self, confidence: float, largest: float = 0.0) -> tuple[float, float]:
        """Fay and Feuer's interval (1997) for the mean of y, a weighted sum of rare events; of equal weights, Garwood's.

        It covers at least as often as it says, in every study that tried it, if no weight above m was possible
        (``largest``: one that is known to be); with nothing carried it is not empty.
        """
        y, v, m = self.sums
        m = max(m, largest)
        tail = (1 - confidence) / 2
        low = float(gammaincinv(y * y / v, tail)) * v / y if v > 0 else 0.0
        if m == 0:
            return low, y
        wide, shape = (v + m * m) / (y + m), (y + m) ** 2 / (v + m * m)
        return low, float(gammaincinv(shape, 1 - tail)) * wide


class UnitSums:
    """Of each unit its rows, what it adds to the estimate (``top``) and the weight of its rewards."""

    def __init__(self, units: Units) -> None:
        self.units = units
        self._rows, self._top, self._weight = (np.zeros(units.most) for _ in range(3))
        self.hits, self.misses, self.below = (Carried(units) for _ in range(3))
        self.rows, self.weight, self.squares = 0, 0.0, 0.0

    def add(self, people: Integers | None, r: Floats, c: Floats, top: Floats) -> None:
        """Take in rows: rewards, the weights that they have in the estimate, and what each row adds to it."""
        unit = self.units.of(people, self.rows, len(r))
        np.add.at(self._rows, unit, 1.0)
        np.add.at(self._top, unit, top)
        np.add.at(self._weight, unit, c)
        above, below = np.maximum(c, 0.0), np.maximum(-c, 0.0)
        self.hits.add(unit, above, r)
        self.misses.add(unit, above, 1.0 - r)
        self.below.add(unit, below, r)
        self.rows += len(r)
        self.weight += float(c.sum())
        self.squares += float(c @ c)

    def include(self, other: UnitSums) -> None:
        """Add what another tally of the same rows has at the top."""
        self._top += other._top

    def _used(self, sums: Floats) -> Floats:
        return sums[self._rows > 0]

    @property
    def total(self) -> float:
        """The sum of what rows add."""
        return float(self._top.sum())

    @property
    def weight_error(self) -> float:
        """The standard error of the sum of weights."""
        spread = self._used(self._weight) - self.weight / max(self.rows, 1) * self._used(self._rows)
        return math.sqrt(float(spread @ spread))

    @property
    def unlogged(self) -> float:
        """The sum of weights that rows lack, of which there should be one each; 0 where chance may explain it."""
        lacking = self.rows - self.weight
        return lacking if lacking > max(UNLOGGED * self.rows, CHANCE * self.weight_error) else 0.0

    @property
    def effective(self) -> float:
        """(sum c)^2 / sum c^2: how many rows of equal weight would do as well."""
        return self.weight**2 / self.squares if self.squares > 0 else 0.0

    @property
    def rewarded(self) -> float:
        """How many rewarded units carry the estimate."""
        (y, v, _), (z, w, _) = self.hits.sums, self.below.sums
        return (y + z) ** 2 / (v + w) if v + w > 0 else 0.0

    def spread(self, value: float, ratio: bool) -> Floats:
        """What each unit adds beyond its share: of a mean over rows, or of a ratio over weights."""
        if ratio:
            return (self._used(self._top) - value * self._used(self._weight)) * (self.rows / self.weight)
        return self._used(self._top) - value * self._used(self._rows)

    def sem(self, spread: Floats, lost: int = 1) -> float:
        """The standard error; ``lost``: parameters that were fitted."""
        count, n = len(spread), self.rows
        scale = count / max(count - 1, 1) * (n - 1) / max(n - lost, 1)
        square = float(spread @ spread)
        return math.sqrt(scale * square) / n if square > 1e-24 * n else 0.0

    def student(self, confidence: float) -> float:
        """How many standard errors an interval reaches."""
        return float(stdtrit(max(int((self._rows > 0).sum()) - 1, 1), (1 + confidence) / 2))

    def wilson(self, value: float, confidence: float) -> tuple[float, float]:
        """Wilson's interval with as many trials as the weights are worth, by people where they are told apart."""
        weight = self._used(self._weight)
        square = float(weight @ weight) if self.units.by_person else self.squares
        n = self.weight**2 / square if square > 0 else 1e-9
        z, p = float(ndtri((1 + confidence) / 2)), min(max(value, 0.0), 1.0)
        middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)

    def drawn(self, resamples: int, seed: int, ratio: bool) -> Floats:
        """The estimate on units drawn again: each counts a Poisson number of times."""
        rng = np.random.default_rng(seed)
        top, bottom = self._used(self._top), self._used(self._weight if ratio else self._rows)
        size = max(1, 2_000_000 // len(top))
        sizes = [min(size, resamples - start) for start in range(0, resamples, size)]
        counts = (rng.poisson(1.0, size=(k, len(top))).astype(np.float64) for k in sizes)
        return np.concatenate([(c @ top) / np.maximum(c @ bottom, 1e-300) for c in counts])


@dataclass(frozen=True)
class Summary:
    """A mean, its standard error, and the interval that covers the true mean with probability ``confidence``."""

    mean: float
    sem: float
    low: float
    high: float
    confidence: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.6g} +- {self.sem:.2g} ({100 * self.confidence:g} % within {self.low:.6g} .. {self.high:.6g})"


@dataclass(frozen=True)
class Paired:
    """Ours minus theirs on the same seeds.

    ``p_value`` is two-sided; ``effect_size`` is Cohen's d_z, the mean difference in standard deviations of the differences.
    When every difference is the same there is no spread to judge by: t and d_z are infinite with p 0, or all of it is
    nothing (t 0, p 1) when that difference is zero.
    """

    difference: float
    sem: float
    t: float
    p_value: float
    effect_size: float
    low: float
    high: float
    confidence: float
    n: int

    def __str__(self) -> str:
        return (
            f"{self.difference:+.6g} ({100 * self.confidence:g} % within {self.low:+.6g} .. {self.high:+.6g}), "
            f"p = {self.p_value:.2g}, d_z = {self.effect_size:.2g}, n = {self.n}"
        )


def summary(values: object, confidence: float = 0.95) -> Summary:
    """The mean of at least two independent values, with Student's interval."""
    array = _sample("values", values)
    confidence = check.probability("confidence", confidence)
    n, mean, sem = len(array), float(array.mean()), _sem(array)
    reach = sem * float(stdtrit(n - 1, (1 + confidence) / 2))
    return Summary(mean, sem, mean - reach, mean + reach, confidence, n)


def paired(ours: object, theirs: object, confidence: float = 0.95) -> Paired:
    """Student's paired test of ours against theirs: value i of each must come from the same seed."""
    first, second = _sample("ours", ours), _sample("theirs", theirs)
    check.expect(len(first) == len(second), "len(ours)", len(first), f"== len(theirs)={len(second)}")
    found = summary(first - second, confidence)
    n = found.n
    without_spread = math.copysign(math.inf, found.mean) if found.mean else 0.0
    t = found.mean / found.sem if found.sem > 0 else without_spread
    p_value = 2 * float(stdtr(n - 1, -abs(t)))
    effect_size = t / math.sqrt(n)
    return Paired(found.mean, found.sem, t, p_value, effect_size, found.low, found.high, found.confidence, n)


def _sample(name: str, values: object) -> Floats:
    array = check.floats(name, values, (None,))
    check.expect(len(array) >= 2, f"len({name})", len(array), ">= 2")
    return array


def _sem(array: Floats) -> float:
    if np.ptp(array) == 0:
        return 0.0  # equal values have no spread, whatever rounding says of their mean
    return float(array.std(ddof=1)) / math.sqrt(len(array))
