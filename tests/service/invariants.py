"""What must hold of a service after it was hammered, whatever happened: its database against what clients were told.

Sums are computed here from acknowledged rewards and the features of acknowledged items, in fractions: what was released,
less the noise on record, must be exactly that. Where nobody can know whether a reward arrived (no answer, and later ones
say that it is too late), what is stored decides; where that was deleted, the sum must be that of some of those rewards.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from tests.service.hammer import FEATURES, Attempt, Record
from tests.service.recorded_service import noise

from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.noise import Secure
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.runtime.learner import Learner
from adaprivate.service import schema
from adaprivate.service.bandit import Bandit
from adaprivate.service.closing import digest_of
from adaprivate.service.database import Database
from adaprivate.service.deciding import group_of
from adaprivate.service.journal import Journal
from adaprivate.service.packed import unpacked
from adaprivate.service.schema import HOLDBACK, POLICY

EXACT = 2**13
"""Floats below this hold whole multiples of 2^-40: released running sums are exact."""
STORED, TOLD_OF = {"recorded", "duplicate"}, {"recorded", "duplicate", "different", "late"}


class Round(NamedTuple):
    """A round as it is stored."""

    item: str
    stream: int
    at: float
    version: int


class Table:
    """All rows of a bandit."""

    def __init__(self, connection: sa.Connection, bandit: sa.Row[Any]) -> None:
        def rows(table: sa.Table, *order: str) -> list[Any]:
            query = sa.select(table).where(table.c.bandit == bandit.id).order_by(*(table.c[name] for name in order))
            return [*connection.execute(query)]

        self.row = bandit
        self.groups = rows(schema.decisions, "first_round")
        self.items = rows(schema.items, "position")
        self.requests = rows(schema.requests, "key")
        self.rewards = {row.round: row for row in rows(schema.rewards, "round")}
        self.late = {row.round for row in rows(schema.late, "round")}
        self.books = {row.stream: row for row in rows(schema.books, "stream")}
        self.releases = rows(schema.releases, "stream", "batch")
        self.ledger = rows(schema.ledger, "stream", "batch")
        self.noise = rows(noise, "id")


def violations(database: str, journal: Path, record: Record) -> list[str]:
    """Every invariant that does not hold, each beginning with what it is about."""
    found = [*record.problems]
    opened = Database(database)
    try:
        with opened.reading() as connection:
            for row in connection.execute(sa.select(schema.bandits)).all():
                found += Check(Table(connection, row), record, journal).all()
    finally:
        opened.close()
    return found


class Check:
    """One bandit."""

    def __init__(self, table: Table, record: Record, journal: Path) -> None:
        self.table, self.record, self.journal = table, record, journal
        self.bandit = Bandit.of(table.row)
        self.name = self.bandit.spec.name
        self.told = self.bandit.spec.policy.startswith("rr-")
        self.exact = self.bandit.spec.policy == "adaprivate-ts"
        self.rounds: list[Round] = []

    def all(self) -> Iterator[str]:
        broken = False
        for text in self.decisions():
            broken |= text.startswith("rounds")
            yield f"{text} ({self.name})"
        if broken:
            return  # nothing else can be asked
        for part in (self.ledger, self.chain, self.books, self.rewards, self.sums, self.published):
            for text in part():
                yield f"{text} ({self.name})"

    def decisions(self) -> Iterator[str]:
        """Rounds without gaps; every acknowledged decision is stored as it was told; requests are met once."""
        table, row, ids = self.table, self.table.row, [item.id for item in self.table.items]
        policy = 0
        for group in table.groups:
            data = group_of(group.data)
            if (group.first_round, group.first_policy, group.count) != (len(self.rounds), policy, len(data.actions)):
                yield f"rounds: a gap before round {group.first_round}"
                return
            items = data.chosen_items(ids, np.arange(group.count))
            streams = [int(stream) for stream in data.streams]
            self.rounds += [Round(i, s, group.at, group.version) for i, s in zip(items, streams, strict=True)]
            policy += streams.count(POLICY)
            if streams.count(POLICY) != group.policy_count:
                yield f"rounds: {group.policy_count} of the policy from round {group.first_round}"
        if (row.decided, row.policy_rounds, row.holdback_rounds) != (len(self.rounds), policy, len(self.rounds) - policy):
            yield f"rounds: {row.decided} decided, and {len(self.rounds)} stored"
        acknowledged = 0
        for (name, number), one in self.record.decisions.items():
            if name == self.name:
                acknowledged += 1
                if number >= len(self.rounds):
                    yield f"decision: round {number} is not stored"
                    continue
                stored = self.rounds[number]
                if (one.item, one.holdback, one.version) != (stored.item, stored.stream == HOLDBACK, stored.version):
                    yield f"decision: round {number} is stored as another one"
                if self.bandit.token(stored.stream, number) != one.id:
                    yield f"decision: round {number} has another id"
        if not acknowledged:
            yield "decision: none was acknowledged"
        met = sorted([*range(one.first_round, one.first_round + one.count)] for one in table.requests)
        if met != sorted(rounds for (name, _), rounds in self.record.requests.items() if name == self.name):
            yield "request: those that were met are not those that were acknowledged"

    def ledger(self) -> Iterator[str]:
        """Every batch released exactly once, in order, and not before its window has passed."""
        table = self.table
        places = [(row.stream, row.batch) for row in table.ledger]
        if places != [(row.stream, row.batch) for row in table.releases]:
            yield "ledger: its batches are not those released"
        drawn = sorted((row.stream, row.batch) for row in table.noise)
        if drawn != places:
            more = sorted({place for place in drawn if drawn.count(place) > 1})
            yield f"twice: batches {more} were released more than once, or {len(drawn)} draws are not {len(places)} rows"
        for stream in table.books:
            own = [row for row in table.ledger if row.stream == stream]
            moments = [round_.at for round_ in self.rounds]
            numbers = self.numbers(stream)
            if [row.batch for row in own] != [*range(len(own))]:
                yield f"ledger: batches of stream {stream} are not 0, 1, 2, ..."
            for row, before in zip(own, [0, *(row.end for row in own)], strict=False):
                if row.start != before or not row.start < row.end <= len(numbers):
                    yield f"ledger: batch {row.batch} of stream {stream} begins at {row.start}, not {before}"
                    return
                due = moments[numbers[row.end - 1]] + self.bandit.spec.reward_window
                if row.due_at < due - 1e-6 or row.released_at < row.due_at:
                    yield f"window: batch {row.batch} of stream {stream} was released too early"

    def chain(self) -> Iterator[str]:
        """Digests follow from what was released; numbers of releases go on without gaps."""
        before, first = {POLICY: "", HOLDBACK: ""}, {POLICY: 0, HOLDBACK: 0}
        data = {(row.stream, row.batch): row for row in self.table.releases}
        for row in self.table.ledger:
            release = data.get((row.stream, row.batch))
            if release is None:
                return  # the ledger's check says so
            batch: Any = SimpleNamespace(stream=row.stream, number=row.batch, start=row.start, end=row.end)
            if digest_of(self.bandit, batch, before[row.stream], release.data) != row.digest:
                yield f"digest: of batch {row.batch} of stream {row.stream}"
            if (release.first, release.count) != (first[row.stream], row.releases):
                yield f"releases: those of batch {row.batch} of stream {row.stream} are miscounted"
            before[row.stream], first[row.stream] = row.digest, first[row.stream] + release.count

    def books(self) -> Iterator[str]:
        """Book and learner are those after the last release; none that is due waits."""
        for stream, row in self.table.books.items():
            own = [one for one in self.table.ledger if one.stream == stream]
            closed, count = (own[-1].end if own else 0), sum(one.releases for one in own)
            if (row.version, row.closed, row.releases) != (len(own), closed, count):
                yield f"book: version {row.version} of stream {stream}, after {len(own)} batches"
                continue
            numbers = self.numbers(stream)
            if row.closed_round != (numbers[closed - 1] + 1 if closed else 0):
                yield f"book: stream {stream} is closed up to round {row.closed_round}"
            if row.next_end is not None and len(numbers) >= row.next_end:
                yield f"due: batch {row.version} of stream {stream} is full and not closed"
            plan: Any = plan_from_bytes(row.plan)
            book = type(plan.book(Secure())).from_bytes(row.book, plan, Secure())
            if (book.round, book.batch) != (closed, count):
                yield f"book: of stream {stream} stands at round {book.round}, release {book.batch}"
            simple = self.told or self.exact
            if stream == POLICY and simple and self.replayed(plan) != row.learner:
                yield "learner: it is not the one that has read these releases"

    def replayed(self, plan: Any) -> bytes:
        """The learner that counted these rounds and read these releases: from public data alone."""
        settings = self.bandit.settings.under(plan)
        learner = Learner(settings.learner(), np.zeros((2, 16), dtype=np.uint64))
        released = {row.batch: self.values(row) for row in self.table.releases if row.stream == POLICY}
        numbers, number = self.numbers(POLICY), 0
        for row in (row for row in self.table.ledger if row.stream == POLICY):
            values = released.get(row.batch, [])
            for place in range(row.start, row.end):
                learner.counted(np.array(FEATURES[self.rounds[numbers[place]].item]))
                if len(values) == row.end - row.start:
                    learner.read(Release(number, values[place - row.start]))
                    number += 1
            if len(values) == 1:
                learner.read(Release(number, values[0]))
                number += 1
        return learner.to_bytes()

    def rewards(self) -> Iterator[str]:
        """Every acknowledged reward is there, none is that was not sent, and answers agree with what is stored."""
        for number in range(len(self.rounds)):
            yield from self.reward(number, self.attempts(number))
        if not {number for number in self.table.rewards if number < len(self.rounds)} >= self.table.rewards.keys():
            yield "reward: of a round that was never decided"

    def reward(self, number: int, attempts: list[Attempt]) -> Iterator[str]:
        answers = [attempt.answer for attempt in attempts]
        stored = self.table.rewards.get(number)
        if not {*answers} <= TOLD_OF or (self.told and "different" in answers):
            yield f"reward: of round {number} was answered {answers}"
        if answers.count("recorded") > 1:
            yield f"reward: of round {number} was recorded twice"
        if "late" in answers and number not in self.table.late:
            yield f"late: nobody noted that the reward of round {number} was"
        deleted = not self.bandit.spec.keep_rewards and self.closed(number)
        if deleted:
            if stored is not None:
                yield f"deleted: the reward of round {number} is still there"
            if not self.options(number, attempts):
                yield f"reward: answers {answers} of round {number} contradict each other"
            return
        acknowledged = {attempt.value for attempt in attempts if attempt.answer in STORED}
        maybe = {attempt.value for attempt in attempts if attempt.unanswered or attempt.answer == "recorded"}
        if stored is None:
            if acknowledged or "different" in answers:
                yield f"lost: the reward of round {number} was acknowledged and is not there"
        elif not maybe:
            yield f"reward: that of round {number} was never sent, or came too late"
        elif not self.told and (stored.told or acknowledged - {stored.value} or stored.value not in maybe):
            yield f"reward: of round {number} is another one"
        elif self.told and not stored.told:
            yield f"reward: of round {number} is stored as it came, not flipped"

    def options(self, number: int, attempts: list[Attempt]) -> set[Fraction | None]:
        """What a reward may have been when it was counted, by the answers alone; None: there was none."""
        maybe: set[float | None] = {attempt.value for attempt in attempts if attempt.answer == "recorded"}
        if not maybe:
            maybe = {attempt.value for attempt in attempts if attempt.unanswered}
            if not STORED & {attempt.answer for attempt in attempts}:
                maybe.add(None)
        for attempt in attempts:
            if attempt.answer == "duplicate":
                maybe &= {attempt.value}
            elif attempt.answer == "different":
                maybe -= {attempt.value, None}
        return {None if value is None else Fraction(value) for value in maybe}

    def sums(self) -> Iterator[str]:
        """Released less recorded noise is exactly the sum of acknowledged rewards."""
        drawn = {(row.stream, row.batch): json.loads(row.drawn) for row in self.table.noise}
        releases = {(row.stream, row.batch): self.values(row) for row in self.table.releases}
        prefix = np.zeros(3)
        for row in self.table.ledger:
            place = (row.stream, row.batch)
            if place not in drawn or place not in releases:
                continue  # the ledger's check says so
            numbers = self.numbers(row.stream)[row.start : row.end]
            values, noise_ = releases[place], drawn[place]
            if self.told:
                yield from self.flips(place, numbers, values, noise_)
            elif row.stream == POLICY and self.exact:
                ((kind, draws),) = noise_
                assert kind == "gaussian"
                assert np.abs(values[0]).max() < EXACT
                exact = [Fraction(x) - Fraction(y) - Fraction(z) for x, y, z in zip(values[0], prefix, draws, strict=True)]
                prefix = values[0]
                if tuple(exact) not in self.reachable(numbers, by_item=True):
                    yield f"sum: batch {row.batch} is not the sum of acknowledged rewards and its noise"
            elif row.stream == HOLDBACK:
                ((kind, draw),) = noise_
                assert kind == "count"
                if (Fraction(float(values[0][0])) - draw,) not in self.reachable(numbers, by_item=False):
                    yield f"sum: batch {row.batch} of the holdback is not the sum of acknowledged rewards and its noise"

    def flips(self, place: tuple[int, int], numbers: list[int], values: list[Any], drawn: list[Any]) -> Iterator[str]:
        """Every flip that was stored is released as it was; those of rewards that never came were drawn then."""
        fresh = iter(value for kind, value in drawn if kind == "told")
        expected = [row.value if (row := self.table.rewards.get(number)) else next(fresh, None) for number in numbers]
        if expected != [float(value[0]) for value in values] or next(fresh, None) is not None:
            yield f"sum: batch {place[1]} of stream {place[0]} does not tell what was stored"

    def reachable(self, numbers: Iterable[int], *, by_item: bool) -> set[tuple[Fraction, ...]]:
        """The sums that rewards of these rounds can have had; one, but for those of which nobody can know."""
        found = {(Fraction(0),) * 3 if by_item else (Fraction(0),)}
        for number in numbers:
            if self.bandit.spec.keep_rewards:
                row = self.table.rewards.get(number)
                options: set[Fraction | None] = {None if row is None else Fraction(row.value)}
            else:
                options = self.options(number, self.attempts(number))
            features = [Fraction(x) for x in FEATURES[self.rounds[number].item]] if by_item else [Fraction(1)]
            found = {
                tuple(s + (value or 0) * x for s, x in zip(total, features, strict=True))
                for total in found
                for value in options
            }
        return found

    def published(self) -> Iterator[str]:
        """The journal knows every batch, and no other; nothing was halted; nothing changed after it was first seen."""
        state, known = self.table.row.state, Journal(self.journal).known(self.bandit.uid)
        if state != "open":
            yield f"halted: it is {state}"
        digests: dict[int, dict[int, str]] = defaultdict(dict)
        for row in self.table.ledger:
            digests[row.stream][row.batch] = row.digest
            if self.record.seen.get((self.name, row.stream, row.batch), row.digest) != row.digest:
                yield f"changed: batch {row.batch} of stream {row.stream} is not what it was"
        if known.state(digests) != "whole" or known.published != digests:
            yield "journal: it does not know these batches, or others"

    def attempts(self, number: int) -> list[Attempt]:
        return self.record.rewards.get((self.name, number), [])

    @cache  # noqa: B019  # asked for when all rounds are read, by whoever is soon forgotten
    def numbers(self, stream: int) -> list[int]:
        """The bandit's rounds that are of this stream."""
        return [number for number, one in enumerate(self.rounds) if one.stream == stream]

    def closed(self, number: int) -> bool:
        row = self.table.books.get(self.rounds[number].stream)
        return row is not None and number < row.closed_round

    @staticmethod
    def values(row: Any) -> list[Any]:
        """The releases of a batch, one array each."""
        arrays, _ = unpacked(row.data)
        return np.split(arrays["values"], np.cumsum(arrays["sizes"])[:-1])
