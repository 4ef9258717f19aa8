"""What a hostile caller, file system or mistake could do to the service, route by route and file by file."""

import asyncio
import io
import json
import os
import random
import stat
import zipfile
from types import SimpleNamespace

import pytest
import uvicorn
from tests.service.calling import Caller, new_service, refused, with_bandit
from tests.service.test_access import ROUTES
from uvicorn.server import ServerState

from adaprivate.check import InputError
from adaprivate.service import heads, migrations, moving, running

SECRET = "0.7316249"


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    with Caller(new_service(tmp_path_factory.mktemp("open")), owns_service=True) as caller:
        with_bandit(caller)
        yield caller


# --- mistakes of the program -------------------------------------------------------------------------------------------

ASKED = {
    "status": ("GET", "/bandits/page", {}),
    "put_items": ("PUT", "/bandits/page/items", {"json": {"items": {"a": [1, 0, 0]}}}),
    "decide": ("POST", "/bandits/page/decisions", {"json": {}}),
    "reward": ("PUT", "/decisions/{token}/reward", {"json": {"reward": 1}}),
    "arrivals": ("GET", "/bandits/page/arrivals", {}),
}


@pytest.mark.parametrize("error", [RuntimeError, KeyError, ValueError, AssertionError, OSError, MemoryError])
@pytest.mark.parametrize("method", ASKED)
def test_no_answer_holds_the_text_of_an_exception(caller, monkeypatch, method, error):
    """Which may quote a reward: an answer says that there was a mistake, and where to look."""
    token = caller.post("/bandits/page/decisions", {}).json()["decision_id"]

    def fails(*_, **__):
        raise error(f"planted {SECRET}")

    verb, path, options = ASKED[method]
    with monkeypatch.context() as patch:
        patch.setattr(caller.service, method, fails)
        answer = caller(verb, path.replace("{token}", token), **options)
    refused(answer, *((503, "unavailable") if error is OSError else (500, "internal")))
    for place in (answer.text, str(answer.headers), caller.log):
        assert SECRET not in place
        assert "planted" not in place


# --- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", ['{"a":', "["])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/bandits"),
        ("PUT", "/bandits/page/items"),
        ("POST", "/bandits/page/decisions"),
        ("POST", "/bandits/page/decisions:batch"),
        ("PUT", "/decisions/1p0-00000000000000000000/reward"),
        ("POST", "/rewards:batch"),
    ],
)
def test_bodies_that_nest_deeply_or_expand_are_refused(caller, method, path, opening):
    nested = opening * 100_000
    answer = caller(method, path, content=nested.encode(), headers={"content-type": "application/json"})
    refused(answer, 400, "malformed")
    for coding in ("gzip", "deflate", "br", "zstd", "gzip, identity"):
        headers = {"content-type": "application/json", "content-encoding": coding}
        refused(caller(method, path, content=b"{}", headers=headers), 415, "unsupported-media-type")


# --- heads -------------------------------------------------------------------------------------------------------------


class Wire(asyncio.Transport):
    """A connection whose other end the test plays."""

    def __init__(self):
        super().__init__()
        self.written, self.is_cut = b"", False

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_cut = True

    def pause_reading(self):
        pass

    close, resume_reading = abort, pause_reading

    def is_closing(self):
        return self.is_cut


async def _app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    size = str(len(scope["headers"])).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(size))]})
    await send({"type": "http.response.body", "body": size})


def connected():
    config = uvicorn.Config(_app, http=heads.BoundedHeads, ws="none", log_config=None, lifespan="off")
    protocol, wire = heads.BoundedHeads(config, ServerState(), {}, asyncio.get_running_loop()), Wire()
    protocol.connection_made(wire)
    return protocol, wire


HEAD = b"POST / HTTP/1.1\r\nhost: localhost\r\n"


def test_a_head_that_does_not_end_is_cut_off_by_its_length():
    async def main(piece):
        protocol, wire = connected()
        protocol.data_received(HEAD if piece[:1] != b"/" else b"GET ")
        sent = 0
        while not wire.is_cut and sent < 1 << 20:
            protocol.data_received(piece)
            sent += len(piece)
        return sent

    for piece in (b"x-%d: y\r\n" * 100, b"x" * 4_000, b"/" * 4_000):
        assert asyncio.run(main(piece)) <= heads.MAX_HEAD_BYTES + len(piece)


def test_a_head_that_does_not_end_is_cut_off_in_time(monkeypatch):
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.05)

    async def main(before, drip):
        protocol, wire = connected()
        if before:
            protocol.data_received(before)
        for _ in range(200):
            if wire.is_cut:
                break
            await asyncio.sleep(0.005)
            if drip:
                protocol.data_received(drip)
        return wire.is_cut

    request = HEAD + b"content-length: 0\r\n\r\n"
    for before, drip in ((b"", b""), (HEAD, b"a: b\r\n"), (request + HEAD, b"a: b\r\n")):
        assert asyncio.run(main(before, drip))
    assert not asyncio.run(main(request, b"")), "who waits between requests has the time that uvicorn gives"
    assert not asyncio.run(main(HEAD + b"content-length: 100000\r\n\r\n", b"x")), "bodies have a limit of their own"


def test_requests_are_answered_as_before_and_trailers_are_not_kept():
    async def main():
        protocol, wire = connected()
        chunked = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n" + b"trailer: x\r\n" * 50 + b"\r\n"
        protocol.data_received(chunked)
        await asyncio.sleep(0.05)
        protocol.data_received(HEAD + b"content-length: 300000\r\n\r\n" + b"x" * 300_000)
        await asyncio.sleep(0.05)
        protocol.data_received(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await asyncio.sleep(0.05)
        return wire

    wire = asyncio.run(main())
    assert not wire.is_cut
    assert [part[-1:] for part in wire.written.split(b"HTTP/1.1 200 OK")[1:]] == [b"2", b"2", b"1"]


def test_the_server_bounds_heads(monkeypatch, tmp_path):
    found = {}

    class Stop(Exception):  # noqa: N818
        pass

    def config(*_, **options):
        found.update(options)
        raise Stop

    monkeypatch.setattr(running.uvicorn, "Config", config)
    monkeypatch.setattr(running, "_announce", lambda *_: None)
    monkeypatch.setattr(running, "_listening", lambda *_: SimpleNamespace(getsockname=lambda: ("", 0)))
    monkeypatch.delenv(running.SETTINGS, raising=False)
    with pytest.raises(Stop):
        running.serve(f"sqlite:///{tmp_path / 'service.db'}", port=0)
    assert found["http"] is heads.BoundedHeads
    assert (found["proxy_headers"], found["server_header"], found["access_log"]) == (False, False, False)


# --- files -------------------------------------------------------------------------------------------------------------


def test_a_database_is_not_made_through_a_link(tmp_path):
    """Whoever may write to the folder could have it made where they read it."""
    elsewhere, link = tmp_path / "elsewhere.db", tmp_path / "service.db"
    link.symlink_to(elsewhere)
    with pytest.raises(InputError, match="link"):
        migrations.upgrade(f"sqlite:///{link}")
    assert not elsewhere.exists()
    migrations.upgrade(f"sqlite:///{elsewhere}")
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o600
    migrations.upgrade(f"sqlite:///{link}")  # one that is there already may be anywhere


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604])
def test_it_is_said_that_others_can_read_the_database(tmp_path, capsys, mode):
    url = f"sqlite:///{tmp_path / 'service.db'}"
    migrations.upgrade(url)
    os.chmod(tmp_path / "service.db", mode)
    options = {"journal": None, "require_keys": False, "rate": None, "max_body": 1 << 20, "allow_origins": (), "workers": 1}
    settings = running.Settings(database=url, **options)
    running._announce(settings, "127.0.0.1", 8000, as_json=True)
    out, err = capsys.readouterr()
    assert json.loads(out)["address"] == "http://127.0.0.1:8000"
    assert ("chmod 600" in err) == (mode != 0o600)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A bandit's file, as bytes."""
    folder = tmp_path_factory.mktemp("exported")
    with Caller(new_service(folder), owns_service=True) as caller:
        with_bandit(caller)
        caller.post("/bandits/page/decisions", {})
        service = caller.service
        moving.export(service.database, service.journal, "page", folder / "page.bandit", "a passphrase of the test's")
    return (folder / "page.bandit").read_bytes()


def rewritten(exported, how=zipfile.ZIP_DEFLATED, **parts):
    """The same archive, compressed in this way, with these parts in place of its own."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(exported)) as old, zipfile.ZipFile(out, "w", how) as new:
        for one in old.infolist():
            new.writestr(one.filename, parts.get(one.filename.partition(".")[0], old.read(one)))
    return out.getvalue()


ABOUT = [
    *("[]", "5", "null", '"x"', "\xff", "1e999999", "[" * 100_000, '{"a":' * 100_000),
    *('{"format":1}', '{"format":1,"revision":[1]}', '{"format":{"base64":"AA=="}}', '{"base64":5}', '{"base64":"!"}'),
]


def test_hostile_files_are_refused_in_one_sentence(exported, tmp_path, monkeypatch):
    """Whatever they provoke in archives, compression and JSON; before a seal is tried, which takes time and memory."""

    def never(*_):
        raise InputError("sealed")

    monkeypatch.setattr(moving, "opened", never)
    rng, file = random.Random(1), tmp_path / "page.bandit"
    hostile = [rewritten(exported, about=text.encode("latin-1")) for text in ABOUT]
    for how in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        whole = rewritten(exported, how)
        for _ in range(60):
            damaged = bytearray(whole)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            hostile.append(bytes(damaged))
    for data in hostile:
        file.write_bytes(data)
        with pytest.raises(InputError):
            moving._read(file, "a passphrase of the test's")


# --- what browsers are told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path for method, path, _ in ROUTES if method == "GET"])
def test_no_answer_may_be_framed_guessed_at_or_read_by_other_sites(caller, path):
    answer = caller.get(path, headers={"origin": "https://evil.example"})
    assert answer.status_code == 200
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in answer.headers
    assert "set-cookie" not in answer.headers
    script = path == "/client.js"
    assert answer.headers["cross-origin-resource-policy"] == ("cross-origin" if script else "same-origin")
    assert ("public" in answer.headers["cache-control"]) == script
