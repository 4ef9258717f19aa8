"""Tables that may be larger than memory: a block of rows at a time, and only the columns that are asked for.

A parquet file is read where it lies. Text that is too large to be read at once is written as parquet first, in a folder
that nobody else can read and that goes away with the source: it may hold rewards.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from adaprivate.check import InputError
from adaprivate.data.files import LINES, File, expect_once, expect_unique, find_ragged, table_of

BLOCK = 65_536
"""So many rows are read at once."""
LARGE = 256 << 20
"""Text of more bytes than this is not read at once."""
TABLES = (".csv", ".parquet", *LINES)
"""Endings of files that hold a table."""


class Scratch:
    """A folder for this user's eyes only, gone when nobody holds it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="adaprivate-log-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def write(self, query: pl.LazyFrame, name: str) -> Path:
        """Write a table into the folder; return the path of its parquet file."""
        path = self.path / name
        query.sink_parquet(path, row_group_size=BLOCK)
        return path


@dataclass(frozen=True)
class Source:
    """A table of rows in order: in memory, or a query of a file."""

    file: File
    table: pl.DataFrame | pl.LazyFrame
    schema: Mapping[str, Any]
    of: str = "row"
    """The word for a place in errors: a row, or a line of a file whose first line names the columns."""
    usual: Mapping[str, Any] = field(default_factory=dict)
    """The roles that the kind of file gives its columns: arguments of :func:`adaprivate.logs.columns.columns_of`."""
    kept: Scratch | None = None
    """The folder of files that were written for it."""

    def __len__(self) -> int:
        return self._rows

    @cached_property
    def _rows(self) -> int:
        return int(self.lazy().select(pl.len()).collect().item())

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.schema)

    def place(self, row: int) -> int:
        """The number by which errors name a row, counted from 0."""
        return row + (2 if self.of == "line" else 1)

    def lazy(self) -> pl.LazyFrame:
        """The table as a query."""
        return self.table.lazy()

    def blocks(self, columns: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[tuple[int, pl.DataFrame]]:
        """These columns of the rows from ``start`` to ``stop``, block by block, each with the number of its first row."""
        query = self.lazy().select(list(dict.fromkeys(columns)) or self.columns[:1])
        end = len(self) if stop is None else min(stop, len(self))
        for begin in range(start, end, BLOCK):
            yield begin, query.slice(begin, min(BLOCK, end - begin)).collect()

    def sorted(self, by: pl.Expr) -> Source:
        """The same rows in this order; rows that are equal in it stay as they were."""
        query = self.lazy().sort(by, maintain_order=True)
        if isinstance(self.table, pl.DataFrame):
            return replace(self, table=query.collect())
        folder = Scratch()
        return replace(self, table=pl.scan_parquet(folder.write(query, "sorted.parquet")), kept=folder)


def source_of(given: Any, name: str = "log") -> Source:
    """The table at a path or in memory; the feedback of Open Bandit Pipeline, a dict, is one too."""
    if isinstance(given, Source):
        return given
    if isinstance(given, Mapping):
        from adaprivate.logs.formats import feedback_source, is_feedback

        if is_feedback(given):
            return feedback_source(given)
    if not isinstance(given, str | Path):
        return in_memory(File(Path(name)), table_from(given, name), "row")
    file = File(Path(given))
    if not file.path.is_file():
        raise InputError(f"Expected {given} to be a file.")
    if file.suffix == ".parquet":
        return _of_parquet(file)
    if file.suffix in (".dsjson", ".json"):
        from adaprivate.logs.formats import dsjson_source

        return dsjson_source(file)
    if file.path.stat().st_size <= LARGE:
        return in_memory(file, table_of(file), "row" if file.suffix in LINES else "line")
    return _of_large_text(file)


def table_from(given: Any, name: str) -> pl.DataFrame:
    """A table in memory, whoever made it. What is wrong with a value is not said: it may be a reward."""
    try:
        if isinstance(given, pl.DataFrame):
            return given
        if isinstance(given, pl.LazyFrame):
            return given.collect()
        if hasattr(given, "iloc") and hasattr(given, "columns"):
            return _of_pandas(given)
        if isinstance(given, Mapping):
            return pl.DataFrame(dict(given), nan_to_null=True)
        rows = isinstance(given, Sequence) and not isinstance(given, str | bytes)
        if rows and all(isinstance(row, Mapping) for row in given):
            return pl.DataFrame([dict(row) for row in given], infer_schema_length=None)
        if hasattr(given, "__arrow_c_stream__") or getattr(getattr(given, "dtype", None), "names", None):
            return pl.DataFrame(given)
    except InputError:
        raise
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        raise InputError(f"Expected {name} to be a table, with values of one type in each column.") from None
    raise InputError(
        f"Expected {name}={type(given).__name__} to be a path, a polars or pandas DataFrame, a list of dicts (one a row) "
        "or a dict of columns."
    )


def _of_pandas(given: Any) -> pl.DataFrame:
    """A pandas DataFrame by its arrays: its own way to polars takes one more package."""
    expect_unique(File(Path("log")), [str(name) for name in given.columns])
    columns = {}
    for place, name in enumerate(given.columns):
        values = given.iloc[:, place]
        array = values.to_numpy()
        if array.dtype == object:
            array = [None if absent else value for value, absent in zip(array, values.isna().to_numpy(), strict=True)]
        columns[str(name)] = pl.Series(array, nan_to_null=True)
    return pl.DataFrame(columns)


def in_memory(file: File, table: pl.DataFrame, of: str, usual: Mapping[str, Any] | None = None) -> Source:
    """A table that is in memory already."""
    return Source(file, table, dict(table.schema), of, usual or {})


def _of_parquet(file: File) -> Source:
    try:
        query = pl.scan_parquet(file.path)
        found = Source(file, query, dict(query.collect_schema()))
        len(found)  # which reads the end of the file
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"Expected {file} to be a whole parquet file: {str(error).splitlines()[0]}.") from None
    return found


def _of_large_text(file: File) -> Source:
    """Every column of a large CSV file stays text: what is asked for as numbers is read as such, block by block."""
    lines = file.suffix in LINES
    folder = Scratch()
    try:
        query = pl.scan_ndjson(file.path) if lines else pl.scan_csv(file.path, infer_schema=False)
        path = folder.write(query, "log.parquet")
    except pl.exceptions.PolarsError:
        if not lines:
            find_ragged(file)
        raise InputError(f"Expected {file} to hold one JSON object a line.") from None
    found = _of_parquet(File(path))
    if not lines:
        expect_once(file, found.columns)
    return replace(found, file=file, of="row" if lines else "line", kept=folder)
