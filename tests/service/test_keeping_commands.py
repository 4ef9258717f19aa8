"""The commands that keep a service: their output for people and programs, their mistakes as one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.service.conftest import Clock, decide, made
from typer.testing import CliRunner

from adaprivate.check import InputError
from adaprivate.cli import app
from adaprivate.cli import keeping as commands
from adaprivate.service import migrations
from adaprivate.service.core import Service


def _run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, words)
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def _json(*words: str, code: int = 0) -> Any:
    return json.loads(_run(*words, "--json", code=code))


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with one bandit that has released a batch and has another open."""
    monkeypatch.delenv(commands.PASSPHRASE, raising=False)
    monkeypatch.delenv("ADAPRIVATE_JOURNAL", raising=False)
    monkeypatch.delenv("ADAPRIVATE_DATABASE", raising=False)
    address = f"sqlite:///{tmp_path / 'a.db'}"
    migrations.upgrade(address)
    _close_batches(address, 1, create=True)
    return address


def _close_batches(address: str, batches: int, *, create: bool = False) -> None:
    clock = Clock()
    service = Service(address, clock=clock)
    try:
        if create:
            made(service)
        service.refresh()
        for _ in range(batches):
            decide(service, 10)
            clock.now += 61
            assert service.close_due() == 1
    finally:
        service.close()


def test_migrate(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'new.db'}"
    head = migrations.head()
    assert _json("migrate", "--database", address) == {"before": None, "after": head}
    assert _run("migrate", "--database", address) == f"Tables are at revision {head} as before.\n"
    with pytest.raises(InputError, match=r"database='mysql' in \{sqlite, postgresql\}"):
        _run("migrate", "--database", "mysql://nowhere")


def test_backup_restore_and_going_on_knowingly(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "backup.db"
    assert _json("backup", str(file), "--database", url)["bandits"] == 1
    with pytest.raises(InputError, match="--replace"):
        _run("backup", str(file), "--database", url)
    with pytest.raises(InputError, match="--replace"):
        _run("restore", str(file), "--database", url)
    assert "page goes on: nothing was published since" in _run("restore", str(file), "--database", url, "--replace")
    _close_batches(url, 2)
    found = _json("restore", str(file), "--database", url, "--replace")["bandits"]
    assert [(one["name"], one["journal"]) for one in found] == [("page", "behind")]
    assert found[0]["reason"].startswith("Batches 1 to 2 of the policy were published")
    monkeypatch.setenv(commands.PASSPHRASE, "correct horse battery staple")
    with pytest.raises(InputError, match=r"in {open, paused}: resume it first \(adaprivate resume page\)\."):
        _run("export", "page", "--out", str(tmp_path / "out"), "--database", url)
    with pytest.raises(InputError, match="no-replay"):
        _run("resume", "page", "--database", url)
    assert _json("resume", "page", "--database", url, "--void", "no-replay")["void"].startswith("no-replay: Batches 1 to 2")
    with pytest.raises(InputError, match="nothing to resume"):
        _run("resume", "page", "--database", url, "--void", "no-replay")


def test_export_and_import(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, out = f"sqlite:///{tmp_path / 'b.db'}", str(tmp_path / "page.bandit")
    with pytest.raises(InputError, match=r"Expected a passphrase: say --passphrase-file, or set ADAPRIVATE_PASSPHRASE"):
        _run("export", "page", "--out", out, "--database", url)
    (tmp_path / "secret").write_text("correct horse battery staple\nand more\n")
    words = ("--passphrase-file", str(tmp_path / "secret"))
    with pytest.raises(InputError, match="to be a bandit of this database"):
        _run("export", "nobody", "--out", out, "--database", url, *words)
    assert _json("export", "page", "--out", out, "--database", url, *words)["batches"] == 1
    with pytest.raises(InputError, match=f"to exist: make it by adaprivate migrate --database {target}"):
        _run("import", out, "--database", target, *words)
    _run("migrate", "--database", target)
    with pytest.raises(InputError, match=r"^Expected file='.*nowhere' to be a file that is there\.$"):
        _run("import", str(tmp_path / "nowhere"), "--database", target, *words)
    monkeypatch.setenv(commands.PASSPHRASE, "quite another passphrase")
    with pytest.raises(InputError, match="passphrase to be the one of this file"):
        _run("import", out, "--database", target)
    monkeypatch.setenv(commands.PASSPHRASE, "correct horse battery staple")
    assert _json("import", out, "--database", target) == {"bandit": "page", "batches": 1}


@pytest.fixture
def served() -> Iterator[tuple[str, dict[str, int], list[tuple[str, str | None]]]]:
    """A server that answers as told, and notes what it was asked with which key."""
    answers: dict[str, int] = {}
    asked: list[tuple[str, str | None]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("authorization")))
            self.send_response(answers[self.path])
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers, asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_health(served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, answers, asked = served
    monkeypatch.delenv(commands.HEALTH_KEY, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for status, healthy in ((200, True), (401, True), (403, False), (503, False)):
        answers["/health"] = status
        found = _json("health", "--url", url, code=0 if healthy else 1)
        assert found["healthy"] is healthy
    assert {*asked} == {("/health", None)}
    (tmp_path / "key").write_text("adp_first\n")
    monkeypatch.setenv(commands.HEALTH_KEY, "adp_second")
    for status, healthy in ((200, True), (401, False), (503, False)):
        answers["/ready"] = status
        assert _json("health", "--url", url, code=0 if healthy else 1)["healthy"] is healthy
        _run("health", "--url", url, "--key-file", str(tmp_path / "key"), code=0 if healthy else 1)
    assert {*asked[4:]} == {("/ready", "Bearer adp_first"), ("/ready", "Bearer adp_second")}
    assert _json("health", "--url", "http://127.0.0.1:1", code=1)["healthy"] is False
    with pytest.raises(InputError, match="http://"):
        _run("health", "--url", "file:///etc/passwd")
