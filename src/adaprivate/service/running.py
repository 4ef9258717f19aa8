"""Running the service: tables brought up to date, one socket, one or several workers, and one who closes batches.

All are processes of their own that share nothing but the socket and the database. One that dies is started anew; one whose
parent died ends. On SIGTERM requests under way are answered and what waits is committed before a worker ends. Batches are
closed beside the workers so that nobody waits for a decision meanwhile.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from adaprivate import __version__, check
from adaprivate.service import schema
from adaprivate.service.access import checked_origin, is_loopback
from adaprivate.service.app import MAX_BODY, create_app, report_to
from adaprivate.service.core import Service
from adaprivate.service.grouping import Recurring, wait_for_slot
from adaprivate.service.heads import BoundedHeads
from adaprivate.service.migrations import upgrade
from adaprivate.service.observing import Log, ServerMessages

SETTINGS = "ADAPRIVATE_WORKER_SETTINGS"
"""The environment variable in which workers find what to serve."""
MOST_WORKERS = 256
GRACE = 30
"""Seconds for requests under way when a worker is to end."""
_SWITCH = 0.001
"""Seconds after which a thread that computes lets others go on: loop and writer must not wait long for each other."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a worker needs to know."""

    database: str
    journal: str | None
    require_keys: bool
    rate: float | None
    max_body: int
    allow_origins: tuple[str, ...]
    workers: int
    closes: bool = True
    """Whether workers close batches themselves."""
    parent: int = 0
    """The process with which they end."""

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """What :meth:`to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "allow_origins": tuple(values["allow_origins"])})


def serve(
    database: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    *,
    journal: Path | None = None,
    rate: float | None = None,
    max_body: int = MAX_BODY,
    allow_origins: Sequence[str] = (),
    require_keys: bool = False,
    as_json: bool = False,
) -> None:
    """Serve until a signal ends it. Beyond this machine keys are always needed: there is no way to leave them out."""
    check.whole("port", port, at_least=0, at_most=65_535)
    check.whole("workers", workers, at_least=1, at_most=MOST_WORKERS)
    check.whole("max_body", max_body, at_least=1024, at_most=1 << 30)
    if rate is not None:
        check.real("rate", rate, above=0)
    needed = require_keys or not is_loopback(host)
    origins = tuple(map(checked_origin, allow_origins))
    check.expect(needed or "*" not in origins, "allow_origin", "*", "to come with --require-keys")
    settings = Settings(
        database=database,
        journal=None if journal is None else str(journal),
        require_keys=needed,
        rate=rate,
        max_body=max_body,
        allow_origins=origins,
        workers=workers,
        closes=False,
        parent=os.getpid(),
    )
    upgrade(database)
    listening = _listening(host, port)
    _announce(settings, host, listening.getsockname()[1], as_json)
    config = uvicorn.Config(
        "adaprivate.service.running:worker",
        factory=True,
        workers=workers,
        loop="uvloop",
        http=BoundedHeads,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=GRACE,
        timeout_worker_healthcheck=20,
    )
    os.environ[SETTINGS] = settings.to_json()
    closer = Closer(Log())
    closer.start()
    try:
        if workers == 1:
            signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it once more when it is done: not to die of it
            server = uvicorn.Server(config)
            server.run(sockets=[listening])
            if not server.started:
                sys.exit(1)
        else:
            _note_server_messages(Log())
            Multiprocess(config, sockets=[listening]).run()
    finally:
        closer.stop()


def worker() -> FastAPI:
    """The application of one worker, made from its settings in the environment."""
    settings = Settings.from_json(os.environ[SETTINGS])
    log = Log()
    _note_server_messages(log)
    if os.getpid() != settings.parent != 0:
        _end_with(settings.parent)
    service = _service(settings)
    app = create_app(
        service,
        closes=settings.closes,
        require_keys=settings.require_keys,
        max_body=settings.max_body,
        rate=settings.rate,
        allow_origins=settings.allow_origins,
        log=log,
        owns_service=True,
    )
    sys.setswitchinterval(_SWITCH)
    gc.collect()
    gc.freeze()  # what is loaded stays: nobody need look through it again
    gc.set_threshold(50_000, 50, 100)  # requests leave next to no cycles
    return app


def _service(settings: Settings) -> Service:
    return Service(settings.database, journal=None if settings.journal is None else Path(settings.journal))


class Closer:
    """The process that closes batches, kept alive."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._process: BaseProcess | None = None
        self._watch = Recurring("closer", self._keep, 0.5, log)

    def start(self) -> None:
        """Begin."""
        self._keep()
        self._watch.start()

    def stop(self) -> None:
        """End it, after what it is closing just now."""
        self._watch.stop()
        if self._process is not None:
            self._process.terminate()
            self._process.join(GRACE)
            self._process.kill()

    def _keep(self) -> None:
        if self._process is None or not self._process.is_alive():
            if self._process is not None:
                self._log.event("error", "closer", started="anew", code=self._process.exitcode)
            self._process = get_context("spawn").Process(target=close_batches, name="adaprivate-closer", daemon=True)
            self._process.start()


def close_batches() -> None:
    """Close batches that are due until this process is told to end; what to serve is in the environment."""
    settings, log, ending = Settings.from_json(os.environ[SETTINGS]), Log(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, to all: the parent ends this one
    _end_with(settings.parent)
    service = _service(settings)
    service.report = report_to(log)

    def close() -> None:
        service.refresh()
        service.close_due()

    chores = [
        Recurring("close", close, 0.1, log, longest=1.0),
        Recurring("tidy", partial(service.tidy, wait_for_slot), 0.1, log),
    ]
    for chore in chores:
        chore.start()
    ending.wait()
    for chore in chores:
        chore.stop()
    service.close()
    log.flush()


def _note_server_messages(log: Log) -> None:
    server = logging.getLogger("uvicorn")
    server.handlers, server.propagate = [ServerMessages(log)], False
    server.setLevel(logging.WARNING)


def _end_with(parent: int) -> None:
    """End gracefully once the process that started this one is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="adaprivate-parent", daemon=True).start()


def _listening(host: str, port: int) -> socket.socket:
    """A socket at this address; OSError where there can be none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError):
        raise check.InputError(f"Expected host={host!r} to be a name or an address of this machine.") from None
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(2048)
    except (OSError, OverflowError) as error:
        found.close()
        raise check.InputError(
            f"Expected host={host!r}, port={port} to be free ({getattr(error, 'strerror', '')})."
        ) from None
    found.set_inheritable(True)
    return found


def _announce(settings: Settings, host: str, port: int, as_json: bool) -> None:
    """One line: where it serves, from what, who may come, and what to do first."""
    service = _service(settings)
    try:
        with service.database.reading() as connection:
            bandits = connection.scalar(sa.select(sa.func.count()).select_from(schema.bandits)) or 0
            live = schema.api_keys.c.revoked_at.is_(None)
            keys = connection.scalar(sa.select(sa.func.count()).select_from(schema.api_keys).where(live)) or 0
        shown, path = service.database.shown, service.database.path
        if path is not None and path.stat().st_mode & 0o077:
            advice = "Others on this machine can open the database, which holds rewards: chmod 600."
            Log().event("warning", "database", message=advice)
    finally:
        service.close()
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if as_json:
        facts = {"address": address, "database": shown, "keys": settings.require_keys, "workers": settings.workers}
        facts |= {"process": os.getpid()}
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        parts = [f"adaprivate {__version__} serves {address} from {shown}"]
        parts.append("keys are needed" if settings.require_keys else "no key is needed, on this machine alone")
        line = ", ".join(parts) + "."
        if settings.require_keys and not keys:
            line += f" There is no key yet: adaprivate keys create NAME --scope admin --database {shown}"
        elif not bandits:
            body = """'{"name": "my-page", "dimension": 3, "base_rate": 0.05, "missing": 0}'"""
            key = " -H 'authorization: Bearer KEY'" if settings.require_keys else ""
            line += f" There is no bandit yet: curl {address}/bandits -H 'content-type: application/json'{key} -d {body}"
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
