"""Sums of contributions in whole numbers, compiled: what :mod:`~adaprivate.mechanisms.contributions` says, in 64 bits.

An event adds at most 2^EVENT_BITS to any number of a sum: its row X has norm at most that, and each entry of what it adds
is at most that of X (docs/privacy.md, "Exact noise"). So ``reached``, which grows by as much with every event, bounds all
numbers; what might reach 2^62, where exact noise ends too, is refused. Nothing wraps. Arithmetic is not reordered: norms
are added up as NumPy adds them, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numba
import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats, Integers
from adaprivate.compiled import Record, record, routine
from adaprivate.errors import NotEnteredError
from adaprivate.grid import AS_IS, DIRECTED, DIRECTED_WHOLE, EVENT_BITS, LARGEST, REWARD_BITS
from adaprivate.held import Held, taken

_ENTERED, _NOT_FINITE, _NO_REWARD, _FULL = 0, 1, 2, 3
_MOST = 2**EVENT_BITS


class Sums(NamedTuple):
    """A sum and what enters it: private."""

    total: Integers
    """In whole numbers of 2^-EVENT_BITS."""
    row: Integers
    """X of the event entered last."""
    event: Floats
    """The same before it was truncated."""
    squares: Floats
    """Scratch."""
    axes: Floats
    """What each coordinate is multiplied with, where the noise is round in others; else empty."""
    scalars: Record
    """The centre in whole numbers of 2^-REWARD_BITS, a bound of every |total|, events that were longer than 1,
    and what became of the last of several."""


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _added(x: Floats, first: int, count: int) -> float:
    """The sum of at most 128 numbers as ``np.sum`` adds them: by eights."""
    total, begin = 0.0, first
    if count >= 8:
        a, b, c, d = x[first], x[first + 1], x[first + 2], x[first + 3]
        e, f, g, h = x[first + 4], x[first + 5], x[first + 6], x[first + 7]
        begin = first + count - count % 8
        for i in range(first + 8, begin, 8):
            a += x[i]
            b += x[i + 1]
            c += x[i + 2]
            d += x[i + 3]
            e += x[i + 4]
            f += x[i + 5]
            g += x[i + 6]
            h += x[i + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(begin, first + count):
        total += x[i]
    return total


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _added_in_halves(x: Floats, count: int) -> float:
    """The sum of more than 128 numbers, as ``np.sum`` adds them: each half, of a multiple of eight, by itself."""
    first, size, step = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int64)
    left = np.zeros(64)
    size[0], depth, value = count, 0, 0.0
    while depth >= 0:
        if size[depth] <= 128:
            value = _added(x, first[depth], size[depth])
            depth -= 1
            continue
        half = size[depth] // 2
        half -= half % 8
        step[depth] += 1
        if step[depth] == 3:
            value = left[depth] + value
            depth -= 1
            continue
        if step[depth] == 2:
            left[depth] = value
        begins = first[depth] if step[depth] == 1 else first[depth] + half
        count = half if step[depth] == 1 else size[depth] - half
        depth += 1
        first[depth], size[depth], step[depth] = begins, count, 0
    return value


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _length(x: Floats, axes: Floats, count: int, squares: Floats) -> float:
    """The norm of the first so many coordinates, each multiplied with its axis if there are any."""
    for i in range(count):
        y = x[i] * axes[i] if axes.shape[0] > 0 else x[i]
        squares[i] = y * y
    return math.sqrt(_added(squares, 0, count) if count <= 128 else _added_in_halves(squares, count))


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _direct(x: Floats, axes: Floats, count: int, squares: Floats) -> None:
    """Scale the first so many coordinates to norm 1; zero stays zero."""
    most = 0.0
    for i in range(count):
        most = max(most, abs(x[i]))
    if most == 0.0:
        return
    for i in range(count):
        x[i] /= most  # so that no square under- or overflows
    norm = _length(x, axes, count, squares)
    for i in range(count):
        x[i] /= norm


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _enter(sums: Sums, features: Floats, reward: float, way: int) -> int:
    s = sums.scalars[0]
    d, size = features.shape[0], sums.event.shape[0]
    for j in range(d):
        if not abs(features[j]) < np.inf:
            return _NOT_FINITE
    if not 0.0 <= reward <= 1.0:
        return _NO_REWARD
    if s.reached >= LARGEST - _MOST:
        return _FULL
    x, row, nothing = sums.event, sums.row, sums.axes[:0]
    for j in range(d):
        x[j] = features[j]
    if way == DIRECTED:
        _direct(x, nothing, d, sums.squares)
    if size > d:
        x[d] = 1.0
    if way == DIRECTED_WHOLE:
        _direct(x, sums.axes, size, sums.squares)
    if sums.axes.shape[0] > 0:
        for i in range(size):
            x[i] *= sums.axes[i]
    norm = _length(x, nothing, size, sums.squares)
    if norm > 1.0:
        for i in range(size):
            x[i] /= norm
    square = 0
    for i in range(size):
        if not abs(x[i]) < 2.0:  # it overflowed where the noise is round
            return _NOT_FINITE
        row[i] = np.int64(x[i] * 2.0**EVENT_BITS)  # which drops the fraction
        square += row[i] * row[i]
    while square > 4**EVENT_BITS:  # squares are at most about 2^40: their sum is exact
        square = 0
        for i in range(size):
            row[i] -= np.sign(row[i])
            square += row[i] * row[i]
    weight = np.int64(math.floor(reward * 2.0**REWARD_BITS)) - s.centre
    for i in range(size):
        product = weight * row[i]  # below 2^(EVENT_BITS + REWARD_BITS) in size: no overflow
        sums.total[i] += product >> REWARD_BITS if product >= 0 else -(-product >> REWARD_BITS)
    s.reached += _MOST
    if norm > 1.0 + 1e-9:  # rounding of a unit vector is not worth a report
        s.clipped += 1
    return _ENTERED


@routine
def _enter_one(held: Any, features: Floats, reward: float, way: int) -> int:
    return int(_enter(taken(held), features, reward, way))


@routine
def _enter_rows(held: Any, features: Floats, rewards: Floats, way: int) -> int:
    """How many rows enter, in order; ``outcome`` says why no more."""
    sums = taken(held)
    for n in range(features.shape[0]):
        sums.scalars[0].outcome = _enter(sums, features[n], rewards[n], way)
        if sums.scalars[0].outcome != _ENTERED:
            return n
    return int(features.shape[0])


class WholeSum:
    """A sum of contributions in whole numbers; ``centre`` in units of 2^-REWARD_BITS, ``axes`` where noise is shaped so."""

    def __init__(self, size: int, centre: int, axes: Floats | None = None) -> None:
        self._sums = Sums(
            total=np.zeros(size, dtype=np.int64),
            row=np.zeros(size, dtype=np.int64),
            event=np.zeros(size),
            squares=np.zeros(size),
            axes=np.zeros(0) if axes is None else np.array(axes, dtype=np.float64),
            scalars=record(centre=centre, reached=0, clipped=0, outcome=0),
        )
        self._hold()

    def _hold(self) -> None:
        self._held = Held(self._sums)
        self._one: Any = None
        self.mark = object()
        """What this sum signs its refusals with; nothing leads from it to the sum."""

    @property
    def clipped(self) -> int:
        """How many events were longer than 1 and were clipped."""
        return int(self._sums.scalars["clipped"][0])

    def enter(self, features: Floats, reward: float, way: int = AS_IS) -> None:
        """Add what this event contributes; features (contiguous) one shorter than the sum are followed by 1."""
        if self._one is None:
            self._one = self._held.bound(_enter_one, features, 0.0, way)
        outcome = self._one(self._held.address, features, reward, way)
        if outcome != _ENTERED:
            self._refuse(outcome, features, reward)

    def enter_rows(self, features: Floats, rewards: Floats, way: int = AS_IS) -> None:
        """Add what these events (rows) contribute, or nothing if one of them is refused."""
        total, scalars = self._sums.total.copy(), self._sums.scalars.copy()
        rows = np.ascontiguousarray(features)
        entered = self._held.bound(_enter_rows, rows, rewards, way)(self._held.address, rows, rewards, way)
        if entered < len(rows):
            outcome = int(self._sums.scalars["outcome"][0])
            self._sums.total[:], self._sums.scalars[:] = total, scalars
            self._refuse(outcome, rows[entered], float(rewards[entered]))

    def _refuse(self, outcome: int, features: Floats, reward: float) -> None:
        """Say why an event did not enter: called where that is known, and nowhere else."""
        text = f"Expected a sum of fewer than 2^{62 - EVENT_BITS} events: more may not fit exact noise."
        try:
            if outcome == _NO_REWARD:
                check.reward(reward)
            if outcome == _NOT_FINITE:
                text = "Expected features to be finite where the noise is round."
                check.floats("features", features, features.shape)
        except check.InputError as error:
            text = str(error)
        raise NotEnteredError(text, self.mark)

    def copy(self) -> Self:
        """One with the same contents that shares nothing with this one."""
        twin = object.__new__(type(self))
        twin._sums = Sums(*map(np.copy, self._sums))
        twin._hold()
        return twin

    def values(self) -> Array:
        """The sum, as Python's integers."""
        return np.array(self._sums.total.tolist(), dtype=object)

    def take(self) -> Array:
        """The same; the next sum starts empty."""
        total = self.values()
        self._sums.total[:] = 0
        self._sums.scalars["reached"] = 0
        return total

    def restore(self, values: Array) -> None:
        """Go on from this sum."""
        numbers = np.ravel(values).tolist()
        if not all(type(number) is int and abs(number) < LARGEST for number in numbers):
            raise check.InputError(
                "Expected state to be whole numbers below 2^62 in size; it is private and not repeated here."
            )
        self._sums.total[:] = numbers
        self._sums.scalars["reached"] = max((abs(number) for number in numbers), default=0)
