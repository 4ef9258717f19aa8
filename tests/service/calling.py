"""Calls an application as a server would, from a test that does not know of event loops."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.conftest import new_database

from adaprivate.service.app import create_app
from adaprivate.service.core import Service
from adaprivate.service.migrations import upgrade
from adaprivate.service.observing import Log

ITEMS = {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0], "c": [0.0, 0.6, 0.8]}
BANDIT = {"name": "page", "policy": "adaprivate-ts", "dimension": 3, "rounds": 200, "batch_size": 10, "reward_window": 60}


class Caller:
    """An application with its threads running in a loop of its own; ``lines`` are those of its log."""

    def __init__(self, service: Any, address: str = "127.0.0.1", **options: Any) -> None:
        self.service, self.address = service, address
        self._written = io.StringIO()
        self._log = Log(self._written)
        self.app = create_app(service, **{"require_keys": False, "log": self._log, **options})
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._life = self.app.router.lifespan_context(self.app)
        self.run(self._life.__aenter__())

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def close(self) -> None:
        self.run(self._life.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def ask(self, method: str, path: str, *, address: str | None = None, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, client=(address or self.address, 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
            return await client.request(method, path, **options)

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.run(self.ask(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self("GET", path, **options)

    def post(self, path: str, document: Any = None, **options: Any) -> httpx.Response:
        return self("POST", path, **({"json": document} if document is not None else {}), **options)

    def put(self, path: str, document: Any, **options: Any) -> httpx.Response:
        return self("PUT", path, json=document, **options)

    @property
    def log(self) -> str:
        self._log.flush()
        return self._written.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.splitlines()]


def database_of(request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty database of the kind that a fixture's parameter names."""
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'service.db'}"
    return new_database(request.getfixturevalue("postgresql"))


def new_service(folder: Path, url: str | None = None, **options: Any) -> Service:
    """A service on an empty database, a SQLite file unless another is given; its journal is in the folder."""
    url = url or f"sqlite:///{folder / 'service.db'}"
    upgrade(url)
    return Service(url, **{"journal": folder / "journal", **options})


def with_bandit(caller: Caller, name: str = "page", **options: Any) -> None:
    """A small bandit with three items."""
    made = caller.post("/bandits", {**BANDIT, "name": name, **options})
    assert made.status_code == 201, made.text
    stored = caller.put(f"/bandits/{name}/items", {"items": ITEMS})
    assert stored.json() == {"items": 3, "clipped": 0, "warning": None}


def refused(answer: httpx.Response, status: int, kind: str, field: str | None = None) -> str:
    """Its sentence, if it is the problem that it should be."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == f"urn:adaprivate:{kind}"
    assert found["status"] == status
    assert found["title"]
    assert found.get("field") == field, found
    return str(found["detail"])
