"""Backups of a whole database, and what is restored from them. A backup holds rewards: it is for its owner's eyes only.

A backup is one SQLite file, of whichever database: it can be restored into the other kind too. It is one moment of the
database, taken while workers go on. What was published since is only in the journal: bandits that released batches after
their backup come back halted.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from adaprivate import check
from adaprivate.service import keeping, migrations, schema
from adaprivate.service.database import Database
from adaprivate.service.journal import Journal
from adaprivate.service.moving import count_on

_ROWS = 500
"""So many rows are copied at a time."""


def backup(url: str, file: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write everything in a database to a file, whole or not at all; how many bandits and bytes."""
    check.expect(replace or not file.exists(), "file", str(file), "not to exist; say --replace to write over it")
    database = Database(url)
    try:
        _expect_other(database.path, file)
        _expect_there(database)
        with _partial(file) as (partial, finish):
            if database.path is not None:
                _copy_file(database.path, partial)
            else:
                migrations.expect_current(url)
                _copy_from_server(database, partial)
            bandits = _expect_sound(partial, "backup")
            finish()
    finally:
        database.close()
    return {"file": str(file), "bandits": bandits, "bytes": file.stat().st_size}


def restore(
    file: Path, url: str, journal: Journal, *, replace: bool = False, keep_ids: bool = False, vouched: bool = False
) -> dict[str, keeping.Standing]:
    """Make a database from a backup, whole or not at all; how each bandit stands. Nobody may be using the database.

    Bandits of which batches were published since the backup are halted. Ids of decisions made before are refused from then
    on, for rounds that were lost are given out again; unless ``keep_ids`` says that no decision was made after the backup.
    ``vouched``: somebody who knows says, where there is no journal, that nothing was published since.
    """
    check.expect(file.is_file(), "file", str(file), "to be a backup")
    database = Database(url)
    try:
        _expect_other(database.path, file)
        with _partial(database.path or Path(tempfile.gettempdir()) / "adaprivate.db") as (partial, finish):
            _expect_sound(file, "file")
            _copy_file(file, partial)
            found = _prepared(partial, journal, keep_ids=keep_ids, vouched=vouched)
            if database.path is not None:
                _put_in_place(database.path, finish, replace=replace)
            else:
                _copy_to_server(partial, database, replace=replace)
    finally:
        database.close()
    return found


def _prepared(partial: Path, journal: Journal, *, keep_ids: bool, vouched: bool) -> dict[str, keeping.Standing]:
    """Bring a copy of a backup up to date before anyone can use it: its tables, its ids, who must be halted."""
    migrations.upgrade(f"sqlite:///{partial}")
    b = schema.bandits
    copy = Database(f"sqlite:///{partial}")
    try:
        if vouched:
            with copy.reading() as connection:
                names = connection.scalars(sa.select(b.c.name).where(b.c.state != "moved")).all()
            for name in names:
                keeping.vouch(copy, journal, name)
        with copy.writing() as connection:
            found = keeping.halt_behind(connection, journal)
            connection.execute(schema.books.update().values(claimed_until=0.0))
            if not keep_ids:
                for number in connection.scalars(sa.select(b.c.id).where(b.c.state != "moved")).all():
                    keeping.fresh_ids(connection, number)
    finally:
        copy.close()
    _one_file(partial)
    return found


def _put_in_place(path: Path, finish: Callable[[], None], *, replace: bool) -> None:
    if path.exists():
        check.expect(replace, "database", str(path), "not to exist; say --replace to lose what is in it")
        _expect_unused(path)
    finish()


def _expect_unused(path: Path) -> None:
    """Raise while anybody has the database open: its workers would go on in a file that is gone."""
    try:
        _one_file(path)
    except sqlite3.OperationalError:
        raise check.InputError(f"Expected database={str(path)!r} to be used by nobody: stop the service first.") from None
    except sqlite3.DatabaseError:  # damaged: that is why it is replaced
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)


def _one_file(path: Path) -> None:
    """Fold the write-ahead log into the file; nobody else may have it open."""
    with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
        if mode != "delete":
            raise sqlite3.OperationalError("locked")


def _copy_file(source: Path, target: Path) -> None:
    """A copy of one moment of a SQLite database, though others write to it."""
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new, pages=-1)  # all at once: in steps it would begin again whenever somebody writes
        _one_file(target)
    except sqlite3.Error as error:
        raise check.InputError(f"Expected {str(source)!r} to be a whole SQLite database ({error}).") from None


def _expect_sound(path: Path, name: str) -> int:
    """Raise unless this file is a whole database of ours, as old as this code or older; how many bandits it holds."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
            check.expect(verdict == "ok", name, str(path), "to be whole: it is damaged")
            revision = connection.execute(f"SELECT version_num FROM {migrations.VERSION_TABLE}").fetchone()[0]
            bandits = connection.execute("SELECT count(*) FROM bandits").fetchone()[0]
    except (sqlite3.Error, TypeError):
        raise check.InputError(f"Expected {name}={str(path)!r} to be a backup that adaprivate wrote, whole.") from None
    migrations.expect_known(revision)
    return int(bandits)


def _copy_from_server(database: Database, target: Path) -> None:
    """Copy one moment of a PostgreSQL database into a SQLite file."""
    migrations.upgrade(f"sqlite:///{target}")
    copy = Database(f"sqlite:///{target}")
    try:
        connected = database.engine.connect().execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connected as source, source.begin(), copy.writing() as written:
            _copy_tables(source, written)
    finally:
        copy.close()
    _one_file(target)


def _copy_to_server(source: Path, database: Database, *, replace: bool) -> None:
    """Copy a SQLite file into a PostgreSQL database, in one transaction."""
    copy = Database(f"sqlite:///{source}")
    try:
        with copy.reading() as read, database.writing() as written:
            migrations.upgraded(written)
            if written.scalar(sa.select(sa.func.count()).select_from(schema.bandits)):
                check.expect(replace, "database", database.shown, "to have no bandits; say --replace to lose them")
            for table in reversed(schema.metadata.sorted_tables):
                written.execute(table.delete())
            _copy_tables(read, written)
            count_on(written)
    finally:
        copy.close()


def _copy_tables(source: sa.Connection, target: sa.Connection) -> None:
    for table in schema.metadata.sorted_tables:
        rows = source.execution_options(yield_per=_ROWS).execute(sa.select(table))
        for some in rows.mappings().partitions(_ROWS):
            target.execute(table.insert(), [dict(row) for row in some])


@contextmanager
def _partial(path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A file beside this one, for its owner's eyes only, and what puts it in its place; else nothing is left of it."""
    check.expect(path.parent.is_dir(), "file", str(path), "to be in a folder that exists")
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def finish() -> None:
        _synchronise(partial)
        partial.replace(path)
        _synchronise(path.parent)

    try:
        yield partial, finish
    finally:
        for ending in ("", "-wal", "-shm", "-journal", ".turn"):
            partial.with_name(partial.name + ending).unlink(missing_ok=True)


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _expect_there(database: Database) -> None:
    there = database.path is None or database.path.exists()
    check.expect(there, "database", database.shown, "to exist")


def _expect_other(path: Path | None, file: Path) -> None:
    check.expect(path is None or path.resolve() != file.resolve(), "file", str(file), "not to be the database itself")
