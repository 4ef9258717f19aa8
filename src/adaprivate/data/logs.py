"""Logged bandits: what was offered, what was chosen with which probability, and what it earned.

A log is a CSV or parquet file, one decision a row, with columns for the action, the reward, the propensity and the person
(both optional) and either features of the context, or features of each candidate. The Open Bandit Dataset is recognised by
its columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl

from adaprivate.check import Array, Floats, InputError, Integers
from adaprivate.data.reading import Column, File, checked, fault, read_parquet

OPEN_BANDIT = {"item_id", "position", "click", "propensity_score"}
USERS = ("user", "user_id")
"""The usual names of a column that says whose a decision was."""
MOST_TEXTS = 100
"""A column of texts with more different values is not taken for a context."""
_TEXT = (pl.String, pl.Categorical, pl.Enum)


@dataclass(frozen=True)
class Log:
    """One decision a row. ``action`` counts from 0 and ``actions`` says what each number stands for.

    ``context`` (rows, d), or ``candidates`` (rows, K, d) of which ``action`` is one; either may be empty. ``position`` is
    the slot in which an item was shown (0 where there is but one). ``user`` numbers people from 0; None where the log does
    not tell them apart.
    """

    file: File
    action: Array
    actions: tuple[str, ...]
    reward: Floats
    propensity: Floats | None
    context: Floats
    candidates: Floats
    position: Array
    names: tuple[str, ...]
    """The columns, or values of columns, that the features stand for."""
    user: Integers | None = None

    @property
    def people(self) -> int | None:
        """How many there are, where they are told apart."""
        return None if self.user is None else int(self.user.max()) + 1

    def __len__(self) -> int:
        return len(self.action)


def is_log(columns: Sequence[str]) -> bool:
    """Whether these columns are a log by their names alone."""
    return set(columns) >= OPEN_BANDIT or {"action", "reward"} <= set(columns)


def table_of(file: File) -> pl.DataFrame:
    """The table of a CSV or parquet file, types found by looking at all of it."""
    if file.suffix == ".parquet":
        return read_parquet(file)
    try:
        return pl.read_csv(file.content(), infer_schema_length=None, raise_if_empty=True)
    except pl.exceptions.PolarsError:
        _find_ragged(file)


def opened(source: str | Path | pl.DataFrame, name: str) -> tuple[File, pl.DataFrame]:
    """A table and the file it is from; one that is from no file goes by its name."""
    if isinstance(source, pl.DataFrame):
        return File(Path(name)), source
    file = File(Path(source))
    if not file.path.is_file():
        raise InputError(f"Expected {source} to be a file.")
    return file, table_of(file)


def _find_ragged(file: File) -> NoReturn:
    with file.open() as stream:
        names: list[str] = []
        for number, raw in enumerate(stream, 1):
            values = raw.decode("utf-8", "replace").rstrip("\r\n").split(",")
            names = names or values
            if len(values) > len(names):
                fault(file, number, str(len(names) + 1), values[len(names)], f"not to follow {len(names)} values")
        if not names:
            fault(file, 1, None, "", "to be there: the file is empty")
    raise InputError(f"Expected {file} to be a table of values between commas.")


def log(
    source: str | Path | pl.DataFrame,
    *,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    position: str | None = None,
    features: Sequence[str] = (),
    candidates: str | None = None,
    user: str | None = None,
) -> Log:
    """The log at this path, or in this table; columns are named here, or found where they bear their usual names.

    features: columns of the context, or beginnings of their names; text becomes one column of 0 and 1 for each value.
    candidates: the beginning of columns BEGINNING_k_j, feature j of candidate k; the action is then the number k.
    user: who it was, texts or numbers, of every row; by default user or user_id where there is one, and "" for none.
    """
    file, table = opened(source, "log")
    if len(table) == 0:
        fault(file, 2, table.columns[0] if table.columns else None, "", "to be there: the log holds no rows")
    if set(table.columns) >= OPEN_BANDIT:
        action, reward = action or "item_id", reward or "click"
        propensity, position = propensity or "propensity_score", position or "position"
        features = features or ("user_feature_",)
    action, reward = action or "action", reward or "reward"
    if propensity is None and "propensity" in table.columns:
        propensity = "propensity"
    if user is None:
        user = next((name for name in USERS if name in table.columns and name not in (action, reward, propensity)), None)
    for name in (action, reward, propensity, position, user):
        if name and name not in table.columns:
            fault(file, 1, name, table.columns[:8], "to name this column")
    if user and user in (action, reward, propensity):
        raise InputError(f"Expected user={user!r} not to be the action, the reward or the propensity.")
    of = "row" if isinstance(source, pl.DataFrame) or file.suffix == ".parquet" else "line"
    rewards = _numbers(file, table, Column(reward, float, 0, 1), of)
    propensities = None
    if propensity is not None:
        propensities = _numbers(file, table, Column(propensity, float, 0, 1), of)
        if (propensities <= 0).any():
            row = int((propensities <= 0).argmax())
            fault(file, _place(row, of), propensity, float(propensities[row]), "> 0", of=of)
    offered = candidates_of(file, table, candidates, of) if candidates else np.zeros((len(table), 0, 0))
    chosen, actions = _actions(file, table, action, offered.shape[1] if candidates else None, of)
    context, names = context_of(file, table, columns_of(file, table, features, (action, reward, propensity), user), of)
    slots = np.zeros(len(table), dtype=np.int64)
    if position is not None:
        slots = np.unique(_numbers(file, table, Column(position, int), of), return_inverse=True)[1]
    whose = _users(file, table, user, of) if user else None
    return Log(file, chosen, actions, rewards, propensities, context, offered, slots, names, whose)


def _place(row: int, of: str) -> int:
    """The line of a row: the first line names the columns."""
    return row + 1 + (of == "line")


def _numbers(file: File, table: pl.DataFrame, column: Column, of: str) -> Floats:
    return checked(file, table, {column.name: column}, of)[column.name].cast(pl.Float64).to_numpy()


def _actions(file: File, table: pl.DataFrame, name: str, count: int | None, of: str) -> tuple[Array, tuple[str, ...]]:
    values = table[name]
    if values.null_count():
        fault(file, _place(int(values.is_null().arg_max() or 0), of), name, None, "to be there", of=of)
    if count is not None:
        return _numbers(file, table, Column(name, int, 0, count - 1), of).astype(np.int64), tuple(map(str, range(count)))
    known, chosen = np.unique(values.to_numpy(), return_inverse=True)
    return chosen.astype(np.int64), tuple(str(value) for value in known)


def _users(file: File, table: pl.DataFrame, name: str, of: str) -> Integers:
    values = table[name]
    if values.dtype in _TEXT:
        missing = (values := values.cast(pl.String)).is_null() | (values == "")
    elif values.dtype.is_numeric():
        missing = values.is_null() | values.cast(pl.Float64).is_nan()
    else:
        fault(file, None, name, str(values.dtype), "to be texts or numbers")
    if missing.fill_null(True).any():
        fault(file, _place(int(missing.fill_null(True).arg_max() or 0), of), name, None, "to be there", of=of)
    return (values.rank("dense") - 1).cast(pl.Int64).to_numpy()


def columns_of(
    file: File, table: pl.DataFrame, wanted: Sequence[str], taken: Sequence[str | None], user: str | None
) -> list[str]:
    """The columns that these names, or beginnings of names, stand for."""
    found: list[str] = []
    for beginning in wanted:
        exact = [beginning] if beginning in table.columns else []
        matching = exact or [name for name in table.columns if name.startswith(beginning) and name not in (*taken, user)]
        if beginning in taken:
            raise InputError(f"Expected features={beginning!r} not to be the action, the reward or the propensity.")
        if not matching:
            fault(file, 1, beginning, table.columns[:8], "to name this column, or columns that begin so")
        found += [name for name in matching if name not in found]
    return found


def context_of(file: File, table: pl.DataFrame, columns: Sequence[str], of: str) -> tuple[Floats, tuple[str, ...]]:
    """These columns as numbers, and what each stands for: text becomes a column of 0 and 1 for each value."""
    parts: list[Floats] = [np.zeros((len(table), 0))]
    names: list[str] = []
    for name in columns:
        values = table[name]
        if values.dtype in _TEXT:
            texts = values.cast(pl.String).fill_null("").to_numpy()
            known = np.unique(texts)
            if len(known) > MOST_TEXTS:
                fault(file, None, name, len(known), f"different texts, at most {MOST_TEXTS} (or one cell is not a number)")
            parts.append((texts[:, None] == known[None, :]).astype(np.float64))
            names += [f"{name}={value}" for value in known]
        else:
            parts.append(_numbers(file, table, Column(name), of)[:, None])
            names.append(name)
    return np.hstack(parts), tuple(names)


def candidates_of(file: File, table: pl.DataFrame, beginning: str, of: str) -> Floats:
    """The features (rows, K, d) in columns BEGINNING_k_j."""
    pattern = re.compile(re.escape(beginning) + r"_?(\d+)_(\d+)")
    places = {(int(m[1]), int(m[2])): m[0] for name in table.columns if (m := pattern.fullmatch(name))}
    if not places:
        fault(file, 1, f"{beginning}_0_0", table.columns[:8], "to name the candidates' features")
    count, d = (1 + max(place[axis] for place in places) for axis in (0, 1))
    missing = [place for place in np.ndindex(count, d) if place not in places]
    if missing:
        fault(file, 1, "{}_{}_{}".format(beginning, *missing[0]), table.columns[:8], "to name this column")
    columns = [_numbers(file, table, Column(places[place]), of) for place in np.ndindex(count, d)]
    return np.stack(columns, axis=1).reshape(len(table), count, d)
