"""The service as it is run: real processes and sockets, killed and stopped; and the commands around it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.service.calling import BANDIT

from adaprivate.check import InputError
from adaprivate.service.running import Settings, serve

ROOT = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "adaprivate"]


def run(*arguments, code=0):
    """What a command prints."""
    done = subprocess.run([*CLI, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


class Running:
    """`adaprivate serve` on any free port, with pages asked for as a browser would not."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        self._errors = (folder / "errors").open("w+")
        self.process = subprocess.Popen(
            [*CLI, "serve", "--database", f"sqlite:///{folder / 'service.db'}", "--port", "0", "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line, (folder / "errors").read_text()
        self.facts = json.loads(line)
        port = self.facts["address"].rpartition(":")[2]
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)

    def wait_ready(self, **options):
        deadline = time.monotonic() + 90
        while True:
            try:
                if self.http.get("/ready", **options).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.http.close()
        self.process.stdout.close()
        self._errors.close()
        return code

    @property
    def log(self):
        return (self.folder / "errors").read_text()


def children(parent):
    """The workers of a process (its other child keeps track of shared memory)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = int(parent_and_state(entry)[0]) == parent
            if ours and b"spawn_main" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ProcessLookupError):
            continue
    return found


def parent_and_state(entry):
    state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    return parent, state


def gone(worker):
    try:
        return parent_and_state(Path(f"/proc/{worker}"))[1] == "Z"
    except (OSError, ProcessLookupError):
        return True


def test_what_was_answered_is_there_after_a_stop(tmp_path):
    running = Running(tmp_path)
    try:
        assert running.facts["keys"] is False
        running.wait_ready()
        assert running.http.post("/bandits", json=BANDIT).status_code == 201
        assert running.http.put("/bandits/page/items", json={"items": {"a": None, "b": None}}).status_code == 200

        def visit(_):
            answered = []
            with httpx.Client(base_url=running.http.base_url, timeout=60, trust_env=False) as own:
                for _ in range(10_000):
                    try:
                        answer = own.post("/bandits/page/decisions", json={})
                    except httpx.TransportError:
                        return answered
                    if answer.status_code != 200:
                        return answered
                    answered.append(answer.json()["round"])
            return answered

        with ThreadPoolExecutor(4) as pool:
            visits = [pool.submit(visit, n) for n in range(4)]
            time.sleep(1.0)
            running.process.send_signal(signal.SIGTERM)
            rounds = [one for visit_ in visits for one in visit_.result(60)]
    finally:
        code = running.stop()
    assert code in (0, -signal.SIGTERM), running.log
    assert len(rounds) > 20
    assert len(set(rounds)) == len(rounds)
    assert json.loads(running.log.splitlines()[-1])["event"] == "stopped"
    assert "Traceback" not in running.log
    again = Running(tmp_path)
    try:
        again.wait_ready()
        assert again.http.get("/bandits/page").json()["rounds"]["decided"] > max(rounds)
    finally:
        again.stop()


def test_workers_beyond_this_machine_need_keys_and_are_started_anew(tmp_path):
    url = f"sqlite:///{tmp_path / 'service.db'}"
    made = json.loads(run("keys", "create", "me", "--scope", "admin", "--database", url, "--json"))
    key = {"authorization": f"Bearer {made['key']}"}
    running = Running(tmp_path, "--host", "0.0.0.0", "--workers", "2")
    try:
        assert running.facts["keys"] is True, "there is no way to leave them out"
        running.wait_ready(headers=key)
        assert running.http.get("/health").status_code == 401
        assert running.http.post("/bandits", json=BANDIT, headers=key).status_code == 201
        workers = children(running.process.pid)
        assert len(workers) == 3, "two, and the one who closes batches"
        os.kill(workers[1], signal.SIGKILL)
        deadline = time.monotonic() + 90
        while len(set(children(running.process.pid)) - set(workers)) != 1:
            assert time.monotonic() < deadline, running.log
            time.sleep(0.1)
        running.wait_ready(headers=key)
        assert running.http.get("/bandits/page", headers=key).status_code == 200
        workers = children(running.process.pid)
    finally:
        code = running.stop()
    assert code == 0, running.log
    assert all(map(gone, workers))
    assert made["key"] not in running.log


def test_who_closes_batches_is_started_anew(tmp_path):
    running = Running(tmp_path)
    try:
        running.wait_ready()
        made = {**BANDIT, "batch_size": 10, "rounds": 1_000, "reward_window": 0.1}
        assert running.http.post("/bandits", json=made).status_code == 201
        running.http.put("/bandits/page/items", json={"items": {"a": [1, 0, 0], "b": [0, 1, 0]}})
        for version in (1, 2):
            (closer,) = children(running.process.pid)
            running.http.post("/bandits/page/decisions:batch", json={"decisions": [{}] * 10})
            deadline = time.monotonic() + 90
            while running.http.get("/bandits/page").json()["version"] < version:
                assert time.monotonic() < deadline, running.log
                time.sleep(0.1)
            os.kill(closer, signal.SIGKILL)
            while closer in children(running.process.pid) or not children(running.process.pid):
                assert time.monotonic() < deadline, running.log
                time.sleep(0.1)
        assert '"started":"anew"' in running.log
    finally:
        code = running.stop()
    assert code in (0, -signal.SIGTERM), running.log
    assert json.loads(running.log.splitlines()[-1])["event"] == "stopped"


def test_workers_end_with_their_parent(tmp_path):
    running = Running(tmp_path, "--workers", "2")
    try:
        running.wait_ready()
        workers = children(running.process.pid)
        assert len(workers) == 3
        running.process.kill()
        deadline = time.monotonic() + 90
        while not all(map(gone, workers)):
            assert time.monotonic() < deadline, running.log
            time.sleep(0.1)
    finally:
        running.stop()


def test_keys_by_command(tmp_path):
    url = f"sqlite:///{tmp_path / 'service.db'}"
    made = json.loads(run("keys", "create", "shop", "--scope", "decide", "--scope", "reward", "--database", url, "--json"))
    assert made["scopes"] == ["decide", "reward"]
    assert made["key"].startswith("adp_")
    shown = run("keys", "list", "--database", url)
    assert made["id"] in shown
    assert "shop" in shown
    assert made["key"] not in shown
    assert json.loads(run("keys", "revoke", made["id"], "--database", url, "--json")) == {"id": made["id"], "revoked": True}
    (listed,) = json.loads(run("keys", "list", "--database", url, "--json"))["keys"]
    assert listed["revoked_at"] is not None
    assert run("keys", "revoke", "none", "--database", url, code=2).startswith("adaprivate: Expected id='none'")
    assert run("keys", "create", "x", "--scope", "all", "--database", url, code=2).startswith(
        "adaprivate: Expected scope='all'"
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"port": 70_000}, "port"),
        ({"workers": 0}, "workers"),
        ({"rate": 0.0}, "rate"),
        ({"max_body": 10}, "max_body"),
        ({"allow_origins": ["example.org"]}, "allow_origin"),
        ({"allow_origins": ["*"]}, "allow_origin"),
        ({"host": "no such host.invalid"}, "host"),
        ({"host": "203.0.113.1"}, "host"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(tmp_path, options, name):
    with pytest.raises(InputError, match=rf"^Expected {name}") as caught:
        serve(**{"database": f"sqlite:///{tmp_path / 'service.db'}", "port": 0, **options})
    assert "\n" not in str(caught.value)


def test_settings_reach_workers_as_they_are():
    given = Settings(
        database="postgresql://me:secret@host/name",
        journal="/somewhere",
        require_keys=True,
        rate=2.5,
        max_body=4096,
        allow_origins=("https://a", "https://b"),
        workers=3,
    )
    assert Settings.from_json(given.to_json()) == given


MAKE = [
    "make",
    "--no-print-directory",  # within `make test`, too
    "-f",
    str(ROOT / "Makefile"),
    "serve",
    f"BIN={Path(sys.executable).parent}",
    "-o",
    ".venv/installed-service",
]


def test_make_serve_says_that_its_port_is_taken_and_ends(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run(
            [*MAKE, f"PORT={taken.getsockname()[1]}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode != 0
    assert "to be free (Address already in use)" in done.stderr
    assert "Dashboard" not in done.stdout


def test_make_serve_ends_when_its_service_does(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [*MAKE, f"PORT={port}"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == (
            f"Dashboard: http://127.0.0.1:{port}/  (ctrl-C ends it; logs in service-data/service.log)\n"
        )
        facts = json.loads((tmp_path / "service-data" / "address").read_text())
        os.kill(facts["process"], signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "The service ended; service-data/service.log ends with:" in said
