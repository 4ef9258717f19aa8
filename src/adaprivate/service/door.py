"""The door: every request comes in here, and every answer goes out, errors included, as one ASGI application around the
router.

Here is seen who may come in (:mod:`~adaprivate.service.access`), what is noted (:mod:`~adaprivate.service.observing`), and
that no error says more than its sentence. Bodies, and so rewards, are not looked at.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from adaprivate.check import InputError
from adaprivate.service import problems
from adaprivate.service.access import Key, Keyring, LocalOnly, Origins, secret_of, unauthorised
from adaprivate.service.faults import Fault
from adaprivate.service.lean import Answer, Visit, in_thread
from adaprivate.service.observing import Log
from adaprivate.service.problems import Refusal

Headers = Mapping[bytes, bytes]
_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
_UNLESS_SAID = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""For answers that say nothing of their own about these."""
_PLAIN = [*_ALWAYS, *_UNLESS_SAID]
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PUT"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, x-api-key"),
    (b"access-control-max-age", b"600"),
)


class Door:
    """Lets requests in to ``router``, whose routes leave their answer with the visit, and sends the answer."""

    def __init__(self, router: APIRouter, *, keyring: Keyring | None, origins: Origins, max_body: int, log: Log) -> None:
        self._router, self._keyring, self._origins, self._max_body, self._log = router, keyring, origins, max_body, log
        self._local = LocalOnly()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._router(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            return
        began = time.perf_counter()
        headers: Headers = dict(scope["headers"])
        client = scope.get("client")
        visit = Visit(headers, client[0] if client else "", None, self._max_body)
        answer = await self._answered(scope, receive, send, visit)
        await self._send(scope, send, headers, answer)
        self._note(scope, visit, answer.status, time.perf_counter() - began)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> Answer:
        try:
            early = await self._admit(scope, visit)
            if early is not None:
                return early
            scope["visit"] = visit
            if scope["method"] == "HEAD":
                scope = {**scope, "method": "GET"}  # the server sends no body, and the length that it would have
            await self._router(scope, receive, send)
            if visit.answer is None:
                raise RuntimeError
        except Refusal as refusal:
            return problem(refusal.kind, refusal.detail, None, refusal.extra, refusal.headers)
        except Fault as fault:
            return fault_answer(fault)
        except ValidationError as error:
            return problem(*problems.of_validation(error))
        except InputError as error:
            return problem(*problems.of_input_error(error))
        except HTTPException as error:
            return self._not_routed(scope, error)
        except asyncio.CancelledError:
            raise
        except OSError as error:  # of the journal, or of files on their way out
            self._log.failure("disk", error, route=visit.route)
            return fault_answer(Fault("unavailable", f"The disk does not answer ({type(error).__name__})."))
        except Exception as error:
            self._log.failure("internal", error, route=visit.route)
            return problem("internal", "The service made a mistake; it is in its log.")
        return visit.answer

    async def _admit(self, scope: Scope, visit: Visit) -> Answer | None:
        """Raise unless the request may come in; an answer, where there is one already."""
        headers, method = visit.headers, scope["method"]
        if self._keyring is None:
            self._local.expect(visit.address or None, headers)
        origin = headers.get(b"origin")
        if origin is not None:
            if method == "OPTIONS" and b"access-control-request-method" in headers and self._origins.admits(origin):
                return Answer(204, b"", b"", _PREFLIGHT)
            self._origins.expect(method, origin, headers.get(b"host", b""))
        if self._keyring is not None:
            visit.key = await self._key(self._keyring, scope, headers)
        return None

    async def _key(self, keyring: Keyring, scope: Scope, headers: Headers) -> Key:
        secret = secret_of(headers, scope["path"], scope["query_string"])
        if not secret:
            raise unauthorised()
        key = keyring.find(secret)
        if key is None:
            try:
                await in_thread(keyring.refresh_for_stranger)
            except Fault:
                raise unauthorised() from None
            key = keyring.find(secret)
        if key is None:
            raise unauthorised()
        return key

    async def _send(self, scope: Scope, send: Send, headers: Headers, answer: Answer) -> None:
        file = None if answer.folder is None else next(answer.folder.iterdir())
        length = len(answer.body) if file is None else file.stat().st_size
        sent = [(b"content-length", b"%d" % length)] if answer.status != 204 else []
        if answer.media_type:
            sent.append((b"content-type", answer.media_type))
        if answer.headers:
            said = {name for name, _ in answer.headers}
            sent += [*answer.headers, *_ALWAYS, *(pair for pair in _UNLESS_SAID if pair[0] not in said)]
        else:
            sent += _PLAIN
        origin = headers.get(b"origin")
        if origin is not None and self._origins.admits(origin):
            sent += (
                (b"access-control-allow-origin", origin),
                (b"vary", b"Origin"),
                (b"access-control-expose-headers", b"Retry-After"),
            )
        await send({"type": "http.response.start", "status": answer.status, "headers": sent})
        if file is None:
            await send({"type": "http.response.body", "body": answer.body})
        else:
            await _send_file(send, file)

    def _not_routed(self, scope: Scope, error: HTTPException) -> Answer:
        if error.status_code != 405:
            return problem("not-found", "Expected a path that is known: /docs lists all.")
        here = [
            route for route in self._router.routes if isinstance(route, APIRoute) and route.path_regex.match(scope["path"])
        ]
        allowed = ", ".join(sorted(method for route in here for method in route.methods or ()))
        return problem("method-not-allowed", f"Expected the method {allowed}.", None, None, ((b"allow", allowed.encode()),))

    def _note(self, scope: Scope, visit: Visit, status: int, seconds: float) -> None:
        """A line in the log, unless it would tell that a reward came."""
        path = scope["path"]
        if not (path.startswith(("/decisions/", "/rewards:")) or visit.route == "/decisions/{decision_id}/reward"):
            name = scope.get("path_params", {}).get("name") if visit.route is not None else None
            self._log.request(visit.route or "", status, seconds, name)


async def _send_file(send: Send, path: Path) -> None:
    """Send a file in pieces, and delete its folder."""
    try:
        with path.open("rb") as file:
            more = True
            while more:
                piece = await in_thread(file.read, 1 << 18)
                more = len(piece) == 1 << 18
                await send({"type": "http.response.body", "body": piece, "more_body": more})
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


def problem(
    kind: str,
    detail: str,
    field: str | None = None,
    extra: Mapping[str, object] | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Answer:
    """An answer that says what went wrong."""
    body = problems.document(kind, detail, field, extra)
    return Answer(problems.KINDS[kind], body, problems.MEDIA_TYPE, headers)


def fault_answer(fault: Fault) -> Answer:
    """An answer that says what a fault is; when to come again, where that is known."""
    extra = {name: value for name, value in fault.extra.items() if value is not None}
    wait = extra.get("retry_after", 1 if fault.status == 503 else None)
    headers = ((b"retry-after", b"%d" % wait),) if isinstance(wait, int) else ()
    return problem(fault.kind, fault.detail, fault.field, extra, headers)
