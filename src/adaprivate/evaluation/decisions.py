"""Logged decisions in the form that policies and estimators take: what was offered, chosen and earned.

What could have been chosen comes from one of

    candidates        columns x_k_j: feature j of candidate k, each row its own
    an items file     one row an item, its name and numeric features; every item is a candidate of every row
    context columns   every action of the log is a candidate, with the row's context in a block of its own
    nothing           the actions of the log are fixed arms: unit vectors

Features are scaled by the largest norm if that is above 1: a public number, like everything here but rewards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Array, Floats, InputError, Integers
from adaprivate.data.logs import Log, opened
from adaprivate.data.logs import log as read_log
from adaprivate.data.reading import fault

MOST_NUMBERS = 400_000_000
"""At most so many features are held at once."""


@dataclass(frozen=True)
class Decisions:
    """Logged decisions. ``candidates`` is (n, K, d), or (1, K, d) when every row offers the same.

    ``users``: whose each was, as a number; None where people are not told apart.
    """

    candidates: Floats
    actions: Array
    rewards: Floats
    propensities: Floats | None = None
    users: Integers | None = None

    def __post_init__(self) -> None:
        n = len(self.actions)
        check.expect(len(self.candidates) in (1, n), "len(candidates)", len(self.candidates), f"in {{1, {n}}}")
        check.expect(len(self.rewards) == n, "len(rewards)", len(self.rewards), f"== {n}")
        if self.users is not None:
            check.expect(len(self.users) == n, "len(users)", len(self.users), f"== {n}")

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

    @property
    def people(self) -> int | None:
        """How many made these decisions, where they are told apart."""
        return None if self.users is None else len(np.unique(self.users))

    def offered(self, row: int) -> Floats:
        """The candidates of a row."""
        candidates: Floats = self.candidates[0 if self.fixed else row]
        return candidates

    @property
    def chosen(self) -> Floats:
        """The features of what was chosen in each row."""
        return self.candidates[0, self.actions] if self.fixed else self.candidates[np.arange(len(self)), self.actions]

    def part(self, rows: slice) -> Decisions:
        """Some of the rows."""
        candidates = self.candidates if self.fixed else self.candidates[rows]
        known = None if self.propensities is None else self.propensities[rows]
        whose = None if self.users is None else self.users[rows]
        return Decisions(candidates, self.actions[rows], self.rewards[rows], known, whose)


def logged(
    source: str | Path | pl.DataFrame, *, items: str | Path | pl.DataFrame | None = None, **columns: Any
) -> Decisions:
    """The decisions in a file or table, whose ``columns`` are named as in ``data.log``."""
    return decisions(read_log(source, **columns), context=bool(columns.get("features")), items=items)


def decisions(log: Log, *, context: bool = False, items: str | Path | pl.DataFrame | None = None) -> Decisions:
    """The decisions of a log; ``context`` says that its context is to be used, ``items`` where items have features."""
    check.expect(items is None or not context, "items", items, "not to be given with context columns")
    actions = log.action
    if items is not None:
        candidates, actions = _items(items, log)
    elif log.candidates.size:
        candidates = log.candidates
    elif context and log.context.shape[1]:
        candidates = _blocks(log)
    else:
        candidates = np.eye(len(log.actions))[None]
    longest = float(np.sqrt((candidates * candidates).sum(axis=-1).max()))
    scaled = np.ascontiguousarray(candidates / longest if longest > 1 else candidates)
    return Decisions(scaled, actions, log.reward, log.propensity, log.user)


def _blocks(log: Log) -> Floats:
    values = np.hstack([log.context, np.ones((len(log), 1))])
    count, width = len(log.actions), values.shape[1]
    numbers = len(log) * count * count * width
    check.expect(
        numbers <= MOST_NUMBERS, "features", numbers, f"<= {MOST_NUMBERS} in {log.file}; an items file needs fewer"
    )
    candidates = np.zeros((len(log), count, count * width))
    for a in range(count):
        candidates[:, a, a * width : (a + 1) * width] = values
    return candidates


def _items(items: str | Path | pl.DataFrame, log: Log) -> tuple[Floats, Array]:
    """The features of every item, and the log's actions as rows of them."""
    file, table = opened(items, "items")
    numeric = [name for name in table.columns[1:] if table[name].dtype.is_numeric()]
    if not numeric:
        raise InputError(f"Expected {file} to name items in its first column and to have numeric columns.")
    names = [str(value) for value in table[table.columns[0]].to_list()]
    features = table.select(numeric).cast(pl.Float64).to_numpy()
    wrong = np.argwhere(~np.isfinite(features))
    if len(wrong):
        row, column = wrong[0].tolist()
        fault(file, row + 1, numeric[column], float(features[row, column]), "to be a finite number", of="row")
    places = {name: row for row, name in enumerate(names)}
    unknown = [name for name in log.actions if name not in places]
    check.expect(not unknown, "actions", unknown[:3], f"to be items of {file}")
    return features[None], np.array([places[name] for name in log.actions])[log.action]
