"""The raw rows of an experiment beside its page: NAME.parquet and NAME.csv."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adaprivate import extras

if TYPE_CHECKING:
    import polars as pl

_OF_A_RUN = ("seed", "reward", "regret", "best", "random", "learned_share", "curve")


def _plain(value: Any) -> Any:
    """A value that a table can hold: a number, a text, a list of numbers, or anything else as text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(v, int | float) for v in value):
        return [float(v) for v in value]
    return json.dumps(value, default=str)


def _is_runs(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and hasattr(value[0], "learned_share")


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Plain values by name; those of a mapping inside are named options.epsilon, and runs are left out."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{before}{key}.")
        elif not _is_runs(value):
            found[f"{before}{key}"] = _plain(value)
    return found


def raw(rows: Sequence[Mapping[str, Any]], settings: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """One line for each setting and seed where a row holds a run for every seed, else one line a row.

    A seed's line has the setting's values and the run's: what was averaged over seeds stands in the table of the page.
    """
    lines = []
    for place, row in enumerate(rows):
        runs = row.get("runs", ())
        if not _is_runs(runs):
            lines.append(_flat(row))
            continue
        own = (
            settings[place]
            if len(settings) == len(rows)
            else {k: v for k, v in row.items() if isinstance(v, str | Mapping)}
        )
        for run in runs:
            lines.append(_flat(own) | {name: _plain(getattr(run, name)) for name in _OF_A_RUN})
    return lines


def frame(lines: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Lines as a table; a column of unlike values is text."""
    with extras.needed():
        import polars as pl

    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for line in lines for name in line):
        values = [line.get(name) for line in lines]
        kinds = {float if type(value) is int else type(value) for value in values if value is not None}
        columns[name] = (
            [v if v is None or isinstance(v, str) else json.dumps(v) for v in values] if len(kinds) > 1 else values
        )
    return pl.DataFrame(columns, strict=False)


def write_rows(folder: Path, name: str, lines: Sequence[Mapping[str, Any]]) -> list[Path]:
    """NAME.parquet and NAME.csv; lists of numbers are text in the latter, and curves are left out of it."""
    with extras.needed():
        import polars as pl

    table = frame(lines)
    parquet, csv = folder / f"{name}.parquet", folder / f"{name}.csv"
    table.write_parquet(parquet)
    lists = [column for column, kind in table.schema.items() if isinstance(kind, pl.List)]
    flat = table.drop(c for c in lists if c == "curve").with_columns(
        pl.Series(c, [None if v is None else json.dumps(v.to_list()) for v in table[c]], dtype=pl.String)
        for c in lists
        if c != "curve"
    )
    flat.write_csv(csv)
    return [parquet, csv]
