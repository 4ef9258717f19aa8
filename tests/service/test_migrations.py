"""Old databases become new ones with everything in them; the tables that the code knows are those that migrations make."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from tests.service.conftest import Clock, decide

from adaprivate.check import InputError
from adaprivate.service import migrations, schema
from adaprivate.service.core import Service
from adaprivate.service.database import Database

OLD = Path(__file__).parent / "old_0001.sql"
"""A database as the first revision left it, with batches released, decisions open and rewards waiting."""


def _tables(url: str) -> set[str]:
    database = Database(url)
    try:
        with database.reading() as connection:
            return {*sa.inspect(connection).get_table_names()}
    finally:
        database.close()


def test_the_code_knows_the_tables_that_migrations_make(database_url: str) -> None:
    assert migrations.current(database_url) is None
    assert migrations.upgrade(database_url) == migrations.head() == migrations.current(database_url)
    database = Database(database_url)
    try:
        with database.reading() as connection:
            options = {"version_table": migrations.VERSION_TABLE, "compare_type": True}
            assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []
    finally:
        database.close()
    assert _tables(database_url) == {*schema.metadata.tables, migrations.VERSION_TABLE}


def test_a_database_up_to_date_is_left_as_it_is(database_url: str) -> None:
    migrations.upgrade(database_url)
    database = Database(database_url)
    try:
        with database.writing() as connection:
            connection.execute(schema.meta.insert().values(name="kept", value="yes"))
        assert migrations.upgrade(database_url) == migrations.head()
        migrations.expect_current(database_url)
        with database.reading() as connection:
            assert connection.scalar(sa.select(schema.meta.c.value)) == "yes"
    finally:
        database.close()


def _upgrade(url: str, start: multiprocessing.synchronize.Event) -> None:
    start.wait()
    migrations.upgrade(url)


def test_processes_that_start_at_once_do_it_once(database_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    starting = [context.Process(target=_upgrade, args=(database_url, start)) for _ in range(4)]
    for process in starting:
        process.start()
    start.set()
    for process in starting:
        process.join(120)
    assert [process.exitcode for process in starting] == [0, 0, 0, 0]
    assert migrations.current(database_url) == migrations.head()


def test_whoever_comes_second_waits(database_url: str) -> None:
    database = Database(database_url)
    second = threading.Thread(target=lambda: migrations.upgrade(database_url))
    try:
        with database.writing() as connection:
            migrations.upgraded(connection)
            second.start()
            second.join(0.5)
            assert second.is_alive()
        second.join(60)
        assert migrations.current(database_url) == migrations.head()
    finally:
        database.close()


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Adds a revision that does this after the newest one; its name."""
    head, folder = migrations.head(), tmp_path / "steps"
    folder.mkdir()
    plain = migrations._config()
    own = plain.get_main_option("script_location")

    def config() -> Config:
        found = Config()
        found.set_main_option("script_location", str(own))
        found.set_main_option("path_separator", "newline")
        found.set_main_option("version_locations", f"{own}/versions\n{folder}")
        return found

    monkeypatch.setattr(migrations, "_config", config)

    def add(body: str) -> str:
        lines = ["from alembic import op", "revision = '9000'", f"down_revision = {head!r}", "def upgrade():"]
        (folder / "9000_next.py").write_text("\n".join([*lines, *(f"    {line}" for line in body.splitlines())]) + "\n")
        return "9000"

    return add


def test_the_next_step_is_taken_and_what_is_there_stays(database_url: str, step: Callable[[str], str]) -> None:
    before = migrations.upgrade(database_url)
    database = Database(database_url)
    try:
        with database.writing() as connection:
            connection.execute(schema.meta.insert().values(name="kept", value="yes"))
        after = step('op.execute("ALTER TABLE meta ADD COLUMN more INTEGER DEFAULT 7")')
        assert migrations.current(database_url) == before
        assert migrations.upgrade(database_url) == migrations.head() == after
        with database.reading() as connection:
            row = connection.exec_driver_sql("SELECT value, more FROM meta").one()
        assert tuple(row) == ("yes", 7)
    finally:
        database.close()


def test_a_step_that_fails_leaves_the_database_as_it_was(database_url: str, step: Callable[[str], str]) -> None:
    before = migrations.upgrade(database_url)
    tables = _tables(database_url)
    step("op.execute('CREATE TABLE half (done INTEGER)')\nop.execute('DROP TABLE meta')\nraise ZeroDivisionError")
    with pytest.raises(ZeroDivisionError):
        migrations.upgrade(database_url)
    assert migrations.current(database_url) == before
    assert _tables(database_url) == tables
    with pytest.raises(InputError, match="adaprivate migrate"):
        migrations.expect_current(database_url)


def test_a_database_of_a_newer_adaprivate_is_refused_and_left_alone(database_url: str) -> None:
    migrations.upgrade(database_url)
    database = Database(database_url)
    try:
        with database.writing() as connection:
            connection.exec_driver_sql(f"UPDATE {migrations.VERSION_TABLE} SET version_num = '9999'")
        for refused in (migrations.upgrade, migrations.expect_current):
            with pytest.raises(InputError, match=r"revision='9999' to be at most .* a newer adaprivate made this database"):
                refused(database_url)
        assert migrations.current(database_url) == "9999"
    finally:
        database.close()


def test_an_older_database_is_named_where_it_must_be_new(database_url: str) -> None:
    with pytest.raises(InputError, match=r"revision=None == .*adaprivate migrate"):
        migrations.expect_current(database_url)
    migrations.upgrade(database_url, "0001")
    with pytest.raises(InputError, match=r"revision='0001' == .*adaprivate migrate"):
        migrations.expect_current(database_url)


def test_tables_of_somebody_else_are_not_taken_over(database_url: str) -> None:
    database = Database(database_url)
    try:
        with database.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE bandits (one_armed INTEGER)")
        with pytest.raises(InputError, match="not made by adaprivate"):
            migrations.upgrade(database_url)
        assert _tables(database_url) == {"bandits"}
    finally:
        database.close()


def test_a_new_file_is_for_its_owners_eyes(tmp_path: Path) -> None:
    migrations.upgrade(f"sqlite:///{tmp_path / 'a.db'}")
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    with pytest.raises(InputError, match="in a folder that exists"):
        migrations.upgrade(f"sqlite:///{tmp_path / 'nowhere' / 'a.db'}")
    assert migrations.current(f"sqlite:///{tmp_path / 'b.db'}") is None
    assert not (tmp_path / "b.db").exists()


@pytest.fixture
def old(database_url: str, tmp_path: Path) -> str:
    """A database of the first revision, with what was in it."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text())
    kept = f"sqlite:///{path}"
    if database_url.startswith("sqlite"):
        return kept
    migrations.upgrade(database_url, "0001")
    tables = sa.MetaData()
    source, target = Database(kept), Database(database_url)
    with source.reading() as read, target.writing() as written:
        tables.reflect(written)
        for table in tables.sorted_tables:
            rows = [dict(row) for row in read.execute(sa.select(table)).mappings()]
            if rows and table.name != migrations.VERSION_TABLE:
                written.execute(table.insert(), rows)
    source.close()
    target.close()
    return database_url


def test_an_old_database_goes_on_where_it_was(old: str, tmp_path: Path, clock: Clock) -> None:
    """Two batches were released, eight rounds are open, six of their rewards wait: after the upgrade they count."""
    assert migrations.current(old) == "0001"
    assert migrations.upgrade(old) == migrations.head()
    clock.now = 1_000_500.0
    service = Service(old, journal=tmp_path / "journal", clock=clock)
    try:
        service.refresh()
        status = service.status("page")
        assert (status["version"], status["rounds"]["decided"], status["rounds"]["counted"]) == (2, 28, 20)
        assert [entry["batch"] for entry in status["batches"]] == [0, 1]
        fresh = decide(service, 2)
        assert [one.round for one in fresh] == [28, 29]
        assert {one.version for one in fresh} == {2}
        assert service.reward([(one.decision_id, 1.0) for one in fresh]) == ["recorded", "recorded"]
        clock.now += 61
        assert service.close_due() == 1
        service.tidy()
        assert service.status("page")["version"] == 3
        with service.database.reading() as connection:
            assert connection.scalar(sa.select(sa.func.count()).select_from(schema.rewards)) == 0
            assert connection.scalar(sa.select(schema.books.c.closed_round)) == 30
        assert [one.version for one in decide(service, 1)] == [3]
    finally:
        service.close()


def test_what_was_released_before_is_released_still(old: str) -> None:
    """To the byte: a digest that changed would look like a second release."""

    def found() -> list[tuple[object, ...]]:
        database = Database(old)
        query = "SELECT l.batch, l.digest, r.data FROM ledger l JOIN releases r ON l.batch = r.batch ORDER BY l.batch"
        with database.reading() as connection:
            rows = [tuple(row) for row in connection.exec_driver_sql(query)]
        database.close()
        return rows

    before = found()
    migrations.upgrade(old)
    assert found() == before
    assert len(before) == 2


def test_every_step_follows_one_other() -> None:
    scripts = [*migrations._scripts().walk_revisions()]
    assert [script.revision for script in reversed(scripts)] == [f"{number:04d}" for number in range(1, len(scripts) + 1)]
    assert len(scripts) >= 2
