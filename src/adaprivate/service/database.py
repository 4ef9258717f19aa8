"""The database: SQLite in WAL mode, or PostgreSQL. Transactions are whole or not at all; its failures are one Fault."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import InterfaceError, InternalError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from adaprivate import check
from adaprivate.service.faults import Fault

_PATIENCE_MS, _LITTLE_PATIENCE_MS = 10_000, 2
"""For how long a statement waits for others' locks; and where all who write wait meanwhile."""
_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # a release that was shown must be there after a power cut: else its noise is drawn again
    "foreign_keys = ON",
    f"busy_timeout = {_PATIENCE_MS}",
    "secure_delete = ON",  # rewards that were used are overwritten, not only forgotten
    "wal_autocheckpoint = 20000",  # in pages: the commit that folds the log in takes long, and rewards fill the log, too
)


def checked_url(url: str) -> sa.URL:
    """The address of a database that can be used here, with the driver that is."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise check.InputError(
            "Expected database to be an address like sqlite:///adaprivate.db or postgresql://..."
        ) from None
    kind = parsed.get_backend_name()
    check.expect(kind in ("sqlite", "postgresql"), "database", kind, "in {sqlite, postgresql}")
    if kind == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    in_file = parsed.database not in (None, "", ":memory:")
    check.expect(in_file, "database", url, "to name a file, as sqlite:///adaprivate.db does")
    return parsed


class Database:
    """Where everything durable is. ``reading()`` and ``writing()`` are transactions; both may be used from many threads."""

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self.kind = self.url.get_backend_name()
        try:
            if self.kind == "sqlite":
                self.engine = sa.create_engine(self.url, pool_size=8, max_overflow=8, hide_parameters=True)
                sa.event.listen(self.engine, "connect", _prepare)
            else:
                self.engine = sa.create_engine(self.url, pool_size=8, max_overflow=8, pool_timeout=10, hide_parameters=True)
        except (NoSuchModuleError, ModuleNotFoundError):
            raise check.InputError("Expected psycopg to be installed: pip install 'adaprivate[postgresql]'.") from None
        sa.event.listen(self.engine, "begin", self._begin)
        self._turns = threading.Lock()
        self._turn_file: int | None = None

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self.url.render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """The file, for SQLite."""
        return Path(str(self.url.database)).absolute() if self.kind == "sqlite" else None

    def _begin(self, connection: sa.Connection) -> None:
        if self.kind == "sqlite":
            writes = connection.get_execution_options().get("writes", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database and changes nothing."""
        with _told_as_fault(), self.engine.connect() as connection:
            if self.kind == "postgresql":  # whose plain transactions see others' commits between their statements
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that changes something: committed at the end of the block, or as if it had never been."""
        with _told_as_fault(), self._turn(), self.engine.connect() as connection:
            changing = connection.execution_options(writes=True)
            with changing.begin():
                yield changing

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """SQLite has one writer at a time, and whoever finds it busy sleeps: waiting in line for a file lock is faster."""
        if self.kind != "sqlite":
            yield
            return
        with self._turns:
            if self._turn_file is None:
                self._turn_file = os.open(f"{self.path}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._turn_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._turn_file, fcntl.LOCK_UN)

    def forget_deleted(self, wait: Callable[[], None]) -> bool:
        """Empty the write-ahead log of SQLite, which still holds deleted rewards; False where somebody is reading it.

        The log is folded into the database while others write. Then, after ``wait``, the file is cut to nothing.
        """
        if self.kind != "sqlite":
            return True
        with _told_as_fault(), self.engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            raw.execute("PRAGMA wal_checkpoint(PASSIVE)")
            wait()
            with self._turn():
                raw.execute(f"PRAGMA busy_timeout = {_LITTLE_PATIENCE_MS}")
                try:
                    busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                finally:
                    raw.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        return not busy

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()
        if self._turn_file is not None:
            os.close(self._turn_file)
            self._turn_file = None


def locked(query: sa.Select[Any], *, shared: bool = False) -> sa.Select[Any]:
    """Rows that nobody else may change before this transaction ends; in SQLite, where a writer is alone, just rows."""
    return query.with_for_update(read=shared)


def _prepare(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions begin where they are said to
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


@contextmanager
def _told_as_fault() -> Iterator[None]:
    """Turn failures of the database into a Fault without their texts, which may quote values."""
    try:
        yield
    except (OperationalError, InterfaceError, InternalError, PoolTimeoutError, OSError) as error:
        kind = type(getattr(error, "orig", None) or error).__name__
        raise Fault("unavailable", f"The database does not answer ({kind}); nothing was changed.") from None
