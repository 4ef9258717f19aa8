"""Public views: status, overview, and what the dashboard draws. From releases, the ledger and public counts alone.

Nothing here names a table that holds rewards; a test watches every statement.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from adaprivate.service import erasure, estimating, schema
from adaprivate.service.bandit import guarantee_of, retention_of
from adaprivate.service.schema import HOLDBACK, POLICY

if TYPE_CHECKING:
    from adaprivate.service.room import Room

LAST_BATCHES = 20
MOST_ITEMS_SHOWN = 50


def overview(connection: sa.Connection, rooms: dict[int, Room]) -> list[dict[str, Any]]:
    """All bandits, in short."""
    b, k = schema.bandits, schema.books
    query = sa.select(b.c.id, b.c.name, b.c.created_at, b.c.decided, b.c.state, k.c.version).select_from(
        b.join(k, sa.and_(k.c.bandit == b.c.id, k.c.stream == POLICY))
    )
    found = []
    for row in connection.execute(query.order_by(b.c.id)):
        room = rooms.get(row.id)
        if room is None or room.snapshot is None:
            continue
        stated = guarantee_of(room.bandit, room.snapshot.plan, replay_refused=room.whole, void=room.void)
        found.append(
            {
                "name": row.name,
                "policy": room.bandit.spec.policy,
                "epsilon": stated["epsilon"],
                "delta": stated["delta"],
                "at_most": stated["at_most"],
                "unit": stated["unit"],
                "void": stated["void"],
                "holdback": room.bandit.spec.holdback,
                "decided": row.decided,
                "version": row.version,
                "state": row.state,
                "created_at": row.created_at,
            }
        )
    return found


def _common(connection: sa.Connection, room: Room) -> dict[str, Any]:
    """What status and series share."""
    b, k = schema.bandits, schema.books
    bandit = room.bandit
    row = connection.execute(sa.select(b).where(b.c.id == bandit.id)).one()
    streams = {
        one.stream: one
        for one in connection.execute(
            sa.select(k.c.stream, k.c.version, k.c.closed, k.c.next_end, k.c.closed_round, k.c.releases).where(
                k.c.bandit == bandit.id
            )
        )
    }
    policy = streams[POLICY]
    assert room.snapshot is not None
    stated = guarantee_of(bandit, room.snapshot.plan, replay_refused=room.whole, void=json.loads(row.void))
    counted = policy.closed + (streams[HOLDBACK].closed if HOLDBACK in streams else 0)
    due = room.next_due(connection, policy, row.policy_rounds)
    return {
        "name": row.name,
        "state": row.state,
        "reason": row.reason,
        "version": policy.version,
        "releases": sum(one.releases for one in streams.values()),
        "guarantee": stated,
        "rounds": {
            "decided": row.decided,
            "policy": row.policy_rounds,
            "holdback": row.holdback_rounds,
            "counted": counted,
        },
        "next_batch": {
            "start": policy.closed,
            "end": policy.next_end,
            "assigned": row.policy_rounds - policy.closed,
            "closes_at": None if due is None else due.due_at,
        },
        "budget": {name: stated[name] for name in ("epsilon", "delta", "at_most", "void")}
        | {"explanation": _explained(bandit, stated)},
        "_row": row,
    }


def _explained(bandit: Any, stated: dict[str, Any]) -> str:
    if stated["void"]:
        return f"VOID: the epsilon and delta that were stated no longer hold. {' '.join(stated['void'])}"
    whom = "each person's rewards enter" if bandit.needs_user else "each reward enters"
    return (
        f"The budget does not run down: {whom} the releases of one book, once, and all of them together cost at most this, "
        "however many batches follow."
    )


def status(connection: sa.Connection, room: Room) -> dict[str, Any]:
    """Everything public about a bandit."""
    found = _common(connection, room)
    row = found.pop("_row")
    bandit, spec = room.bandit, room.bandit.spec
    k = schema.ledger
    columns = (k.c.batch, k.c.start, k.c.end, k.c.due_at, k.c.released_at, k.c.releases)
    own = sa.and_(k.c.bandit == bandit.id, k.c.stream == POLICY)
    latest = sa.select(*columns).where(own).order_by(k.c.batch.desc()).limit(LAST_BATCHES)
    names = ("batch", "start", "end", "due_at", "released_at", "releases")
    batches = [dict(zip(names, one, strict=True)) for one in connection.execute(latest)]
    latest_of = {stream: _summary(connection, bandit.id, stream) for stream in (POLICY, HOLDBACK)}
    beyond = [summary["people"]["beyond"] for summary in latest_of.values() if "people" in summary]
    worry = latest_of[POLICY].get("worry")
    assert room.snapshot is not None
    plan: Any = room.snapshot.plan
    retention = retention_of(bandit, plan)
    notes = [
        "Decisions use the state of the last closed batch; policies that would learn something public with every round "
        "(what was shown so far) learn it here when a batch closes.",
        f"A batch closes when its rounds are all decided and {spec.reward_window:g} seconds have passed since the last; "
        f"a reward that has not come by then counts as {bandit.missing:g}.",
    ]
    if not bandit.needs_user and not spec.local:
        notes.append(
            "It protects single rewards: a person who comes back n times has n of them, and pays for each; unit=user "
            "protects all rewards of a person, of whom only the first visits ever count."
        )
    if bandit.needs_user:
        notes.append(
            f"Of each person only {plan.unit.counted} ever count. Later ones are decided, and nothing is learned of them."
        )
        if spec.holdback:
            notes.append(
                f"The holdback is a share of people ({spec.holdback:g}), not of rounds. All decisions for a person in it "
                "are random, and only the person's first visit teaches anything."
            )
    if not spec.local:
        raw = "Raw rewards are kept." if spec.keep_rewards else erasure.STATED
        notes.append(f"{raw} {retention}")
    if worry:
        notes.append(worry)
    if found["next_batch"]["end"] is None:
        notes.append("All planned rounds are over: it decides by what it learned and learns no more.")
    return {
        **found,
        "policy": spec.policy,
        "created_at": row.created_at,
        "unit": found["guarantee"]["unit"],
        "dimension": bandit.dimension,
        "rounds_planned": spec.rounds,
        "reward_window": spec.reward_window,
        "base_rate": getattr(bandit.settings, "base_rate", None),
        "missing": bandit.missing,
        "holdback": spec.holdback,
        "keep_rewards": spec.keep_rewards,
        "retention": retention,
        "local": spec.local,
        "default_item": spec.default_item,
        "featuriser": spec.featuriser,
        "options": spec.options,
        "items": len(room.catalogue.positions),
        "batches": batches[::-1],
        "dropped": {"clipped": row.clipped, "visits_beyond": sum(beyond) if beyond else None},
        "notes": notes,
    }


def _summary(connection: sa.Connection, bandit: int, stream: int) -> dict[str, Any]:
    """What the last closed batch of a stream says; empty before there is one."""
    k = schema.ledger
    query = sa.select(k.c.summary).where(k.c.bandit == bandit, k.c.stream == stream)
    text = connection.scalar(query.order_by(k.c.batch.desc()).limit(1))
    return json.loads(text) if text else {}


def series(connection: sa.Connection, room: Room) -> dict[str, Any]:
    """What releases say over time."""
    found = _common(connection, room)
    found.pop("_row")
    k = schema.ledger
    lines: dict[int, list[dict[str, Any]]] = {POLICY: [], HOLDBACK: []}
    shown: dict[str, int] = {}
    columns = (k.c.stream, k.c.start, k.c.end, k.c.batch, k.c.due_at, k.c.summary)
    kind = "released"
    for row in connection.execute(sa.select(*columns).where(k.c.bandit == room.bandit.id).order_by(k.c.batch)):
        summary = json.loads(row.summary)
        kind = summary["kind"] if row.stream == POLICY else kind
        lines[row.stream].append(_point(row, summary))
        if row.stream == POLICY:
            for name, count in summary["shown"].items():
                shown[name] = shown.get(name, 0) + count
    last = [points[-1]["cumulative"] if points else None for points in (lines[POLICY], lines[HOLDBACK])]
    return {
        **found,
        "learned": lines[POLICY],
        "holdback": lines[HOLDBACK],
        "lift": estimating.difference(last[0], last[1]),
        "items": _items(room, shown),
        "estimate": "released sums" if kind == "released" else "model",
    }


def _point(row: Any, summary: dict[str, Any]) -> dict[str, Any]:
    none = {"mean": None, "low": None, "high": None}
    if summary["kind"] == "model":
        one, whole = {**none, "mean": summary["mean"]}, None
    else:
        one = estimating.interval(summary["batch"], summary["centre"]) or none
        whole = estimating.interval(summary["whole"], summary["centre"])
    place = {"batch": row.batch, "rounds": [row.start, row.end], "at": row.due_at}
    return {**place, **one, "cumulative": whole}


def _items(room: Room, shown: dict[str, int]) -> list[dict[str, Any]]:
    """How often each item was chosen by the policy in closed batches, and what the released state makes of it."""
    assert room.snapshot is not None
    total = max(sum(shown.values()), 1)
    theta = room.snapshot.mean
    scores: dict[str, float] = {}
    if room.bandit.featuriser is None:
        positions = room.catalogue.positions
        size = room.bandit.dimension
        intercept = theta[size] if len(theta) > size else 0.0
        centre = float(getattr(room.snapshot.plan, "centre", 0.0))
        names = [name for name in positions if name in shown] or [*positions][:MOST_ITEMS_SHOWN]
        values = room.catalogue.features[[positions[name] for name in names]] @ theta[:size] + intercept + centre
        scores = dict(zip(names, np.asarray(values).tolist(), strict=True))
    names = sorted({*shown, *scores}, key=lambda name: (-shown.get(name, 0), -scores.get(name, 0.0)))
    return [
        {"id": name, "shown": shown.get(name, 0), "share": shown.get(name, 0) / total, "score": scores.get(name)}
        for name in names[:MOST_ITEMS_SHOWN]
    ]
