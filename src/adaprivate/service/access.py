"""Who may do what: API keys and their scopes, and which web pages may call. No reward comes here.

A key is 32 random bytes that are shown once; the database holds their SHA-256. Keys are looked up by that hash, in memory:
the table is read again every few seconds, so that no request waits for the database, and keys go on while it is away. A
service without keys answers its own machine alone: other addresses, other names in the Host header (a web page that points
a name of its own here) and requests that a proxy passed on are refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qs, urlsplit

import sqlalchemy as sa

from adaprivate import check
from adaprivate.service.database import Database
from adaprivate.service.faults import Fault
from adaprivate.service.problems import Refusal
from adaprivate.service.schema import api_keys, bandits

SCOPES = ("read", "decide", "reward", "admin")
PREFIX = "adp_"
"""Begins every key, so that one that lies about is recognised."""
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_CHALLENGES = ((b"www-authenticate", b'Bearer realm="adaprivate"'), (b"www-authenticate", b'Basic realm="adaprivate"'))
_PASSED_ON = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")


@dataclass(frozen=True)
class Key:
    """A key without its secret: whose, for what, for which bandit (None: all)."""

    id: str
    name: str
    scopes: frozenset[str]
    bandit: str | None
    created_at: float
    revoked_at: float | None = None

    def may(self, scope: str) -> bool:
        """Whether it has this scope; admin has all."""
        return scope in self.scopes or "admin" in self.scopes

    def expect(self, scope: str, bandit: str | None = None) -> None:
        """Raise unless it has this scope, and is for this bandit (where one is named)."""
        if not self.may(scope):
            raise Fault(
                "forbidden", f"Expected a key with the scope {scope}; this one has {', '.join(sorted(self.scopes))}."
            )
        if bandit is not None and self.bandit not in (None, bandit):
            raise Fault("forbidden", "Expected a key for this bandit; this one is for another.")

    @property
    def listed_scopes(self) -> list[str]:
        """Its scopes, in the usual order."""
        return [scope for scope in SCOPES if scope in self.scopes]

    def to_dict(self) -> dict[str, object]:
        """For programs."""
        return {**self.__dict__, "scopes": self.listed_scopes}


def hashed(secret: str) -> str:
    """What is stored of a key. It has 256 random bits: no salt, no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create_key(
    database: Database,
    name: str,
    scopes: Iterable[str],
    bandit: str | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> tuple[str, str]:
    """A new key: its id, and its secret, which is shown this once."""
    check.kind("name", name, str)
    check.expect(1 <= len(name) <= 200 and name.isprintable(), "name", name, "to be 1 to 200 printable characters")
    wanted = sorted(set(scopes), key=str)
    check.expect(bool(wanted), "scope", None, "to be given, at least one of {" + ", ".join(SCOPES) + "}")
    for scope in wanted:
        check.one_of("scope", scope, SCOPES)
    identity, secret = secrets.token_hex(6), PREFIX + secrets.token_urlsafe(32)
    with database.writing() as connection:
        if bandit is not None:
            found = connection.execute(sa.select(bandits.c.id).where(bandits.c.name == bandit)).first()
            check.expect(found is not None, "bandit", bandit, "to be a bandit of this database")
        row: dict[str, object] = {"id": identity, "name": name, "scopes": " ".join(wanted), "bandit": bandit}
        row |= {"hash": hashed(secret), "created_at": clock(), "revoked_at": None}
        connection.execute(sa.insert(api_keys).values(**row))
    return identity, secret


def list_keys(database: Database) -> list[Key]:
    """All keys, the revoked ones too, without their secrets."""
    with database.reading() as connection:
        return [_key(row) for row in connection.execute(sa.select(api_keys).order_by(api_keys.c.created_at))]


def revoke_key(database: Database, identity: str, *, clock: Callable[[], float] = time.time) -> None:
    """A key that opens nothing any more (in a few seconds, where a service runs)."""
    with database.writing() as connection:
        mine = api_keys.c.id == identity
        found = connection.execute(sa.select(api_keys.c.id).where(mine)).first()
        check.expect(found is not None, "id", identity, "to be the id of a key: adaprivate keys list")
        connection.execute(sa.update(api_keys).where(mine, api_keys.c.revoked_at.is_(None)).values(revoked_at=clock()))


def _key(row: sa.Row[tuple[object, ...]]) -> Key:
    return Key(row.id, row.name, frozenset(row.scopes.split()), row.bandit, row.created_at, row.revoked_at)


class Keyring:
    """The keys that open something, in memory. :meth:`refresh` reads them again."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._keys: Mapping[str, Key] = {}
        self._lock = threading.Lock()
        self._read_at = -float("inf")

    def refresh(self) -> None:
        """Read the table; raises, and keeps what is known, while the database is away."""
        with self._lock:
            self._read_at = self._clock()
            with self._database.reading() as connection:
                rows = connection.execute(sa.select(api_keys).where(api_keys.c.revoked_at.is_(None))).all()
            self._keys = {row.hash: _key(row) for row in rows}

    def find(self, secret: str) -> Key | None:
        """The key with this secret."""
        return self._keys.get(hashed(secret))

    def refresh_for_stranger(self, pause: float = 0.25) -> None:
        """Perhaps it was just made: read the table, but not at every wrong guess."""
        if self._clock() - self._read_at >= pause:
            self.refresh()


def secret_of(headers: Mapping[bytes, bytes], path: str, query: bytes) -> str | None:
    """The key that a request brings: Bearer, Basic (as password), X-API-Key, ``?key=`` for the browser's client alone."""
    kind, _, value = headers.get(b"authorization", b"").partition(b" ")
    kind = kind.lower()
    if kind == b"bearer":
        return value.strip().decode("latin-1")
    if kind == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2] or None
        except (binascii.Error, UnicodeDecodeError):
            return None
    if b"x-api-key" in headers:
        return headers[b"x-api-key"].strip().decode("latin-1")
    if path == "/client.js" and query:
        return next(iter(parse_qs(query.decode("latin-1")).get("key", [])), None)
    return None


def unauthorised() -> Refusal:
    """Come with a key."""
    return Refusal(
        "unauthorised", "Expected an API key that is valid: Authorization: Bearer KEY, or X-API-Key: KEY.", _CHALLENGES
    )


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether this name or address is this machine's own: localhost, names below it, 127.0.0.0/8, ::1."""
    host = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


class LocalOnly:
    """What protects a service without keys: it is for its own machine, and for those who know that they call it."""

    def __init__(self) -> None:
        self._known_hosts: set[bytes] = set()

    def expect(self, client: str | None, headers: Mapping[bytes, bytes]) -> None:
        """Raise unless the request comes from this machine and calls it by a name of its own."""
        if client is not None and not is_loopback(client):
            raise Refusal("forbidden", "Expected a caller on this machine: a service for others needs --require-keys.")
        for name in _PASSED_ON:
            if name in headers:
                raise Refusal("forbidden", "Expected no proxy in between: a service for others needs --require-keys.")
        host = headers.get(b"host", b"")
        if host not in self._known_hosts:
            if not is_loopback(_name_of(host.decode("latin-1"))):
                raise Refusal("misdirected", "Expected the header Host to name this machine, as localhost or 127.0.0.1 do.")
            if len(self._known_hosts) < 100:
                self._known_hosts.add(host)


def _name_of(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]


class Origins:
    """Which web pages may call: those of this service itself, and those that were named."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = {origin.encode() for origin in map(checked_origin, allowed)}
        self._all = b"*" in self._allowed

    def admits(self, origin: bytes) -> bool:
        """Whether pages from there may read answers."""
        return self._all or origin in self._allowed

    def expect(self, method: str, origin: bytes, host: bytes) -> None:
        """Raise where a page from elsewhere would change something."""
        if method in _SAFE or self.admits(origin):
            return
        if not host or urlsplit(origin.decode("latin-1")).netloc.lower() != host.decode("latin-1").lower():
            raise Refusal(
                "forbidden", "Expected a page of this service, or one of an origin that it allows: --allow-origin."
            )


def checked_origin(origin: str) -> str:
    """An origin as browsers send it: scheme://host, or * for all."""
    try:
        parts = urlsplit(origin)
        whole = parts.scheme in ("http", "https") and parts.netloc != "" and f"{parts.scheme}://{parts.netloc}" == origin
    except ValueError:
        whole = False
    check.expect(whole or origin == "*", "allow_origin", origin, "to be like https://www.example.org, or *")
    return origin
