"""Side ways by which a reward could get out, one by one: limits, failures, files, what is exported, a process in use."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.service.test_audit import FATES, FLIPS, ITEMS, TOWN, TS, decide, play, send
from tests.service.transcripts import Forced, Template, called, difference, forcing

from adaprivate.service.faults import Fault
from adaprivate.service.keeping import bandit_row
from adaprivate.service.moving import export

SECRET = 0.7316251849
"""A reward that would be recognised anywhere."""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template.made(tmp_path_factory.mktemp("leaks") / "template", {"sums": TS, "flips": FLIPS}, ITEMS)


def reward(world, decision, value):
    return world.ask("reward", "PUT", f"/decisions/{decision['decision_id']}/reward", {"reward": value})


# --- limits --------------------------------------------------------------------------------------------------------------


def limited(template, folder, victims):
    """What others are told at a rate of two a second, if so many rewards of somebody else came before."""
    with template.world(folder, rate=2.0) as world:
        decisions = world.ask("decide", "POST", "/bandits/sums/decisions:batch", {"decisions": [{}] * 2}).json()[
            "decisions"
        ]
        for _ in range(victims):
            reward(world, decisions[0], 1)
        asked = world.ask("decide", "POST", "/bandits/flips/decisions", {})
        return asked, reward(world, decisions[1], 1)


def test_limits_of_decisions_do_not_count_rewards(template, tmp_path):
    (without, _), (with_some, _) = (limited(template, tmp_path / str(n), n) for n in (0, 2))
    assert without == with_some


def test_callers_who_share_a_key_and_an_address_share_a_limit_of_rewards(template, tmp_path):
    """A 429 tells one of them that rewards of others came: docs/service.md says so. Another address is not told."""
    (_, without), (_, with_some) = (limited(template, tmp_path / str(n), n) for n in (0, 2))
    assert without != with_some


# --- failures ------------------------------------------------------------------------------------------------------------


def failing(world, place=None):
    """Let the database refuse all rewards, or those of a round, by an error that quotes what it refused."""
    which = "" if place is None else f"WHEN NEW.round = {place} "
    with world.service.database.writing() as connection:
        body = "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        connection.exec_driver_sql(f"CREATE TRIGGER refuses BEFORE INSERT ON rewards {which}{body}")


def test_a_failure_s_text_has_no_reward(template, tmp_path, capfd):
    with template.world(tmp_path / "world") as world:
        decisions = decide(world, "sums", 0)
        failing(world)
        answer = reward(world, decisions[0], SECRET)
        assert answer.status == 500
        with pytest.raises(Exception, match="INSERT INTO rewards") as raised:
            world.service.reward([(decisions[0]["decision_id"], SECRET)])
        text = f"{raised.value}{answer.body!r}{world.log}{''.join(capfd.readouterr())}"
    assert "7316" not in text
    assert "IntegrityError" in text, "it is noted by its kind"


def test_others_do_not_notice_a_reward_that_cannot_be_stored(template, tmp_path):
    """Though rewards of many requests are stored together."""
    with template.world(tmp_path / "world") as world:
        decisions = decide(world, "sums", 0)
        failing(world, place=3)
        key = {"x-api-key": world.keys["reward"]}

        async def together():
            paths = [f"/decisions/{one['decision_id']}/reward" for one in decisions]
            return await asyncio.gather(*(called(world.app, "PUT", path, {"reward": 1}, key) for path in paths))

        assert [answer.status for answer in world._loop.run(together())] == [201, 201, 201, 500, 201, 201, 201, 201]


def test_nothing_is_printed_where_nobody_waits_for_a_refusal(template, tmp_path, capfd):
    with template.world(tmp_path / "world") as world:
        decisions = decide(world, "sums", 0)
        failing(world)

        async def gone():
            for one in decisions:
                key = {"x-api-key": world.keys["reward"]}
                path = f"/decisions/{one['decision_id']}/reward"
                task = asyncio.ensure_future(called(world.app, "PUT", path, {"reward": SECRET}, key))
                await asyncio.sleep(0.002)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        world._loop.run(gone())
        assert "7316" not in world.log
    assert "".join(capfd.readouterr()) == ""


def test_the_log_does_not_tell_that_a_reward_came_while_the_database_was_away(template, tmp_path, monkeypatch):
    def away():
        raise Fault("unavailable", "The database does not answer (Planted); nothing was changed.")

    logs = []
    for rewards in (0, 1):
        with template.world(tmp_path / str(rewards)) as world:
            (decision, *_) = decide(world, "sums", 0)
            with monkeypatch.context() as patch:
                patch.setattr(world.service.database, "writing", away)
                for _ in range(rewards):
                    assert reward(world, decision, 1).status == 503
            logs.append(world.log)
    assert logs[0] == logs[1]


# --- what is stored together ---------------------------------------------------------------------------------------------


def decided(template, folder, together):
    """Decisions, so many of them in one transaction. While rewards are written, decisions wait and gather."""
    with template.world(folder) as world:
        asks = [{"candidates": ["a", "b", "c"]}] * 6
        parts = [asks[begin : begin + together] for begin in range(0, len(asks), together)]
        answers = [world.ask("decide", "POST", "/bandits/sums/decisions:batch", {"decisions": part}) for part in parts]
        return [one for answer in answers for one in answer.json()["decisions"]]


def test_what_is_chosen_does_not_depend_on_what_is_stored_together(template, tmp_path):
    one, many = (decided(template, tmp_path / str(n), n) for n in (1, 6))
    assert [found["item"] for found in one] == [found["item"] for found in many]


def test_propensities_do_not_depend_on_what_is_stored_together(template, tmp_path):
    one, many = (decided(template, tmp_path / str(n), n) for n in (1, 6))
    assert one == many


# --- who knows an id -----------------------------------------------------------------------------------------------------


def test_another_caller_s_idempotency_key_opens_nothing(template, tmp_path):
    with template.world(tmp_path / "world") as world:
        first = world.ask("decide", "POST", "/bandits/sums/decisions", {}, idempotency_key="visit 17").json()
        again = world.ask("admin", "POST", "/bandits/sums/decisions", {}, idempotency_key="visit 17").json()
        assert again["decision_id"] != first["decision_id"]


def test_flipped_rewards_are_not_told_apart_by_whoever_knows_the_id(template, tmp_path):
    """Of a reward that was flipped its sender, too, only learns that one came."""
    with template.world(tmp_path / "world") as world:
        decisions = decide(world, "flips", 0)
        for one, value in zip(decisions, (0, 1, 0.5), strict=False):
            assert reward(world, one, value).status == 201
            assert {reward(world, one, other).body for other in (0, 1, 0.5)} == {b'{"status":"duplicate"}'}


# --- files ---------------------------------------------------------------------------------------------------------------


def test_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        made = Template.made(tmp_path / "template", {"sums": TS}, ITEMS)
        with made.world(tmp_path / "world") as world:
            decide(world, "sums", 0)
            world.turn(61)
            paths = [path for folder in (tmp_path / "template", world.folder) for path in folder.rglob("*")]
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()}
            folders = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()}
    finally:
        os.umask(before)
    assert {*modes.values()} == {0o600}, modes
    assert {"service.db", "service.db-wal", "service.db-shm", "service.db.turn"} <= modes.keys()
    assert folders == {0o700}


def exported(template, folder, fate):
    """What is public of an exported bandit, and how long the rest is."""
    source = Forced(exported.record)
    with forcing(), template.world(folder, source) as world:
        play(world, ["sums", "flips"], FATES[fate], steps=2)
        exported.record = source.record
        send(world, FATES[fate], decide(world, "sums", 2))  # rewards wait
        file = folder / "sums.bandit"
        export(world.service.database, world.service.journal, "sums", file, "a passphrase of the test's")
        with zipfile.ZipFile(file) as archive:
            public = {one.filename: archive.read(one) for one in archive.infolist() if not one.filename.endswith(".sealed")}
        with world.service.database.reading() as connection:
            assert bandit_row(connection, "sums").state == "moved"
        return public, file.stat().st_size


def test_an_exported_file_tells_nothing_to_those_without_the_passphrase(template, tmp_path):
    exported.record = None
    one, missing = (exported(template, tmp_path / fate, fate) for fate in ("one", "missing"))
    assert one == missing
    assert {"decisions.json", "releases.json", "ledger.json", "books.json"} <= one[0].keys()


# --- a process in use ----------------------------------------------------------------------------------------------------

NOISY = {"mean", "low", "high", "score", "propensity"}
TIMES = {"at", "due_at", "released_at", "closes_at", "created_at", "date"}
SERVED = {name: {**TOWN[name], "reward_window": 0.3} for name in ("sums-held", "flips", "gaussian")}


def without_noise(document):
    """A document without what was released and without times: what is left must not differ."""
    if isinstance(document, dict):
        kept = {name: value for name, value in document.items() if name not in TIMES}
        return {name: value is None if name in NOISY else without_noise(value) for name, value in kept.items()}
    if not isinstance(document, list):
        return document
    found = [without_noise(one) for one in document]
    ranked = bool(found) and isinstance(found[0], dict) and "score" in found[0]
    return sorted(found, key=lambda item: item["id"]) if ranked else found


class Served:
    """`adaprivate serve` on a copy of a template; what outsiders saw, without what was released and without times."""

    def __init__(self, template, folder, rewards):
        self.rewards, self.folder, self.seen, self.moments = rewards, folder, [], []
        self.world = template.world(folder)
        self.world.__exit__()  # only for its files
        database = ["--database", f"sqlite:///{folder / 'service.db'}", "--journal", str(folder / "journal")]
        command = [sys.executable, "-m", "adaprivate", "serve", *database, "--port", "0", "--require-keys", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.keys = template.keys

    def ask(self, scope, method, path, body=None):
        answer = self.http.request(method, path, json=body, headers={"x-api-key": self.keys[scope]})
        headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length")}
        content = without_noise(answer.json()) if "json" in headers["content-type"] else answer.text
        if path == "/metrics":
            content = "\n".join(line for line in content.splitlines() if "start_time" not in line)
        self.seen.append((method, path, answer.status_code, headers, content))
        return answer.json() if "json" in headers["content-type"] else None

    def live(self):
        address = json.loads(self.process.stdout.readline())["address"]
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as self.http:
            for _ in range(2):
                for name in SERVED:
                    self.visit(name)
                for name in SERVED:
                    self.wait(name)
                for name in SERVED:
                    self.moments += [
                        one["released_at"] - one["due_at"] for one in self.ask("read", "GET", f"/bandits/{name}")["batches"]
                    ]
                    self.ask("read", "GET", f"/bandits/{name}/series")
            for path in ("/", "/docs", "/openapi.json", "/health", "/ready", "/bandits", "/metrics"):
                self.ask("read", "GET", path)

    def visit(self, name):
        asks = [{"candidates": [item]} for item in "aaaabbbcc" * 2]
        found = self.ask("decide", "POST", f"/bandits/{name}/decisions:batch", {"decisions": asks})["decisions"]
        if self.rewards:  # the answer is the sender's alone
            sent = {"rewards": [{"decision_id": one["decision_id"], "reward": SECRET} for one in found]}
            answer = self.http.post("/rewards:batch", json=sent, headers={"x-api-key": self.keys["reward"]})
            assert {*answer.json()["statuses"]} == {"recorded"}

    def wait(self, name):
        """Until all batches are closed whose rounds are there."""
        end = time.monotonic() + 60
        while True:
            status = self.http.get(f"/bandits/{name}", headers={"x-api-key": self.keys["read"]}).json()
            following, rounds = status["next_batch"], status["rounds"]
            full = following["end"] is not None and following["start"] + following["assigned"] >= following["end"]
            if not full and rounds["counted"] == following["start"] + rounds["holdback"] // 8 * 8:
                return
            assert time.monotonic() < end, f"{name} does not close its batches"
            time.sleep(0.05)

    def end(self):
        """The log without times and without questions whether a batch is closed, all else that was printed, and files."""
        self.process.terminate()
        out, log = self.process.communicate(timeout=60)
        lines = [json.loads(line) for line in log.splitlines()]
        kept = [{k: v for k, v in line.items() if k not in ("time", "ms")} for line in lines]
        kept = [line for line in kept if line.get("route") != "/bandits/{name}"]
        sizes = {path.name: path.stat().st_size for path in (self.folder / "journal").iterdir()}
        return kept, out, sizes, out + log


def test_a_process_in_use_shows_the_same_with_rewards_and_without(tmp_path):
    template = Template.made(tmp_path / "template", SERVED, ITEMS)
    worlds = [Served(template, tmp_path / str(rewards), rewards) for rewards in (False, True)]
    try:
        with ThreadPoolExecutor() as together:
            for done in [together.submit(world.live) for world in worlds]:
                done.result()
    finally:
        ends = [world.end() for world in worlds]
    transcripts = [[(f"{method} {path}", facts) for method, path, *facts in world.seen] for world in worlds]
    assert difference(*transcripts) is None
    assert ends[0][:3] == ends[1][:3]
    assert str(SECRET) not in ends[1][3]
    for world in worlds:  # neither early nor waiting for anybody
        assert len(world.moments) >= 6
        assert all(0 <= after < 20 for after in world.moments)
