"""Which rounds a batch has and when it is due: by public clocks and counts alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from adaprivate.service import schema
from adaprivate.service.bandit import Bandit
from adaprivate.service.deciding import group_of
from adaprivate.service.schema import POLICY


class Batch(NamedTuple):
    """The rounds of a batch: those of its stream, and the bandit's rounds among which they are."""

    stream: int
    number: int
    start: int
    end: int
    first_round: int
    last_round: int
    due_at: float


def find_due(connection: sa.Connection, bandit: Bandit, row: Any, assigned: int) -> Batch | None:
    """The next batch of a stream, if all its rounds are assigned, and when it is due."""
    if row.next_end is None or assigned < row.next_end:
        return None
    d = schema.decisions
    start = connection.scalar(
        sa.select(sa.func.max(d.c.first_round)).where(d.c.bandit == bandit.id, d.c.first_round <= row.closed_round)
    )
    query = sa.select(d.c.first_round, d.c.count, d.c.first_policy, d.c.policy_count, d.c.at)
    query = query.where(d.c.bandit == bandit.id, d.c.first_round >= start).order_by(d.c.first_round)
    latest = 0.0
    for group in connection.execute(query):
        latest = max(latest, group.at)
        own = group.first_policy if row.stream == POLICY else group.first_round - group.first_policy
        count = group.policy_count if row.stream == POLICY else group.count - group.policy_count
        if own + count >= row.next_end:
            where = sa.and_(d.c.bandit == bandit.id, d.c.first_round == group.first_round)
            streams = group_of(connection.execute(sa.select(d.c.data).where(where)).scalar_one()).streams
            place = int(np.flatnonzero(streams == row.stream)[row.next_end - 1 - own])
            last = group.first_round + place + 1
            due = latest + bandit.spec.reward_window
            return Batch(row.stream, row.version, row.closed, row.next_end, int(start), last, due)
    return None
