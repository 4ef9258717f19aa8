"""Logs of decisions: CSV or parquet, one row a decision, columns chosen by name.

A row has the action taken, its reward (0 to 1), and where known the probability with which it was taken. What could have
been chosen comes from one of

    columns x_A_J     feature J of candidate A, each row its own candidates; the action is A
    an items file     one row an item, its id and numeric features; every item is a candidate, the action is an id
    context columns   every action seen in the log is a candidate, with the row's context in a block of its own
    nothing           the actions seen are fixed arms: unit vectors

Features are scaled by the largest norm, a public number like all features here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Array, Floats, InputError
from adaprivate.data.reading import File, fault, read_parquet

ACTIONS = ("action", "item_id")
REWARDS = ("reward", "click")
PROPENSITIES = ("propensity", "propensity_score", "pscore")
SMALLEST = 1e-12
"""No propensity is smaller."""
MOST_NUMBERS = 400_000_000
"""At most so many features are held at once."""


@dataclass(frozen=True)
class Log:
    """Logged decisions. ``candidates`` is (n, K, d), or (1, K, d) when every row offers the same."""

    candidates: Floats
    actions: Array
    rewards: Floats
    propensities: Floats | None = None
    labels: tuple[str, ...] = ()
    """What the actions are called in the file."""

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def fixed(self) -> bool:
        """Whether every row offers the same candidates."""
        return len(self.candidates) == 1

    @property
    def count(self) -> int:
        """How many candidates a row offers."""
        return int(self.candidates.shape[1])

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""
        return int(self.candidates.shape[2])

    def offered(self, row: int) -> Floats:
        """The candidates of a row."""
        candidates: Floats = self.candidates[0 if self.fixed else row]
        return candidates

    @property
    def chosen(self) -> Floats:
        """The features of what was chosen in each row."""
        return self.candidates[0, self.actions] if self.fixed else self.candidates[np.arange(len(self)), self.actions]

    def part(self, rows: slice) -> Log:
        """Some of the rows."""
        candidates = self.candidates if self.fixed else self.candidates[rows]
        known = None if self.propensities is None else self.propensities[rows]
        return Log(candidates, self.actions[rows], self.rewards[rows], known, self.labels)


class _Table:
    """A file's columns, with errors that name file, line and column."""

    def __init__(self, path: Path) -> None:
        self.file = File(path)
        self.unit = "row" if self.file.suffix in (".parquet", ".pq") else "line"
        check.expect(path.is_file(), "log", str(path), "to be a file")
        self.frame = read_parquet(self.file) if self.unit == "row" else self._text()
        if len(self.frame) == 0:
            raise InputError(f"Expected {path} to hold rows.")

    def _text(self) -> pl.DataFrame:
        try:
            return pl.read_csv(self.file.path, infer_schema=False)
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
        with self.file.path.open(encoding="utf-8", errors="replace", newline="") as stream:
            lines = csv.reader(stream)
            wanted = len(next(lines, []))
            for fields in lines:
                if len(fields) > wanted:
                    fault(self.file, lines.line_num, str(wanted + 1), fields[wanted], f"not to follow {wanted} values")
        raise InputError(f"Expected {self.file} to be a CSV file: {reason}.")

    def fault(self, row: int, column: str, requirement: str) -> NoReturn:
        """Raise the line that names this value (rows from 0)."""
        number = row + (1 if self.unit == "row" else 2)
        fault(self.file, number, column, self.frame[column][row], requirement, of=self.unit)

    def named(self, what: str, name: str | None, usual: Sequence[str]) -> str | None:
        """The column to use for something: the one asked for, or the first usual name that is there."""
        if name is None:
            return next((column for column in usual if column in self.frame.columns), None)
        there = ", ".join(self.frame.columns[:12]) + (", ..." if len(self.frame.columns) > 12 else "")
        check.expect(name in self.frame.columns, what, name, f"to be a column of {self.file}: {there}")
        return name

    def required(self, what: str, name: str | None, usual: Sequence[str]) -> str:
        """The same, or an error that says how to name it."""
        found = self.named(what, name, usual)
        if found is None:
            raise InputError(f"Expected {self.file} to have a column {' or '.join(usual)}, or --{what} to name one.")
        return found

    def numbers(self, column: str, low: float = -1e150, high: float = 1e150) -> Floats:
        """A column of numbers within bounds."""
        raw = self.frame[column]
        values = (raw.str.strip_chars() if raw.dtype == pl.String else raw).cast(pl.Float64, strict=False)
        missing = values.is_null().to_numpy()
        if missing.any():
            self.fault(int(missing.argmax()), column, "to be a number")
        array = np.ascontiguousarray(values.to_numpy(), dtype=np.float64)
        wrong = ~((array >= low) & (array <= high))
        if wrong.any():
            self.fault(int(wrong.argmax()), column, f"between {low:g} and {high:g}")
        return array

    def labels(self, column: str) -> list[str]:
        """A column of names."""
        raw = self.frame[column].cast(pl.String)
        if raw.null_count():
            self.fault(int(raw.is_null().to_numpy().argmax()), column, "to be a name")
        return [text.strip() for text in raw.to_list()]


def _sorted(labels: set[str]) -> list[str]:
    if all(re.fullmatch(r"-?\d{1,18}", label) for label in labels):
        return sorted(labels, key=int)
    return sorted(labels)


def _coded(table: _Table, column: str, known: Sequence[str]) -> Array:
    codes = {label: code for code, label in enumerate(known)}
    found = table.labels(column)
    for row, label in enumerate(found):
        if label not in codes:
            table.fault(row, column, f"to be one of the {len(known)} candidates")
    return np.array([codes[label] for label in found], dtype=np.int64)


def _scaled(features: Floats) -> Floats:
    longest = float(np.sqrt((features * features).sum(axis=-1).max()))
    return np.ascontiguousarray(features / longest) if longest > 1 else np.ascontiguousarray(features)


def read_log(
    path: str | Path,
    *,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    context: Sequence[str] = (),
    items: str | Path | None = None,
) -> Log:
    """Read a log; columns not named are looked for under their usual names."""
    table = _Table(Path(path))
    action_column = table.required("action", action, ACTIONS)
    rewards = table.numbers(table.required("reward", reward, REWARDS), 0, 1)
    propensity_column = table.named("propensity", propensity, PROPENSITIES)
    known = None if propensity_column is None else table.numbers(propensity_column, SMALLEST, 1)
    matches = (re.fullmatch(r"x_(\d{1,6})_(\d{1,6})", name) for name in table.frame.columns)
    own = {(int(m[1]), int(m[2])): m[0] for m in matches if m}
    if context and items is not None:
        raise InputError("Expected context columns or an items file, not both.")
    if items is not None:
        candidates, labels = _items(Path(items), action_column)
    elif own and not context:
        candidates, labels = _own_candidates(table, own)
    else:
        labels = _sorted(set(table.labels(action_column)))
        candidates = np.eye(len(labels))[None]
    actions = _coded(table, action_column, labels)
    if context:
        columns = [table.required("context", name, ()) for name in context]
        values = np.column_stack([*(table.numbers(name) for name in columns), np.ones(len(rewards))])
        count, width = len(labels), values.shape[1]
        _expect_room(len(rewards) * count * count * width, table.file)
        candidates = np.zeros((len(rewards), count, count * width))
        for a in range(count):
            candidates[:, a, a * width : (a + 1) * width] = values
    return Log(_scaled(candidates), actions, rewards, known, tuple(labels))


def _expect_room(numbers: int, file: File) -> None:
    check.expect(numbers <= MOST_NUMBERS, "features", numbers, f"<= {MOST_NUMBERS} in {file}; an items file needs fewer")


def _own_candidates(table: _Table, columns: dict[tuple[int, int], str]) -> tuple[Floats, list[str]]:
    count, width = max(a for a, _ in columns) + 1, max(j for _, j in columns) + 1
    for a in range(count):
        for j in range(width):
            if (a, j) not in columns:
                raise InputError(
                    f"Expected {table.file} to have x_{a}_{j}: there are {count} candidates of {width} features."
                )
    _expect_room(len(table.frame) * count * width, table.file)
    candidates = np.empty((len(table.frame), count, width))
    for (a, j), name in columns.items():
        candidates[:, a, j] = table.numbers(name)
    return candidates, [str(a) for a in range(count)]


def _items(path: Path, action_column: str) -> tuple[Floats, list[str]]:
    table = _Table(path)
    key = action_column if action_column in table.frame.columns else table.frame.columns[0]
    labels = table.labels(key)
    seen: set[str] = set()
    for row, label in enumerate(labels):
        if label in seen:
            table.fault(row, key, "not to come twice")
        seen.add(label)
    others = [column for column in table.frame.columns if column != key]
    numeric = [c for c in others if table.unit == "line" or table.frame[c].dtype.is_numeric()]
    if not numeric:
        raise InputError(f"Expected {path} to have numeric columns beside {key}.")
    return np.column_stack([table.numbers(column) for column in numeric])[None], labels
