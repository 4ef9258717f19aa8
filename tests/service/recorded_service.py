"""The service with its noise on record, and with workers that die at chosen points: for tests alone.

``python -m tests.service.recorded_service SETTINGS`` serves until its standard input ends. Everything is put around the
service from outside: what a closing drew is written into a table of its own by the transaction that writes the ledger, so
a crash forgets both or neither; and a worker may be told to kill itself (SIGKILL) where it would hurt most.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import uvicorn
from tests.service.planted import plant

from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.noise import NOISE_BITS, Secure
from adaprivate.service import closing, core, journal, running
from adaprivate.service.app import create_app
from adaprivate.service.migrations import upgrade

SETTINGS = "ADAPRIVATE_RECORDED_SERVICE"
CLOSING_POINTS = (
    *("before-seal", "after-seal", "after-noise", "in-commit", "after-commit"),
    *("before-note", "torn-note", "after-note"),
)
REQUEST_POINTS = ("in-decision", "after-decision", "in-reward", "after-reward")
POINTS = (*CLOSING_POINTS, *REQUEST_POINTS)

noise = sa.Table(
    "recorded_noise",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("bandit", "stream", "batch")),
    sa.Column("drawn", sa.Text, nullable=False),
)
"""One row for every ledger row that was ever committed. Nothing makes them unique: two of a batch are two releases."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What is served, and what goes wrong in it. ``points``: where workers die, one after the other in a shuffled order.

    ``claim``: seconds that a worker has to itself for closing; ``slow``: how often one takes longer than that. ``spawn``:
    workers under the supervisor of ``adaprivate serve``; else they are forked by this process, which takes no time.
    ``planted``: a mistake in the service that tests must notice (tests.service.planted).
    """

    database: str
    folder: str
    workers: int = 3
    seed: int = 1
    points: tuple[str, ...] = ()
    claim: float = 0.3
    slow: float = 0.0
    spawn: bool = False
    planted: str | None = None
    seconds: float = 600.0

    @property
    def journal(self) -> Path:
        return Path(self.folder, "journal")

    @property
    def born(self) -> Path:
        """A line for every worker that started: its process, and the point where it is to die."""
        return Path(self.folder, "born")

    @property
    def died(self) -> Path:
        """A line for every worker that was killed: where."""
        return Path(self.folder, "died")

    @property
    def peace(self) -> Path:
        """While this file is there, nobody dies."""
        return Path(self.folder, "peace")

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Recorded:
        values = json.loads(text)
        return cls(**{**values, "points": tuple(values["points"])})


def note_line(path: Path, text: str) -> int:
    """Append a line, whole; how many there were before."""
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        count = file.read().count(b"\n")
        file.write(f"{text}\n".encode())
        file.flush()
    return count


class Fate:
    """Where this worker dies: at the ``countdown``-th time that it comes by one point."""

    def __init__(self, settings: Recorded) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        number = note_line(settings.born, str(os.getpid()))
        order = random.Random(settings.seed)
        shuffled = [*settings.points]
        rounds = number // max(len(shuffled), 1) + 1
        for _ in range(rounds):
            order.shuffle(shuffled)
        self.random = random.Random(f"{settings.seed} {number}")
        self.point = shuffled[number % len(shuffled)] if shuffled else None
        often = self.point in REQUEST_POINTS
        self._countdown = self.random.randint(5, 40) if often else self.random.randint(1, 3)

    def dies_here(self, point: str) -> bool:
        """Whether it is time."""
        if point != self.point or self._settings.peace.exists():
            return False
        with self._lock:
            self._countdown -= 1
            return self._countdown == 0

    def die(self) -> None:
        note_line(self._settings.died, str(self.point))
        os.kill(os.getpid(), signal.SIGKILL)

    def at(self, point: str) -> None:
        """Die, if it is time."""
        if self.dies_here(point):
            self.die()

    def dawdle(self) -> None:
        """Now and then take so long that another worker thinks this one dead."""
        if self.random.random() < self._settings.slow and not self._settings.peace.exists():
            time.sleep(1.5 * self._settings.claim)


class Drawing(threading.local):
    """What this thread has drawn for the batch that it is closing; None while it closes none."""

    drawn: list[Any] | None = None
    batch: tuple[int, int, int] | None = None


drawing = Drawing()


def note(kind: str, value: Any) -> None:
    if drawing.drawn is not None:
        drawing.drawn.append([kind, value])


class RecordedNoise(Secure):
    """Exact noise, remembered."""

    def gaussian(self, values: Any, scale: Any) -> Any:
        noisy = super().gaussian(values, scale)
        pairs = zip(noisy.ravel(), values.ravel(), strict=True)
        note("gaussian", [str(Fraction(float(x)) - Fraction(int(v), 2**NOISE_BITS)) for x, v in pairs])
        return noisy


def install(settings: Recorded) -> None:
    """Put the record, the deaths and the planted mistake around the service, in this process."""
    fate = Fate(settings)
    closing.CLAIM = settings.claim
    core.Secure = RecordedNoise  # type: ignore[misc]
    _record_counts_and_flips()
    if settings.planted is not None:
        plant(settings.planted, lambda: fate.at("between"))
    _die_while_closing(fate)
    _die_while_noting(fate)
    _die_while_answering(fate)

    def executed(connection: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO ledger"):
            assert drawing.batch is not None
            bandit, stream, batch = drawing.batch
            row = {"bandit": bandit, "stream": stream, "batch": batch, "drawn": json.dumps(drawing.drawn)}
            connection.execute(noise.insert().values(**row))
            fate.at("in-commit")
        elif statement.startswith("INSERT INTO decisions"):
            fate.at("in-decision")
        elif statement.startswith("INSERT INTO rewards"):
            fate.at("in-reward")

    sa.event.listen(sa.Engine, "after_cursor_execute", executed)


def _record_counts_and_flips() -> None:
    tell, add = RandomisedResponse.tell, DiscreteLaplace.add

    def told(self: RandomisedResponse, reward: float, source: Any) -> float:
        found = tell(self, reward, source)
        note("told", found)
        return found

    def added(self: DiscreteLaplace, total: int, source: Any) -> int:
        noisy = add(self, total, source)
        note("count", noisy - total)
        return noisy

    RandomisedResponse.tell = told  # type: ignore[method-assign]
    DiscreteLaplace.add = added  # type: ignore[method-assign]


def _die_while_closing(fate: Fate) -> None:
    seal, close, commit = closing.seal, closing.close, closing._commit

    def sealed(*arguments: Any) -> bool:
        fate.at("before-seal")
        done = seal(*arguments)
        if done:
            fate.at("after-seal")
        return done

    def closed(database: Any, bandit: Any, catalogue: Any, batch: Any, *others: Any) -> bool:
        drawing.drawn, drawing.batch = [], (bandit.id, batch.stream, batch.number)
        try:
            return close(database, bandit, catalogue, batch, *others)
        finally:
            drawing.drawn = drawing.batch = None

    def committed(*arguments: Any) -> bool:
        fate.at("after-noise")
        fate.dawdle()
        done = commit(*arguments)
        if done:
            fate.at("after-commit")
        return done

    closing.seal, closing.close, closing._commit = sealed, closed, committed


def _die_while_noting(fate: Fate) -> None:
    publish, write = journal.Journal.publish, journal._write

    def published(self: journal.Journal, uid: str, stream: int, rows: Any) -> None:
        size = self._stat(uid)[2]
        publish(self, uid, stream, rows)
        if self._stat(uid)[2] > size:
            fate.at("after-note")

    def torn(descriptor: int, data: bytes) -> None:
        fate.at("before-note")
        if fate.dies_here("torn-note"):
            os.write(descriptor, data[: len(data) // 2])
            fate.die()
        write(descriptor, data)

    journal.Journal.publish = published  # type: ignore[method-assign]
    journal._write = torn


def _die_while_answering(fate: Fate) -> None:
    def then_die(method: Callable[..., Any], point: str) -> Callable[..., Any]:
        def answered(*arguments: Any) -> Any:
            found = method(*arguments)
            fate.at(point)  # it is stored, and nobody is told
            return found

        return answered

    core.Service.decide = then_die(core.Service.decide, "after-decision")  # type: ignore[method-assign]
    core.Service.reward = then_die(core.Service.reward, "after-reward")  # type: ignore[method-assign]


# --- processes --------------------------------------------------------------------------------------------------------


def main(settings: Recorded) -> None:
    """Serve until standard input ends, or the time is over; then end all processes of this group."""
    deadline = time.monotonic() + settings.seconds
    upgrade(settings.database)
    engine = sa.create_engine(core.Database(settings.database).url)
    noise.create(engine, checkfirst=True)
    engine.dispose()
    if settings.spawn:
        os.environ[SETTINGS] = settings.to_json()
        threading.Thread(target=_end_with_input, args=(deadline,), daemon=True).start()
        running.serve(
            settings.database, port=0, workers=settings.workers, journal=Path(settings.folder, "journal"), as_json=True
        )
    else:
        warm_up()
        supervise(settings, deadline)


def _end_with_input(deadline: float) -> None:
    while not _input_ended(0.2) and time.monotonic() < deadline:
        continue
    os.killpg(0, signal.SIGKILL)


def _input_ended(seconds: float) -> bool:
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and os.read(0, 1) == b""


def supervise(settings: Recorded, deadline: float) -> None:
    """Fork workers and start those anew that die."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    print(json.dumps({"address": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
    os.environ[running.SETTINGS] = running.Settings(
        database=settings.database,
        journal=str(settings.journal),
        require_keys=False,
        rate=None,
        max_body=running.MAX_BODY,
        allow_origins=(),
        workers=settings.workers,
    ).to_json()
    children: set[int] = set()
    while not _input_ended(0.02) and time.monotonic() < deadline:
        for pid in [*children]:
            if os.waitpid(pid, os.WNOHANG)[0]:
                children.remove(pid)
        while len(children) < settings.workers:
            children.add(_forked(settings, listening))
    os.killpg(0, signal.SIGKILL)


def _forked(settings: Recorded, listening: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        install(settings)
        options = {"loop": "uvloop", "http": "httptools", "ws": "none", "lifespan": "on", "log_config": None}
        config = uvicorn.Config(running.worker(), access_log=False, timeout_keep_alive=65, **options)
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        os._exit(1)


def warm_up() -> None:
    """Load once what workers need, so that those forked from here have it."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/warm.db"
        upgrade(url)
        service = core.Service(url)
        for policy in ("adaprivate-ts", "rr-linucb", "noise-aware"):
            plain = {"dimension": 3, "rounds": 100, "batch_size": 10, "reward_window": 0.0, "holdback": 0.3}
            service.create(core.BanditSpec(name=policy, policy=policy, **plain))  # type: ignore[arg-type]
            service.put_items(policy, {"a": [0.5, 0.0, 0.0], "b": [0.0, 0.5, 0.0]})
            for _ in range(3):
                decided = service.decide([(policy, [service.check(policy, core.Ask())] * 30, None)])[0]
                service.reward([(one.decision_id, True) for one in decided[:5]])
                while service.close_due():
                    pass
        create_app(service, require_keys=False)
        service.close()


if __name__ == "__main__":
    main(Recorded.from_json(sys.argv[1]))
elif __name__ == "__mp_main__":  # a worker that the supervisor of `adaprivate serve` has spawned
    install(Recorded.from_json(os.environ[SETTINGS]))
