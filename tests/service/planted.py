"""Mistakes that are planted in a service, in one process, to see whether tests would notice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from adaprivate.service import arriving, closing, schema


def plant(name: str, between: Callable[[], None]) -> None:
    """Make the service of this process wrong in one way; ``between`` is called between the two transactions."""
    if name == "lost-reward":
        _plant_lost_rewards()
    elif name == "broken-seal":
        _plant_broken_seal()
    elif name == "no-version-check":
        closing.seal = lambda *arguments: _seal_anyway(*arguments)
        closing._commit = lambda *arguments: _commit_wrongly(*arguments, between=None)
    else:
        assert name == "two-transactions", name
        closing._commit = lambda *arguments: _commit_wrongly(*arguments, between=between)


def _seal_anyway(database: Any, bandit: Any, batch: Any, now: float) -> bool:
    """Whoever else is closing it."""
    b = schema.books
    with database.writing() as connection:
        mine = sa.and_(b.c.bandit == bandit.id, b.c.stream == batch.stream, b.c.version == batch.number)
        return bool(connection.execute(b.update().where(mine).values(sealed=batch.last_round)).rowcount)


def _commit_wrongly(
    database: Any,
    bandit: Any,
    batch: Any,
    outcome: Any,
    before: str,
    now: float,
    *,
    between: Callable[[], None] | None,
) -> bool:
    """What was released replaces what was released of that batch before; the book in a transaction of its own, if so."""
    b, place = schema.books, {"bandit": bandit.id, "stream": batch.stream, "batch": batch.number}
    data, count = outcome.data, len(outcome.releases)
    counts = {"releases": count, "epsilon": outcome.epsilon, "delta": outcome.delta, "summary": json.dumps(outcome.summary)}
    times = {"start": batch.start, "end": batch.end, "due_at": batch.due_at, "released_at": now}
    after = {"version": batch.number + 1, "closed": batch.end, "closed_round": batch.last_round}
    after |= {"next_end": outcome.next_end, "claimed_until": 0.0, "plan": outcome.plan, "book": outcome.book}

    def close_book(connection: sa.Connection, first: int) -> None:
        mine = sa.and_(b.c.bandit == bandit.id, b.c.stream == batch.stream)
        values = {**after, "learner": outcome.learner, "releases": first + count}
        connection.execute(b.update().where(mine).values(**values))

    with database.writing() as connection:
        query = sa.select(sa.func.coalesce(sa.func.sum(schema.releases.c.count), 0)).where(
            *(schema.releases.c[name] == place[name] for name in ("bandit", "stream")),
            schema.releases.c.batch < batch.number,
        )
        first = int(connection.scalar(query) or 0)
        for table in (schema.ledger, schema.releases):
            connection.execute(table.delete().where(*(table.c[name] == value for name, value in place.items())))
        connection.execute(schema.releases.insert().values(**place, first=first, count=count, data=data))
        digest = closing.digest_of(bandit, batch, before, data)
        connection.execute(schema.ledger.insert().values(**place, **times, **counts, digest=digest))
        if between is None:
            close_book(connection, first)
    if between is not None:
        between()
        with database.writing() as connection:
            close_book(connection, first)
    return True


def _plant_broken_seal() -> None:
    """Rewards are taken again once a batch's sums are computed."""
    really = closing._commit

    def unsealed(database: Any, bandit: Any, batch: Any, *others: Any) -> bool:
        b = schema.books
        with database.writing() as connection:
            mine = sa.and_(b.c.bandit == bandit.id, b.c.stream == batch.stream)
            connection.execute(b.update().where(mine).values(sealed=b.c.closed_round))
        return really(database, bandit, batch, *others)

    closing._commit = unsealed


def _plant_lost_rewards() -> None:
    """Every twentieth reward is acknowledged and not stored."""
    really, seen = arriving.record, [0]

    def record(database: Any, arrivals: Any, now: float) -> list[str]:
        kept = []
        for arrival in arrivals:
            seen[0] += 1
            if seen[0] % 20:
                kept.append(arrival)
        answers = iter(really(database, kept, now))
        stored = {id(arrival) for arrival in kept}
        return [next(answers) if id(arrival) in stored else arriving.RECORDED for arrival in arrivals]

    arriving.record = record
