"""Decisions in the database: a group of them is one row, written in the transaction that gives them rounds. Public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from adaprivate.service import schema
from adaprivate.service.bandit import expect_open
from adaprivate.service.cataloguing import catalogue_of
from adaprivate.service.database import locked
from adaprivate.service.deciding import Catalogue, Choices, Decided, Prepared, Snapshot, chosen, group_of
from adaprivate.service.faults import Fault
from adaprivate.service.room import Room
from adaprivate.service.schema import HOLDBACK

MOST_NUMBERS = 2**24
"""Features of so many candidates times dimensions are worked on at a time; one request may not ask for more."""

Span = tuple[int, int]
"""The first round of a request, and how many it has."""


def decided(
    connection: sa.Connection, room: Room, requests: Sequence[tuple[Sequence[Prepared], str | None]], now: float
) -> list[list[Decided]]:
    """Decide the asks of these requests of one bandit, and store that; those whose key was met before are looked up."""
    b, bandit = schema.bandits, room.bandit
    columns = (b.c.decided, b.c.policy_rounds, b.c.state, b.c.reason)
    row = connection.execute(locked(sa.select(*columns).where(b.c.id == bandit.id))).one()
    expect_open(row.state, row.reason, bandit.spec.name, room.default_item)
    snapshot = room.snapshot
    if snapshot is None:
        raise Fault("unavailable", f"{bandit.spec.name} is not loaded yet.", item=room.default_item)
    known = _known(connection, bandit.id, [key for _, key in requests if key is not None])
    begins: dict[str, Span] = {}
    spans: list[Span] = []
    parts: list[list[Prepared]] = []
    count = work = 0
    for asks, key in requests:
        span = (row.decided + count, len(asks))
        if key is not None and (key in known or key in begins):
            span = known.get(key) or begins[key]
            if span[1] != len(asks):
                raise Fault("different", "Expected Idempotency-Key to come with the same request as before.")
        else:
            own = bandit.dimension * sum(ask.offered for ask in asks)
            if own > MOST_NUMBERS:
                raise Fault("too-large", f"Expected candidates times dimensions={own} <= {MOST_NUMBERS} in one request.")
            work += own
            if not parts or work > MOST_NUMBERS:
                parts.append([])
                work = own
            parts[-1].extend(asks)
            count += len(asks)
            if key is not None:
                begins[key] = span
        spans.append(span)
    fresh: list[Decided] = []
    policy_rounds, clipped = row.policy_rounds, 0
    for part in parts:
        first = row.decided + len(fresh)
        choices = chosen(snapshot, room.catalogue, part, first, policy_rounds)
        _insert(connection, bandit.id, snapshot.version, first, policy_rounds, len(part), choices, now)
        policy_rounds += choices.policy_count
        clipped += choices.clipped
        fresh.extend(_answers(snapshot, room.catalogue, part, choices, first))
    if fresh:
        _advance(connection, bandit.id, len(fresh), policy_rounds - row.policy_rounds, clipped)
    if begins:
        rows = [{"bandit": bandit.id, "key": k, "first_round": f, "count": n, "at": now} for k, (f, n) in begins.items()]
        connection.execute(schema.requests.insert(), rows)
    return [
        fresh[begin - row.decided :][:n] if begin >= row.decided else _again(connection, room, begin, n)
        for begin, n in spans
    ]


def _known(connection: sa.Connection, bandit: int, keys: Sequence[str]) -> Mapping[str, Span]:
    """The rounds of requests that were met before."""
    if not keys:
        return {}
    r = schema.requests
    query = sa.select(r.c.key, r.c.first_round, r.c.count).where(r.c.bandit == bandit, r.c.key.in_(keys))
    return {row.key: (row.first_round, row[2]) for row in connection.execute(query)}


def _insert(
    connection: sa.Connection,
    bandit: int,
    version: int,
    first: int,
    first_policy: int,
    count: int,
    choices: Choices,
    now: float,
) -> None:
    connection.execute(
        schema.decisions.insert().values(
            bandit=bandit,
            first_round=first,
            count=count,
            first_policy=first_policy,
            policy_count=choices.policy_count,
            at=now,
            version=version,
            data=choices.data,
        )
    )


def _advance(connection: sa.Connection, bandit: int, count: int, policy_count: int, clipped: int) -> None:
    """Count these rounds."""
    b = schema.bandits
    connection.execute(
        b.update()
        .where(b.c.id == bandit)
        .values(
            decided=b.c.decided + count,
            policy_rounds=b.c.policy_rounds + policy_count,
            holdback_rounds=b.c.holdback_rounds + count - policy_count,
            clipped=b.c.clipped + clipped,
        )
    )


def _answers(
    snapshot: Snapshot, catalogue: Catalogue, asks: Sequence[Prepared], choices: Choices, first: int
) -> list[Decided]:
    bandit, version, keep, ids = snapshot.bandit, snapshot.version, snapshot.keep, catalogue.ids
    found = []
    rows = zip(asks, choices.actions.tolist(), choices.streams.tolist(), choices.propensities.tolist(), strict=True)
    for number, (ask, action, stream, odds) in enumerate(rows, first):
        item = ask.names[action] if ask.names is not None else ids[ask.positions[action]]  # type: ignore[index]
        likely = None if odds != odds else odds
        found.append(Decided(bandit.token(stream, number), item, version, likely, number, stream == HOLDBACK, keep))
    return found


def _again(connection: sa.Connection, room: Room, first: int, count: int) -> list[Decided]:
    """The decisions of a request that was met before."""
    d, bandit = schema.decisions, room.bandit
    query = sa.select(d.c.first_round, d.c.version, d.c.data)
    query = query.where(d.c.bandit == bandit.id, d.c.first_round <= first)
    row = connection.execute(query.order_by(d.c.first_round.desc()).limit(1)).one()
    group = group_of(row.data)
    places = np.arange(first - row.first_round, first - row.first_round + count)
    items = group.chosen_items(catalogue_of(connection, bandit).ids, places)
    keep = None if room.snapshot is None else room.snapshot.keep
    found = []
    for item, index in zip(items, places.tolist(), strict=True):
        odds, stream, number = float(group.propensities[index]), int(group.streams[index]), row.first_round + index
        likely: Any = None if np.isnan(odds) else odds
        found.append(Decided(bandit.token(stream, number), item, row.version, likely, number, stream == HOLDBACK, keep))
    return found
