"""A service in processes of its own that are killed now and then, and somebody who watches its database meanwhile."""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from tests.service.recorded_service import Recorded, note_line

from adaprivate.service import schema
from adaprivate.service.database import Database
from adaprivate.service.erasure import limits_of, spent_rewards
from adaprivate.service.faults import Fault
from adaprivate.service.journal import Journal
from adaprivate.service.keeping import digests

ROOT = Path(__file__).parents[2]
ANY_TIME, ALL_AT_ONCE = "any time", "all at once"


class Running:
    """A service in processes of its own, all in one group that ends with this one."""

    def __init__(self, settings: Recorded) -> None:
        self.settings = settings
        Path(settings.folder).mkdir(exist_ok=True)
        self.log = Path(settings.folder, "service.log")
        command = [sys.executable, "-m", "tests.service.recorded_service", settings.to_json()]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=-1, stdout=-1, stderr=log, cwd=ROOT, env=environment, start_new_session=True
            )
        atexit.register(self.stop)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise RuntimeError(f"The service did not start: {self.log.read_text()[-2000:]}")
        self.url = json.loads(line)["address"]

    def workers(self) -> list[int]:
        """The processes that serve just now, the oldest first."""
        try:
            born = [int(line) for line in self.settings.born.read_text().split()]
        except FileNotFoundError:
            return []
        return [pid for pid in born if _parent(pid) == self._process.pid]

    def kill(self, rng: random.Random) -> None:
        """Kill one worker, now and then all of them at once.

        Under the supervisor of ``adaprivate serve`` the oldest is spared, and all must be there: that supervisor waits for
        workers that are starting, and meanwhile starts no others.
        """
        living = self.workers()
        if self.settings.spawn:
            living = living[1:] if len(living) == self.settings.workers + 1 else []  # one more closes batches
        everyone = rng.random() < 0.15 and not self.settings.spawn
        for pid in living if everyone else rng.sample(living, min(len(living), 1)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            note_line(self.settings.died, ALL_AT_ONCE if everyone else ANY_TIME)

    def births(self) -> int:
        """How many workers have started."""
        path = self.settings.born
        return len(path.read_text().splitlines()) if path.exists() else 0

    def make_peace(self) -> None:
        """Let nobody die from now on."""
        self.settings.peace.touch()

    def deaths(self) -> Counter[str]:
        """How many workers were killed, by where."""
        path = self.settings.died
        return Counter(path.read_text().splitlines() if path.exists() else [])

    def errors(self) -> Counter[str]:
        """Failures in the service's log."""
        found: Counter[str] = Counter()
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                found[line[:150]] += 1
                continue
            if event.get("level") == "error":
                facts = (event.get(name) for name in ("event", "error", "route", "status", "message", "at"))
                found[" ".join(str(fact) for fact in facts if fact is not None)] += 1
        return found

    def stop(self) -> None:
        """Kill all at once."""
        atexit.unregister(self.stop)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # nobody has waited for it: the number is still its own
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _parent(pid: int) -> int | None:
    """The parent of a process that lives."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(parent)


class Watch(threading.Thread):
    """Looks at the database and the journal while it all happens: which batches are closed, and whether one changes.

    ``problem`` is called with what must not be; ``seen`` holds the digests of ledger rows when they were first seen.
    """

    def __init__(self, database: str, journal: Path, problem: Callable[[str], None], seen: dict[Any, str]) -> None:
        super().__init__(daemon=True)
        self._database, self._problem, self._seen = Database(database), problem, seen
        self._journal = Journal(journal)
        self._uids: dict[str, str] = {}
        self._over = threading.Event()
        self.closings = 0
        self.closed: dict[tuple[str, int], int] = {}
        """Rounds of the bandit in closed batches, by bandit and stream."""
        self.waiting: dict[str, int] = {}
        """Rounds of the bandit that are not in closed batches, where a batch is full."""
        self.full = 0
        """Batches all of whose rounds are assigned."""
        self.erased = False
        """Whether no reward is left of a batch that is closed, unless its bandit keeps them."""

    def run(self) -> None:
        while not self._over.wait(0.1):
            try:
                self.look()
            except Fault:  # too busy just now
                continue

    def stop(self) -> None:
        self._over.set()
        self.join(30)
        self._database.close()

    def look(self) -> None:
        b, k = schema.bandits, schema.books
        with self._database.reading() as connection:
            self._uids = {row.name: row.uid for row in connection.execute(sa.select(b.c.name, b.c.uid))}
        known = {name: self._journal.known(uid) for name, uid in self._uids.items()}  # before the database is read
        query = sa.select(b, k.c.stream, k.c.closed, k.c.closed_round, k.c.next_end).join(k, k.c.bandit == b.c.id)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
            found = {row.name: digests(connection, row.id) for row in rows}
            limits = limits_of(connection)
        full, waiting = 0, dict.fromkeys(found, 0)
        for row in rows:
            assigned = row.policy_rounds if row.stream == 0 else row.holdback_rounds
            if row.next_end is not None and assigned >= row.next_end:
                full, waiting[row.name] = full + 1, max(waiting[row.name], assigned - row.closed)
            self.closed[row.name, row.stream] = row.closed_round
            if row.name in known and known[row.name].state(found[row.name]) != "whole":
                self._problem(f"journal: it disagrees about {row.name}")
            for batch, digest in found[row.name].get(row.stream, {}).items():
                if self._seen.setdefault((row.name, row.stream, batch), digest) != digest:
                    self._problem(f"changed: batch {batch} of {row.name}, stream {row.stream}, is another one now")
        spent = [
            next(spent_rewards(self._database, row.id, limits[row.id]), None)
            for row in rows
            if not json.loads(row.description)["keep_rewards"]
        ]
        self.full, self.waiting, self.erased = full, waiting, not any(spent)
        self.closings = sum(len(batches) for streams in found.values() for batches in streams.values())

    def shown(self, bandit: str, batches: dict[int, set[int]]) -> None:
        """Somebody was shown these batches, by stream: the journal must have known of them before."""
        noted = self._journal.known(self._uids[bandit]).published
        for stream, numbers in batches.items():
            if numbers - noted.get(stream, {}).keys():
                self._problem(f"shown: batches {numbers} of {bandit}, stream {stream}, before they were noted")
