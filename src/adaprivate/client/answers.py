"""What the service answers: documents, decisions, and problems (RFC 9457). No reward is in any of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import httpx

Document = dict[str, Any]
AGAIN = frozenset({408, 429, 502, 503, 504})
"""Answers after which the same request may be sent again."""

CLOSED = frozenset({"paused", "halted", "moved"})
"""Why a bandit may not decide just now: what would be shown without it is shown."""


class ServiceError(Exception):
    """The service refused, or could not answer."""

    def __init__(
        self, detail: str, status: int | None = None, kind: str = "error", field: str | None = None, item: str | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.field = status, kind, detail, field
        self.item = item
        """What to show instead, where the service says so."""
        self.differs: tuple[str, ...] | None = None
        """Where the name of a new bandit is taken: the settings that the bandit of that name has otherwise."""

    def __str__(self) -> str:
        return f"{self.detail} ({self.kind}{f', {self.status}' if self.status else ''})"


class InvalidError(ServiceError):
    """Something in the request is not as it should be: `detail` says what, `field` where."""


class NoAccessError(ServiceError):
    """No key, or one that does not open this."""


class UnknownError(ServiceError):
    """There is no such bandit, or no such decision."""


class DifferentRewardError(ServiceError):
    """Another reward was reported of this decision before; that one stands."""


class UnavailableError(ServiceError):
    """The service could not be reached, or could not answer in time."""


_ERRORS: dict[int, type[ServiceError]] = {
    400: InvalidError,
    401: NoAccessError,
    403: NoAccessError,
    404: UnknownError,
    413: InvalidError,
    415: InvalidError,
    421: NoAccessError,
    422: InvalidError,
    **dict.fromkeys(AGAIN, UnavailableError),
}


@dataclass(frozen=True)
class Decision:
    """What to show. Plain data: keep it, send it with the page, give it back to `Client.reward`."""

    decision_id: str | None
    """None of a fallback."""
    item: str
    version: int | None = None
    propensity: float | None = None
    round: int | None = None
    holdback: bool = False
    keep: float | None = None
    """Of local bandits: the probability with which the reward's bit is told truly."""
    fallback: bool = False
    """The service could not answer: nobody decided this, and nothing is learned from it."""


def decided(document: Document) -> Decision:
    """A decision; what a newer service says besides is left out."""
    return Decision(**{field.name: document[field.name] for field in fields(Decision) if field.name in document})


def problem(response: httpx.Response) -> ServiceError:
    """What an answer other than 2xx says."""
    try:
        body = response.json()
    except ValueError:
        body = None
    said = body if isinstance(body, dict) else {}
    status = response.status_code
    kind = str(said.get("type", "")).replace("#", ":").rpartition(":")[2] or f"http-{status}"
    error = DifferentRewardError if kind == "different" else _ERRORS.get(status, ServiceError)
    detail = said.get("detail") or said.get("title") or response.reason_phrase or f"HTTP {status}"
    item, differs = said.get("item"), said.get("differs")
    found = error(str(detail), status, kind, said.get("field"), None if item is None else str(item))
    found.differs = tuple(map(str, differs)) if isinstance(differs, list) else None
    return found


def document(response: httpx.Response) -> Document:
    """The document of an answer, or its problem raised."""
    if not response.is_success:
        raise problem(response)
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnavailableError("What answered is not the decision service.", response.status_code, "foreign")
    return found


def instead(error: ServiceError, ask: Document, default: str | None) -> Decision:
    """What to show where the service does not decide: the caller's default, the service's, the first candidate."""
    if not isinstance(error, UnavailableError) and error.kind not in CLOSED:
        raise error
    offered = [one["id"] if isinstance(one, Mapping) else one for one in ask.get("candidates", ())]
    theirs = error.item if not offered or error.item in offered else None
    item = next((item for item in (default, theirs, *offered[:1]) if item is not None), None)
    if item is None:
        raise error
    return Decision(None, item, fallback=True)
