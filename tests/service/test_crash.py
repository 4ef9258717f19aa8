"""Workers that are killed at any time, and in the middle of closing batches: nothing is released twice, nothing is lost."""

import json
import shutil
import sqlite3
from copy import deepcopy
from fractions import Fraction
from pathlib import Path

import pytest
from tests.service.hammer import Load, hammered
from tests.service.invariants import violations
from tests.service.recorded_service import POINTS, Recorded
from tests.service.watched_service import ANY_TIME

from adaprivate.mechanisms.noise import Secure
from adaprivate.service import closing
from adaprivate.service.bandit import Bandit
from adaprivate.service.core import Service
from adaprivate.service.journal import Journal


def kinds(found):
    """What violations are about."""
    return {text.partition(":")[0] for text in found}


def test_killed_workers_release_every_batch_once_and_lose_nothing(database_url, tmp_path):
    settings = Recorded(database=database_url, folder=str(tmp_path), points=POINTS, slow=0.1, seconds=300)
    load = Load(closings=25, deaths=6, gap=2.5, seconds=120)
    outcome = hammered(settings, load)
    assert violations(database_url, settings.journal, outcome.record) == []
    assert outcome.errors == {}
    row = outcome.row()
    assert row["closings"] >= 25
    assert row["decisions"] > 500
    assert all(row[name] > 0 for name in ("rewards", "duplicate", "different", "late", "unanswered")), row


def test_the_supervisor_of_serve_starts_killed_workers_anew(tmp_path):
    url = f"sqlite:///{tmp_path / 'service.db'}"
    settings = Recorded(database=url, folder=str(tmp_path), spawn=True, seconds=300)
    outcome = hammered(settings, Load(closings=20, gap=1.5, births=settings.workers + 2, seconds=120))
    assert violations(url, settings.journal, outcome.record) == []
    assert outcome.deaths[ANY_TIME] >= 1


@pytest.mark.parametrize(
    ("planted", "options", "noticed"),
    [
        ("two-transactions", {"points": ("between",)}, "twice"),
        ("no-version-check", {"slow": 0.5}, "twice"),
        ("broken-seal", {"slow": 0.3}, "sum"),
        ("lost-reward", {}, "lost"),
    ],
)
def test_a_service_with_a_planted_mistake_is_noticed(tmp_path, planted, options, noticed):
    url = f"sqlite:///{tmp_path / 'service.db'}"
    settings = Recorded(database=url, folder=str(tmp_path), planted=planted, seconds=120, **options)
    outcome = hammered(settings, Load(closings=10, delay=3.0, seconds=60, patience=6.0))
    assert noticed in kinds(violations(url, settings.journal, outcome.record))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that went well: its folder and its record."""
    folder = tmp_path_factory.mktemp("finished")
    settings = Recorded(database=f"sqlite:///{folder / 'service.db'}", folder=str(folder), seconds=300)
    outcome = hammered(settings, Load(closings=20, seconds=120))
    assert violations(settings.database, settings.journal, outcome.record) == []
    return folder, outcome.record


class Copy:
    """A copy of a run, to be spoiled."""

    def __init__(self, finished, folder: Path) -> None:
        original, record = finished
        self.record, self.journal, file = deepcopied(record), folder / "journal", folder / "service.db"
        shutil.copytree(original / "journal", self.journal)
        self.sql = sqlite3.connect(file, isolation_level=None)
        with sqlite3.connect(original / "service.db") as source:
            source.backup(self.sql)
        source.close()
        self.url = f"sqlite:///{file}"
        self.ids = dict(self.sql.execute("SELECT name, id FROM bandits"))

    def change(self, statement: str, *values: object) -> None:
        assert self.sql.execute(statement, values).rowcount > 0, statement

    def one(self, query: str, *values: object):
        return self.sql.execute(query, values).fetchone()

    def acknowledged(self, bandit: str, answer: str) -> int:
        """A round in the first batch of the policy with this answer, and no other."""
        end = self.one("SELECT closed_round FROM books WHERE bandit = ? AND stream = 0", self.ids[bandit])[0]
        for (name, number), attempts in self.record.rewards.items():
            held = self.record.decisions[name, number].holdback
            if name == bandit and number < end and not held and [one.answer for one in attempts] == [answer]:
                return number
        raise LookupError(answer)

    def never_rewarded(self, bandit: str) -> int:
        rounds = [number for name, number in self.record.decisions if name == bandit]
        return next(number for number in rounds if (bandit, number) not in self.record.rewards)


def deepcopied(record):
    lock, record.lock = record.lock, None
    try:
        return deepcopy(record)
    finally:
        record.lock = lock


def digest_of_another_kind(run):
    run.change("UPDATE ledger SET digest = 'x' || substr(digest, 2) WHERE batch = 1 AND bandit = ?", run.ids["sums"])


def a_release_less(run):
    run.change("DELETE FROM releases WHERE batch = 1 AND bandit = ?", run.ids["sums"])


def a_batch_less(run):
    for table in ("releases", "ledger", "recorded_noise"):
        run.change(f"DELETE FROM {table} WHERE batch = 0 AND stream = 0 AND bandit = ?", run.ids["sums"])


def noise_drawn_twice(run):
    copied = "SELECT bandit, stream, batch, drawn FROM recorded_noise WHERE batch = 0 AND bandit = ?"
    run.change(f"INSERT INTO recorded_noise (bandit, stream, batch, drawn) {copied}", run.ids["told"])


def noise_off_by_the_smallest_step(run):
    where = "FROM recorded_noise WHERE batch = 1 AND stream = 0 AND bandit = ?"
    number, drawn = run.one(f"SELECT id, drawn {where}", run.ids["sums"])
    ((kind, values),) = json.loads(drawn)
    values[1] = str(Fraction(values[1]) + Fraction(1, 2**40))
    run.change("UPDATE recorded_noise SET drawn = ? WHERE id = ?", json.dumps([[kind, values]]), number)


def holdback_noise_off_by_one(run):
    where = "FROM recorded_noise WHERE batch = 0 AND stream = 1 AND bandit = ?"
    number, drawn = run.one(f"SELECT id, drawn {where}", run.ids["deleted"])
    ((kind, value),) = json.loads(drawn)
    run.change("UPDATE recorded_noise SET drawn = ? WHERE id = ?", json.dumps([[kind, value + 1]]), number)


def a_flip_turned(run):
    number = run.acknowledged("told", "recorded")
    run.change("UPDATE rewards SET value = 1 - value WHERE bandit = ? AND round = ?", run.ids["told"], number)


def an_acknowledged_reward_less(run):
    number = run.acknowledged("sums", "recorded")
    run.change("DELETE FROM rewards WHERE bandit = ? AND round = ?", run.ids["sums"], number)


def another_reward(run):
    where = "bandit = ? AND round = ?"
    number = run.acknowledged("sums", "recorded")
    run.change(f"UPDATE rewards SET value = 1 - value / 2 WHERE {where}", run.ids["sums"], number)


def another_reward_was_acknowledged(run):
    number = run.acknowledged("deleted", "recorded")
    (attempt,) = run.record.rewards["deleted", number]
    run.record.rewards["deleted", number] = [attempt._replace(value=1 - attempt.value)]


def a_reward_that_was_late_is_counted(run):
    number = run.acknowledged("deleted", "late")
    (attempt,) = run.record.rewards["deleted", number]
    run.record.rewards["deleted", number] = [attempt._replace(answer="recorded", value=1.0)]


def a_reward_that_nobody_sent(run):
    number = run.never_rewarded("sums")
    run.change("INSERT INTO rewards VALUES (?, ?, 1.0, 0, 0.0)", run.ids["sums"], number)


def a_used_reward_that_is_kept(run):
    run.change("INSERT INTO rewards VALUES (?, 0, 1.0, 0, 0.0)", run.ids["deleted"])


def decisions_less(run):
    bandit = run.ids["sums"]
    run.change("DELETE FROM decisions WHERE first_round = 0 AND bandit = ?", bandit)


def the_last_decisions_less(run):
    bandit = run.ids["sums"]
    last = "(SELECT max(first_round) FROM decisions WHERE bandit = ?)"
    run.change(f"DELETE FROM decisions WHERE bandit = ? AND first_round = {last}", bandit, bandit)


def another_item_was_acknowledged(run):
    place = ("told", 3)
    one = run.record.decisions[place]
    run.record.decisions[place] = one._replace(item="a" if one.item != "a" else "b")


def a_request_less(run):
    run.change("DELETE FROM requests WHERE key = (SELECT min(key) FROM requests WHERE bandit = 1) AND bandit = 1")


def a_book_ahead_of_its_releases(run):
    run.change("UPDATE books SET version = version + 1 WHERE stream = 1 AND bandit = ?", run.ids["deleted"])


def a_book_of_before(run):
    run.change("UPDATE books SET book = ? WHERE stream = 0 AND bandit = ?", _begun(run)["book"], run.ids["sums"])


def a_learner_of_before(run):
    run.change("UPDATE books SET learner = ? WHERE stream = 0 AND bandit = ?", _begun(run)["learner"], run.ids["sums"])


def _begun(run):
    service = Service(run.url, journal=run.journal)
    service.refresh()
    bandit: Bandit = service.room("sums").bandit
    service.close()
    return closing.begun(bandit, 0, Secure())


def a_halted_bandit(run):
    run.change("UPDATE bandits SET state = 'halted' WHERE id = ?", run.ids["told"])


def a_batch_that_was_published_and_is_not_there(run):
    (uid,) = run.one("SELECT uid FROM bandits WHERE id = ?", run.ids["told"])
    Journal(run.journal).published(uid, 0, 10_000, "abc")


def a_batch_released_before_its_window_was_over(run):
    run.change("UPDATE ledger SET released_at = due_at - 0.1 WHERE batch = 1 AND bandit = ?", run.ids["sums"])


def nobody_noted_what_was_late(run):
    run.change("DELETE FROM late WHERE bandit = ?", run.ids["sums"])


@pytest.mark.parametrize(
    ("spoil", "noticed"),
    [
        (digest_of_another_kind, "digest"),
        (a_release_less, "ledger"),
        (a_batch_less, "ledger"),
        (noise_drawn_twice, "twice"),
        (noise_off_by_the_smallest_step, "sum"),
        (holdback_noise_off_by_one, "sum"),
        (a_flip_turned, "sum"),
        (an_acknowledged_reward_less, "lost"),
        (another_reward, "reward"),
        (another_reward_was_acknowledged, "sum"),
        (a_reward_that_was_late_is_counted, "sum"),
        (a_reward_that_nobody_sent, "reward"),
        (a_used_reward_that_is_kept, "deleted"),
        (decisions_less, "rounds"),
        (the_last_decisions_less, "rounds"),
        (another_item_was_acknowledged, "decision"),
        (a_request_less, "request"),
        (a_book_ahead_of_its_releases, "book"),
        (a_book_of_before, "book"),
        (a_learner_of_before, "learner"),
        (a_halted_bandit, "halted"),
        (a_batch_that_was_published_and_is_not_there, "journal"),
        (a_batch_released_before_its_window_was_over, "window"),
        (nobody_noted_what_was_late, "late"),
    ],
)
def test_whatever_is_spoiled_afterwards_is_noticed(finished, tmp_path, spoil, noticed):
    run = Copy(finished, tmp_path)
    spoil(run)
    run.sql.close()
    assert noticed in kinds(violations(run.url, run.journal, run.record))
