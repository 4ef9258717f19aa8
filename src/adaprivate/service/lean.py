"""Routes of a FastAPI application that are declared as usual and run with less in between.

FastAPI reads the signature for the OpenAPI document. A request then takes a shorter way than FastAPI's own: the body is
read once and validated from its bytes, no dependencies are solved, and the answer is bytes. Parameters have fixed meanings:
``body`` is the JSON body, ``visit`` is the request as the door knows it, ``idempotency_key`` that header, a bool is of the
query, all others are parts of the path.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

import orjson
from fastapi import Depends
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.types import Receive, Scope, Send

from adaprivate.service import problems
from adaprivate.service.access import Key
from adaprivate.service.bandit import NAME
from adaprivate.service.faults import Fault
from adaprivate.service.models import Request
from adaprivate.service.problems import Refusal

LARGE = 256 * 1024
"""Longer bodies are validated in a thread, so that others need not wait."""
BODY_SECONDS = 30.0
"""So long a body may take to arrive."""
_JSON = re.compile(rb"application/json(\s*;\s*charset=\"?utf-8\"?)?\s*$", re.IGNORECASE)
_NAME = re.compile(rb'"\s*:')
"""What ends a name in JSON."""
_IDEMPOTENCY_KEY = re.compile(r"[ -~]{1,200}")
JSON = b"application/json"
_LENIENT = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
"""Numbers of NumPy are numbers, and names of columns, which are no plain texts, are texts."""
Result = TypeVar("Result")
_pool = ThreadPoolExecutor(8, thread_name_prefix="adaprivate-route")
"""For routes that wait for the database."""


class _PartConvertor(StringConvertor):
    """A part of a path without a colon: what follows one is a verb, as in ``/bandits/{name}:pause``."""

    regex = "[^/:]+"


register_url_convertor("part", _PartConvertor())


class Answer(NamedTuple):
    """What is sent back: ``body``, or the only file of a folder, which is deleted when it was sent."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    folder: Path | None = None


def json_answer(document: object, status: int = 200) -> Answer:
    """A document as JSON."""
    return Answer(status, orjson.dumps(document, option=_LENIENT))


class Visit:
    """A request as it passed the door: whose it is, and, once a route has met it, the answer."""

    __slots__ = ("address", "answer", "headers", "key", "max_body", "route")

    def __init__(self, headers: Mapping[bytes, bytes], address: str, key: Key | None, max_body: int) -> None:
        self.headers, self.address, self.key, self.max_body = headers, address, key, max_body
        self.route: str | None = None
        self.answer: Answer | None = None

    @property
    def key_id(self) -> str | None:
        """Of the key, where keys are needed."""
        return None if self.key is None else self.key.id


def _visit_is_given() -> None:
    """Tells FastAPI that ``visit`` is no part of the request."""


TheVisit = Annotated[Visit, Depends(_visit_is_given)]


class LeanRoute(APIRoute):
    """A route that runs as this module says.

    ``openapi_extra``: ``x-scope`` is what a key must have, ``x-bodies`` how many times as long as others its body may be.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        parameters = inspect.signature(endpoint, eval_str=True).parameters
        body = parameters.get("body")
        self._model: type[Request] | None = None if body is None else body.annotation
        self._wants_visit, self._wants_key = "visit" in parameters, "idempotency_key" in parameters
        self._flags = [name for name, one in parameters.items() if _is_flag(one.annotation)]
        self._in_thread = not inspect.iscoroutinefunction(endpoint)
        extra = self.openapi_extra or {}
        self.scope: str = extra["x-scope"]
        self._bodies: int = extra.pop("x-bodies", 1)
        self.app = self._meet

    def get_route_handler(self) -> Callable[[Any], Coroutine[Any, Any, Any]]:
        return self._not_this_way

    async def _not_this_way(self, request: Any) -> Any:
        raise NotImplementedError

    async def _meet(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit: Visit = scope["visit"]
        visit.route = self.path_format
        values: dict[str, Any] = dict(scope["path_params"])
        if "name" in values and NAME.fullmatch(values["name"]) is None:
            raise Fault("unknown-bandit", "Expected the name of a bandit: 1 to 64 of a-z, 0-9, _ and -.", field="name")
        if visit.key is not None:
            visit.key.expect(self.scope, values.get("name"))
        if self._wants_key:
            values["idempotency_key"] = _idempotency_key(visit.headers)
        if self._model is not None:
            values["body"] = await _validated(self._model, visit, receive, self._bodies * visit.max_body)
        if self._wants_visit:
            values["visit"] = visit
        for name in self._flags:
            values[name] = _flag(name, scope["query_string"])
        if self._in_thread:
            visit.answer = await in_thread(self.endpoint, **values)
        else:
            visit.answer = await self.endpoint(**values)


async def in_thread(action: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Do what may wait for the database where nobody else must wait for it."""
    return await asyncio.get_running_loop().run_in_executor(_pool, partial(action, *arguments, **options))


async def _validated(model: type[Request], visit: Visit, receive: Receive, most: int) -> Request:
    if _JSON.match(visit.headers.get(b"content-type", b"")) is None:
        raise Refusal("unsupported-media-type", "Expected the header Content-Type to be application/json.")
    if visit.headers.get(b"content-encoding", b"identity") != b"identity":
        raise Refusal("unsupported-media-type", "Expected a body without a content encoding.")
    length = visit.headers.get(b"content-length")
    if length is not None and length.isdigit() and int(length) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            content = await _body(receive, most)
    except TimeoutError:
        raise Refusal("slow", f"Expected the whole body within {BODY_SECONDS:g} seconds.", _CLOSE) from None
    if len(content) > LARGE:
        return await in_thread(_read, model, content)
    return _read(model, content)


def _read(model: type[Request], content: bytes) -> Request:
    """The body, if it is one of these; a name that comes twice, of which only the last would count, is refused."""
    try:
        body = model.model_validate_json(content)
    except ValidationError as error:
        kind, detail, field = problems.of_validation(error, model.model_fields)
        raise Refusal(kind, detail, (), **({"field": field} if field else {})) from None
    names = body.names
    if names != content.count(b":") and names != len(_NAME.findall(content)):  # both count parts of some texts, too
        place = problems.repeated(content)
        if place is not None:
            raise Fault("invalid", f"Expected {place} to be there once.", field=place)
    return body


async def _body(receive: Receive, most: int) -> bytes:
    """The whole body, as long as it is not too long."""
    message = await receive()
    if not message.get("more_body", False) and message["type"] == "http.request":
        first: bytes = message.get("body", b"")
        if len(first) > most:
            raise _too_large(most)
        return first
    content = bytearray()
    while True:
        if message["type"] != "http.request":
            raise Refusal("slow", "Expected the whole body.", _CLOSE)
        content += message.get("body", b"")
        if len(content) > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return bytes(content)
        message = await receive()


_CLOSE = ((b"connection", b"close"),)


def _too_large(most: int) -> Refusal:
    return Refusal("too-large", f"Expected a body of at most {most} bytes.", _CLOSE)


def _is_flag(annotation: object) -> bool:
    return annotation is bool or getattr(annotation, "__origin__", None) is bool


def _flag(name: str, query: bytes) -> bool:
    """A truth value of the query; absent: no."""
    values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get(name, ["false"])
    if len(values) > 1 or values[0] not in ("true", "false"):
        raise Fault("invalid", f"Expected {name} to be true or false.", field=name)
    return values[0] == "true"


def _idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    value = headers.get(b"idempotency-key")
    if value is None:
        return None
    text = value.decode("latin-1")
    if _IDEMPOTENCY_KEY.fullmatch(text) is None:
        raise Fault(
            "invalid", "Expected Idempotency-Key to be 1 to 200 printable ASCII characters.", field="Idempotency-Key"
        )
    return text
