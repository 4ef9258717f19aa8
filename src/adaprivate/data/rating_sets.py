"""Ratings of items by people: MovieLens and Jester in every format they come in.

MovieLens: ``u.data`` (100K; tabs), ``ratings.dat`` (1M, 10M; two colons), ``ratings.csv`` (20M, 25M, 32M), parquet.
Jester: the matrix of dataset 1 as .csv or .xls (a count, then one rating for each joke, 99 where there is none), as .npz
(``R``, hundredths, 9900 where there is none), or parquet. Any of them may be packed in a zip archive, or stand in a folder.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from adaprivate.check import Array, InputError
from adaprivate.data.files import (
    Column,
    File,
    archive,
    arrays,
    cached,
    checked,
    fault,
    head,
    read_parquet,
    read_text,
)

UNRATED = 99.0
_NAMES = (
    {"user": "user", "item": "item", "rating": "rating", "timestamp": "timestamp"},
    {"userId": "user", "movieId": "item", "rating": "rating", "timestamp": "timestamp"},
)
_SCALES = {"movielens": (0.5, 5.0), "jester": (-10.0, 10.0)}
FILES = ("ratings.dat", "ratings.csv", "u.data", "ratings.parquet", "matrix.npz")
"""What is looked for in a folder or archive, in this order, before any file that looks like a Jester matrix."""


class SetSize(NamedTuple):
    """How many ratings, people and rated items a published set holds."""

    ratings: int
    users: int
    items: int


KNOWN = {
    "ml-100k": SetSize(100_000, 943, 1_682),
    "ml-1m": SetSize(1_000_209, 6_040, 3_706),
    "ml-10m": SetSize(10_000_054, 69_878, 10_677),
    "ml-20m": SetSize(20_000_263, 138_493, 26_744),
    "ml-25m": SetSize(25_000_095, 162_541, 59_047),
    "ml-32m": SetSize(32_000_204, 200_948, 84_432),
    "jester-1": SetSize(1_810_455, 24_983, 100),
}


@dataclass(frozen=True)
class Ratings:
    """One rating a row (user, item, rating), every pair at most once; ``kind`` is movielens or jester."""

    kind: str
    file: File
    table: pl.DataFrame

    @property
    def counts(self) -> SetSize:
        """How much there is."""
        return SetSize(len(self.table), self.table["user"].n_unique(), self.table["item"].n_unique())

    @property
    def known_as(self) -> str | None:
        """The published set that holds exactly so many ratings, people and items."""
        return next((name for name, counts in KNOWN.items() if counts == self.counts), None)

    def matrix(self) -> tuple[Array, Array, Array]:
        """People and items numbered from 0 in the order of their ids: (user, item, rating) of every rating."""
        user, item = (np.unique(self.table[name].to_numpy(), return_inverse=True)[1] for name in ("user", "item"))
        return user, item, self.table["rating"].to_numpy().astype(np.float64)


def find(path: Path) -> File:
    """The file of ratings at this path: the file itself, or one inside a folder or a zip archive."""
    if path.is_dir():
        names = sorted(str(entry.name) for entry in path.iterdir() if entry.is_file())
        chosen = _choose(names)
        if chosen is None:
            packed = [name for name in names if name.lower().endswith(".zip")]
            if len(packed) == 1:
                return find(path / packed[0])
            raise InputError(f"Expected {path} to hold one of {', '.join(FILES)}, or a Jester matrix (.csv, .xls).")
        return File(path / chosen)
    if not path.exists():
        raise InputError(f"Expected {path} to exist.")
    if path.suffix.lower() != ".zip":
        return File(path)
    with archive(path) as packed_file:
        chosen = _choose(packed_file.namelist())
    if chosen is None:
        raise InputError(f"Expected {path} to hold one of {', '.join(FILES)}, or a Jester matrix (.csv, .xls).")
    return File(path, chosen)


def _choose(names: Sequence[str]) -> str | None:
    for wanted in FILES:
        for name in names:
            if PurePosixPath(name).name.lower() == wanted:
                return name
    matrices = [n for n in names if "jester" in n.lower() and n.lower().endswith((".csv", ".xls", ".xlsx"))]
    return matrices[0] if matrices else None


def is_ratings(file: File) -> bool:
    """Whether the file looks like ratings: by its columns, not by its name."""
    if file.suffix == ".npz":
        return "R" in arrays(file)
    if file.suffix == ".parquet":
        return _named(read_parquet(file).columns) is not None
    if file.suffix in (".xls", ".xlsx"):
        return True
    first = head(file, 1)[0]
    return "::" in first or _named(first.split(",")) is not None or _is_matrix(first) or first.count("\t") == 3


def _named(columns: Sequence[str]) -> dict[str, str] | None:
    for names in _NAMES:
        if {"timestamp", *columns} >= set(names):
            return {source: name for source, name in names.items() if source in columns}
    return None


def _separator(line: str) -> str:
    return max(",;\t", key=line.count)


def _is_matrix(line: str) -> bool:
    values = line.split(_separator(line))
    return len(values) > 20 and all(value.strip().replace(".", "").lstrip("-").isdigit() for value in values[:5])


def ratings(path: str | Path) -> Ratings:
    """The ratings at this path, checked: ranges, duplicates, and the counts that the set's name promises."""
    file = find(Path(path))
    kind, table = _read(file)
    _refuse_duplicates(file, table)
    found = Ratings(kind, file, table)
    parts = {part.lower() for part in Path(f"{file.path.resolve()}/{file.member or ''}").parts[-4:]}
    for name, counts in KNOWN.items():
        named = name in parts or f"{name}.zip" in parts
        if named and len(table) < counts.ratings:
            fault(file, len(table), None, len(table), f"not to be the last: {name} holds {counts.ratings} ratings")
        if named and found.counts != counts:
            fault(file, None, None, tuple(found.counts), f"ratings, users, items to be {name}'s {tuple(counts)}")
    return found


def _read(file: File) -> tuple[str, pl.DataFrame]:
    if file.suffix == ".parquet":
        return _from_parquet(file)
    if file.suffix == ".npz":
        return "jester", _from_npz(file)
    if file.suffix in (".xls", ".xlsx"):
        return "jester", cached(file, "xls", lambda: _from_xls(file))
    first = head(file, 1)[0]
    low, high = _SCALES["movielens"]
    ids = (Column("user", int, 0), Column("item", int, 0))
    columns = (*ids, Column("rating", float, low, high), Column("timestamp", int, 0))
    if "::" in first:
        return "movielens", cached(file, "dat", lambda: read_text(file, columns, "::"))
    if _named(first.split(",")) is not None:
        expected = [",".join(names) for names in _NAMES]
        if first not in expected:
            fault(file, 1, None, first, f"to be {expected[1]!r}")
        return "movielens", cached(file, "csv", lambda: read_text(file, columns, ",", header=True))
    if _is_matrix(first):
        return "jester", cached(file, "matrix", lambda: _from_matrix_text(file, first))
    if "\t" not in first and file.suffix != ".data":
        fault(file, 1, None, first, "to be ratings: tabs, '::', or the header userId,movieId,rating,timestamp")
    return "movielens", cached(file, "tab", lambda: read_text(file, columns, "\t"))


def _from_parquet(file: File) -> tuple[str, pl.DataFrame]:
    table = read_parquet(file)
    names = _named(table.columns)
    if names is None:
        fault(file, None, None, table.columns[:6], "to hold the columns user, item and rating")
    values = table["rating"]
    out = values.dtype.is_numeric() and len(table) > 0 and ((values < 0) | (values > 5)).any()
    kind = "jester" if "timestamp" not in names and out else "movielens"
    low, high = _SCALES[kind]
    specs = {"user": Column("user", int, 0), "item": Column("item", int, 0), "rating": Column("rating", float, low, high)}
    specs["timestamp"] = Column("timestamp", int, 0)
    if len(table) == 0:
        fault(file, 1, "rating", "", "to be there: the file holds no rows", of="row")
    found = checked(file, table, {source: specs[name] for source, name in names.items()})
    return kind, found.with_columns(pl.col("rating").cast(pl.Float32))


def _from_matrix_text(file: File, first: str) -> pl.DataFrame:
    separator = _separator(first)
    width = len(first.split(separator))
    counted = width % 2 == 1  # a count, then an even number of jokes: 101 columns in the published files
    jokes = tuple(Column(str(joke + 1), float, -10, UNRATED) for joke in range(width - counted))
    columns = ((Column("count", int, 0, width),) if counted else ()) + jokes
    table = read_text(file, columns, separator)
    matrix = table.select(pl.exclude("count")).to_numpy()
    return _from_matrix(file, matrix, table["count"].to_numpy() if counted else None, "line")


def _from_matrix(file: File, matrix: Array, counts: Array | None, of: str) -> pl.DataFrame:
    rated = matrix != np.float32(UNRATED)
    wrong = np.argwhere(rated & ~((matrix >= -10) & (matrix <= 10)))
    if len(wrong):
        row, joke = (int(place) for place in wrong[0])
        value = float(matrix[row, joke])
        fault(file, row + 1, str(joke + 1), value, "between -10 and 10, or 99 for no rating", of=of)
    if counts is not None and (rated.sum(axis=1) != counts).any():
        row = int((rated.sum(axis=1) != counts).argmax())
        fault(file, row + 1, "count", int(counts[row]), f"to be {int(rated[row].sum())}, the ratings in it", of=of)
    user, jokes = np.nonzero(rated)
    columns = {"user": user.astype(np.int32), "item": jokes.astype(np.int32) + 1, "rating": matrix[rated]}
    return pl.DataFrame(columns).with_columns(pl.col("rating").cast(pl.Float32))


def _from_npz(file: File) -> pl.DataFrame:
    found = arrays(file)
    if "R" not in found or found["R"].ndim != 2:
        fault(file, None, None, sorted(found), "to hold a matrix R")
    matrix = found["R"]
    scale = 100.0 if np.issubdtype(matrix.dtype, np.integer) else 1.0
    return _from_matrix(file, (matrix / scale).astype(np.float32), None, "row")


def _from_xls(file: File) -> pl.DataFrame:
    try:
        reader: Any = importlib.import_module("xlrd")
    except ImportError:
        raise InputError(f"Expected {file} to be saved as .csv, or the package xlrd to be installed.") from None
    content = file.content()
    raw = content.read_bytes() if isinstance(content, Path) else content
    try:
        sheet = reader.open_workbook(file_contents=raw).sheet_by_index(0)
    except Exception as error:  # whatever that package raises
        raise InputError(f"Expected {file} to be a whole workbook: {error}.") from None
    rows = [sheet.row_values(row) for row in range(sheet.nrows)]
    for number, row in enumerate(rows, 1):
        for place, value in enumerate(row):
            if not isinstance(value, float | int):
                fault(file, number, "count" if place == 0 else str(place), value, "to be a number", of="row")
    table = np.array(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2:
        fault(file, 1, None, len(rows), "rows to be a count and ratings", of="row")
    return _from_matrix(file, table[:, 1:].astype(np.float32), table[:, 0], "row")


def _refuse_duplicates(file: File, table: pl.DataFrame) -> None:
    keys = table["user"].cast(pl.Int64) * (1 << 32) + table["item"].cast(pl.Int64)
    ordered = keys.sort().to_numpy()
    if (ordered[1:] != ordered[:-1]).all():
        return
    row = int((~keys.is_first_distinct()).arg_max() or 0)
    pair = (int(table["user"][row]), int(table["item"][row]))
    header = file.suffix == ".csv"
    of = "row" if file.suffix == ".parquet" else "line"
    fault(file, row + 1 + header, "item", pair, "to be the only rating of this user and item", of=of)
