"""A featuriser drafted from the columns of a log: which values a column has, and how far its numbers reach.

Contexts and items of a log are public where guarantees are about rewards. Before a policy meets people whose contexts a log
does not hold yet, read the draft and put in bounds and categories from elsewhere (docs/features.md, "Why public").
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Array, Floats, InputError
from adaprivate.data.files import File, fault
from adaprivate.features import Clipping, Featuriser
from adaprivate.features.fields import Cyclic, Field, Number, Vector, field_of
from adaprivate.features.fields import described as of_field
from adaprivate.features.items import ItemFeatures, OneHot
from adaprivate.logs.columns import unreadable
from adaprivate.logs.tables import Source

NONE = "(none)"
"""A text that stands for no value, where a description is drafted."""
WIDEST = 256
"""A draft takes fewer buckets for texts, down to two, until it has no more dimensions than this."""
BUCKETS = (16, 8, 4, 2)
_MOST_VALUES = 64


@dataclass
class Values:
    """What a column holds."""

    numeric: bool = True
    texts: set[str] | None = field(default_factory=set)
    """Its values as texts; None where there are many."""
    low: float = math.inf
    high: float = -math.inf
    missing: bool = False
    infinite: bool = False
    """Whether some are infinite, or NaN."""

    def add(self, values: pl.Series) -> None:
        """Take in a block."""
        self.missing |= values.null_count() > 0
        known = values.drop_nulls()
        if not len(known):
            return
        numbers = known.cast(pl.Float64, strict=False) if known.dtype != pl.Boolean else None
        self.numeric &= numbers is not None and numbers.null_count() == 0
        if self.numeric and numbers is not None:
            self.infinite |= not bool(numbers.is_finite().all())
            self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))  # type: ignore[arg-type]
        if self.texts is not None:
            unique = known.unique()
            broken = unique.dtype.is_float()
            self.texts = None if broken or len(unique) > _MOST_VALUES else self.texts | set(_labels(unique))
            if self.texts is not None and len(self.texts) > _MOST_VALUES:
                self.texts = None

    def described(self, name: str, buckets: int) -> dict[str, object] | None:
        """The field, None if the column is always the same."""
        if self.texts is not None and len(self.texts) + self.missing < 2:
            return None
        if self.texts is not None and len(self.texts) <= buckets:
            values = sorted(self.texts)
            if not self.missing:
                return {"name": name, "kind": "category", "values": values, "other": False}
            return {"name": name, "kind": "category", "values": values, "missing": NONE}
        if self.numeric and math.isfinite(self.low) and self.high > self.low:
            middle = {"missing": (self.low + self.high) / 2} if self.missing else {}
            return {"name": name, "kind": "number", "low": self.low, "high": self.high, **middle}
        if self.numeric:
            return None
        return {"name": name, "kind": "hashed", "buckets": buckets, **({"missing": NONE} if self.missing else {})}


def _labels(values: pl.Series) -> list[str]:
    if values.dtype == pl.Boolean:
        return ["true" if value else "false" for value in values.to_list()]
    return values.cast(pl.String).to_list()


def values_of(tables: Iterable[pl.DataFrame], names: Sequence[str]) -> dict[str, Values]:
    """What these columns hold; of a column of lists, what the lists do."""
    found = {name: Values() for name in names}
    for table in tables:
        for name in names:
            column = table[name]
            found[name].add(column.explode() if isinstance(column.dtype, pl.List) else column)
    return found


EXAMPLES = 5
"""So many rows are named that keep a column from being a number."""
FEW = 0.1
"""A column is all but a number if at most this share of its values is none."""


def all_but_number(source: Source, name: str) -> tuple[int, tuple[int, ...]] | None:
    """How many values, and in which places first, keep a column from being a number; None where there are many, or none."""
    count, known = 0, 0
    places: list[int] = []
    for start, block in source.blocks([name]):
        values = block[name]
        if values.dtype.is_nested():
            return None
        odd = values.cast(pl.Float64, strict=False).is_null() & values.is_not_null()
        known += len(values) - values.null_count()
        count += int(odd.sum())
        places += [source.place(start + row) for row in odd.arg_true()[: EXAMPLES - len(places)].to_list()]
    return (count, tuple(places)) if 0 < count <= FEW * known else None


def why_hashed(source: Source, name: str) -> tuple[str, int, tuple[int, ...]]:
    """Why a column is hashed, in words; where few of its values are the reason, how many and where."""
    found = all_but_number(source, name)
    if found is None:
        return "has many values and is hashed: of a time or a person little can be learned so", len(source), ()
    count, places = found
    where = ", ".join(f"{place:,}" for place in places) + (", ..." if count > len(places) else "")
    words = (
        f"is a number in all but {count:,} row{'s' * (count > 1)} ({source.of}{'s' * (count > 1)} {where}), so it is hashed"
    )
    return words, count, places


def draft(
    source: Source, context: Sequence[str], items: pl.DataFrame | None, item_columns: Sequence[str], count: int
) -> dict[str, object]:
    """A description for a log: products of its context columns with the columns of items, or a block for each action."""
    for name in context:
        if unreadable(source.schema[name]):
            fault(source.file, None, name, str(source.schema[name]), "to be texts or numbers")
    seen = values_of((block for _, block in source.blocks([*context, *item_columns])), [*context, *item_columns])
    for name in (*context, *item_columns):
        if seen[name].numeric and seen[name].infinite:
            _refuse_infinite(source, name)
    if items is not None:
        item_columns = items.columns[1:]
        seen |= values_of([items], item_columns)
    description: dict[str, object] = {}
    for buckets in BUCKETS:
        drafted = {name: one for name in seen if (one := seen[name].described(name, buckets)) is not None}
        fields = [drafted[name] for name in context if name in drafted]
        own = [drafted[name] for name in item_columns if name in drafted]
        own = own[1:] if items is None and len(own) > 1 and own[0]["name"] == item_columns[0] else own
        if own:
            description = {"context": fields, "items": {"kind": "columns", "columns": own}, "interactions": "products"}
        else:
            shape = "blocks" if fields else "none"
            description = {"context": fields, "items": {"kind": "one-hot", "most": count}, "interactions": shape}
        if LogFeatures.from_dict(description).featuriser.dimension <= WIDEST:
            break
    return description


def _refuse_infinite(source: Source, name: str) -> NoReturn:
    for start, block in source.blocks([name]):
        values = block[name].explode() if isinstance(block[name].dtype, pl.List) else block[name]
        wrong = ~values.cast(pl.Float64, strict=False).is_finite().fill_null(True)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            place = None if len(values) != len(block) else source.place(start + row)
            fault(source.file, place, name, values[row], "to be a finite number", of=source.of)
    raise InputError(f"Expected {source.file}, column {name} to be finite numbers.")


@dataclass(frozen=True)
class LogFeatures:
    """A featuriser for logs. Its items may be described by columns, field by field as contexts are:
    ``{"kind": "columns", "columns": [...]}``; an item is then (1, its fields)."""

    featuriser: Featuriser
    item_fields: tuple[Field, ...] = ()

    @classmethod
    def from_dict(cls, description: object) -> LogFeatures:
        """What a description says, a dict or a Featuriser."""
        if isinstance(description, Featuriser):
            return cls(description)
        check.kind("featuriser", description, Mapping)
        assert isinstance(description, Mapping)
        items = description.get("items")
        if not (isinstance(items, Mapping) and items.get("kind") == "columns"):
            return cls(Featuriser.from_dict(description))
        given = items.get("columns")
        check.expect(
            isinstance(given, Sequence) and bool(given), "featuriser.items.columns", given, "to be a list of fields"
        )
        fields = tuple(field_of(f"featuriser.items.columns[{n}]", one) for n, one in enumerate(given))  # type: ignore[arg-type]
        length, norm = 1 + sum(one.width for one in fields), math.sqrt(1 + len(fields))
        made = {**description, "items": {"kind": "features", "length": length, "norm": norm}}
        return cls(Featuriser.from_dict(made), fields)

    def to_dict(self) -> dict[str, object]:
        """The public description, ready for JSON."""
        whole = self.featuriser.to_dict()
        if not self.item_fields:
            return whole
        fields = [{"name": one.name, **of_field(one)} for one in self.item_fields]
        return {**whole, "items": {"kind": "columns", "columns": fields}}

    @property
    def one_hot(self) -> bool:
        """Whether items are told apart by their position alone."""
        return isinstance(self.featuriser.items, OneHot)

    def contexts(self, table: pl.DataFrame, clipping: Clipping | None = None) -> Floats:
        """The coordinates of every row's context."""
        return coordinates(self.featuriser.context, table, clipping)

    def item_rows(self, table: pl.DataFrame, clipping: Clipping | None = None) -> Array:
        """The items of a table, a row each; the first column, which names them, is none of their features."""
        if self.one_hot:
            return np.arange(len(table))
        if self.item_fields:
            return self.of_columns(table, clipping)
        assert isinstance(self.featuriser.items, ItemFeatures)
        names = numeric_columns(table)
        length = self.featuriser.items.length
        check.expect(
            len(names) == length, "numeric columns of the items", len(names), f"== {length}, as the featuriser says"
        )
        return table.select(names).cast(pl.Float64).to_numpy()

    def of_columns(self, table: pl.DataFrame, clipping: Clipping | None = None) -> Floats:
        """(1, fields) of each row of a table of items."""
        return np.hstack([np.ones((len(table), 1)), coordinates(self.item_fields, table, clipping)])

    @property
    def context_names(self) -> list[str]:
        """The columns of the log that it needs."""
        return [one.name for one in self.featuriser.context]


def numeric_columns(items: pl.DataFrame) -> list[str]:
    """The columns of a table of items, but the first, that are numbers."""
    return [name for name in items.columns[1:] if items[name].dtype.is_numeric()]


def described(path: str | Path | Mapping[str, Any] | Featuriser) -> LogFeatures:
    """The featuriser in a JSON file, in a dict, or as it is."""
    if isinstance(path, str | Path):
        file = File(Path(path))
        if not file.path.is_file():
            raise InputError(f"Expected {path} to be a file.")
        try:
            return LogFeatures.from_dict(json.loads(file.path.read_text(encoding="utf-8")))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"Expected {path} to be a JSON document: {error}.") from None
    return LogFeatures.from_dict(path)


def coordinates(fields: Sequence[Field], table: pl.DataFrame, clipping: Clipping | None = None) -> Floats:
    """The coordinates (n, widths) of these fields, whose values stand in columns of their names."""
    for one in fields:
        if one.name not in table.columns:
            raise check.InputError(f"Expected the log to have a column {one.name!r}, a field of the featuriser.")
    filled = np.zeros((len(table), sum(one.width for one in fields)))
    start = 0
    for one in fields:
        beyond = _fill(filled[:, start : start + one.width], one, table[one.name])
        if clipping is not None and one.bounded:
            clipping.count(one.name, beyond, len(table))
        start += one.width
    return filled


def _fill(part: Floats, field: Field, values: pl.Series) -> int:
    """Write the coordinates of a column; how many values were clipped."""
    name = check.Unsaid(field.name)
    if field.missing is None and values.null_count():
        row = int(values.is_null().arg_max() or 0)
        raise check.InputError(
            f"Expected {field.name} to be given in every row: its description has no 'missing' (row {row + 1} of a block)."
        )
    if isinstance(field, Number | Cyclic):
        return _fill_numbers(part, field, values)
    if isinstance(field, Vector):
        return sum(field.fill(part[row], _given(field, value), name) for row, value in enumerate(values.to_list()))
    texts = values.cast(pl.String) if values.dtype in (pl.Categorical, pl.Enum) else values
    known = texts.unique()
    rows = np.zeros((len(known), field.width))
    for place, value in enumerate(known.to_list()):
        field.fill(rows[place], _given(field, value), name)
    names = pl.DataFrame({"value": known, "place": np.arange(len(known))})
    part[:] = rows[_places(texts, names)]
    return 0


def _places(values: pl.Series, known: pl.DataFrame) -> check.Integers:
    joined = values.alias("value").to_frame().join(known, on="value", how="left", nulls_equal=True, maintain_order="left")
    return joined["place"].to_numpy()


def _given(field: Field, value: object) -> object:
    return field.missing if value is None else value


def _fill_numbers(part: Floats, field: Number | Cyclic, values: pl.Series) -> int:
    if values.dtype == pl.Boolean:
        raise check.InputError(f"Expected {field.name} to be numbers, not truth values.")
    numbers = values.cast(pl.Float64, strict=False)
    wrong = (numbers.is_null() & values.is_not_null()) | ~numbers.is_finite().fill_null(True)
    if wrong.any():
        check.real(check.Unsaid(field.name), values[int(wrong.arg_max() or 0)])
        raise check.InputError(f"Expected {field.name} to be numbers.")
    if field.missing is not None:
        numbers = numbers.fill_null(field.missing)
    array = numbers.to_numpy()
    if isinstance(field, Cyclic):
        angle = 2.0 * np.pi * (np.fmod(array, field.period) / field.period)
        part[:, 0], part[:, 1] = np.cos(angle), np.sin(angle)
        return 0
    inside = np.clip(array, field.low, field.high)
    part[:, 0] = 2.0 * ((inside - field.low) / (field.high - field.low)) - 1.0
    return int(np.count_nonzero(inside != array))
