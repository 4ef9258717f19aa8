"""Closing a batch: where rewards meet noise, once. This module reads rewards.

A batch closes when its rounds are all assigned and its reward window has passed: public moments. First it is *sealed*:
from then on its rounds take no rewards. What is released is computed from rewards that no longer change, and written in one
transaction: the release, the book after it, the learner that read it, and a row of the ledger, all under keys that exist
once. Whoever crashes, or comes second, has written nothing and shown nothing; the noise it drew is forgotten.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from adaprivate.check import Floats
from adaprivate.mechanisms.book import Book, Release, Told
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.mechanisms.units import Event
from adaprivate.runtime.engines import ExactEngine
from adaprivate.service import estimating, schema
from adaprivate.service.bandit import Bandit, batch_end, lengthened
from adaprivate.service.batches import Batch
from adaprivate.service.database import Database, locked
from adaprivate.service.deciding import Catalogue, group_of
from adaprivate.service.holdback import holdback_plan, route
from adaprivate.service.packed import packed
from adaprivate.service.schema import POLICY

CLAIM = 5.0
"""So many seconds one worker has to itself for closing a batch. Should it take longer, the first to commit wins."""
MOST_SHOWN = 200
"""So many items of a batch are named in its summary."""


class Visit(NamedTuple):
    """A round of a batch: all public."""

    round: int
    item: str
    features: Floats
    person: int
    candidates: Floats | None


@dataclass
class Outcome:
    """What closing a batch writes. ``book`` is PRIVATE."""

    releases: list[Release]
    plan: bytes
    book: bytes
    learner: bytes | None
    next_end: int | None
    epsilon: float
    delta: float
    summary: dict[str, Any]

    @property
    def data(self) -> bytes:
        """All releases as bytes: public."""
        values = [release.values for release in self.releases]
        sizes = np.array([len(one) for one in values], dtype=np.int64)
        together = np.concatenate(values) if values else np.zeros(0)
        return packed({"sizes": sizes, "values": together}, channels=[release.channel for release in self.releases])


def begun(bandit: Bandit, stream: int, source: Noise) -> dict[str, Any]:
    """The row of a stream before its first round."""
    if stream == POLICY:
        engine = _engine(bandit.settings, source, None)
        if getattr(engine.settings, "planned", None) == 0:
            engine.extend()
        learner, settings = engine.learner.to_bytes(), engine.settings
        plan, book = engine.plan, engine.book
        next_end = batch_end(bandit, settings, 0)
    else:
        plan, learner, next_end = holdback_plan(bandit), None, bandit.group
        book = plan.book(source)  # type: ignore[attr-defined]
    counters = dict.fromkeys(("version", "closed", "closed_round", "sealed", "releases"), 0)
    return {
        "bandit": bandit.id,
        "stream": stream,
        **counters,
        "next_end": next_end,
        "claimed_until": 0.0,
        "plan": plan.to_bytes(),
        "book": book.to_bytes(),
        "learner": learner,
    }


def _engine(settings: Any, source: Noise, published: Callable[[Release], None] | None) -> ExactEngine:
    rng = np.zeros((2, 16), dtype=np.uint64)  # nothing is chosen by it
    return ExactEngine(settings, source, rng, lambda: None, published)  # type: ignore[arg-type]


def claimed(until: float, now: float) -> bool:
    """Whether somebody has a batch to themselves; a claim that is further ahead is of a clock that was wrong."""
    return now < until <= now + CLAIM


def seal(database: Database, bandit: Bandit, batch: Batch, now: float) -> bool:
    """Take no more rewards for this batch, and have it to oneself for a while; False if it is somebody else's."""
    b = schema.books
    mine = sa.and_(b.c.bandit == bandit.id, b.c.stream == batch.stream)
    with database.writing() as connection:
        row = connection.execute(locked(sa.select(b.c.version, b.c.claimed_until).where(mine))).one()
        if row.version != batch.number or claimed(row.claimed_until, now):
            return False
        connection.execute(b.update().where(mine).values(sealed=batch.last_round, claimed_until=now + CLAIM))
    return True


def visits_of(connection: sa.Connection, bandit: Bandit, catalogue: Catalogue, batch: Batch, scouting: int) -> list[Visit]:
    """The rounds of a batch in order; of those before ``scouting`` with all candidates."""
    d = schema.decisions
    query = sa.select(d.c.first_round, d.c.first_policy, d.c.data).where(
        d.c.bandit == bandit.id, d.c.first_round >= batch.first_round, d.c.first_round < batch.last_round
    )
    found: list[Visit] = []
    for row in connection.execute(query.order_by(d.c.first_round)):
        group = group_of(row.data)
        own = np.flatnonzero(group.streams == batch.stream)
        first = row.first_policy if batch.stream == POLICY else row.first_round - row.first_policy
        own = own[max(batch.start - first, 0) : max(batch.end - first, 0)]
        features, names = group.chosen_features(bandit, catalogue, own), group.chosen_items(catalogue.ids, own)
        for place, index in enumerate(own.tolist()):
            early = batch.start + len(found) < scouting
            candidates = group.candidates(bandit, catalogue, index) if early else None
            person = int(group.people[index])
            found.append(Visit(row.first_round + index, names[place], features[place], person, candidates))
    assert len(found) == batch.end - batch.start, "every round of a batch is stored"
    return found


def closed_policy(
    bandit: Bandit,
    row: Any,
    batch: Batch,
    visits: list[Visit],
    rewards: dict[int, float],
    source: Noise,
    before: dict[str, Any],
) -> Outcome:
    """What the policy's batch releases, with fresh noise: to be committed before anyone sees it."""
    releases: list[Release] = []
    counts: list[int] = []

    def published(release: Release) -> None:
        releases.append(release)
        counts.append(_rewards_in(release, engine.learner.state, whole))

    engine = _engine(lengthened(bandit.settings, plan_from_bytes(row.plan)), source, published)
    stored = {"plan": row.plan, "learner": row.learner, "book": row.book}
    engine.restore({name: np.frombuffer(data, dtype=np.uint8) for name, data in stored.items()})
    action = np.zeros(1, dtype=np.int64)
    worry, whole = None, True
    for number, visit in enumerate(visits, batch.start):
        if number < engine.book.round:  # it was counted together with those before it
            continue
        if number == getattr(engine.settings, "planned", None):
            worry = _plan_on(engine) or worry
        if visit.candidates is not None:
            engine.learner.choose(visit.candidates[None].copy(), action)  # only to have been offered
        if visit.candidates is None and _counted_together(engine, number, visits[number - batch.start :], rewards, bandit):
            number = engine.book.round - 1
            if number + 1 == getattr(engine.settings, "planned", None):
                worry = _plan_on(engine) or worry
            continue
        reward = rewards.get(visit.round, bandit.missing)
        whole = not bandit.needs_user or bool(engine.book.weigh(number, visit.person, visit.features).any())
        engine.count(number, visit.features, reward, visit.person)
        if number + 1 == getattr(engine.settings, "planned", None):  # so that it is known when the next batch ends
            worry = _plan_on(engine) or worry
    stated = engine.plan.guarantee(bandit.spec.policy, exact_noise=True)
    chosen = np.array([visit.features for visit in visits])
    summary = estimating.policy_estimate(engine.settings, engine.learner.state, releases, counts, before, chosen)
    if worry or "worry" in before:
        summary["worry"] = worry or before["worry"]
    if bandit.needs_user:
        summary["people"] = engine.book.people
    return Outcome(
        releases,
        engine.plan.to_bytes(),
        engine.book.to_bytes(),
        engine.learner.to_bytes(),
        batch_end(bandit, engine.settings, batch.end),
        stated.epsilon,
        stated.delta,
        summary,
    )


def _counted_together(
    engine: ExactEngine, number: int, visits: list[Visit], rewards: dict[int, float], bandit: Bandit
) -> bool:
    """Count as many of these rounds at once as enter one batch of sums; False, and nothing done, where none do."""
    planned = getattr(engine.settings, "planned", None)
    count = len(visits) if planned is None else min(len(visits), planned - number)
    if bandit.needs_user or count < 2 or not engine.book.takes_many(count):
        return False
    features = np.array([visit.features for visit in visits[:count]])
    values = np.array([float(rewards.get(visit.round, bandit.missing)) for visit in visits[:count]])
    return engine.count_many(number, features, values)


def _plan_on(engine: ExactEngine) -> str | None:
    """Plan further, at a public moment; what to say where little can be learned."""
    before = engine.known
    engine.extend()
    worry: str | None = engine.settings.worry(before)
    return worry


def _rewards_in(release: Release, state: Any, whole: bool) -> int:
    """How many rewards a told bit or a sum of an item holds: public."""
    if release.channel == "items":
        return int(state.waiting[int(state.scalars["block"][0])])
    return int(whole)


def closed_holdback(
    bandit: Bandit,
    row: Any,
    batch: Batch,
    visits: list[Visit],
    rewards: dict[int, float],
    source: Noise,
    before: dict[str, Any],
) -> Outcome:
    """What the holdback's batch releases, with fresh noise: to be committed before anyone sees it."""
    plan = plan_from_bytes(row.plan)
    book: Book = type(plan.book(source)).from_bytes(row.book, plan, source)
    releases: list[Release] = []
    counts: list[int] = []
    one = np.ones(1)
    waiting = 0
    for number, visit in enumerate(visits, batch.start):
        person = visit.person if bandit.needs_user else None
        counted = bool(book.weigh(number, visit.person, one).any()) if bandit.needs_user else True
        reward = rewards.get(visit.round, bandit.missing)
        book.add(Event(number, one, reward, person, **route(plan, number + 1 == batch.end)))
        waiting += counted
        while book.due:
            release, book = book.close()
            releases.append(release)
            counts.append(waiting)
            waiting = 0
    stated = plan.guarantee(bandit.spec.policy, exact_noise=True)
    summary = estimating.holdback_estimate(plan, releases, counts, before)
    if bandit.needs_user:
        summary["people"] = book.people
    next_end = batch.end + max(bandit.group, batch.end // 20)
    return Outcome(releases, plan.to_bytes(), book.to_bytes(), None, next_end, stated.epsilon, stated.delta, summary)


def close(database: Database, bandit: Bandit, catalogue: Catalogue, batch: Batch, source: Noise, now: float) -> bool:
    """Close a batch that is sealed; False if somebody else has, or it must not be."""
    b, r, k = schema.books, schema.rewards, schema.ledger
    mine = sa.and_(b.c.bandit == bandit.id, b.c.stream == batch.stream)
    with database.reading() as connection:
        row = connection.execute(sa.select(b).where(mine)).one()
        if row.version != batch.number or row.sealed < batch.last_round:
            return False
        scouting = bandit.settings.scouted if batch.stream == POLICY and hasattr(bandit.settings, "scouted") else 0
        visits = visits_of(connection, bandit, catalogue, batch, scouting)
        inside = sa.and_(r.c.bandit == bandit.id, r.c.round >= batch.first_round, r.c.round < batch.last_round)
        came = {
            one.round: Told(one.value) if one.told else one.value
            for one in connection.execute(sa.select(r.c.round, r.c.value, r.c.told).where(inside))
        }
        last = sa.and_(k.c.bandit == bandit.id, k.c.stream == batch.stream, k.c.batch == batch.number - 1)
        previous = connection.execute(sa.select(k.c.digest, k.c.summary).where(last)).one_or_none()
    before = {} if previous is None else json.loads(previous.summary)
    compute = closed_policy if batch.stream == POLICY else closed_holdback
    outcome = compute(bandit, row, batch, visits, came, source, before)
    outcome.summary["shown"] = dict(Counter(visit.item for visit in visits).most_common(MOST_SHOWN))
    try:
        return _commit(database, bandit, batch, outcome, "" if previous is None else previous.digest, now)
    except IntegrityError:  # somebody else released it in the meantime: what was drawn here is forgotten
        return False


def digest_of(bandit: Bandit, batch: Batch, before: str, data: bytes) -> str:
    """What a release is known by, and all before it."""
    text = f"{before}:{bandit.uid}:{batch.stream}:{batch.number}:{batch.start}:{batch.end}:".encode()
    return hashlib.sha256(text + data).hexdigest()


def _commit(database: Database, bandit: Bandit, batch: Batch, outcome: Outcome, before: str, now: float) -> bool:
    """Write everything at once, unless another has; only then may anyone see it.

    Decisions of all bandits wait for this transaction. So it does not touch rewards: ``erasure`` deletes them later.
    """
    b = schema.books
    place = {"bandit": bandit.id, "stream": batch.stream, "batch": batch.number}
    data, count = outcome.data, len(outcome.releases)
    over = outcome.next_end is None and not bandit.spec.keep_rewards
    with database.writing() as connection:
        state = connection.scalar(
            locked(sa.select(schema.bandits.c.state).where(schema.bandits.c.id == bandit.id), shared=True)
        )
        if state not in ("open", "paused"):
            return False
        first = connection.scalar(sa.select(b.c.releases).where(b.c.bandit == bandit.id, b.c.stream == batch.stream))
        changed = connection.execute(
            b.update()
            .where(b.c.bandit == bandit.id, b.c.stream == batch.stream, b.c.version == batch.number)
            .values(
                version=batch.number + 1,
                closed=batch.end,
                closed_round=batch.last_round,
                next_end=outcome.next_end,
                **({"sealed": schema.FOR_GOOD} if over else {}),
                claimed_until=0.0,
                releases=b.c.releases + count,
                plan=outcome.plan,
                book=outcome.book,
                learner=outcome.learner,
            )
        )
        if changed.rowcount != 1:
            return False
        connection.execute(schema.releases.insert().values(**place, first=first, count=count, data=data))
        connection.execute(
            schema.ledger.insert().values(
                **place,
                start=batch.start,
                end=batch.end,
                due_at=batch.due_at,
                released_at=math.ceil(now),  # how long it took is nobody's business
                releases=count,
                epsilon=outcome.epsilon,
                delta=outcome.delta,
                digest=digest_of(bandit, batch, before, data),
                summary=json.dumps(outcome.summary),
            )
        )
    return True
