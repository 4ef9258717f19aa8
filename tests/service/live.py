"""The real service on a real port, and a web site of another origin that uses it: what a browser under test talks to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn

from adaprivate.service.app import create_app
from adaprivate.service.core import Service
from adaprivate.service.database import Database
from adaprivate.service.migrations import upgrade


class Live:
    """The service on a port of this machine, on a SQLite file unless another database is given.

    It can be stopped and started again on the same port.
    """

    def __init__(
        self, folder: Path, database: str | None = None, clock: Callable[[], float] = time.time, **options: Any
    ) -> None:
        self._database = database or f"sqlite:///{folder / 'service.db'}"
        upgrade(self._database)
        self._journal = folder / "journal"
        self._clock = clock
        self._options = {"require_keys": False, **options}
        self._port = 0
        self.start()
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def database(self) -> Database:
        return self._service.database

    def start(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self._port))
        self._port = self._socket.getsockname()[1]
        self._service = Service(self._database, journal=self._journal, clock=self._clock)
        app = create_app(self._service, owns_service=True, **self._options)
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "The service did not start."
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive(), "The service did not stop."
        self._socket.close()

    def close(self) -> None:
        self.http.close()
        self.stop()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's document; anything but success is an error."""
        answer = self.http.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def make(self, name: str, items: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """A bandit of three dimensions with three items, or others; batches of 50 rounds that close at once."""
        plain = {"dimension": 3, "rounds": 10_000, "batch_size": 50, "reward_window": 0.5}
        self.ask("POST", "/bandits", {"name": name, **plain, **options})
        self.ask("PUT", f"/bandits/{name}/items", {"items": items or {"a": [1, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1]}})
        return self.ask("GET", f"/bandits/{name}")

    def visit(self, name: str, rates: dict[str, float], visitors: int, seed: int) -> None:
        """So many visitors, who are shown any of these items and reward each at its rate."""
        rng = np.random.default_rng(seed)
        asked = {"decisions": [{"candidates": list(rates)}] * visitors}
        decisions = self.ask("POST", f"/bandits/{name}/decisions:batch", asked)["decisions"]
        liked = rng.random(visitors) < [rates[decision["item"]] for decision in decisions]
        pairs = zip(decisions, liked, strict=True)
        rewards = [{"decision_id": decision["decision_id"], "reward": bool(like)} for decision, like in pairs]
        assert set(self.ask("POST", "/rewards:batch", {"rewards": rewards})["statuses"]) == {"recorded"}

    def settled(self, name: str, timeout: float = 30) -> dict[str, Any]:
        """The status, once every batch that is due is closed, of both streams."""
        end, quiet_since, before = time.monotonic() + timeout, time.monotonic(), None
        while True:
            series = self.ask("GET", f"/bandits/{name}/series")
            seen, following = (len(series["learned"]), len(series["holdback"])), series["next_batch"]
            if seen != before or following["assigned"] >= following["end"] - following["start"]:
                before, quiet_since = seen, time.monotonic()
            elif time.monotonic() - quiet_since > 0.6:
                return self.ask("GET", f"/bandits/{name}")
            assert time.monotonic() < end, f"Still at {seen} batches."
            time.sleep(0.05)


def wait_for(condition: Callable[[], bool], timeout: float = 10) -> None:
    """Until it is so."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Site:
    """A web site somewhere else: its pages are what ``pages`` holds, by path."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        pages = self.pages

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = pages.get(self.path, "").encode()
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
