"""A bandit moves to another database, in one file. The file holds its rewards and secrets, sealed with a passphrase.

The file is a ZIP archive: what is public lies in it as JSON, one document for each table, and can be read without the
passphrase; rewards, the books' sums and noise, keys and idempotency keys are sealed. Their length is filled up to a bound
that depends on public facts alone: how many decisions wait, and the shape of the books. Nothing that is sealed is
compressed. In the transaction that reads it the bandit stops where it was: it goes on in one place only, else
both would release the same batch.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import os
import socket
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from adaprivate import check
from adaprivate.mechanisms import packing
from adaprivate.runtime.storage import write_private
from adaprivate.service import erasure, migrations, schema
from adaprivate.service.bandit import NAME
from adaprivate.service.database import Database, locked
from adaprivate.service.grouping import wait_for_slot
from adaprivate.service.journal import Journal
from adaprivate.service.keeping import BEING_WRITTEN, Digests, bandit_row, digests, standing
from adaprivate.service.sealing import expect_passphrase, opened, sealed

_FORMAT = 2
_ABOUT, _SEALED = "about.json", "private.sealed"
_PUBLIC = (schema.items, schema.decisions, schema.releases, schema.ledger)
_PRIVATE = (schema.rewards, schema.requests)
_OF_A_REWARD, _BLOCK = 160, 1 << 16
"""A reward takes no more bytes than the first; sealed bytes are filled up to a multiple of the second."""
_LARGEST = 1 << 32
"""No part of a file may unpack to more bytes."""

Rows = list[dict[str, Any]]


def export(database: Database, journal: Journal, name: str, file: Path, passphrase: str) -> dict[str, Any]:
    """Write a bandit to a file, whole or not at all, and let it go on nowhere but where that is imported."""
    expect_passphrase(passphrase)
    check.expect(not file.exists(), "out", str(file), "not to exist")
    check.expect(file.parent.is_dir(), "out", str(file), "to be in a folder that exists")
    b, k = schema.bandits, schema.books
    with database.writing() as connection:
        row = bandit_row(connection, name)
        first = f": resume it first (adaprivate resume {name})" if row.state == "halted" else ""
        check.expect(row.state in ("open", "paused"), f"state of {name}", row.state, f"in {{open, paused}}{first}")
        connection.execute(locked(sa.select(k.c.stream).where(k.c.bandit == row.id)))  # rewards wait, and are then refused
        found = standing(connection, row.id, journal.known(row.uid))
        if found.reason is not None:
            raise check.InputError(f"Expected name={name!r} to be in its newest database. {found.reason}")
        rows = digests(connection, row.id)
        if not json.loads(row.description).get("keep_rewards", False):
            erasure.erase_spent(connection, row.id)  # else the file would hold more rewards than its length is made for
        public, private = _parts(connection, row, whole=found.state == "whole")
        connection.execute(b.update().where(b.c.id == row.id).values(state="moved", reason=BEING_WRITTEN))

    def hand_over() -> None:
        """Before the file is in its place: what it shows is published, and the next batch is another's."""
        for stream, batches in rows.items():
            journal.publish(row.uid, stream, batches)
        journal.moved(row.uid)
        reason = f"It was written to {file.name}, and goes on where that is imported."
        with database.writing() as connection:
            connection.execute(b.update().where(b.c.id == row.id).values(reason=reason))

    try:
        write_private(file, _archived(public, sealed(private, passphrase, _fingerprint(public))), hand_over)
    except BaseException:
        if not file.exists():  # nobody can import it: the bandit stays
            with database.writing() as connection:
                stays = {"state": row.state, "reason": row.reason}
                connection.execute(b.update().where(b.c.id == row.id).values(**stays))
            journal.returned(row.uid)
        raise
    _forget(database, row)
    return {"bandit": name, "file": str(file), "batches": sum(map(len, rows.values())), "bytes": file.stat().st_size}


def _forget(database: Database, row: sa.Row[Any]) -> None:
    """Delete rewards and their sums, now that a file holds them: no batch closes here any more, and nothing else would."""
    k = schema.books
    with database.writing() as connection:
        connection.execute(k.update().where(k.c.bandit == row.id).values(book=b""))
    if not json.loads(row.description).get("keep_rewards", False):
        for piece in erasure.spent_rewards(database, row.id, {schema.POLICY: schema.FOR_GOOD}):
            wait_for_slot()
            with database.writing() as connection:
                erasure.erase(connection, piece)


def import_(
    file: Path, database: Database, journal: Journal, passphrase: str, *, name: str | None = None
) -> dict[str, Any]:
    """Let the bandit of a file go on in this database, and nowhere else: that the file is imported once is the caller's."""
    public, private = _read(file, passphrase)
    about, books = public["about"], public["books"]
    bandit: dict[str, Any] = about["bandit"]
    rows: Digests = {}
    for released in public["ledger"]:
        rows.setdefault(released["stream"], {})[released["batch"]] = released["digest"]
    wanted = str(bandit["name"] if name is None else name)
    check.expect(NAME.fullmatch(wanted) is not None, "name", wanted, "to be 1 to 64 of a-z, 0-9, _ and -")
    description = json.dumps(json.loads(bandit["description"]) | {"name": wanted})
    values = {**bandit, "name": wanted, "description": description, "secret": private["secret"]}
    for book in books:
        sealed_book = private["books"][str(book["stream"])]
        book |= {"book": packing.compressed(sealed_book), "claimed_until": 0.0}
    with _once(file), database.writing() as connection:
        known = journal.known(str(bandit["uid"]))
        for stream, noted in known.published.items():
            newer = [batch for batch, digest in noted.items() if rows.get(stream, {}).get(batch) != digest]
            where = f"to hold all that was published: the journal knows of batch {newer[:1]} of stream {stream}"
            check.expect(not newer, "file", str(file), where)
        _make_room(connection, values, rows)
        b = schema.bandits
        if connection.scalar(sa.select(b.c.id).where(b.c.id == bandit["id"])) is not None:
            del values["id"]
        number = connection.scalar(b.insert().values(**values).returning(b.c.id))
        for table in (schema.books, *_PUBLIC, *_PRIVATE):
            entries: Rows = [{"bandit": number, **row} for row in {**public, **private, "books": books}[table.name]]
            for begin in range(0, len(entries), 500):
                connection.execute(table.insert(), entries[begin : begin + 500])
        count_on(connection)
        for stream, batches in rows.items():
            journal.publish(bandit["uid"], stream, batches)
        journal.imported(bandit["uid"])
    return {"bandit": wanted, "batches": sum(map(len, rows.values()))}


def _make_room(connection: sa.Connection, values: dict[str, Any], rows: Digests) -> None:
    """Raise where this bandit, or another of its name, is here; what is left of one that moved away is removed."""
    b = schema.bandits
    old = connection.execute(sa.select(b).where(b.c.uid == values["uid"])).one_or_none()
    if old is not None:
        check.expect(old.state == "moved", "file", old.name, "not to be of a bandit that is in this database")
        before = digests(connection, old.id)
        kept = all(rows.get(stream, {}).get(n) == d for stream, batches in before.items() for n, d in batches.items())
        check.expect(kept, "file", old.name, "to hold all batches that were released here")
        for table in reversed(schema.metadata.sorted_tables):
            if table is not b and any(key.column is b.c.id for key in table.foreign_keys):
                connection.execute(table.delete().where(table.c.bandit == old.id))
        connection.execute(b.delete().where(b.c.id == old.id))
    taken = connection.scalar(sa.select(b.c.id).where(b.c.name == values["name"]))
    check.expect(taken is None, "name", values["name"], "to be free here: say --name to give it another")


def count_on(connection: sa.Connection) -> None:
    """Let PostgreSQL number new bandits after those that came with numbers of their own."""
    if connection.dialect.name == "postgresql":
        last = sa.select(sa.func.coalesce(sa.func.max(schema.bandits.c.id), 0) + 1).scalar_subquery()
        connection.execute(sa.select(sa.func.setval(sa.func.pg_get_serial_sequence("bandits", "id"), last, False)))


def _parts(connection: sa.Connection, row: sa.Row[Any], *, whole: bool) -> tuple[dict[str, bytes], bytes]:
    """What is written: the public documents by name, and what will be sealed."""
    bandit = dict(row._mapping)
    secret = bandit.pop("secret")
    books = _rows(connection, schema.books, row.id)
    open_books = {str(book["stream"]): packing.document_of(book.pop("book")) for book in books}
    private: dict[str, Any] = {"secret": secret, "books": open_books}
    private["requests"] = _rows(connection, schema.requests, row.id)
    about = {
        "about": f"A bandit of adaprivate. All but {_SEALED} is public.",
        "format": _FORMAT,
        "revision": migrations.at(connection),
        "whole": whole,
        "bandit": bandit,
    }
    documents = {_ABOUT: about, "books.json": books}
    documents |= {f"{table.name}.json": _rows(connection, table, row.id) for table in _PUBLIC}
    keeps = json.loads(bandit["description"]).get("keep_rewards", False)
    first = 0 if keeps else min(book["closed_round"] for book in books)
    widest = {stream: bytes(packing.longest(book)) for stream, book in open_books.items()}
    most = len(_json(private | {"books": widest})) + _OF_A_REWARD * (bandit["decided"] - first + 1)
    private["rewards"] = [one for one in _rows(connection, schema.rewards, row.id) if one["round"] >= first]
    text = _json(private)
    assert len(text) <= most, "the bound holds whatever came"
    filled = text + b" " * (-(-most // _BLOCK) * _BLOCK - len(text))
    return {name: _json(document) for name, document in documents.items()}, filled


def _archived(public: dict[str, bytes], private: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in {**public, _SEALED: private}.items():
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_STORED if name == _SEALED else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _read(file: Path, passphrase: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The public documents of a file by table, and the private ones; refused in one sentence if anything is amiss."""
    names = [_ABOUT, "books.json", *(f"{table.name}.json" for table in _PUBLIC), _SEALED]
    check.expect(file.is_file(), "file", str(file), "to be a file that is there")
    data = file.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = [archive.getinfo(name).file_size for name in names]
            check.expect(max(sizes) <= _LARGEST, "file", str(file), "to be one that adaprivate wrote: it is too large")
            parts = {name: archive.read(name) for name in names}
        seal = parts.pop(_SEALED)
        about = _from_json(parts[_ABOUT])
        version, revision = about["format"], about.get("revision")
    except check.InputError:
        raise
    except Exception:  # whatever damaged bytes provoke in an archive, its compression or JSON
        raise check.InputError(f"Expected file={str(file)!r} to be a bandit that adaprivate exported, whole.") from None
    check.expect(version == _FORMAT, "format", version, f"== {_FORMAT}: another adaprivate wrote this file. Use that one")
    migrations.expect_known(revision)
    same = revision == migrations.head()
    check.expect(same, "revision", revision, f"== {migrations.head()}: migrate where it was, and export it there")
    private = _from_json(opened(seal, passphrase, _fingerprint(parts)))
    return {name.removesuffix(".json"): _from_json(part) for name, part in parts.items()}, private


def _rows(connection: sa.Connection, table: sa.Table, bandit: int) -> Rows:
    """All rows of a bandit in a table, in order, without its number."""
    query = sa.select(table).where(table.c.bandit == bandit).order_by(*table.primary_key.columns)
    return [{key: row[key] for key in row if key != "bandit"} for row in connection.execute(query).mappings()]


def _json(value: Any) -> bytes:
    """Plain values and bytes as a JSON document."""
    return json.dumps(
        value, default=lambda data: {"base64": base64.b64encode(data).decode()}, separators=(",", ":")
    ).encode()


def _from_json(data: bytes) -> Any:
    return json.loads(data, object_hook=lambda found: base64.b64decode(found["base64"]) if "base64" in found else found)


def _fingerprint(parts: dict[str, bytes]) -> bytes:
    """What is public, as the seal vouches for it."""
    return "\n".join(f"{name} {hashlib.sha256(part).hexdigest()}" for name, part in sorted(parts.items())).encode()


@contextmanager
def _once(file: Path) -> Iterator[None]:
    """Leave a note beside the file that it was imported, unless that fails; refuse where there is one.

    Where nothing can be written beside it there is no note: then only whoever has the file can see to it.
    """
    note = file.with_name(f"{file.name}.imported")
    text = f"imported on {socket.gethostname()}, {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
    try:
        descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise check.InputError(
            f"Expected file={str(file)!r} to be imported once: {note.name} says that it was ({note.read_text().strip()}). "
            "Where it goes on in two places, batches are released twice. If that import failed, remove the note."
        ) from None
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        yield
        return
    with open(descriptor, "w") as written:
        written.write(text)
    try:
        yield
    except BaseException:
        note.unlink(missing_ok=True)
        raise
