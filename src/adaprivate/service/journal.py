"""What was published, noted outside the database: the memory that a restored backup cannot roll back.

Noise for a batch is drawn once. A database that was rolled back (restored from yesterday's backup, a copied file, a standby
that lagged behind) would close batches again that people have already seen, with fresh noise, and everybody in them would
pay twice. So whoever is about to show a release first notes its batch and digest here, durably, and whoever is about to
close a batch first compares the database with what stands here.

One file for each bandit, one line for each note, appended under a lock and synchronised to the disk before it counts. Every
line carries a checksum: half a line, left by a crash or a full disk, is passed over, and its note is made again. Digests
are of what is public; no reward touches these files. A batch is committed first and noted then, so read the journal first
and the database after it: else a batch that somebody closes in between looks like one that was lost.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from adaprivate import check

PLACE = "ADAPRIVATE_JOURNAL"
"""The environment variable that says where the journal is."""

State = Literal["whole", "behind", "unknown"]
"""whole: all that was published is in the database. behind: some is not. unknown: this journal has not seen it all."""

_UID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_DIGEST = re.compile(r"[0-9A-Za-z:_.-]{1,128}")
_VERSION = "1"


class Published(check.InputError):
    """Another release of the same batch was published: this one must not be shown, and its bandit must be halted."""


@dataclass
class Known:
    """What the journal knew of a bandit when it was read."""

    begun: bool = False
    """It has been kept since the bandit was made, or somebody has vouched for what was there before."""
    moved: bool = False
    """The bandit goes on elsewhere: its next batches are published there."""
    published: dict[int, dict[int, str]] = field(default_factory=dict)
    """By stream: digests of the published batches, the last one where a batch was knowingly published again."""
    repeated: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By stream: first and last batch of what was published when it was decided to go on without it, each time."""

    def last(self, stream: int) -> tuple[int, str] | None:
        """The last published batch of a stream, and its digest."""
        batches = self.published.get(stream)
        return max(batches.items()) if batches else None

    def conflicts(self, stream: int, rows: Mapping[int, str]) -> list[int]:
        """The batches that were published and that the database lacks, or has with another digest.

        ``rows`` are the digests by batch that the database holds, read after this. If the bandit was moved away, the next
        batch counts as published: it is, or will be, elsewhere.
        """
        batches = self.published.get(stream, {})
        found = [batch for batch, digest in sorted(batches.items()) if rows.get(batch) != digest]
        return found or ([max([-1, *batches, *rows]) + 1] if self.moved else [])

    def times(self, stream: int) -> int:
        """How often batches of this stream may have been published, at most: once more for each time it was repeated."""
        return 1 + len(self.repeated.get(stream, []))

    def state(self, rows: Mapping[int, Mapping[int, str]]) -> State:
        """Whether a database with these digests, by stream and batch, holds all that was published."""
        streams = {*self.published, *rows, 0}
        if any(self.conflicts(stream, rows.get(stream, {})) for stream in streams):
            return "behind"
        gapless = all(sorted(batches) == [*range(len(batches))] for batches in self.published.values())
        return "whole" if self.begun and gapless else "unknown"

    def _take(self, words: list[str]) -> None:
        """One note more."""
        match words:
            case ["begun" | "vouched"]:
                self.begun = True
            case ["moved"]:
                self.moved = True
            case ["returned"]:
                self.moved = False
            case ["imported"]:
                self.moved = self.begun = False
            case ["published", stream, batch, digest]:
                self.published.setdefault(int(stream), {})[int(batch)] = digest
            case ["again", stream, first]:
                batches = self.published.get(int(stream), {})
                self.repeated.setdefault(int(stream), []).append((int(first), max([int(first), *batches])))
                for number in [b for b in batches if b >= int(first)]:
                    del batches[number]


@dataclass
class _Read:
    """How far a file was read, and what was found."""

    known: Known = field(default_factory=Known)
    file: tuple[int, int] = (-1, -1)
    offset: int = 0
    durable: set[tuple[int, int, str]] = field(default_factory=set)
    doubtful: bool = False
    """The disk failed to synchronise: what was written last may be lost though it can be read."""


class Journal:
    """The notes of one directory: of what was published, by bandit and stream. For any number of threads and processes."""

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._files: dict[str, _Read] = {}

    def begin(self, uid: str) -> None:
        """A bandit is being made: from its first batch on, everything is noted. Before the bandit is committed."""
        with self._lock:
            self._append(uid, lambda read: [] if read.known.begun or read.known.published else ["begun"])

    def published(self, uid: str, stream: int, batch: int, digest: str) -> None:
        """Note that this batch is about to be shown; returns when that is durable, at once if it was noted before.

        Raises :class:`Published` if another release of the same batch was: this one must not be shown.
        """
        self.publish(uid, stream, {batch: digest})

    def publish(self, uid: str, stream: int, rows: Mapping[int, str]) -> None:
        """The same of several batches, by number: those not noted yet are noted together."""
        check.whole("stream", stream, at_least=0)
        for batch, digest in rows.items():
            check.whole("batch", batch, at_least=0)
            check.expect(bool(_DIGEST.fullmatch(digest)), "digest", digest, "to be a word")
        wanted = {(stream, batch, digest) for batch, digest in rows.items()}
        with self._lock:
            read = self._files.get(_named(uid))
            if read is not None and wanted <= read.durable and self._stat(uid) == (*read.file, read.offset):
                return
            self._append(uid, lambda read: self._missing(uid, stream, rows, read))
            self._files[uid].durable |= wanted

    def _missing(self, uid: str, stream: int, rows: Mapping[int, str], read: _Read) -> list[str]:
        """Notes of those batches that have none."""
        noted = read.known.published.get(stream, {})
        other = sorted(batch for batch, digest in rows.items() if noted.get(batch, digest) != digest)
        if other:
            raise Published(
                f"Expected batch={other[0]} of bandit {uid}, stream {stream}, to be published once: the journal in "
                f"{str(self.path)!r} knows another release of it. It must not be shown."
            )
        missing = {batch: digest for batch, digest in sorted(rows.items()) if batch not in noted or read.doubtful}
        return [f"published {stream} {batch} {digest}" for batch, digest in missing.items()]

    def known(self, uid: str) -> Known:
        """What was noted of this bandit so far. Read the database after this, not before."""
        with self._lock:
            read = self._refreshed(uid)
            known = read.known
            published = {stream: dict(batches) for stream, batches in known.published.items()}
            repeated = {stream: [*times] for stream, times in known.repeated.items()}
            return Known(known.begun, known.moved, published, repeated)

    def last(self, uid: str, stream: int) -> tuple[int, str] | None:
        """The last published batch of a stream, and its digest."""
        with self._lock:
            return self._refreshed(uid).known.last(stream)

    def conflicts(self, uid: str, stream: int, rows: Mapping[int, str]) -> list[int]:
        """The batches that were published and that the database lacks or has otherwise; see :meth:`Known.conflicts`.

        ``rows`` must have been read under the lock that closing takes; else call :meth:`known` first, and read them after.
        """
        with self._lock:
            return self._refreshed(uid).known.conflicts(stream, rows)

    def state(self, uid: str, rows: Mapping[int, Mapping[int, str]]) -> State:
        """Whether a database with these digests, by stream and batch, holds all that was published of a bandit."""
        with self._lock:
            return self._refreshed(uid).known.state(rows)

    def again(self, uid: str, stream: int, first: int) -> None:
        """Go on without what was published from this batch on: it may be published again, knowingly."""
        check.whole("first", first, at_least=0)
        check.whole("stream", stream, at_least=0)
        with self._lock:
            self._append(uid, lambda _: [f"again {stream} {first}"])

    def vouch(self, uid: str) -> None:
        """Somebody who knows says that nothing was published that is not noted here or in the database."""
        with self._lock:
            self._append(uid, lambda read: ["vouched"] if not read.known.begun or read.doubtful else [])

    def moved(self, uid: str) -> None:
        """The bandit goes on elsewhere, and no more here."""
        with self._lock:
            self._append(uid, lambda read: ["moved"] if not read.known.moved or read.doubtful else [])

    def imported(self, uid: str) -> None:
        """The bandit goes on here; whether it does elsewhere too nobody can see, until somebody vouches."""
        with self._lock:
            self._append(uid, lambda read: ["imported"] if read.known.moved or read.known.begun else [])

    def returned(self, uid: str) -> None:
        """The bandit goes on here, with all that was published of it."""
        with self._lock:
            self._append(uid, lambda read: ["returned"] if read.known.moved else [])

    def _file(self, uid: str) -> Path:
        return self.path / f"{_named(uid)}.published"

    def _stat(self, uid: str) -> tuple[int, int, int]:
        try:
            found = self._file(uid).stat()
        except FileNotFoundError:
            return (-1, -1, 0)
        return (found.st_dev, found.st_ino, found.st_size)

    def _refreshed(self, uid: str) -> _Read:
        """What is known after reading what was appended since."""
        try:
            descriptor = os.open(self._file(uid), os.O_RDONLY)
        except FileNotFoundError:
            read = self._files[uid] = _Read()
            return read
        try:
            return self._catch_up(uid, descriptor)
        finally:
            os.close(descriptor)

    def _catch_up(self, uid: str, descriptor: int) -> _Read:
        status = os.fstat(descriptor)
        file = (status.st_dev, status.st_ino)
        read = self._files.get(uid)
        if read is None or read.file != file or read.offset > status.st_size:  # another file, or one cut short
            read = self._files[uid] = _Read(file=file)
        data = _tail(descriptor, read.offset, status.st_size)
        whole, newline, _ = data.rpartition(b"\n")
        for line in whole.split(b"\n"):
            words = _words(uid, line)
            if words is not None:
                read.known._take(words)
                if words[0] == "again":
                    read.durable.clear()
        read.offset += len(whole) + len(newline)
        return read

    def _append(self, uid: str, lines: Callable[[_Read], list[str]]) -> None:
        """Append what is wanted after reading what is there, under the file's lock, and synchronise it to the disk."""
        file = self._file(uid)
        descriptor = self._opened(file)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # given back when the descriptor is closed
            read = self._catch_up(uid, descriptor)
            wanted = lines(read)
            try:
                if wanted:
                    torn = os.fstat(descriptor).st_size > read.offset
                    written = "".join(_line(uid, line, self._clock()) for line in wanted)
                    _write(descriptor, (b"\n" if torn else b"") + written.encode())
                _synchronise(descriptor)  # also where another process wrote it: that one may not have come so far
            except OSError:
                read.doubtful = True
                raise
            if wanted:
                read.doubtful = False
            self._catch_up(uid, descriptor)
        finally:
            os.close(descriptor)

    def _opened(self, file: Path) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        try:
            return os.open(file, flags)
        except FileNotFoundError:
            _make_directory(file.parent)
            descriptor = os.open(file, flags | os.O_CREAT, 0o600)
            try:
                _synchronise_directory(file.parent)
            except OSError:
                os.close(descriptor)
                raise
            return descriptor


def place(database: str, given: str | Path | None = None) -> Path:
    """Where the journal of a database is: as given, as the environment says, or beside its file."""
    said = given or os.environ.get(PLACE)
    if said:
        return Path(said)
    kind, _, rest = database.partition("://")
    if not kind.startswith("sqlite"):
        raise check.InputError(
            f"Expected journal to be given (--journal, or {PLACE}): a folder on a disk of this machine that is not rolled "
            "back when the database is."
        )
    file = rest.partition("?")[0].removeprefix("/")
    check.expect(file not in ("", ":memory:"), "database", database, "to be a file, or the journal's place to be given")
    return Path(f"{file}.journal")


def _named(uid: str) -> str:
    check.expect(isinstance(uid, str) and bool(_UID.fullmatch(uid)), "uid", uid, "to be a word")
    return uid


def _line(uid: str, words: str, at: float) -> str:
    text = f"{_VERSION} {at:.3f} {words}"
    return f"{text} {_checksum(uid, text)}\n"


def _words(uid: str, line: bytes) -> list[str] | None:
    """The note of one line; None where it is no whole line of this bandit."""
    try:
        text, _, checksum = line.decode("ascii").rpartition(" ")
    except UnicodeDecodeError:
        return None
    if not text or checksum != _checksum(uid, text):
        return None
    version, _, *words = text.split(" ")
    check.expect(version == _VERSION, "journal version", version, f"== {_VERSION}: use the adaprivate that wrote it")
    return words


def _checksum(uid: str, text: str) -> str:
    return hashlib.sha256(f"{uid} {text}".encode()).hexdigest()[:16]


def _tail(descriptor: int, offset: int, end: int) -> bytes:
    parts = []
    while offset < end:
        part = os.pread(descriptor, end - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _write(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError("the journal could not be written: the disk is full")


def _synchronise(descriptor: int) -> None:
    os.fsync(descriptor)
    if hasattr(fcntl, "F_FULLFSYNC"):  # where fsync stops at the disk's own cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)


def _make_directory(path: Path) -> None:
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for made in missing:
        _synchronise_directory(made.parent)


def _synchronise_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
