"""The decision service: run it, and give keys to those who may call it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaprivate.cli.terminal import Json, print_json, show
from adaprivate.errors import InputError

if TYPE_CHECKING:
    from adaprivate.service.database import Database

Address = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="ADAPRIVATE_DATABASE",
        help="Where everything is kept: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME.",
    ),
]
DEFAULT = "sqlite:///adaprivate.db"
keys_app = typer.Typer(
    help="API keys of the decision service: who may read, decide, reward, administer.", no_args_is_help=True
)


def serve(
    database: Address = DEFAULT,
    host: Annotated[
        str, typer.Option(help="The address to listen at. Any but this machine's own (loopback) makes API keys necessary.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(help="How many processes answer.")] = 1,
    journal: Annotated[
        Path | None,
        typer.Option(
            envvar="ADAPRIVATE_JOURNAL",
            help="A folder that notes what was published, so that an older copy of the database is noticed "
            "(default: beside the SQLite file; for PostgreSQL it must be given).",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Decisions a second that one caller may ask a worker for, and as many rewards (default: no limit)."
        ),
    ] = None,
    max_body: Annotated[int, typer.Option(help="The longest body of a request in bytes.")] = 4 * 1024 * 1024,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A web site whose pages may call, as https://www.example.org; may be repeated.")
    ] = None,
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Ask for API keys on this machine too.")] = False,
    json: Json = False,
) -> None:
    """Decide over HTTP: decisions asked for, rewards told, each batch of them released once.

    The tables are made, or brought up to date, first. The dashboard is at /, the reference at /docs.
    """
    with _told():
        from adaprivate.service.running import serve as run

        run(
            database,
            host,
            port,
            workers,
            journal=journal,
            rate=rate,
            max_body=max_body,
            allow_origins=allow_origin or (),
            require_keys=require_keys,
            as_json=json,
        )


@keys_app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="Whose key it is, or what for.")],
    scope: Annotated[
        list[str], typer.Option(help="What it may do: read, decide, reward, or admin, which may do all; may be repeated.")
    ],
    bandit: Annotated[str | None, typer.Option(help="The only bandit it is for.")] = None,
    database: Address = DEFAULT,
    json: Json = False,
) -> None:
    """Make a key. It is shown this once: the database keeps its hash alone."""
    with _told():
        from adaprivate.service import access, migrations

        migrations.upgrade(database)
        with _opened(database) as found:
            identity, secret = access.create_key(found, name, scope, bandit)
    if json:
        print_json({"id": identity, "name": name, "scopes": sorted(set(scope)), "bandit": bandit, "key": secret})
    else:
        sys.stdout.write(secret + "\n")
        sys.stderr.write(f"adaprivate: key {identity} for {name}, shown this once. Send it as Authorization: Bearer KEY.\n")


@keys_app.command("list")
def list_keys(database: Address = DEFAULT, json: Json = False) -> None:
    """All keys, without their secrets."""
    with _told():
        from adaprivate.service import access, migrations

        migrations.expect_current(database)
        with _opened(database) as found:
            keys = access.list_keys(found)
    if json:
        print_json({"keys": [key.to_dict() for key in keys]})
        return
    from rich.table import Table

    table = Table("id", "name", "scopes", "bandit", "made", "revoked")
    for key in keys:
        table.add_row(
            key.id, key.name, " ".join(key.listed_scopes), key.bandit or "all", _day(key.created_at), _day(key.revoked_at)
        )
    show(table)


@keys_app.command("revoke")
def revoke_key(
    identity: Annotated[str, typer.Argument(metavar="ID", help="The key's id: adaprivate keys list.")],
    database: Address = DEFAULT,
    json: Json = False,
) -> None:
    """Make a key open nothing any more: within seconds, where a service runs."""
    with _told():
        from adaprivate.service import access, migrations

        migrations.expect_current(database)
        with _opened(database) as found:
            access.revoke_key(found, identity)
    if json:
        print_json({"id": identity, "revoked": True})
    else:
        sys.stdout.write(f"{identity} is revoked.\n")


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    from adaprivate.service.database import Database

    database = Database(url)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _told() -> Iterator[None]:
    """Faults of the service as one line."""
    from adaprivate.service.faults import Fault

    try:
        yield
    except Fault as fault:
        raise InputError(fault.detail) from None


def _day(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
