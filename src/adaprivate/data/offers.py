"""What a log says without its rewards: how many decisions, between what, by whom. No column is read but those named here.

So a plan can be made from a log whose rewards nobody may look at yet: they may be missing, or unreadable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from adaprivate.check import Floats, InputError, Integers
from adaprivate.data.logs import OPEN_BANDIT, USERS, candidate_columns, context_of, named_columns
from adaprivate.data.reading import File, fault
from adaprivate.data.sources import in_memory

REWARDS = ("reward", "click")
"""Columns of these names are never read, whatever they are asked for as."""
LOOKED_AT = 1_000
"""The features of so many rows say what is offered."""
MOST_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Offers:
    """What is public of a log: ``rows`` decisions, the candidates (rows, K, d) of the first of them, how often people came.

    ``candidates`` is (1, K, K), unit vectors, where the log says nothing of what was offered but the actions taken.
    """

    rows: int
    candidates: Floats
    arms: bool
    visits: Integers | None = None
    """How often each person came; None where the log does not tell people apart."""

    @property
    def count(self) -> int:
        """How many candidates a row offers."""
        return int(self.candidates.shape[1])

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""
        return int(self.candidates.shape[2])


def offers(
    path: str | Path,
    *,
    action: str | None = None,
    features: Sequence[str] = (),
    candidates: str | None = None,
    user: str | None = None,
) -> Offers:
    """What is public of the log at this path; columns are named as for ``log``, and no other is read."""
    file = File(Path(path))
    if not file.path.is_file():
        raise InputError(f"Expected {path} to be a file.")
    table, of = _lazy(file)
    names = table.collect_schema().names()
    if action is None:
        action = "item_id" if set(names) >= OPEN_BANDIT - {"click"} else "action"
    if user is None:
        user = next((name for name in USERS if name in names), None)
    for name in (action, *features, *filter(None, (user, candidates))):
        if name in REWARDS:
            raise InputError(f"Expected {name!r} not to be asked for: rewards are not read.")
    wanted = [name for name in (action if candidates is None else None, user) if name]
    for name in wanted:
        if name not in names:
            fault(file, 1, name, names[:8], "to name this column")
    empty = in_memory(file, pl.DataFrame({name: [] for name in names}), of)
    places = () if candidates is None else candidate_columns(empty, candidates)
    offered = [name for own in places for name in own]
    context = named_columns(empty, features, (action, *REWARDS), user) if candidates is None else []
    public = _collected(file, table.select(wanted or offered[:1] or names[:0]))
    if len(public) == 0:
        fault(file, 2, names[0] if names else None, "", "to be there: the log holds no rows")
    first = _collected(file, table.select(context or offered).head(LOOKED_AT))
    first = first.select(_numeric(first[name]) for name in first.columns)
    visits = None if user is None else public[user].value_counts()["count"].cast(pl.Int64).to_numpy()
    if candidates is not None:
        values, _ = context_of(file, first, offered, of)
        return Offers(len(public), _scaled(values.reshape(len(first), len(places), -1)), False, visits)
    count = public[action].n_unique()
    if count < 2:
        fault(file, None, action, count, "different actions, two or more")
    if not context:
        return Offers(len(public), np.eye(count)[None], True, visits)
    values = np.hstack([context_of(file, first, context, of)[0], np.ones((len(first), 1))])
    values = values[: max(2, MOST_NUMBERS // (count * count * values.shape[1]))]
    blocks = np.zeros((len(values), count, count * values.shape[1]))
    for k in range(count):
        blocks[:, k, k * values.shape[1] : (k + 1) * values.shape[1]] = values
    return Offers(len(public), _scaled(blocks), False, visits)


def _lazy(file: File) -> tuple[pl.LazyFrame, str]:
    if file.suffix == ".parquet":
        return pl.scan_parquet(file.path), "row"
    return pl.scan_csv(file.path, infer_schema=False, encoding="utf8-lossy"), "line"


def _collected(file: File, table: pl.LazyFrame) -> pl.DataFrame:
    try:
        return table.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"Expected {file} to be a whole table: {str(error).splitlines()[0]}.") from None


def _numeric(values: pl.Series) -> pl.Series:
    """Texts as numbers, where all are."""
    if values.dtype != pl.String:
        return values
    numbers = values.cast(pl.Float64, strict=False)
    return values if (numbers.is_null() & values.is_not_null()).any() else numbers


def _scaled(candidates: Floats) -> Floats:
    longest = float(np.sqrt((candidates * candidates).sum(axis=-1).max()))
    return candidates / longest if longest > 1 else candidates
