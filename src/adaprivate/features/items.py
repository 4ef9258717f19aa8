"""The two kinds of items: those with public features, and those that are told apart by their position alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.features.fields import ROUNDING, Description, numbers, of_kind, shortened


@dataclass(frozen=True)
class ItemFeatures:
    """Every item has ``length`` features, of norm at most ``norm``; longer rows are clipped to it."""

    kind: ClassVar[str] = "features"
    length: int
    norm: float
    name: str = "feature"

    @classmethod
    def read(cls, text: Description) -> Self:
        """The items that are described."""
        return cls(text.size("length"), text.norm("norm"), text.word("name", cls.name))

    def rows(self, items: object, leading: int) -> tuple[Floats, int]:
        """Rows within the norm, with ``leading`` axes before the last; how many were clipped."""
        if not (isinstance(items, np.ndarray) and items.dtype == np.float64 and items.ndim == leading + 1):
            items = numbers("items", items, (*(None,) * leading, self.length))
        if items.shape[-1] != self.length or not items.size:
            numbers("items", items, (*(None,) * leading, self.length))
            check.expect(items.size > 0, "items.shape", items.shape, "to hold at least one item")
        squares = np.einsum("...i,...i->...", items, items)  # says nothing of overflow, unlike dot
        if squares.max() <= self.norm * self.norm * (1.0 + ROUNDING):  # the usual case; not so for NaN or infinity
            return items, 0
        return shortened(numbers("items", items, items.shape), self.norm)


@dataclass(frozen=True)
class OneHot:
    """At most ``most`` items, each with a coordinate of its own."""

    kind: ClassVar[str] = "one-hot"
    most: int
    name: str = "item"
    norm: ClassVar[float] = 1.0

    @classmethod
    def read(cls, text: Description) -> Self:
        """The items that are described."""
        return cls(text.size("most"), text.word("name", cls.name))

    @property
    def length(self) -> int:
        """How many coordinates."""
        return self.most

    def positions(self, items: object, leading: int) -> Integers:
        """The items' positions, with ``leading`` axes. One-hot rows, with one axis more, stand for their positions."""
        try:
            array = np.asarray(items)
        except (TypeError, ValueError, OverflowError):
            array = np.asarray("ragged")
        if array.ndim == leading + 1:
            return self._of_rows(numbers("items", items, (*(None,) * leading, self.most)))
        fine = array.dtype.kind in "iu" and array.ndim == leading and array.size > 0
        axes = "(" + "n, " * (leading - 1) + "K)"
        check.expect(fine, "items", items, f"to be whole numbers {axes}, or one-hot rows")
        if array.min() < 0 or array.max() >= self.most:
            where = tuple(int(i) for i in np.argwhere((array < 0) | (array >= self.most))[0])
            check.whole(f"items[{', '.join(map(str, where))}]", array[where], at_least=0, at_most=self.most - 1)
        return array.astype(np.int64, copy=False)

    def _of_rows(self, rows: Floats) -> Integers:
        check.expect(rows.size > 0, "items.shape", rows.shape, "to hold at least one item")
        one_hot = ((rows == 0.0) | (rows == 1.0)).all(axis=-1) & (rows.sum(axis=-1) == 1.0)
        if not one_hot.all():
            where = tuple(int(i) for i in np.argwhere(~one_hot)[0])
            name = f"items[{', '.join(map(str, where))}]"
            check.expect(False, name, rows[where].tolist(), "to be one-hot: a single 1, else 0")
        return np.asarray(rows.argmax(axis=-1), dtype=np.int64)


Items = ItemFeatures | OneHot
KINDS: dict[str, type[ItemFeatures] | type[OneHot]] = {kind.kind: kind for kind in (ItemFeatures, OneHot)}


def items_of(where: str, given: object) -> Items:
    """The items that a JSON object describes."""
    kind, text = of_kind(where, given, KINDS)
    return kind.read(text)
