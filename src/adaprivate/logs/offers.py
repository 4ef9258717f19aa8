"""What a log says without its rewards: how many decisions, between what, by whom. No column is read but those named here.

So a plan can be made from a log whose rewards nobody may look at yet: they may be missing, or unreadable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adaprivate.check import Floats, InputError, Integers
from adaprivate.data.files import File, context_of, fault
from adaprivate.logs.columns import (
    ACTIONS,
    REWARDS,
    USERS,
    candidate_columns,
    named_columns,
    no_column,
    no_rows,
    spelled,
    usual_name,
)
from adaprivate.logs.draft import LogFeatures, draft
from adaprivate.logs.tables import LARGE, Source, in_memory, table_from

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
    read: tuple[str, ...] = ()
    """The columns that were read."""

    @property
    def count(self) -> int:
        """How many candidates a row offers."""
        return int(self.candidates.shape[1])

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""
        return int(self.candidates.shape[2])


def offers(
    log: Any,
    *,
    action: str | None = None,
    features: Sequence[str] = (),
    candidates: str | None = None,
    user: str | None = None,
    reward: str | None = None,
) -> Offers:
    """What is public of the log at this path, or in this table; columns are named as for ``log``, and no other is read.

    ``reward`` names the column of rewards where it is not called reward or click: it may play no other part.
    """
    source = _unread(log)
    file, names = source.file, source.columns
    if action is None:
        action = usual_name(ACTIONS, names, (user,)) or ACTIONS[0]
    if user is None:
        user = usual_name(USERS, names, (action,))
    user = user or None  # '' for none
    private = (*REWARDS, *filter(None, (reward,)))
    if reward is not None and reward not in names:
        no_column(file, reward, names)
    for name in (action, *features, *filter(None, (user, candidates))):
        if name in private:
            raise InputError(f"Expected {name!r} not to be asked for: rewards are not read.")
    wanted = [name for name in (action if candidates is None else None, user) if name]
    for name in wanted:
        if name not in names:
            no_column(file, name, names)
    places = () if candidates is None else candidate_columns(source, candidates)
    offered = [name for own in places for name in own]
    context = named_columns(source, features, (action, *private), user) if candidates is None else []
    if not set(private) & set(names):
        _expect_whole_names(features, context)
    read = tuple(dict.fromkeys([*wanted, *offered, *context]))
    public = _collected(source, wanted or offered[:1])
    if len(public) == 0:
        no_rows(file)
    visits = None if user is None else spelled(public[user]).value_counts()["count"].cast(pl.Int64).to_numpy()
    if candidates is not None:
        first = _collected(source, offered, LOOKED_AT)
        first = first.select(_numeric(first[name]) for name in first.columns)
        values, _ = context_of(file, first, offered, source.of)
        return Offers(len(public), _scaled(values.reshape(len(first), len(places), -1)), False, visits, read)
    count = public[action].n_unique()
    if count < 2:
        fault(file, None, action, count, "different actions, two or more")
    if not context:
        return Offers(len(public), np.eye(count)[None], True, visits, read)
    known = _typed(source, _collected(source, context))
    drafted = draft(in_memory(file, known, source.of), context, None, (), count)  # as evaluate drafts them
    made = LogFeatures.from_dict(drafted)
    coordinates = made.contexts(known.head(LOOKED_AT))
    coordinates = coordinates[: max(2, MOST_NUMBERS // (count * made.featuriser.dimension))]
    items = np.broadcast_to(np.arange(count), (len(coordinates), count))
    return Offers(len(public), made.featuriser.build_many(coordinates, items), False, visits, read)


def _expect_whole_names(wanted: Sequence[str], found: Sequence[str]) -> None:
    """Where nobody said which column holds rewards, a few letters must not find it."""
    for name in found:
        if not any(name == word or name.startswith(word if word.endswith("_") else f"{word}_") for word in wanted):
            given = next(word for word in wanted if name.startswith(word))
            words = "to be a column, or to stand before a _ in columns, where no column is called reward or click"
            raise InputError(f"Expected context={given!r} {words}: it would read {name!r} (or say reward=NAME).")


def _unread(log: Any) -> Source:
    """The table at a path, of which nothing was read but the names of columns, or one in memory."""
    if not isinstance(log, str | Path):
        return in_memory(File(Path("log")), table_from(log, "from_log"), "row")
    file = File(Path(log))
    if not file.path.is_file():
        raise InputError(f"Expected {log} to be a file.")
    of = "row" if file.suffix == ".parquet" else "line"
    if of == "row":
        query = pl.scan_parquet(file.path)
    else:
        with file.path.open("rb") as start:
            if start.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
                raise InputError(f"Expected {file} to be CSV or parquet: in lines of JSON rewards cannot be left unread.")
        query = pl.scan_csv(file.path, infer_schema=False, encoding="utf8-lossy")
    try:
        return Source(file, query, dict(query.collect_schema()), of)
    except (pl.exceptions.PolarsError, OSError) as error:  # whose text may hold a line of it
        raise InputError(f"Expected {file} to be a whole table with a line of names ({type(error).__name__}).") from None


def _collected(source: Source, columns: Sequence[str], rows: int | None = None) -> pl.DataFrame:
    """These columns, of the first ``rows`` rows or of all."""
    query = source.lazy().select(columns)
    try:
        return (query if rows is None else query.head(rows)).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"Expected {source.file} to be a whole table ({type(error).__name__}).") from None


def _typed(source: Source, public: pl.DataFrame) -> pl.DataFrame:
    """Public columns with the types that a log has that is read whole; those of a large file of text stay text."""
    if source.of == "row" or source.file.path.stat().st_size > LARGE:
        return public
    return pl.read_csv(public.write_csv().encode(), infer_schema_length=None)


def _numeric(values: pl.Series) -> pl.Series:
    """Texts as numbers, where all are."""
    if values.dtype != pl.String:
        return values
    numbers = values.cast(pl.Float64, strict=False)
    return values if (numbers.is_null() & values.is_not_null()).any() else numbers


def _scaled(candidates: Floats) -> Floats:
    longest = float(np.sqrt((candidates * candidates).sum(axis=-1).max()))
    return candidates / longest if longest > 1 else candidates
