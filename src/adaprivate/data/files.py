"""Tables from files: read fast, checked, and where something is wrong one line that names file, line and column.

The fast reader says little about what it refuses, so a file it refuses is read again line by line until the fault is found.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

import numpy as np
import polars as pl

from adaprivate.check import Array, Floats, InputError

LINES = (".jsonl", ".ndjson")
_RENAMED = "_duplicated_"
MOST_TEXTS = 100
"""A column of texts with more different values is not taken for a context."""
TEXT = (pl.String, pl.Categorical, pl.Enum)
VERSION = 1
"""Of what is kept in the cache; raised when a reader changes."""
_WHOLE = (1 << 31) - 1


_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)
"""What a damaged, encrypted or unusual archive provokes."""


PRIVATE = "..."
"""What is shown of a reward, and of a line that may hold one."""
_VALUES = re.compile(r"[\W\d_]*|[-+]?(inf|infinity|nan)|[-+.\d]+e[-+]?\d+|\d{4}-\d\d-\d\d.*|true|false|yes|no|null|none|na")


def look_like_names(columns: Sequence[str]) -> bool:
    """Whether these are names of columns, not the values of a first row: those may hold a reward."""
    return not any(_VALUES.fullmatch(name.strip().lower()) or "_duplicated_" in name for name in columns)


class Column(NamedTuple):
    """A column of a file: its name, the type of its values, and the bounds they keep to."""

    name: str
    kind: type = float
    low: float = -math.inf
    high: float = math.inf

    @property
    def stored(self) -> type[pl.DataType]:
        """How its values are kept."""
        return {int: pl.Int32, float: pl.Float32, str: pl.String}[self.kind]


class File(NamedTuple):
    """A file, or one member of a zip archive."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    @property
    def suffix(self) -> str:
        """The ending of its name, in small letters."""
        return Path(self.member or self.path.name).suffix.lower()

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Its bytes."""
        if self.member is None:
            with self.path.open("rb") as stream:
                yield stream
            return
        with archive(self.path) as packed, packed.open(self.member) as stream:
            yield stream

    def content(self) -> bytes | Path:
        """What the fast reader takes: a path, or what was packed."""
        if self.member is None:
            return self.path
        try:
            with self.open() as stream:
                return stream.read()
        except _BROKEN as error:
            raise InputError(f"Expected {self} to unpack: {error}.") from None


@contextmanager
def archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An open zip archive."""
    try:
        packed = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"Expected {path} to be a whole zip archive: {error}.") from None
    with packed:
        yield packed


def fault(
    file: File | Path, row: int | None, column: str | None, value: object, requirement: str, *, of: str = "line"
) -> NoReturn:
    """Raise the one line: file, line, column, what stands there, what should."""
    where = [str(file), *([f"{of} {row}"] if row is not None else []), *([f"column {column}"] if column else [])]
    shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
    raise InputError(f"Expected {', '.join(where)}: {shown} {requirement}.")


def head(file: File, lines: int = 2) -> list[str]:
    """The first lines, without their ends."""
    try:
        with file.open() as stream:
            return [stream.readline(1 << 20).decode("utf-8", "replace").rstrip("\r\n") for _ in range(lines)]
    except _BROKEN as error:
        raise InputError(f"Expected {file} to unpack: {error}.") from None


def read_text(file: File, columns: Sequence[Column], separator: str, *, header: bool = False) -> pl.DataFrame:
    """A text file of exactly these columns, one row a line."""
    schema: dict[str, type[pl.DataType]] = {}
    for column in columns:  # two characters between values: the fast reader takes one, and sees an empty column between
        schema |= {column.name: column.stored} | ({f"after {column.name}": pl.String} if len(separator) == 2 else {})
    if len(separator) == 2:
        schema.popitem()
    names = [column.name for column in columns]
    try:
        table = pl.read_csv(
            file.content(),
            has_header=False,
            skip_rows=int(header),
            separator=separator[0],
            schema=schema,
            quote_char=None,
        )
        gaps = [name for name in schema if name not in names]
        sound = len(table) > 0 and all(table[name].null_count() == len(table) for name in gaps)
        table = table.select(names)
        sound = sound and not any(first_wrong(table[c.name], c) is not None for c in columns)
    except pl.exceptions.PolarsError:
        sound, table = False, pl.DataFrame()
    if not sound:
        _find_fault(file, columns, separator, header)
    return table


def _find_fault(file: File, columns: Sequence[Column], separator: str, header: bool) -> NoReturn:
    number = 0
    with file.open() as stream:
        for number, raw in enumerate(stream, 1):
            if number == 1 and header:
                continue
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            values = line.split(separator)
            for place, column in enumerate(columns):
                if place >= len(values):
                    fault(file, number, column.name, line, f"to hold {len(columns)} values, not {len(values)}")
                _check_text(file, number, column, values[place])
            if len(values) > len(columns):
                fault(file, number, str(len(columns) + 1), values[len(columns)], f"not to follow {len(columns)} values")
    if number <= int(header):
        fault(file, number + 1, columns[0].name, "", "to be there: the file holds no rows")
    raise InputError(f"Expected {file} to be plain text of {len(columns)} columns.")


def _check_text(file: File, number: int, column: Column, text: str) -> None:
    if column.kind is str:
        return
    try:
        value = column.kind(text)
    except ValueError:
        fault(file, number, column.name, text, f"to be a {'whole ' if column.kind is int else ''}number")
    low, high = _bounds(column)
    if not low <= value <= high:
        fault(file, number, column.name, text, f"between {low:g} and {high:g}")


def _bounds(column: Column) -> tuple[float, float]:
    return (max(column.low, -_WHOLE - 1), min(column.high, _WHOLE)) if column.kind is int else (column.low, column.high)


def first_wrong(values: pl.Series, column: Column) -> int | None:
    """The first row whose value is missing or out of bounds."""
    wrong = values.is_null()
    if column.kind is not str:
        wrong |= ~values.is_between(*_bounds(column)).fill_null(False)
        if column.kind is float:
            wrong |= ~values.is_finite().fill_null(False)
    return int(wrong.arg_max() or 0) if wrong.any() else None


def read_parquet(file: File) -> pl.DataFrame:
    """A parquet file, unchecked."""
    content = file.content()
    try:
        return pl.read_parquet(content if isinstance(content, Path) else io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"Expected {file} to be a whole parquet file: {str(error).splitlines()[0]}.") from None


def checked(file: File, table: pl.DataFrame, columns: Mapping[str, Column], of: str = "row") -> pl.DataFrame:
    """These columns of a table by their names in it, each of its type and within its bounds.

    ``of``: whether a fault's place is told as a row, or as a line of a file whose first line names the columns.
    """
    kept: list[pl.Series] = []
    first = 1 if of == "row" else 2
    for source, column in columns.items():
        values = table[source]
        if column.kind is str:
            kept.append(values.cast(pl.String).alias(column.name))
            continue
        numbers = values.cast(pl.Float64, strict=False)  # one value that is no number turns a whole column into text
        wrong = numbers.is_null() & values.is_not_null()
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            fault(file, row + first, source, values[row], "to be a number", of=of)
        broken = numbers != numbers.floor()
        if column.kind is int and broken.any():
            row = int(broken.arg_max() or 0)
            fault(file, row + first, source, values[row], "to be a whole number", of=of)
        outside = first_wrong(numbers, column)
        if outside is not None:
            low, high = _bounds(column)
            fault(file, outside + first, source, values[outside], f"between {low:g} and {high:g}", of=of)
        kept.append((numbers.cast(pl.Int32) if column.kind is int else numbers).alias(column.name))
    return pl.DataFrame(kept)


def context_of(file: File, table: pl.DataFrame, columns: Sequence[str], of: str) -> tuple[Floats, tuple[str, ...]]:
    """These columns as numbers, and what each stands for: text becomes a column of 0 and 1 for each value."""
    parts: list[Floats] = [np.zeros((len(table), 0))]
    names: list[str] = []
    for name in columns:
        values = table[name]
        if values.dtype in TEXT:
            texts = values.cast(pl.String).fill_null("").to_numpy()
            known = np.unique(texts)
            if len(known) > MOST_TEXTS:
                fault(file, None, name, len(known), f"different texts, at most {MOST_TEXTS} (or one cell is not a number)")
            parts.append((texts[:, None] == known[None, :]).astype(np.float64))
            names += [f"{name}={value}" for value in known]
        else:
            parts.append(checked(file, table, {name: Column(name)}, of).to_numpy())
            names.append(name)
    return np.hstack(parts), tuple(names)


def arrays(file: File) -> dict[str, Array]:
    """The arrays of an .npz file."""
    content = file.content()
    try:
        with np.load(content if isinstance(content, Path) else io.BytesIO(content), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError) as error:
        raise InputError(f"Expected {file} to be a whole .npz file of plain arrays: {error}.") from None


def cached(file: File, what: str, read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """What ``read`` gives, kept as parquet in the cache folder as long as the file stays as it is."""
    base = os.environ.get("ADAPRIVATE_CACHE") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    status = file.path.stat()
    key = f"{VERSION} {what} {file.path.resolve()} {file.member} {status.st_size} {status.st_mtime_ns}"
    kept = Path(base) / "adaprivate" / "data" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.parquet"
    with suppress(pl.exceptions.PolarsError, OSError):
        return pl.read_parquet(kept)
    table = read()
    with suppress(OSError):  # a cache that cannot be written is no reason to stop
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        table.write_parquet(unfinished, compression="zstd")
        unfinished.replace(kept)
    return table


def table_of(file: File) -> pl.DataFrame:
    """The table of a CSV, parquet or JSON lines file, types found by looking at all of it."""
    if file.suffix == ".parquet":
        return read_parquet(file)
    if file.suffix in LINES:
        try:
            return pl.read_ndjson(file.content(), infer_schema_length=None)
        except pl.exceptions.PolarsError:
            raise InputError(f"Expected {file} to hold one JSON object a line.") from None
    try:
        found = pl.read_csv(file.content(), infer_schema_length=None, raise_if_empty=True)
    except pl.exceptions.PolarsError:
        find_ragged(file)
    expect_once(file, found.columns)
    return found


def expect_once(file: File, columns: Sequence[str]) -> None:
    """Raise where a first line has a name twice, which polars renames."""
    if any(_RENAMED in name for name in columns):
        expect_unique(file, next(csv.reader(head(file, 1))))


def expect_unique(file: File, names: Sequence[str]) -> None:
    """Raise where two columns have one name."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        shown = repr(twice) if look_like_names([*dict.fromkeys(names)]) else "..."
        raise InputError(f"Expected {file} to have each name of a column once: {shown} is there twice.")


def find_ragged(file: File) -> NoReturn:
    """Raise with the first line that has more values than the line of names."""
    with file.open() as stream:
        names: list[str] = []
        for number, raw in enumerate(stream, 1):
            values = raw.decode("utf-8", "replace").rstrip("\r\n").split(",")
            names = names or values
            if len(values) > len(names):
                fault(file, number, str(len(names) + 1), PRIVATE, f"not to follow {len(names)} values")
        if not names:
            fault(file, 1, None, "", "to be there: the file is empty")
    raise InputError(f"Expected {file} to be a table of values between commas.")
