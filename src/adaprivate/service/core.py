"""The service as one process knows it: public state in memory, everything durable in the database."""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from adaprivate import check
from adaprivate.mechanisms.noise import Noise, Secure
from adaprivate.service import arriving, closing, erasure, reading, schema
from adaprivate.service.arriving import Arrival
from adaprivate.service.bandit import Bandit, BanditSpec, decision_of, differing_in_words, expect_open, with_noise
from adaprivate.service.cataloguing import catalogue_of, replace_items
from adaprivate.service.database import Database
from adaprivate.service.deciding import Ask, Catalogue, Decided, Prepared, Snapshot, prepared
from adaprivate.service.faults import Fault
from adaprivate.service.journal import Journal, Published, place
from adaprivate.service.keeping import digests, halt, standing
from adaprivate.service.room import Room
from adaprivate.service.schema import HOLDBACK, POLICY
from adaprivate.service.storing import decided

__all__ = ["Ask", "BanditSpec", "Decided", "Prepared", "Service"]

KEPT = 86_400.0
"""Seconds for which an idempotency key is remembered, and that a reward came too late."""
LOOK_AGAIN = 1.0
"""Seconds before the database is asked again for a bandit or an item that it did not know."""
LONGEST_PAUSE = 60.0
"""Seconds, at most, before a batch that could not be closed is tried again."""
FORGET_AFTER = 1.0
"""Seconds after which the write-ahead log is emptied again."""
MOST_PIECES = 40
"""Pieces that are deleted before the log is emptied: about a second's work."""
MOST_MISSED = 50
"""So many unknown names are asked for in that time."""


class Service:
    """Decides, takes rewards, closes batches. Every public method may be called from many threads.

    ``journal``: where it is noted what was published, see :mod:`~adaprivate.service.journal`. The schema must be there.
    """

    def __init__(
        self,
        database: str,
        *,
        journal: Path | None = None,
        source: Noise | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = Database(database)
        self.journal = Journal(place(database, journal), clock=clock)
        self.source = Secure() if source is None else source
        self.clock = clock
        self.report: Callable[[str, Exception | None], None] | None = None
        """Told of a bandit whose batch cannot be closed, and why; None once it can. Without it, that is raised."""
        self._rooms: dict[int, Room] = {}
        self._names: dict[str, int] = {}
        self._tags: dict[str, int] = {}
        self._missed: dict[str, float] = {}
        self._caches = threading.RLock()
        self._deciding = threading.Lock()
        self._closing = threading.Lock()
        self._forgotten = clock()
        self._purged = clock()

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    # --- bandits ------------------------------------------------------------------------------------------------------

    def create(self, spec: BanditSpec) -> dict[str, Any]:
        """Make a bandit; its status."""
        uid, secret, now = uuid.uuid4().hex, secrets.token_bytes(96), self.clock()
        asked, spec = spec, with_noise(Bandit.made(0, uid, spec, secret))  # or is refused
        self.journal.begin(uid)
        description = {"uid": uid, "name": spec.name, "created_at": now, "description": spec.to_json(), "secret": secret}
        try:
            with self.database.writing() as connection:
                number = connection.scalar(schema.bandits.insert().values(**description).returning(schema.bandits.c.id))
                bandit = Bandit.made(int(number or 0), uid, spec, secret)
                streams = (POLICY, HOLDBACK) if spec.holdback else (POLICY,)
                rows = [closing.begun(bandit, stream, self.source) for stream in streams]
                connection.execute(schema.books.insert(), rows)
        except IntegrityError:
            raise self._exists(asked) from None
        self.refresh()
        return self.status(spec.name)

    def _exists(self, spec: BanditSpec) -> Fault:
        """That the name is taken, and which settings the bandit of that name has otherwise."""
        b = schema.bandits
        with self.database.reading() as connection:
            there = connection.scalar(sa.select(b.c.description).where(b.c.name == spec.name))
        differs = {} if there is None else spec.differing(BanditSpec.from_json(there))
        how = f", made with other settings: {differing_in_words(differs)}" if differs else ""
        detail = f"Expected name={spec.name!r} to be new: there is a bandit of that name{how}."
        return Fault("exists", detail, field=next(iter(differs), "name"), differs=[*differs])

    def refresh(self) -> None:
        """Look for what has changed: new bandits, items and versions. What others do to a bandit is seen here."""
        b, k = schema.bandits, schema.books
        query = sa.select(b.c.id, b.c.name, b.c.state, b.c.reason, b.c.void, b.c.catalogue, k.c.version).select_from(
            b.join(k, sa.and_(k.c.bandit == b.c.id, k.c.stream == POLICY))
        )
        with self._caches:
            with self.database.reading() as connection:
                rows = connection.execute(query).all()
            failed: Exception | None = None
            for row in rows:
                try:
                    self._take_over(row)
                except Fault:
                    raise
                except Exception as error:  # of one bandit: the others go on
                    failed = error
            self._names = {row.name: row.id for row in rows if row.id in self._rooms}
            self._tags = {self._rooms[number].bandit.tag: number for number in self._names.values()}
            if failed is not None:
                raise failed

    def _take_over(self, row: Any) -> None:
        """Bring what is kept of a bandit up to this row."""
        room = self._rooms.get(row.id)
        back = room is not None and room.state in ("halted", "moved") and row.state in ("open", "paused")
        if room is None or room.bandit.spec.name != row.name or back:  # who comes back may have other keys
            room = self._opened(row.id)
        room.state, room.reason, room.void = row.state, row.reason, json.loads(row.void)
        if row.catalogue != room.catalogue.number:
            with self.database.reading() as connection:
                room.catalogue = catalogue_of(connection, room.bandit)
        if room.snapshot is None or room.snapshot.version != row.version:
            self._load(room)

    def _opened(self, number: int) -> Room:
        with self.database.reading() as connection:
            row = connection.execute(sa.select(schema.bandits).where(schema.bandits.c.id == number)).one()
            k = schema.books
            plans = connection.execute(sa.select(k.c.stream, k.c.plan).where(k.c.bandit == number)).all()
        room = self._rooms[number] = Room(Bandit.of(row), {one.stream: one.plan for one in plans}, self.source, self.clock)
        return room

    def _load(self, room: Room) -> None:
        """Take over the last closed batch, once the journal says that it may be shown."""
        known = self.journal.known(room.bandit.uid)  # before the database is read
        b = schema.books
        mine = sa.and_(b.c.bandit == room.bandit.id, b.c.stream == POLICY)
        with self.database.reading() as connection:
            row = connection.execute(sa.select(b.c.version, b.c.closed, b.c.plan, b.c.learner).where(mine)).one()
            released = digests(connection, room.bandit.id)
            state, reason = standing(connection, room.bandit.id, known)
        room.whole = state == "whole"
        if reason is not None:
            self._halt(room, reason)
            if room.snapshot is not None:
                return
        else:
            self._show(room, released)
        fresh = Snapshot(room.bandit, row.version, row.closed, row.plan, row.learner)
        fresh.warm_up()
        room.snapshot = fresh

    def _show(self, room: Room, released: Mapping[int, Mapping[int, str]]) -> None:
        """Note these batches, by stream, in the journal: from now on they may be seen."""
        try:
            for stream, rows in released.items():
                self.journal.publish(room.bandit.uid, stream, rows)
        except Published as error:
            self._halt(room, str(error))
            raise Fault("halted", f"{room.bandit.spec.name} is halted: {error}") from None
        except OSError as error:
            detail = f"The journal cannot be written ({type(error).__name__}): nothing new is shown."
            raise Fault("unavailable", detail, item=room.default_item) from None

    def _halt(self, room: Room, reason: str) -> None:
        """Stop a bandit whose batches may have been released before."""
        with self.database.writing() as connection:
            halt(connection, room.bandit.id, reason)
        room.state, room.reason = "halted", reason

    def room(self, name: str) -> Room:
        """The bandit of this name; the database is asked again, not too often, where it is not known."""
        if name not in self._names:
            self._ask_for(name)
        number = self._names.get(name)
        if number is None:
            raise Fault("unknown-bandit", f"Expected bandit={name!r:.80} to exist.")
        return self._rooms[number]

    def _ask_for(self, name: str) -> None:
        """Look for what is not known: not too often for the same, and not for too many."""
        now = time.monotonic()
        missed = {one: at for one, at in self._missed.items() if now - at < LOOK_AGAIN}
        if name not in missed and len(missed) < MOST_MISSED:
            self.refresh()
            missed[name] = now
        self._missed = missed

    def bandits(self) -> list[dict[str, Any]]:
        """All bandits, in short."""
        self.refresh()
        with self.database.reading() as connection:
            return reading.overview(connection, {number: self._rooms[number] for number in self._names.values()})

    def status(self, name: str) -> dict[str, Any]:
        """Everything public about a bandit."""
        return self._public(name, reading.status)

    def series(self, name: str) -> dict[str, Any]:
        """What releases say over time: mean rewards, against the holdback, and which items win."""
        return self._public(name, reading.series)

    def _public(self, name: str, view: Callable[[sa.Connection, Room], dict[str, Any]]) -> dict[str, Any]:
        """A view of what was released, once the journal says that it may be shown."""
        room = self.room(name)
        with self.database.reading() as connection:
            released = digests(connection, room.bandit.id)
            if room.state != "moved":
                self._show(room, released)
            return view(connection, room)

    def items(self, name: str) -> list[dict[str, Any]]:
        """The items that are offered."""
        catalogue = self._fresh_catalogue(self.room(name))
        return [{"id": one, "features": catalogue.features[p].tolist()} for one, p in catalogue.positions.items()]

    def put_items(self, name: str, items: Mapping[str, Sequence[float] | None]) -> dict[str, Any]:
        """Replace the items that are offered; features of None stand for a place of the item's own (one-hot)."""
        room = self.room(name)
        with self.database.writing() as connection:
            clipped = replace_items(connection, room.bandit, items)
        self.refresh()
        warning = (
            f"{clipped:,} of {len(items):,} items had features longer than their norm and were scaled down: the guarantee "
            "holds, but their lengths are lost. Scale features by public constants."
        )
        return {"items": len(room.catalogue.positions), "clipped": clipped, "warning": warning if clipped else None}

    def _fresh_catalogue(self, room: Room) -> Catalogue:
        with self.database.reading() as connection:
            number = connection.scalar(sa.select(schema.bandits.c.catalogue).where(schema.bandits.c.id == room.bandit.id))
            if number != room.catalogue.number:
                room.catalogue = catalogue_of(connection, room.bandit)
        return room.catalogue

    def pause(self, name: str) -> dict[str, Any]:
        """Decide no more until it is resumed; batches that are full still close."""
        return self._turn(name, "open", "paused")

    def resume(self, name: str) -> dict[str, Any]:
        """Decide again."""
        return self._turn(name, "paused", "open")

    def _turn(self, name: str, before: str, after: str) -> dict[str, Any]:
        room = self.room(name)
        b = schema.bandits
        with self.database.writing() as connection:
            now = sa.and_(b.c.id == room.bandit.id, b.c.state == before)
            connection.execute(b.update().where(now).values(state=after))
        self.refresh()
        if room.state != after:
            raise Fault("halted" if room.state == "halted" else "paused", f"{name} is {room.state}, not {before}.")
        return self.status(name)

    def default_item(self, name: str) -> str | None:
        """What to show where nothing can be decided; needs no database."""
        number = self._names.get(name)
        if number is None:
            return None
        return self._rooms[number].default_item

    def ready(self) -> dict[str, bool]:
        """Whether the database answers, and every bandit's learner is loaded."""
        try:
            with self.database.reading() as connection:
                count = connection.scalar(sa.select(sa.func.count()).select_from(schema.bandits))
        except Fault:
            return {"database": False, "learners": False}
        loaded = sum(room.snapshot is not None for room in self._rooms.values())
        return {"database": True, "learners": loaded == count}

    # --- decisions ----------------------------------------------------------------------------------------------------

    def check(self, name: str, ask: Ask, *, look_again: bool = True) -> Prepared:
        """An ask, checked against what is public. ``look_again``: whether the database may be asked for newer items."""
        room = self.room(name)
        expect_open(room.state, room.reason, name, room.default_item)
        try:
            return prepared(room.bandit, room.catalogue, ask)
        except check.InputError:
            if not look_again or time.monotonic() - room.looked_at < LOOK_AGAIN:
                raise
            catalogue = self._fresh_catalogue(room)  # another worker may have replaced the items
            room.looked_at = time.monotonic()
            return prepared(room.bandit, catalogue, ask)

    def decide(self, groups: Sequence[tuple[str, Sequence[Prepared], str | None]]) -> list[list[Decided]]:
        """Decide for each (bandit, asks, idempotency key or None), all in one transaction."""
        answers: list[list[Decided]] = [[] for _ in groups]
        by_bandit: dict[int, list[int]] = {}
        for place_, (name, asks, _) in enumerate(groups):
            if asks:
                by_bandit.setdefault(self.room(name).bandit.id, []).append(place_)
        with self._deciding, self.database.writing() as connection:
            for number in sorted(by_bandit):  # in one order: no two transactions wait for each other
                places = by_bandit[number]
                found = decided(connection, self._rooms[number], [groups[p][1:] for p in places], self.clock())
                for p, answer in zip(places, found, strict=True):
                    answers[p] = answer
        return answers

    # --- rewards ------------------------------------------------------------------------------------------------------

    def check_reward(self, decision_id: str, reward: object) -> None:
        """Raise unless this is an id of a decision made here and a reward that can be taken."""
        value = check.reward(reward)
        arrival = self._arrival(decision_id, value)
        if arrival is None:
            raise Fault("unknown-decision", "Expected decision_id to be one of a decision made here.", field="decision_id")
        if arrival.bandit.spec.local and value not in (0.0, 1.0):
            raise check.InputError("Expected reward to be a flipped bit, 0 or 1; it is private and not repeated here.")

    def _arrival(self, token: str, value: float) -> Arrival | None:
        found = decision_of(token)
        if found is None:
            return None
        tag, stream, round_ = found
        if tag not in self._tags:
            self._ask_for(f"#{tag}")
        room = self._rooms.get(self._tags.get(tag, -1))
        if room is None or stream not in room.books:
            return None
        if not secrets.compare_digest(room.bandit.token(stream, round_), token):
            return None
        return Arrival(room.bandit, stream, round_, value, room.books[stream])

    def reward(self, entries: Sequence[tuple[str, float | bool]]) -> list[str]:
        """Store rewards of decisions by their ids, all in one transaction; what became of each."""
        answers = [arriving.UNKNOWN] * len(entries)
        found = [self._arrival(token, check.reward(value)) for token, value in entries]
        real = [place_ for place_, arrival in enumerate(found) if arrival is not None]
        if real:
            arrivals = [found[p] for p in real]
            for p, answer in zip(real, arriving.record(self.database, arrivals, self.clock()), strict=True):  # type: ignore[arg-type]
                answers[p] = answer
                arrival = found[p]
                if answer == arriving.LOST and arrival is not None and self._rooms[arrival.bandit.id].state != "moved":
                    self._halt(
                        self._rooms[arrival.bandit.id], "The database lacks a decision that was made: it was rolled back."
                    )
        return answers

    def arrivals(self, name: str) -> dict[str, Any]:
        """How many rewards wait and were late. PRIVATE."""
        return arriving.waiting(self.database, self.room(name).bandit)

    # --- batches ------------------------------------------------------------------------------------------------------

    def close_due(self, limit: int = 8) -> int:
        """Close batches that are due, at most so many; how many were closed here."""
        if not self._closing.acquire(blocking=False):
            return 0
        try:
            return self._close_due(limit)
        finally:
            self._closing.release()

    def _close_due(self, limit: int) -> int:
        b, k = schema.bandits, schema.books
        assigned = sa.case((k.c.stream == POLICY, b.c.policy_rounds), else_=b.c.holdback_rounds)
        columns = (k.c.bandit, k.c.stream, k.c.version, k.c.closed, k.c.next_end, k.c.closed_round, k.c.sealed)
        full = sa.and_(k.c.bandit == b.c.id, b.c.state.in_(("open", "paused")), k.c.next_end <= assigned)
        with self.database.reading() as connection:
            rows = connection.execute(sa.select(*columns, k.c.claimed_until, assigned.label("assigned")).where(full)).all()
        closed = 0
        for row in rows:
            now = self.clock()
            if closed >= limit or closing.claimed(row.claimed_until, now):
                continue
            room = self._rooms.get(row.bandit)
            if room is None:
                self.refresh()
                room = self._rooms[row.bandit]
            pause, until = room.pauses.get(row.stream, (0.0, 0.0))
            if now < until <= now + pause:  # one that is further ahead is of a clock that was wrong
                continue
            try:
                closed += self._close(room, row, now)
            except Exception as error:
                if (isinstance(error, Fault) and error.kind == "unavailable") or self.report is None:
                    raise
                pause = min(max(2 * pause, 1.0), LONGEST_PAUSE)  # of one bandit: the others go on
                room.pauses[row.stream] = pause, now + pause
                self.report(room.bandit.spec.name, error)
            else:
                if room.pauses.pop(row.stream, None) and self.report is not None:
                    self.report(room.bandit.spec.name, None)
        return closed

    def _close(self, room: Room, row: Any, now: float) -> bool:
        with self.database.reading() as connection:
            batch = room.next_due(connection, row, row.assigned)
        if batch is None:
            return False
        if now < batch.due_at and row.sealed < batch.last_round:
            return False
        known = self.journal.known(room.bandit.uid)  # before the database is read
        with self.database.reading() as connection:
            reason = standing(connection, room.bandit.id, known).reason
        if reason is not None:
            self._load(room)  # which halts it
            return False
        if not closing.seal(self.database, room.bandit, batch, now):
            return False
        catalogue = self._fresh_catalogue(room)
        done = closing.close(self.database, room.bandit, catalogue, batch, self.source, self.clock())
        self.refresh()
        return done

    # --- what is no longer needed -------------------------------------------------------------------------------------

    def tidy(self, wait: Callable[[], None] = lambda: None) -> None:
        """Delete some of what is no longer needed: spent rewards, old idempotency keys, and that rewards were late.

        ``wait`` returns when rewards may be written: decisions do not wait for them then. It is called before each piece.
        """
        for piece in itertools.islice(self._erasable(), MOST_PIECES):
            wait()
            with self.database.writing() as connection:
                erasure.erase(connection, piece)
        now = self.clock()
        if not 0 <= now - self._forgotten < FORGET_AFTER and self.database.forget_deleted(wait):
            self._forgotten = now

    def _erasable(self) -> Iterator[erasure.Piece]:
        """Pieces to delete; what comes after one is asked for when that is deleted."""
        with self.database.reading() as connection:
            limits = erasure.limits_of(connection)
        for number, room in [*self._rooms.items()]:
            own = limits.get(number)
            if own is not None and room.erased != own and not room.bandit.spec.keep_rewards:
                yield from erasure.spent_rewards(self.database, number, own)
                room.erased = own
        now = self.clock()
        if not 0 <= now - self._purged < KEPT / 24:
            for table in (schema.requests, schema.late):
                yield from erasure.old_rows(self.database, table, now - KEPT)
            self._purged = now
