"""Contexts by the column: what :meth:`Featuriser.context_vectors` makes of dicts, made of the columns of a table.

Values that come again are looked up once, by the same code that fills in a single context.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.features.clipping import Clipping
from adaprivate.features.fields import Cyclic, Field, Number, Vector

NONE = "(none)"
"""A text that stands for no value, where a description is drafted."""


def coordinates(fields: Sequence[Field], table: pl.DataFrame, clipping: Clipping | None = None) -> Floats:
    """The coordinates (n, widths) of these fields, whose values stand in columns of their names."""
    for field in fields:
        if field.name not in table.columns:
            raise check.InputError(f"Expected the log to have a column {field.name!r}, a field of the featuriser.")
    filled = np.zeros((len(table), sum(field.width for field in fields)))
    start = 0
    for field in fields:
        beyond = _fill(filled[:, start : start + field.width], field, table[field.name])
        if clipping is not None and field.bounded:
            clipping.count(field.name, beyond, len(table))
        start += field.width
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
