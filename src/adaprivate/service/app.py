"""The HTTP application: FastAPI for declarations and the OpenAPI document, a short way for requests. Reads no reward."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from adaprivate import __version__, check
from adaprivate.service import pages, routes
from adaprivate.service.access import Keyring, Origins
from adaprivate.service.door import Door
from adaprivate.service.faults import facts_of
from adaprivate.service.grouping import Recurring, Writer, wait_for_slot
from adaprivate.service.lean import LeanRoute
from adaprivate.service.limits import Limits
from adaprivate.service.observing import Log

if TYPE_CHECKING:
    from adaprivate.service.core import Service

MAX_BODY = 4 * 1024 * 1024
_DESCRIPTION = """Differentially private bandits over HTTP: ask for a decision, show its item, send the reward back.

Errors are `application/problem+json`; `detail` is one sentence, `field` the path of the offending field. What is learned of
rewards comes out in noisy releases alone: nothing else that a caller can see depends on the rewards of others.

Keys, where the service needs them: `Authorization: Bearer KEY`, `X-API-Key: KEY`, or as the password of HTTP Basic.
Each route names the scope that a key must have; `admin` has all."""
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "basic": {"type": "http", "scheme": "basic"},
}
_NO_TELEMETRY = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}
"""FastAPI would report requests to whoever set a provider up; that a reward came is nobody's business."""


class Application(FastAPI):
    """A FastAPI application whose requests all pass one door; FastAPI's own layers of middleware are not in the way."""

    def __init__(self, door: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._door = door
        self.router.route_class = LeanRoute

    def build_middleware_stack(self) -> ASGIApp:
        return Door(self.router, **self._door)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document: errors have their own media type, and keys are asked for where they are needed."""
        if self.openapi_schema is None:
            document = super().openapi()
            for methods in document["paths"].values():
                for operation in methods.values():
                    for status, answer in operation["responses"].items():
                        if int(status) >= 400:
                            answer["content"] = {"application/problem+json": answer["content"].pop("application/json")}
            if self._door["keyring"] is not None:
                document.setdefault("components", {})["securitySchemes"] = _SECURITY
                document["security"] = [{name: []} for name in _SECURITY]
            self.openapi_schema = document
        return self.openapi_schema


def create_app(
    service: Service,
    *,
    require_keys: bool,
    max_body: int = MAX_BODY,
    rate: float | None = None,
    allow_origins: Sequence[str] = (),
    log: Log | None = None,
    owns_service: bool = False,
    closes: bool = True,
) -> FastAPI:
    """The application that serves ``service``. Its lifespan starts and ends the threads that write and that close batches.

    ``rate``: decisions a second that one caller may ask for, and as many rewards. ``owns_service``: close it at the end,
    too. ``closes``: whether batches are closed here, not elsewhere.
    """
    check.whole("max_body", max_body, at_least=1024)
    check.expect(require_keys or "*" not in allow_origins, "allow_origin", "*", "to come with --require-keys")
    log = Log() if log is None else log
    writer = Writer(service, log)
    keyring = Keyring(service.database) if require_keys else None
    chores = [
        Recurring("refresh", service.refresh, 0.05, log),
        Recurring("log", log.flush, 0.25, log),
    ]
    service.report = report_to(log)
    if closes:
        chores.append(Recurring("close", service.close_due, 0.1, log))
        chores.append(Recurring("tidy", partial(service.tidy, wait_for_slot), 0.1, log))
    if keyring is not None:
        chores.append(Recurring("keys", keyring.refresh, 2.0, log))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(begin)
        yield
        await asyncio.to_thread(end)

    def begin() -> None:
        for first in (service.refresh, *((keyring.refresh,) if keyring is not None else ())):
            try:
                first()
            except Exception as error:  # while the database is away; the chores will find it
                log.failure("start", error)
        writer.start()
        for chore in chores:
            chore.start()
        log.event("info", "started", keys=require_keys)

    def end() -> None:
        writer.stop()
        for chore in chores:
            chore.stop()
        if owns_service:
            service.close()
        log.event("info", "stopped")
        log.flush()

    app = Application(
        {"keyring": keyring, "origins": Origins(allow_origins), "max_body": max_body, "log": log},
        title="adaprivate",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    parts = routes.Parts(service, writer, Limits(rate))
    routes.add_decisions(app.router, parts)
    routes.add_rewards(app.router, parts)
    routes.add_bandits(app.router, parts)
    pages.add_pages(app.router, parts, app.openapi)
    return app


def report_to(log: Log) -> Callable[[str, Exception | None], None]:
    """Notes in the log which bandit's batch cannot be closed, and when it could."""

    def report(bandit: str, error: Exception | None) -> None:
        if error is None:
            log.event("info", "close", bandit=bandit, recovered=True)
        else:
            log.failure("close", error, **facts_of(error) | {"bandit": bandit})

    return report
