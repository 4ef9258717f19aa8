"""How the tables of an older adaprivate become those of this one, step by step, whatever is in them.

Every step is a revision in ``versions/``; a database says at which one it is. ``upgrade`` takes all that are missing in one
transaction, under a lock: of several processes that start at once one does it, and the others find it done.
"""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from adaprivate import check
from adaprivate.service.database import Database

VERSION_TABLE = "adaprivate_schema"
_LOCK = int.from_bytes(b"adapriv", "big")
"""The number of PostgreSQL's advisory lock."""


def head() -> str:
    """The revision of the tables that this code knows."""
    found = _scripts().get_current_head()
    assert found is not None
    return found


def current(url: str) -> str | None:
    """The revision at which a database is; None where it has no tables of ours."""
    database = Database(url)
    try:
        if database.path is not None and not database.path.exists():
            return None
        with database.reading() as connection:
            return at(connection)
    finally:
        database.close()


def at(connection: sa.Connection) -> str | None:
    """The revision at which a connection's database is."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def upgrade(url: str, to: str = "head") -> str:
    """Bring a database to the newest revision, making it where there is none; the revision it is then at."""
    database = Database(url)
    try:
        make_private(database.path)
        with database.writing() as connection:
            upgraded(connection, to)
        with database.reading() as connection:
            return str(at(connection))
    finally:
        database.close()


def upgraded(connection: sa.Connection, to: str = "head") -> None:
    """The same within a transaction that writes."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    found = at(connection)
    expect_known(found)
    if found is None:
        names = sorted({"bandits", "releases", "ledger"} & {*sa.inspect(connection).get_table_names()})
        check.expect(not names, "tables", names, "not to be there: this database was not made by adaprivate")
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def expect_known(revision: str | None) -> None:
    """Raise where a database is of a newer adaprivate."""
    known = [script.revision for script in _scripts().walk_revisions()]
    check.expect(
        revision is None or revision in known,
        "revision",
        revision,
        f"to be at most {known[0]}: a newer adaprivate made this database. Use that one",
    )


def expect_current(url: str) -> None:
    """Raise where a database is not at the newest revision: nothing is changed."""
    found = current(url)
    expect_known(found)
    check.expect(found == head(), "revision", found, f"== {head()}: run adaprivate migrate on this database first")


def make_private(path: Path | None) -> None:
    """An empty file for a SQLite database that does not exist yet, for its owner's eyes only: rewards will be in it."""
    if path is None or path.exists():
        return
    check.expect(path.parent.is_dir(), "database", str(path), "to be in a folder that exists")
    check.expect(not path.is_symlink(), "database", str(path), "not to be a link to a file that is missing")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
