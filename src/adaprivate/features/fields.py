"""The kinds of context fields, and how their public descriptions are read.

Each kind turns one value into a few coordinates of norm at most 1, by public constants alone. An error in a description
names the key that is wrong (``featuriser.context[2].buckets``).
"""

from __future__ import annotations

import hashlib
import math
import numbers as abstract
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from adaprivate import check
from adaprivate.check import Floats

Kind = TypeVar("Kind")
LEAST_NORM, GREATEST_NORM = 1e-100, 1e100
"""Norms whose squares are floats."""
ROUNDING = 1e-13
"""By so little a norm may exceed its bound: that of a vector that was scaled to it."""


class Description:
    """A JSON object that describes one thing: all its keys are known, and those asked for are there."""

    def __init__(self, where: str, given: object, allowed: tuple[str, ...]) -> None:
        self.where = where
        self.given = mapping(where, given)
        for key in self.given:
            check.one_of(f"{where} key", key, allowed)

    def at(self, key: str) -> str:
        """The place of a key."""
        return f"{self.where}.{key}"

    def value(self, key: str, default: object = MISSING) -> object:
        """What is given under a key, or the default."""
        found = self.given.get(key, default)
        if found is MISSING:
            raise check.InputError(f"Expected {self.at(key)} to be given.")
        return found

    def real(self, key: str, default: object = MISSING, **bounds: float) -> float:
        """A finite number within bounds."""
        return check.real(self.at(key), self.value(key, default), **bounds)

    def norm(self, key: str) -> float:
        """A norm: positive, and not so small or large that its square is no float; 1 if not given."""
        return self.real(key, 1.0, at_least=LEAST_NORM, at_most=GREATEST_NORM)

    def size(self, key: str) -> int:
        """How many of something: at least one."""
        return check.whole(self.at(key), self.value(key), at_least=1)

    def word(self, key: str, default: object = MISSING) -> str:
        """A name: letters, digits, ``_``, ``-`` and ``.``, so that it can stand in errors and in names of coordinates."""
        text = self.value(key, default)
        fine = isinstance(text, str) and 0 < len(text) <= 100 and all(c.isalnum() or c in "_-." for c in text)
        check.expect(fine, self.at(key), text, "to be a name of letters, digits, '_', '-' and '.'")
        return str(text)

    def truth(self, key: str, default: bool) -> bool:
        """Yes or no."""
        found = self.value(key, default)
        check.expect(isinstance(found, bool), self.at(key), found, "to be true or false")
        return bool(found)


def mapping(where: str, given: object) -> Mapping[Any, object]:
    """A JSON object."""
    check.expect(isinstance(given, Mapping), where, given, "to be a dict")
    assert isinstance(given, Mapping)
    return given


def differ(where: str, part: str, texts: Iterable[str]) -> None:
    """Texts of which none comes twice."""
    seen: set[str] = set()
    for place, text in enumerate(texts):
        check.expect(text not in seen, f"{where}[{place}]{part}", text, "to differ from those before it")
        seen.add(text)


def of_kind(where: str, given: object, kinds: Mapping[str, Kind]) -> tuple[Kind, Description]:
    """Which of several dataclasses is described, and its description."""
    found = mapping(where, given).get("kind", MISSING)
    if found is MISSING:
        raise check.InputError(f"Expected {where}.kind to be given.")
    kind: Any = kinds[check.one_of(f"{where}.kind", found, kinds)]
    return kind, Description(where, given, ("kind", *(part.name for part in fields(kind))))


def described(thing: Any) -> dict[str, object]:
    """The description that a dataclass was read from: its kind, and its parts where they are not the default."""
    parts = {part.name: getattr(thing, part.name) for part in fields(thing) if getattr(thing, part.name) != part.default}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in parts.items()}
    return {"kind": thing.kind, **plain}


def numbers(name: str, value: object, shape: tuple[int | None, ...]) -> Floats:
    """A finite float array of the given shape; texts and booleans are not numbers."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray("ragged")
    if array.dtype.kind not in "fiu":
        raise check.InputError(f"Expected {name} to be an array of numbers.")
    return check.floats(name, array, shape)


def shortened(rows: Floats, norm: float) -> tuple[Floats, int]:
    """Rows (..., length) that are finite, those longer than ``norm`` scaled down to it; how many were."""
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    directions = rows / np.where(largest > 0.0, largest, 1.0)  # no square of these overflows
    lengths = np.sqrt((directions * directions).sum(axis=-1, keepdims=True))  # at least 1, but of rows of zeros
    with np.errstate(over="ignore"):
        longer = largest * lengths > norm * (1.0 + ROUNDING)
    return np.where(longer, directions * (norm / np.maximum(lengths, 1.0)), rows), int(np.count_nonzero(longer))


def label(where: str, value: object) -> str:
    """The text of a category: a text, or the JSON text of a whole number or a boolean."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    check.expect(isinstance(value, abstract.Integral), where, value, "to be a text, a whole number or a boolean")
    assert isinstance(value, abstract.Integral)
    return str(int(value))


class Field(ABC):
    """One field of a context."""

    kind: ClassVar[str]
    bounded: ClassVar[bool] = False
    """Whether values may lie beyond public bounds, and are clipped then."""
    name: str
    missing: object
    """What stands for a value that is absent or null; None: such a context is refused."""

    @classmethod
    @abstractmethod
    def read(cls, text: Description) -> Self:
        """The field that is described."""

    @property
    @abstractmethod
    def coordinates(self) -> tuple[str, ...]:
        """A name for each coordinate."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many coordinates."""

    @abstractmethod
    def fill(self, part: Floats, value: object, where: check.Unsaid) -> int:
        """Write the coordinates of ``value`` into ``part``, which is zero; 1 if it was clipped, else 0."""


@dataclass(frozen=True)
class Number(Field):
    """A number from ``low`` to ``high``, mapped to -1 .. 1; what lies outside is clipped."""

    kind = "number"
    bounded = True
    name: str
    low: float
    high: float
    missing: float | None = None

    @classmethod
    def read(cls, text: Description) -> Self:
        low = text.real("low")
        high = text.real("high", above=low)
        check.expect(math.isfinite(high - low), text.at("high"), high, "to be a finite distance from low")
        absent = text.value("missing", None)
        return cls(
            text.word("name"), low, high, None if absent is None else text.real("missing", at_least=low, at_most=high)
        )

    @property
    def coordinates(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def width(self) -> int:
        return 1

    def fill(self, part: Floats, value: object, where: check.Unsaid) -> int:
        number = check.real(where, value)
        inside = min(max(number, self.low), self.high)
        part[0] = 2.0 * ((inside - self.low) / (self.high - self.low)) - 1.0
        return int(inside != number)


@dataclass(frozen=True)
class Cyclic(Field):
    """A number on a circle, such as the hour of a day: cosine and sine, so that the end meets the beginning."""

    kind = "cyclic"
    name: str
    period: float
    missing: float | None = None

    @classmethod
    def read(cls, text: Description) -> Self:
        absent = text.value("missing", None)
        return cls(text.word("name"), text.real("period", above=0), None if absent is None else text.real("missing"))

    @property
    def coordinates(self) -> tuple[str, ...]:
        return (f"{self.name}:cos", f"{self.name}:sin")

    @property
    def width(self) -> int:
        return 2

    def fill(self, part: Floats, value: object, where: check.Unsaid) -> int:
        angle = 2.0 * math.pi * (math.fmod(check.real(where, value), self.period) / self.period)
        part[0], part[1] = math.cos(angle), math.sin(angle)
        return 0


@dataclass(frozen=True)
class Category(Field):
    """One of a few values, a coordinate each; all others share one more, or are refused if ``other`` is false."""

    kind = "category"
    name: str
    values: tuple[str, ...]
    other: bool = True
    missing: str | None = None

    @classmethod
    def read(cls, text: Description) -> Self:
        given, at = text.value("values"), text.at("values")
        check.expect(isinstance(given, list | tuple) and len(given) >= 1, at, given, "to be a list of at least one value")
        assert isinstance(given, list | tuple)
        values = tuple(label(f"{at}[{place}]", value) for place, value in enumerate(given))
        differ(at, "", values)
        other, absent = text.truth("other", True), text.value("missing", None)
        made = cls(text.word("name"), values, other, None if absent is None else label(text.at("missing"), absent))
        if absent is not None:
            made.place(absent, text.at("missing"))
        return made

    @property
    def coordinates(self) -> tuple[str, ...]:
        return (*(f"{self.name}={value}" for value in self.values), *([f"{self.name}:other"] if self.other else []))

    @property
    def width(self) -> int:
        return len(self.values) + self.other

    @cached_property
    def _places(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    def place(self, value: object, where: str) -> int:
        """The coordinate of a value."""
        found = self._places.get(label(where, value))
        if found is None:
            check.expect(self.other, where, value, "in {" + ", ".join(self.values) + "}")
            return len(self.values)
        return found

    def fill(self, part: Floats, value: object, where: check.Unsaid) -> int:
        part[self.place(value, where)] = 1.0
        return 0


@dataclass(frozen=True)
class Hashed(Field):
    """One of many values: a bucket and a sign by BLAKE2b of the field's name and the value, the same in every process."""

    kind = "hashed"
    name: str
    buckets: int
    missing: str | None = None

    @classmethod
    def read(cls, text: Description) -> Self:
        absent = text.value("missing", None)
        word = None if absent is None else label(text.at("missing"), absent)
        return cls(text.word("name"), text.size("buckets"), word)

    @property
    def coordinates(self) -> tuple[str, ...]:
        return tuple(f"{self.name}#{bucket}" for bucket in range(self.buckets))

    @property
    def width(self) -> int:
        return self.buckets

    def fill(self, part: Floats, value: object, where: check.Unsaid) -> int:
        text = f"{self.name}\0{label(where, value)}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        part[(number >> 1) % self.buckets] = 1.0 if number & 1 else -1.0
        return 0


@dataclass(frozen=True)
class Vector(Field):
    """Numbers whose norm is at most ``norm``, divided by it; a longer vector is clipped to it."""

    kind = "vector"
    bounded = True
    name: str
    length: int
    norm: float
    missing: tuple[float, ...] | None = None

    @classmethod
    def read(cls, text: Description) -> Self:
        name, length, norm = text.word("name"), text.size("length"), text.norm("norm")
        absent, at = text.value("missing", None), text.at("missing")
        if absent is None:
            return cls(name, length, norm)
        row = numbers(at, absent, (length,))
        check.expect(shortened(row, norm)[1] == 0, at, absent, f"to have a norm <= {norm:g}")
        return cls(name, length, norm, tuple(row.tolist()))

    @property
    def coordinates(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{place}]" for place in range(self.length))

    @property
    def width(self) -> int:
        return self.length

    def fill(self, part: Floats, value: object, where: check.Unsaid) -> int:
        row = numbers(where, value, (self.length,))
        clipped = 0
        if math.hypot(*row.tolist()) > self.norm:
            row, clipped = shortened(row, self.norm)
        np.divide(row, self.norm, out=part)
        return clipped


KINDS: dict[str, type[Field]] = {kind.kind: kind for kind in (Number, Category, Hashed, Vector, Cyclic)}


def field_of(where: str, given: object) -> Field:
    """The field that a JSON object describes."""
    kind, text = of_kind(where, given, KINDS)
    return kind.read(text)
