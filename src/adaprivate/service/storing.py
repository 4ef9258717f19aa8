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

_B, _D, _R = schema.bandits, schema.decisions, schema.requests
# built once: building a statement takes longer than running it
_BANDIT = locked(
    sa.select(_B.c.decided, _B.c.policy_rounds, _B.c.state, _B.c.reason).where(_B.c.id == sa.bindparam("number"))
)
_INSERT = _D.insert()
_REMEMBER = _R.insert()
_ADVANCE = (
    _B.update()
    .where(_B.c.id == sa.bindparam("number"))
    .values(
        decided=_B.c.decided + sa.bindparam("more"),
        policy_rounds=_B.c.policy_rounds + sa.bindparam("own"),
        holdback_rounds=_B.c.holdback_rounds + sa.bindparam("held"),
        clipped=_B.c.clipped + sa.bindparam("longer"),
    )
)
_KNOWN = sa.select(_R.c.key, _R.c.first_round, _R.c.count).where(
    _R.c.bandit == sa.bindparam("number"), _R.c.key.in_(sa.bindparam("keys", expanding=True))
)


def decided(
    connection: sa.Connection, room: Room, requests: Sequence[tuple[Sequence[Prepared], str | None]], now: float
) -> list[list[Decided]]:
    """Decide the asks of these requests of one bandit, and store that; those whose key was met before are looked up."""
    bandit = room.bandit
    requests = [(asks, None if key is None else bandit.keys.request(key)) for asks, key in requests]
    row = connection.execute(_BANDIT, {"number": bandit.id}).one()
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
        connection.execute(
            _INSERT,
            {
                "bandit": bandit.id,
                "first_round": first,
                "count": len(part),
                "first_policy": policy_rounds,
                "policy_count": choices.policy_count,
                "at": now,
                "version": snapshot.version,
                "data": choices.data,
            },
        )
        policy_rounds += choices.policy_count
        clipped += choices.clipped
        fresh.extend(_answers(snapshot, room.catalogue, part, choices, first))
    if fresh:
        own = policy_rounds - row.policy_rounds
        counts = {"number": bandit.id, "more": len(fresh), "own": own, "held": len(fresh) - own, "longer": clipped}
        connection.execute(_ADVANCE, counts)
    if begins:
        rows = [{"bandit": bandit.id, "key": k, "first_round": f, "count": n, "at": now} for k, (f, n) in begins.items()]
        connection.execute(_REMEMBER, rows)
    return [
        fresh[begin - row.decided :][:n] if begin >= row.decided else _again(connection, room, begin, n)
        for begin, n in spans
    ]


def _known(connection: sa.Connection, bandit: int, keys: Sequence[str]) -> Mapping[str, Span]:
    """The rounds of requests that were met before."""
    if not keys:
        return {}
    rows = connection.execute(_KNOWN, {"number": bandit, "keys": [*keys]})
    return {row.key: (row.first_round, row[2]) for row in rows}


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
