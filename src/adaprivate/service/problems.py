"""Errors as documents: application/problem+json, one clear sentence each, and never the value that was sent.

Nothing here sees a reward: of what pydantic found wrong only the place and the condition are taken, not the input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from adaprivate.check import InputError, did_you_mean
from adaprivate.service.faults import STATUSES, Fault

MEDIA_TYPE = b"application/problem+json"
PROTOCOL = {
    "malformed": 400,
    "forbidden": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "slow": 408,
    "unsupported-media-type": 415,
    "misdirected": 421,
    "internal": 500,
    "too-busy": 503,
    "not-ready": 503,
}
"""Kinds that only a server of HTTP knows, beside those of :data:`~adaprivate.service.faults.STATUSES`."""
KINDS = {**STATUSES, **PROTOCOL}
WHY = {
    400: "The body is no JSON.",
    401: "A key is needed.",
    403: "The key's scopes or bandit do not fit, or a web page from elsewhere asked.",
    404: "No such bandit or decision.",
    408: "The body did not arrive in time.",
    409: "It conflicts with what is there: the name is taken, another reward came before, or the bandit does not decide.",
    410: "Too late: the batch is closed; or the decision was lost with the database it was in.",
    413: "The body is too large.",
    415: "The body must be application/json.",
    421: "A service without keys answers only to names of its own machine.",
    422: "A value does not meet its condition; `field` says which.",
    429: "Too many in a second; `Retry-After` says when to come again.",
    503: "Not now: the database does not answer, or too many wait. Answers about decisions name the default `item`.",
}
"""What each status means, for the OpenAPI document."""
LONGEST_NAME = 80
"""Names of fields are repeated up to so many characters."""


class Problem(BaseModel):
    """What went wrong (RFC 9457). Members that are not listed here may come along."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(
        description="`urn:adaprivate:KIND`: what went wrong, for programs.", examples=["urn:adaprivate:invalid"]
    )
    title: str = Field(description="The name of the status.", examples=["Unprocessable Content"])
    status: int = Field(description="The HTTP status.", examples=[422])
    detail: str = Field(description="One sentence. It never repeats a reward.", examples=["Expected epsilon=-1 > 0."])
    field: str | None = Field(
        default=None, description="The path of the offending field in the body.", examples=["decisions[3].candidates[0]"]
    )


class Refusal(Exception):  # noqa: N818  a sentence of the protocol, not a mistake of the program
    """A request that HTTP itself refuses: ``kind`` is one of :data:`PROTOCOL`; headers may say what to do about it."""

    def __init__(self, kind: str, detail: str, headers: Sequence[tuple[bytes, bytes]] = (), **extra: object) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.headers, self.extra = kind, detail, tuple(headers), extra


def document(kind: str, detail: str, field: str | None = None, extra: Mapping[str, object] | None = None) -> bytes:
    """A problem as JSON."""
    status = KINDS[kind]
    members: dict[str, object] = {**(extra or {})}
    members |= {"type": f"urn:adaprivate:{kind}", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    if field:
        members["field"] = field
    return orjson.dumps(members)


def path(parts: Iterable[str | int]) -> str:
    """A place in a JSON document, as ``decisions[3].candidates[0]``; labels of alternatives (``|ids``) are left out."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not part.startswith("|") and part != "[key]":
            text += ("." if text else "") + part[:LONGEST_NAME]
    return text


def joined(prefix: str, field: str | None) -> str | None:
    """A field's path below another."""
    if not prefix or not field:
        return prefix or field
    return prefix + field if field.startswith("[") else f"{prefix}.{field}"


def of_validation(error: ValidationError, fields: Iterable[str] = ()) -> tuple[str, str, str | None]:
    """Kind, sentence and field of the first thing that pydantic found wrong; the input itself is not looked at.

    ``fields``: those of the body, one of which an unknown one perhaps was meant to be.
    """
    found = _most_fitting(error.errors(include_url=False, include_input=False, include_context=False))
    first = found[0]
    if first["type"] == "json_invalid":
        where = first["msg"].removeprefix("Invalid JSON: ")
        return "malformed", f"Expected the body to be JSON: {where}.", None
    place = path(first["loc"])
    name = place or "the body"
    if first["type"] == "extra_forbidden":
        question = did_you_mean(name, fields).strip()
        perhaps = f" ({question[0].lower()}{question[1:]})" if question else ""
        return "invalid", f"Expected no field {name}{perhaps}: nothing of that name is known here.", place
    if first["type"] == "missing":
        return "invalid", f"Expected a field {name}.", place
    conditions = list(dict.fromkeys(_condition(one["msg"]) for one in found))
    return "invalid", f"Expected {name} {' or '.join(conditions).replace(' or to be ', ' or ')}.", place or None


def _most_fitting(found: Sequence[Any]) -> list[Any]:
    """The first error. Where a value fits none of several alternatives: what those say that got furthest.

    Of these again one that has the right type, if there is one, else all.
    """
    stem = _stem(found[0]["loc"])
    rivals = [error for error in found if _stem(error["loc"]) == stem]
    depths = [sum(not str(part).startswith("|") for part in error["loc"]) for error in rivals]
    deepest = max(depths)
    place = path(rivals[depths.index(deepest)]["loc"])
    furthest = [
        error for error, depth in zip(rivals, depths, strict=True) if depth == deepest and path(error["loc"]) == place
    ]
    fitting = [error for error in furthest if not error["type"].endswith(("_type", "none_required", "_from_float"))]
    return fitting[:1] or furthest


def _stem(place: Sequence[str | int]) -> tuple[str | int, ...]:
    """The part of a place before the first alternative."""
    for index, part in enumerate(place):
        if isinstance(part, str) and part.startswith("|"):
            return tuple(place[:index])
    return tuple(place)


_SHOULD = re.compile(r"^\w+ should (.*?)(?: after validation)?(?:, not .*)?$")


def _condition(message: str) -> str:
    """What pydantic says should be, as the end of our sentence."""
    match = _SHOULD.match(message)
    return f"to {match[1]}" if match else f"to be valid ({message[:1].lower()}{message[1:]})"


class _Fields(list[tuple[str, Any]]):
    """An object of JSON as it was written."""


def repeated(content: bytes) -> str | None:
    """The place of a name that comes twice in an object of this JSON, which is known to be valid; None: none does."""
    whole = json.loads(content, object_pairs_hook=_Fields, parse_int=str, parse_float=str)
    waiting: list[tuple[Any, Any, Any]] = [(whole, None, None)]  # a value, its place in another, and that
    while waiting:
        here = waiting.pop()
        seen: set[str] = set()
        for part, inside in here[0] if isinstance(here[0], _Fields) else enumerate(here[0]):
            if part in seen:
                parts = [part]
                while here[2] is not None:
                    parts.append(here[1])
                    here = here[2]
                return path(reversed(parts))
            if isinstance(part, str):
                seen.add(part)
            if isinstance(inside, list):
                waiting.append((inside, part, here))
    return None


_NAMED = re.compile(
    r"^Expected (?:len\()?([a-z]\w*(?:\[\d+(?:, \d+)*\]|\.[\w-]+)*)(?:=|\)|\['| (?:(?:key|field)(?:=| )|to |not |in |<= ))"
)


def of_input_error(error: InputError) -> tuple[str, str, str | None]:
    """Kind, sentence and field of a value that the library refused."""
    match = _NAMED.match(str(error))
    field = match[1].removesuffix(".shape").replace(", ", "][") if match else None
    return "invalid", str(error), field


@contextmanager
def placed(place: Callable[[str | None], str | None]) -> Iterator[None]:
    """Where the library refuses a value, say where in the request it stands: ``place`` of the field that is named."""
    try:
        yield
    except InputError as error:
        _, detail, field = of_input_error(error)
        raise Fault("invalid", detail, field=place(field)) from None


def of_fault(fault: Fault) -> tuple[str, str, str | None]:
    """Kind, sentence and field of a fault."""
    return fault.kind, fault.detail, fault.field
