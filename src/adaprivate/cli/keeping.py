"""How the decision service is kept: migrations, backups, moving a bandit, going on after a rollback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaprivate.cli.serving import DEFAULT, Address
from adaprivate.cli.terminal import Json, print_json, show
from adaprivate.errors import InputError

if TYPE_CHECKING:
    from adaprivate.service.database import Database
    from adaprivate.service.journal import Journal

HEALTH_KEY = "ADAPRIVATE_HEALTH_KEY"
"""The environment variable with a key of the scope read, for :func:`health`."""
PASSPHRASE = "ADAPRIVATE_PASSPHRASE"
"""The environment variable with the passphrase of exported bandits."""

Place = Annotated[
    Path | None,
    typer.Option(
        help="Folder that notes what was published (default: beside the SQLite file; for PostgreSQL it must be given).",
        envvar="ADAPRIVATE_JOURNAL",
    ),
]
PassphraseFile = Annotated[
    Path | None, typer.Option(help=f"File whose first line is the passphrase; else {PASSPHRASE}, else it is asked for.")
]


@contextmanager
def _kept(address: str, place: Path | None, *, existing: bool = True) -> Iterator[tuple[Database, Journal]]:
    """The database, up to date, and its journal; its failures as one line."""
    with opened(address, existing=existing) as database:
        from adaprivate.service import journal as journals

        yield database, journals.Journal(journals.place(address, place))


@contextmanager
def opened(address: str, *, existing: bool = True) -> Iterator[Database]:
    """The database, up to date; its failures as one line."""
    with _one_line():
        from adaprivate.service import migrations
        from adaprivate.service.database import Database

        database = Database(address)
        try:
            there = database.path is None or database.path.exists()
            if existing and not there:
                made_by = f"adaprivate migrate --database {database.shown}"
                raise InputError(f"Expected database={database.shown!r} to exist: make it by {made_by}.")
            if existing:
                migrations.expect_current(address)
            yield database
        finally:
            database.close()


@contextmanager
def _one_line() -> Iterator[None]:
    """What keeps the database from answering, as bad input."""
    from adaprivate.service.faults import Fault

    try:
        yield
    except Fault as fault:
        raise InputError(fault.detail) from None


def _passphrase(file: Path | None, *, twice: bool) -> str:
    """From a file, the environment, or whoever sits at the terminal; it is never repeated."""
    if file is not None:
        return _first_line(file)
    if PASSPHRASE in os.environ:
        return os.environ[PASSPHRASE]
    if not sys.stdin.isatty():
        raise InputError(f"Expected a passphrase: say --passphrase-file, or set {PASSPHRASE}.")
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True))


def migrate(database: Address = DEFAULT, json: Json = False) -> None:
    """Bring a database's tables up to date, whatever is in them; make them where there are none."""
    with _one_line():
        from adaprivate.service import migrations

        before, after = migrations.current(database), migrations.upgrade(database)
    if json:
        print_json({"before": before, "after": after})
    else:
        show(f"Tables are at revision {after}" + (" as before." if before == after else f" (before: {before or 'none'})."))


def backup(
    file: Annotated[Path, typer.Argument(help="File to write: it will hold rewards.")],
    database: Address = DEFAULT,
    replace: Annotated[bool, typer.Option("--replace", help="Write over a file that exists.")] = False,
    json: Json = False,
) -> None:
    """Write everything in a database to one file, while workers go on. It holds rewards: keep it safe."""
    with _one_line():
        from adaprivate.service.backups import backup as write

        written = write(database, file, replace=replace)
    if json:
        print_json(written)
    else:
        show(f"Wrote {written['bandits']} bandits to {file} ({written['bytes']:,} bytes).")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that adaprivate backup wrote.")],
    database: Address = DEFAULT,
    journal: Place = None,
    replace: Annotated[bool, typer.Option("--replace", help="Lose what the database holds now.")] = False,
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Take rewards of earlier decisions: only if none was made since the backup.")
    ] = False,
    vouch: Annotated[
        bool, typer.Option("--vouch", help="The journal is lost, and nothing was published since the backup: you know it.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a database from a backup. Bandits that published batches since are halted: noise must not be drawn twice."""
    with _kept(database, journal, existing=False) as (_, notes):
        from adaprivate.service.backups import restore as read

        found = read(file, database, notes, replace=replace, keep_ids=keep_ids, vouched=vouch)
    if json:
        print_json({"bandits": [{"name": n, "journal": one.state, "reason": one.reason} for n, one in found.items()]})
        return
    show(f"Restored {len(found)} bandits. Start the service again now, all of its workers.")
    for name, one in found.items():
        if one.reason is not None:
            show(f"{name} is halted. {one.reason}")
        elif one.state == "unknown":
            show(f"{name} goes on. No journal says what was published since: that nothing was is yours to know.")
        else:
            show(f"{name} goes on: nothing was published since the backup.")


def resume(
    name: Annotated[str, typer.Argument(help="A bandit that is halted.")],
    database: Address = DEFAULT,
    journal: Place = None,
    void: Annotated[
        str | None, typer.Option(help="no-replay: batches may be released again, and the guarantee shall say so.")
    ] = None,
    json: Json = False,
) -> None:
    """Let a halted bandit go on, knowingly: what was published and lost is released again, and people pay for it."""
    with _kept(database, journal) as (source, notes):
        from adaprivate.service.keeping import resume as go_on

        meaning = go_on(source, notes, name, void=void)
    if json:
        print_json({"bandit": name, "void": meaning})
    else:
        show(f"{name} goes on. {meaning or 'Nothing was published that the database lacks: its guarantee stands.'}")
        show("Start the service's workers again: ids of decisions made so far are refused from now on.")


def export(
    name: Annotated[str, typer.Argument(help="The bandit to move.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    database: Address = DEFAULT,
    journal: Place = None,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> None:
    """Write a bandit to one file, sealed with a passphrase. It goes on where that is imported, and not here."""
    with _kept(database, journal) as (source, notes):
        from adaprivate.service.moving import export as write

        written = write(source, notes, name, out, _passphrase(passphrase_file, twice=True))
    if json:
        print_json(written)
    else:
        show(f"Wrote {name}, {written['batches']} batches, to {out}. It goes on where that is imported, and not here.")


def import_(
    file: Annotated[Path, typer.Argument(help="A file that adaprivate export wrote.")],
    database: Address = DEFAULT,
    journal: Place = None,
    name: Annotated[str | None, typer.Option(help="Another name for it.")] = None,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> None:
    """Let an exported bandit go on in this database. Once: were it imported twice, batches would be released twice."""
    with _kept(database, journal) as (source, notes):
        from adaprivate.service.moving import import_ as read

        found = read(file, source, notes, _passphrase(passphrase_file, twice=False), name=name)
    if json:
        print_json(found)
        return
    show(f"{found['bandit']} goes on here, after {found['batches']} batches.")


def health(
    url: Annotated[str, typer.Option(help="Where the service listens.")] = "http://127.0.0.1:8000",
    key_file: Annotated[
        Path | None, typer.Option(help=f"File whose first line is a key of the scope read; else {HEALTH_KEY}, else none.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.")] = 5.0,
    json: Json = False,
) -> None:
    """Whether a service answers; with a key, whether it can decide. Exits with 1 where it does not: for containers."""
    key = _first_line(key_file) if key_file is not None else os.environ.get(HEALTH_KEY, "")
    healthy, said = _asked(url.rstrip("/") + ("/ready" if key else "/health"), key, timeout)
    if json:
        print_json({"healthy": healthy, "answer": said})
    else:
        show(said)
    raise typer.Exit(0 if healthy else 1)


def _asked(address: str, key: str, timeout: float) -> tuple[bool, str]:
    """Whether all is well, and what was said. That a key is needed is a sign of life, too, where none was sent."""
    import urllib.error
    import urllib.request

    if not address.startswith(("http://", "https://")):
        raise InputError(f"Expected url={address!r:.80} to begin with http:// or https://.")
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=timeout) as answer:
            return True, f"{address} answers {answer.status}."
    except urllib.error.HTTPError as error:
        with error:
            alive = error.code == 401 and not key
            return alive, f"{address} answers {error.code}" + (": it lives, and asks for a key." if alive else ".")
    except (OSError, ValueError) as error:
        return False, f"{address} does not answer ({type(error).__name__})."


def _first_line(file: Path) -> str:
    return (file.read_text().splitlines() or [""])[0].strip()
