"""Rewards arrive: checked, flipped where the plan says so, and stored until their batch closes. This module reads rewards.

What a caller is told depends on their own reward alone: whether it was recorded, was there before, or came too late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from adaprivate.mechanisms.book import Book, Told
from adaprivate.service import schema
from adaprivate.service.bandit import Bandit
from adaprivate.service.database import Database, locked

RECORDED, DUPLICATE, DIFFERENT, LATE, LOST, UNKNOWN = "recorded", "duplicate", "different", "late", "lost", "unknown"


_NUMBER: sa.BindParameter[int] = sa.bindparam("number")
# built once: building a statement takes longer than running it
_SEALED = locked(
    sa.select(schema.books.c.stream, schema.books.c.sealed).where(schema.books.c.bandit == _NUMBER), shared=True
)
_OWNER = sa.select(schema.bandits.c.decided, schema.bandits.c.state).where(schema.bandits.c.id == _NUMBER)
_R = schema.rewards
_STORED = sa.select(_R.c.round, _R.c.value, _R.c.told).where(
    _R.c.bandit == _NUMBER, _R.c.round.in_(sa.bindparam("rounds", expanding=True))
)


class Arrival(NamedTuple):
    """A reward for a round; ``book``: an empty book of its stream, which says what is stored in its place."""

    bandit: Bandit
    stream: int
    round: int
    reward: float
    book: Book


def record(database: Database, arrivals: Sequence[Arrival], now: float) -> list[str]:
    """Store these rewards, all in one transaction; what became of each."""
    answers = [""] * len(arrivals)
    by_bandit: dict[int, list[int]] = defaultdict(list)
    for place, arrival in enumerate(arrivals):
        by_bandit[arrival.bandit.id].append(place)
    with database.writing() as connection:
        for number in sorted(by_bandit):  # in one order: no two transactions wait for each other
            places = by_bandit[number]
            _record_of_one(connection, database.kind, number, [arrivals[p] for p in places], places, answers, now)
    return answers


def _record_of_one(
    connection: sa.Connection,
    kind: str,
    number: int,
    arrivals: Sequence[Arrival],
    places: Sequence[int],
    answers: list[str],
    now: float,
) -> None:
    sealed = {row.stream: row.sealed for row in connection.execute(_SEALED, {"number": number})}
    owner = connection.execute(_OWNER, {"number": number}).one_or_none()
    decided = 0 if owner is None or owner.state == "moved" else owner.decided
    known = _stored(connection, number, [arrival.round for arrival in arrivals])
    new: dict[int, dict[str, Any]] = {}
    late: list[int] = []
    for place, arrival in zip(places, arrivals, strict=True):
        before = known.get(arrival.round)
        if arrival.round >= decided or arrival.stream not in sealed:
            answers[place] = LOST
        elif arrival.round < sealed[arrival.stream]:
            answers[place] = LATE
            late.append(arrival.round)
        elif before is not None:
            answers[place] = _compared(arrival, before)
        else:
            told = arrival.book.arrived(arrival.reward) if arrival.book.tells else arrival.reward
            new[arrival.round] = {
                "bandit": number,
                "round": arrival.round,
                "value": float(told),
                "told": type(told) is Told,
                "at": now,
            }
            known[arrival.round] = (float(told), type(told) is Told)
            answers[place] = RECORDED
    written = _insert(connection, kind, schema.rewards, [*new.values()])
    if len(written) < len(new):  # another transaction was first with some of them
        stored = _stored(connection, number, [number for number in new if number not in written])
        for place, arrival in zip(places, arrivals, strict=True):
            if answers[place] == RECORDED and arrival.round not in written:
                answers[place] = _compared(arrival, stored[arrival.round])
    if late:
        rows_late = [{"bandit": number, "round": one, "at": now} for one in dict.fromkeys(late)]
        _insert(connection, kind, schema.late, rows_late)


def _compared(arrival: Arrival, before: tuple[float, bool]) -> str:
    """Whether the same reward was there before; of one that was flipped here nobody can say."""
    value, told = before
    if told and not getattr(arrival.book.plan, "local", False):
        return DUPLICATE
    again = float(arrival.book.arrived(arrival.reward)) if told else arrival.reward
    return DUPLICATE if again == value else DIFFERENT


def _stored(connection: sa.Connection, bandit: int, rounds: Sequence[int]) -> dict[int, tuple[float, bool]]:
    found: dict[int, tuple[float, bool]] = {}
    for begin in range(0, len(rounds), 500):
        some = {"number": bandit, "rounds": [*rounds[begin : begin + 500]]}
        found.update({row.round: (row.value, bool(row.told)) for row in connection.execute(_STORED, some)})
    return found


def _insert(connection: sa.Connection, kind: str, table: sa.Table, rows: list[dict[str, Any]]) -> set[int]:
    """Insert what is not there yet; the rounds that were inserted."""
    insert = postgresql.insert if kind == "postgresql" else sqlite.insert
    written: set[int] = set()
    rows = sorted(rows, key=lambda row: row["round"])  # in one order: no two transactions wait for each other
    for begin in range(0, len(rows), 500):
        some = rows[begin : begin + 500]
        statement = insert(table).values(some).on_conflict_do_nothing().returning(table.c.round)
        written.update(connection.scalars(statement))
    return written


def waiting(database: Database, bandit: Bandit) -> dict[str, Any]:
    """How many rewards wait and how many came late. PRIVATE: outside the guarantee, for whoever may see rewards anyway."""
    r, late = schema.rewards, schema.late
    with database.reading() as connection:
        count = sa.select(sa.func.count()).select_from(r).where(r.c.bandit == bandit.id)
        too_late = sa.select(sa.func.count()).select_from(late).where(late.c.bandit == bandit.id)
        last = connection.scalar(sa.select(sa.func.max(r.c.at)).where(r.c.bandit == bandit.id))
        return {
            "private": "Exact counts of rewards: outside the guarantee. Do not publish them.",
            "stored": connection.scalar(count),
            "late": connection.scalar(too_late),
            "last_at": last,
        }
