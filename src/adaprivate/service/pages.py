"""What people look at: the dashboard, the reference, health, counts for Prometheus. All of it is public."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fastapi import APIRouter

from adaprivate.service import documents, migrations, page, reference
from adaprivate.service.database import Database
from adaprivate.service.faults import Fault
from adaprivate.service.lean import Answer, TheVisit, json_answer
from adaprivate.service.observing import metrics
from adaprivate.service.problems import Refusal
from adaprivate.service.routes import Parts, said, sees

_HTML = b"text/html; charset=utf-8"
_NO_FRAMES = ((b"x-frame-options", b"DENY"),)


def add_pages(router: APIRouter, parts: Parts, openapi: Callable[[], dict[str, Any]]) -> None:
    """The dashboard and its like; ``openapi`` makes the OpenAPI document."""
    service = parts.service

    @router.get("/", summary="Dashboard", tags=["pages"], **_text("read", "text/html"))
    async def dashboard() -> Answer:
        """What was released and what is public, drawn."""
        policy = (b"content-security-policy", page.SECURITY_POLICY.encode())
        return Answer(200, page.INDEX, _HTML, (policy, *_NO_FRAMES))

    @router.get("/client.js", summary="Browser client", tags=["pages"], **_text("decide", "text/javascript"))
    async def client(key: str | None = None) -> Answer:
        """The script that web pages load; where keys are needed with a publishable one, `?key=`."""
        headers = ((b"cache-control", b"public, max-age=3600"), (b"cross-origin-resource-policy", b"cross-origin"))
        return Answer(200, page.CLIENT, b"text/javascript; charset=utf-8", headers)

    @router.get("/docs", summary="Reference", tags=["pages"], **_text("read", "text/html"))
    async def docs() -> Answer:
        """This reference, for people."""
        policy = (b"content-security-policy", reference.SECURITY_POLICY.encode())
        return Answer(200, reference.page(openapi()), _HTML, (policy, *_NO_FRAMES))

    @router.get("/openapi.json", summary="OpenAPI document", tags=["pages"], response_model=dict[str, Any], **said("read"))
    async def document() -> Answer:
        """This reference, for programs."""
        return json_answer(openapi())

    @router.get("/health", summary="Health", response_model=documents.Health, tags=["operation"], **said("read"))
    async def health() -> Answer:
        """Whether the process lives."""
        return json_answer({"status": "ok"})

    @router.get("/ready", summary="Readiness", response_model=documents.Ready, tags=["operation"], **said("read", 503))
    def ready() -> Answer:
        """Whether it can decide: the database answers, its tables are those of this version, what decides is compiled."""
        checks = {**service.ready(), "tables": _tables_fit(service.database)}
        if not all(checks.values()):
            missing = ", ".join(name for name, fine in checks.items() if not fine)
            raise Refusal("not-ready", f"Expected {missing} to be ready.", ((b"retry-after", b"1"),), checks=checks)
        return json_answer({"status": "ready", "checks": checks})

    @router.get("/metrics", summary="Metrics", tags=["operation"], **_text("read", "text/plain", 503))
    def counts(visit: TheVisit) -> Answer:
        """Public counts in Prometheus' text format; nothing about rewards."""
        names = [one["name"] for one in service.bandits() if sees(visit.key, one["name"])]
        return Answer(200, metrics(service.status(name) for name in names), b"text/plain; version=0.0.4; charset=utf-8")


def _tables_fit(database: Database) -> bool:
    """Whether the tables are those that this version knows."""
    try:
        with database.reading() as connection:
            return migrations.at(connection) == _head()
    except Fault:
        return False


@cache
def _head() -> str:
    return migrations.head()


def _text(scope: str, media_type: str, *statuses: int) -> dict[str, Any]:
    found = {"description": "As it says.", "content": {media_type: {"schema": {"type": "string"}}}}
    return said(scope, *statuses, responses={200: found}, response_model=None)
