"""The service as outsiders see it: every answer as bytes, and the log, and files beside the database.

A world is the real application on a database of its own, called as a server calls it, with a clock that the test moves and
batches that are looked after when the test says so. Worlds that begin as copies of one template share all keys, so ids,
coins and exploration are the same; with :class:`Forced` noise they release the same numbers as well, whatever rewards
came. What still differs then tells of rewards.
"""

from __future__ import annotations

import asyncio
import io
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import orjson
import sqlalchemy as sa

from adaprivate.mechanisms.book import RewardBook, Told
from adaprivate.mechanisms.channels import ChannelBook
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.noise import NOISE_BITS, Secure
from adaprivate.service import schema
from adaprivate.service.access import SCOPES, create_key
from adaprivate.service.app import create_app
from adaprivate.service.core import Service
from adaprivate.service.database import Database
from adaprivate.service.migrations import upgrade
from adaprivate.service.observing import Log

START = 1_000_000.0
_DATABASE = "service.db"
_MASKS = ((re.compile(r'"time":"[^"]*"'), '"time":"-"'), (re.compile(r'"ms":[0-9.e-]+'), '"ms":0'))
"""What a log line says of the time of day and of how long a request took."""


class Answer(NamedTuple):
    """What came back, byte for byte."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def json(self) -> Any:
        """The body's document."""
        return orjson.loads(self.body)


class Looking:
    """Stands in for the application's background threads: the test looks after batches itself."""

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


async def called(app: Any, method: str, target: str, body: object, headers: Mapping[str, str]) -> Answer:
    """Call an application as a server does."""
    path, _, query = target.partition("?")
    sent: list[Any] = []
    content = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    if body is not None:
        pairs += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"}
    scope |= {"path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": ""}
    scope |= {"headers": [(b"host", b"localhost:8000"), *pairs], "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8000)}
    await app(scope, receive, send)
    begin, *parts = sent
    return Answer(begin["status"], tuple(begin["headers"]), b"".join(part.get("body", b"") for part in parts))


class World:
    """The application on the database in a folder. ``seen``: all that outsiders saw, in order, each with what it is."""

    latest: World

    def __init__(
        self, folder: Path, keys: Mapping[str, str], source: Secure | None = None, *, url: str | None = None, **options: Any
    ) -> None:
        self.folder, self.keys, self.now = folder, keys, START
        self.seen: list[tuple[str, object]] = []
        place = url or f"sqlite:///{folder / _DATABASE}"
        self.service = Service(place, journal=folder / "journal", source=source, clock=lambda: self.now)
        self._written = io.StringIO()
        self._log = Log(self._written)
        wanted = {"require_keys": True, "owns_service": True, "log": self._log, **options}
        with patch("adaprivate.service.app.Recurring", Looking):
            self.app = create_app(self.service, **wanted)
        self._loop = asyncio.Runner()
        self._life = self.app.router.lifespan_context(self.app)
        self._loop.run(self._life.__aenter__())
        World.latest = self

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._life.__aexit__(None, None, None))
        self._loop.close()

    def ask(self, scope: str, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """An answer to somebody with a key of this scope, which nobody else sees."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._loop.run(called(self.app, method, path, body, {"x-api-key": self.keys[scope], **named}))

    def watch(self, scope: str, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """The same, seen by outsiders."""
        answer = self.ask(scope, method, path, body, **headers)
        self.seen.append((f"{self.now - START:g} s: {method} {path} ({scope})", answer))
        return answer

    def turn(self, seconds: float) -> None:
        """Time passes; what is due is closed, and rewards that were used are deleted."""
        self.now += seconds
        while self.service.close_due():
            pass
        self.service.tidy()
        self.service.refresh()

    def rewind(self, template: Template) -> None:
        """As it was before the first decision."""
        with self.service.database.writing() as connection:
            for table in (schema.rewards, schema.late, schema.releases, schema.ledger, schema.requests, schema.decisions):
                connection.execute(table.delete())
            for table, rows in ((schema.books, template.books), (schema.bandits, template.bandits)):
                for row in rows:
                    mine = [column == row[column.name] for column in table.primary_key.columns]
                    connection.execute(table.update().where(*mine).values(**row))
        for file in (template.folder / "journal").iterdir():
            shutil.copyfile(file, self.folder / "new")
            (self.folder / "new").replace(self.folder / "journal" / file.name)
        for room in self.service._rooms.values():
            room.snapshot, room.due = None, {}
        self.now = START
        self.seen.clear()
        self._written.truncate(self._written.seek(0))
        self.service.refresh()

    @property
    def log(self) -> str:
        """The lines of the log, without times."""
        self._log.flush()
        text = self._written.getvalue()
        for pattern, mask in _MASKS:
            text = pattern.sub(mask, text)
        return text

    @property
    def files(self) -> dict[str, bytes]:
        """Files beside the database, and what is in them."""
        own = (_DATABASE, f"{_DATABASE}-wal", f"{_DATABASE}-shm")
        found = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name not in own)
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def transcript(self) -> list[tuple[str, object]]:
        """All that outsiders saw, the log and the files."""
        files = [(f"file {name}", content) for name, content in self.files.items()]
        return [*self.seen, *((f"log, line {n}", line) for n, line in enumerate(self.log.splitlines())), *files]


@dataclass
class Template:
    """A database with bandits and keys, from which worlds are made."""

    folder: Path
    keys: dict[str, str]
    bandits: list[dict[str, Any]] = field(default_factory=list)
    books: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def made(cls, folder: Path, bandits: Mapping[str, Mapping[str, Any]], items: Mapping[str, Any]) -> Template:
        """Made over HTTP: these bandits, each with these items. Their secrets are always the same."""
        folder.mkdir()
        url = f"sqlite:///{folder / _DATABASE}"
        upgrade(url)
        database = Database(url)
        found = cls(folder, {scope: create_key(database, scope, [scope], clock=lambda: START)[1] for scope in SCOPES})
        database.close()
        drawn = (bytes([n]) * 96 for n in range(256))
        with (
            World(folder, found.keys) as world,
            patch("adaprivate.service.core.secrets.token_bytes", lambda _: next(drawn)),
        ):
            for name, spec in bandits.items():
                answer = world.ask("admin", "POST", "/bandits", {"name": name, "reward_window": 60, **spec})
                assert answer.status == 201, answer.body
                assert world.ask("admin", "PUT", f"/bandits/{name}/items", {"items": items}).status == 200
            with world.service.database.reading() as connection:
                for table, rows in ((schema.bandits, found.bandits), (schema.books, found.books)):
                    rows += [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            assert world.service.database.forget_deleted(lambda: None)
        return found

    def world(self, folder: Path, source: Secure | None = None, **options: Any) -> World:
        """A world that begins here."""
        shutil.copytree(self.folder, folder)
        return World(folder, self.keys, source, **options)


# --- noise ---------------------------------------------------------------------------------------------------------------


class Forced(Secure):
    """Exact noise, such that what is released is what another world released: its noise less what sums differ by.

    With a ``record`` of the other world, outputs are taken from there, in order for every kind of noise; flips are settled
    by the round alone.
    """

    def __init__(self, record: dict[object, list[Any]] | None = None) -> None:
        self.record: dict[object, list[Any]] = {} if record is None else record
        self._replays, self.drawn, self.strayed = record is not None, Counter[object](), False
        self.round = 0
        """The round that is being counted."""
        self.hidden: Counter[object] = Counter()
        """What noise was added to, or told of."""

    def same(self, kind: tuple[object, ...], values: object, draw: Any) -> Any:
        """What the other world's release was, if it drew as often from this kind of noise."""
        place = self.drawn[kind]
        self.drawn[kind] += 1
        self.hidden[kind, place, str(values)] += 1
        known = self.record.setdefault(kind, [])
        if not self._replays:
            known.append(draw())
        elif place >= len(known):
            self.strayed = True
            return draw()
        return known[place]

    def gaussian(self, values: Any, scale: Any) -> Any:
        kind = ("gaussian", np.shape(values), np.asarray(scale).tobytes())
        return self.same(kind, values, lambda: Secure.gaussian(self, values, scale)).copy()

    def whole(self, law: Any, total: int, draw: Any) -> int:
        """A whole-number sum with noise."""
        return int(self.same(("whole", law.epsilon), total, draw))

    def bit(self) -> float:
        """What is told of the round that is being counted."""
        return float((self.round * 2_654_435_761 >> 7) & 1)


class Silence(Forced):
    """No noise at all: what an attacker works out by himself."""

    def gaussian(self, values: Any, scale: Any) -> Any:
        return np.array([entry / 2**NOISE_BITS for entry in np.ravel(values)]).reshape(np.shape(values))

    def whole(self, law: Any, total: int, draw: Any) -> int:
        return total


@contextmanager
def forcing() -> Iterator[None]:
    """Let flips and whole-number noise of books obey their source, where it is a forced one."""
    really_add, really_tell = DiscreteLaplace.add, RandomisedResponse.tell

    def add(law: Any, total: int, source: Any) -> int:
        draw = lambda: really_add(law, total, source)  # noqa: E731
        return source.whole(law, total, draw) if isinstance(source, Forced) else draw()

    def tell(law: Any, reward: float, source: Any) -> float:
        if not isinstance(source, Forced):
            return really_tell(law, reward, source)
        source.hidden["told", reward] += 1
        return law.told(reward if isinstance(source, Silence) else source.bit())

    def entering(kind: Any) -> Any:
        really = kind._enter

        def enter(book: Any, event: Any) -> None:
            source = book.source
            if isinstance(source, Forced):
                source.round = event.round
                law = getattr(book.plan, "law", None) or getattr(book.plan, "flip_law", None)
                flipped = type(event.reward) is Told and event.reward in (law.told(0.0), law.told(1.0))
                if flipped and not isinstance(source, Silence):  # when it arrived, nobody knew its round here
                    event = event._replace(reward=Told(law.told(source.bit())))
            really(book, event)

        return patch.object(kind, "_enter", enter)

    with ExitStack() as patched:
        for one in (entering(RewardBook), entering(ChannelBook)):
            patched.enter_context(one)
        patched.enter_context(patch.object(DiscreteLaplace, "add", add))
        patched.enter_context(patch.object(RandomisedResponse, "tell", tell))
        yield


# --- what differs --------------------------------------------------------------------------------------------------------


def difference(one: Sequence[tuple[str, object]], other: Sequence[tuple[str, object]]) -> str | None:
    """The first thing in which two transcripts differ, in words; None: not a byte."""
    for (label, mine), (their_label, theirs) in zip(one, other, strict=False):
        if label != their_label:
            return f"{label}, or {their_label}"
        if mine != theirs:
            return f"{label}: {_around(mine, theirs)}"
    longer = one[len(other) :] or other[len(one) :]
    return f"{longer[0][0]} in one of them alone" if longer else None


def _around(mine: object, theirs: object) -> str:
    """Where two things begin to differ."""
    if isinstance(mine, Answer) and isinstance(theirs, Answer):
        if mine[:2] != theirs[:2]:
            return f"{mine[:2]} or {theirs[:2]}"
        mine, theirs = mine.body, theirs.body
    texts = [one if isinstance(one, bytes) else str(one).encode() for one in (mine, theirs)]
    shared = next((n for n, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), min(map(len, texts)))
    cut = slice(max(0, shared - 60), shared + 60)
    return f"{texts[0][cut]!r} or {texts[1][cut]!r}"


def leaves(document: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a document, and for every text a number of its own, by where they stand."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(value, f"{path}.{name}")
    elif isinstance(document, list):
        yield f"{path}.length", len(document)
        for place, value in enumerate(document):
            yield from leaves(value, f"{path}[{place}]")
    elif isinstance(document, bool | int | float):
        yield path, float(document)
    elif document is not None:
        text = document if isinstance(document, bytes) else str(document).encode()
        yield path, zlib.crc32(text) / 2**32
