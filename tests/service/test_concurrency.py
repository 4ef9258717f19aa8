"""Many clients and several workers at once: every round is given out once, every batch released once, nothing is lost."""

import threading
import time
from contextlib import suppress

import sqlalchemy as sa
from tests.service.conftest import decide, made
from tests.service.hammer import Load, hammered
from tests.service.invariants import violations
from tests.service.recorded_service import Recorded

from adaprivate.service.core import Service


def test_eight_clients_and_four_workers(database_url, tmp_path):
    settings = Recorded(database=database_url, folder=str(tmp_path), workers=4, spawn=True, seconds=300)
    shares = {"single": 0.3, "together": 40, "twice": 0.05, "late": 0.05, "never": 0.1}
    load = Load(decisions=4_000, clients=8, batch=100, window=0.5, delay=0.4, ahead=6, seconds=120, **shares)
    outcome = hammered(settings, load)
    assert violations(database_url, settings.journal, outcome.record) == []
    assert outcome.errors == {}
    row = outcome.row()
    assert row["decisions"] >= 4_000
    assert row["closings"] >= 20
    assert min(row["duplicate"], row["different"], row["late"]) > 0, row
    assert row["unanswered"] == 0


def test_a_worker_that_is_just_learning_of_a_bandit_refuses_nobody(workers, monkeypatch):
    one, other = workers(), workers()
    other.refresh()
    made(one)
    slowly, looks = threading.Event(), threading.Event()
    really = Service._opened

    def opened(self, number):
        looks.set()
        assert slowly.wait(30)
        return really(self, number)

    monkeypatch.setattr(Service, "_opened", opened)
    found = []
    askers = [threading.Thread(target=lambda: found.append(other.room("page").bandit.spec.name)) for _ in range(3)]
    askers[0].start()
    assert looks.wait(30)
    for asker in askers[1:]:
        asker.start()
    slowly.set()
    for asker in askers:
        asker.join(30)
    assert found == ["page"] * 3


def test_a_batch_that_closes_while_somebody_looks_is_not_shown_before_it_is_noted(workers, clock, monkeypatch):
    one, other = workers(), workers()
    made(one)
    decide(one, 10)
    other.refresh()
    clock.now += 61
    really = one._show

    def show(room, digests):
        really(room, digests)
        with monkeypatch.context() as patch:
            patch.setattr(other, "refresh", lambda: None)  # it is committed, and whoever did that dies before it is noted
            assert other.close_due() == 1

    with monkeypatch.context() as patch:
        patch.setattr(one, "_show", show)
        status = one.status("page")
    noted = one.journal.known(one.room("page").bandit.uid).published.get(0, {})
    assert {batch["batch"] for batch in status["batches"]} <= noted.keys()
    assert status["version"] == len(noted)
    assert one.status("page")["version"] == 1


def test_who_reads_for_long_keeps_no_writer_waiting(workers):
    reader, writer = workers(), workers()
    made(writer)
    with reader.database.reading() as connection:
        connection.scalar(sa.text("SELECT count(*) FROM bandits"))
        decide(writer, 1)
        started = time.monotonic()
        assert writer.database.forget_deleted(lambda: None) == (writer.database.kind != "sqlite")
        decide(writer, 1)
        assert time.monotonic() - started < 5  # SQLite would wait for ten seconds until nobody reads


def test_workers_that_store_the_same_rewards_in_another_order_do_not_wait_for_each_other(workers):
    both = workers(), workers()
    made(both[0], rounds=10_000, batch_size=10_000)
    both[1].refresh()
    ids = [one.decision_id for one in decide(both[0], 600)]
    meet, answers = threading.Barrier(2), []

    def stored(connection, cursor, statement, *_):
        if statement.startswith("INSERT INTO rewards"):  # some of 600: each has stored what the other has yet to store
            with suppress(threading.BrokenBarrierError):
                meet.wait(1)

    def send(service, order):
        answers.extend(service.reward([(one, 1.0) for one in order]))

    senders = [threading.Thread(target=send, args=pair) for pair in zip(both, (ids, ids[::-1]), strict=True)]
    for service, sender in zip(both, senders, strict=True):
        sa.event.listen(service.database.engine, "after_cursor_execute", stored)
        sender.start()
    for sender in senders:
        sender.join(60)
    assert (answers.count("recorded"), answers.count("duplicate")) == (600, 600)
