"""What can go wrong for a caller, in words that never repeat a reward."""

from __future__ import annotations

from typing import Any

STATUSES = {
    "invalid": 422,
    "unauthorised": 401,
    "forbidden": 403,
    "unknown-bandit": 404,
    "unknown-decision": 404,
    "exists": 409,
    "different": 409,
    "paused": 409,
    "halted": 409,
    "moved": 409,
    "late": 410,
    "lost": 410,
    "too-large": 413,
    "too-many": 429,
    "unavailable": 503,
}
"""Kinds of faults, and the HTTP status of each."""


class Fault(Exception):  # noqa: N818
    """A request that cannot be met: ``kind`` (one of :data:`STATUSES`), a sentence, the field, and what else to say."""

    def __init__(self, kind: str, detail: str, *, field: str | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.field, self.extra = kind, detail, field, extra

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUSES[self.kind]


def facts_of(error: Exception) -> dict[str, Any]:
    """What a log may say of an error beside its type: of a fault its kind, and which bandit it is about, if it says so."""
    if not isinstance(error, Fault):
        return {}
    return {name: error.extra[name] for name in ("bandit",) if name in error.extra} | {"kind": error.kind}
