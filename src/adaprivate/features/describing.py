"""Reading a public description: its keys one by one, each with its place in errors (``featuriser.context[2].buckets``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

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
