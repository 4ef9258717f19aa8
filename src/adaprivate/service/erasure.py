"""Deletion of rewards that no batch needs any more. This module sees which rounds have rewards, never a value.

A reward is spent once the batch of its round has closed, or once its stream takes no more rewards. Both stand in the table
``books``, which the transaction of a release changes. So a process that dies between a release and its deletions leaves
nothing behind for good: the next process that closes batches deletes those rows. No batch counts them again, because a
batch counts only its own rounds.

Deleting takes time for each row, so it has no place in a transaction that decisions wait for. Rows go in small pieces, and
whoever deletes them waits for a slot of rewards first (:func:`adaprivate.service.grouping.wait_for_slot`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from adaprivate.service import schema
from adaprivate.service.database import Database
from adaprivate.service.deciding import group_of

PIECE = 500
"""Rows that are deleted together: fewer than a slot has time for."""
STATED = (
    "Rewards of a closed batch are deleted within a second, larger batches at about 10,000 rewards a second. About two "
    "seconds later no file of a SQLite database holds them."
)
"""How long deleting takes, for the status."""

Limits = Mapping[int, int]
"""By stream: rewards of rounds of the bandit below this one are spent."""


class Piece(NamedTuple):
    """Rows of a bandit to be deleted together, perhaps none.

    The first is of none, and erased like any other, in a transaction: else a database that refuses to write, which the log
    notes, would tell by its refusal that rewards came.
    """

    table: sa.Table
    bandit: int
    keys: Sequence[Any]
    """What tells these rows from others of the bandit: rounds, or the keys of requests."""


def limits_of(connection: sa.Connection, bandit: int | None = None) -> dict[int, dict[int, int]]:
    """The limits of each bandit, or of one: public facts."""
    k = schema.books
    query = sa.select(k.c.bandit, k.c.stream, k.c.closed_round, k.c.sealed)
    found: dict[int, dict[int, int]] = {}
    for row in connection.execute(query if bandit is None else query.where(k.c.bandit == bandit)):
        is_over = row.sealed == schema.FOR_GOOD
        found.setdefault(row.bandit, {})[row.stream] = row.sealed if is_over else row.closed_round
    return found


def spent_rewards(database: Database, bandit: int, limits: Limits) -> Iterator[Piece]:
    """Spent rewards of a bandit in pieces, by rounds; first a piece of none."""
    yield Piece(schema.rewards, bandit, ())
    start: int | None = 0
    while start is not None:
        with database.reading() as connection:
            piece, start = _spent_from(connection, bandit, limits, start)
        if piece.keys:
            yield piece


def _spent_from(connection: sa.Connection, bandit: int, limits: Limits, start: int) -> tuple[Piece, int | None]:
    """Spent ones among the next rewards, and where to go on; None at the end."""
    r, d = schema.rewards, schema.decisions
    inside = sa.and_(r.c.bandit == bandit, r.c.round >= start, r.c.round < max(limits.values()))
    rounds = connection.scalars(sa.select(r.c.round).where(inside).order_by(r.c.round).limit(PIECE)).all()
    following = rounds[-1] + 1 if len(rounds) == PIECE else None
    if rounds and len({*limits.values()}) > 1:
        own = d.c.bandit == bandit
        first = sa.select(sa.func.max(d.c.first_round)).where(own, d.c.first_round <= rounds[0]).scalar_subquery()
        among = sa.and_(own, d.c.first_round >= first, d.c.first_round <= rounds[-1])
        streams: dict[int, int] = {}
        for row in connection.execute(sa.select(d.c.first_round, d.c.data).where(among)):
            streams.update(enumerate(np.asarray(group_of(row.data).streams).tolist(), row.first_round))
        rounds = [number for number in rounds if number < limits[streams[number]]]
    return Piece(r, bandit, rounds), following


def old_rows(database: Database, table: sa.Table, before: float) -> Iterator[Piece]:
    """Rows of a table that were written before this time, in pieces; first a piece of none."""
    yield Piece(table, 0, ())
    query = sa.select(*table.primary_key.columns).where(table.c.at < before).limit(PIECE)
    while True:
        with database.reading() as connection:
            rows = connection.execute(query).all()
        if not rows:
            return
        for bandit in sorted({row[0] for row in rows}):
            yield Piece(table, bandit, [row[1] for row in rows if row[0] == bandit])


def erase(connection: sa.Connection, piece: Piece) -> None:
    """Delete these rows."""
    if not piece.keys:
        return
    bandit, key = piece.table.primary_key.columns
    connection.execute(piece.table.delete().where(bandit == piece.bandit, key.in_(piece.keys)))


def erase_spent(connection: sa.Connection, bandit: int) -> None:
    """Delete all spent rewards of a bandit that decides no more, within this transaction."""
    limits = limits_of(connection, bandit)[bandit]
    start: int | None = 0
    while start is not None:
        piece, start = _spent_from(connection, bandit, limits, start)
        erase(connection, piece)
