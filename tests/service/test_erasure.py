"""Rewards that were used are deleted: not where decisions wait for it, in small pieces, to the byte, after crashes too."""

import struct
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from tests.service.conftest import decide, made

from adaprivate.service import closing, core, database, erasure, grouping, moving, schema
from adaprivate.service.faults import Fault
from adaprivate.service.grouping import BEAT, SLOT
from adaprivate.service.moving import export, import_

PRIVATE = ("rewards", "late")


def left(service, table=schema.rewards):
    with service.database.reading() as connection:
        return {*connection.scalars(sa.select(table.c.round))}


def all_closed(service, clock, decided):
    """Close what is full; the limits by stream, and the rounds that wait for a batch."""
    clock.now += 61
    while service.close_due():
        pass
    with service.database.reading() as connection:
        limits = erasure.limits_of(connection)[1]
    return limits, {one.round for one in decided if one.round >= limits[int(one.holdback)]}


@contextmanager
def watched(service):
    """What transactions that write do: statements with the number of rows that they changed, and where each ends."""
    found = []

    def ran(connection, cursor, statement, parameters, context, many):
        if connection.get_execution_options().get("writes") and not statement.startswith("BEGIN"):
            found.append((statement, cursor.rowcount))

    def ended(connection):
        if connection.get_execution_options().get("writes"):
            found.append("commit")

    engine = service.database.engine
    sa.event.listen(engine, "after_cursor_execute", ran)
    sa.event.listen(engine, "commit", ended)
    try:
        yield found
    finally:
        sa.event.remove(engine, "after_cursor_execute", ran)
        sa.event.remove(engine, "commit", ended)


@pytest.mark.parametrize("options", [{}, {"rounds": 10, "holdback": 0.5}], ids=["goes on", "is over"])
def test_closing_changes_the_same_rows_whether_rewards_came_or_not(service, clock, options):
    """The turns of writing that decisions wait for: not a statement more, and not a row."""
    written = []
    for name, share in (("none", 0.0), ("half", 0.5), ("all", 1.0)):
        made(service, name, **{"rounds": 40, **options})
        decided = decide(service, 40, name)
        service.reward([(one.decision_id, 1.0) for one in decided[: int(40 * share)]])
        clock.now += 61
        with watched(service) as found:
            while service.close_due():
                pass
        statements = [one for one in found if one != "commit"]
        written.append(sorted({*statements}) if options else statements)  # who is held back is a coin of each bandit
    assert len(written[0]) > 5
    assert written[0] == written[1] == written[2]
    assert not [statement for statement, _ in written[2] if any(f" {table} " in statement for table in PRIVATE)]


@pytest.mark.parametrize("holdback", [0.0, 0.4])
def test_deletions_wait_for_a_slot_and_are_small(service, clock, monkeypatch, holdback):
    """Piece by piece; what is not spent stays, whatever else is deleted."""
    monkeypatch.setattr(erasure, "PIECE", 7)
    monkeypatch.setattr(core, "MOST_PIECES", 4)
    made(service, holdback=holdback, rounds=1_000, batch_size=40)
    decided = decide(service, 95)
    late = decide(service, 5)
    service.reward([(one.decision_id, 1.0) for one in decided])
    _, waiting = all_closed(service, clock, decided)
    spent = {one.round for one in decided} - waiting
    assert waiting, "the test needs some of each"
    assert len(spent) > 30
    with watched(service) as found:
        for _ in range(10):
            before = len(left(service))
            service.tidy(lambda: found.append("slot"))
            assert before - len(left(service)) <= 4 * 7
    assert left(service) == waiting
    deletions = [place for place, one in enumerate(found) if one[0].startswith("DELETE")]
    assert len(deletions) >= len(spent) / 7
    for place in deletions:
        assert (found[place - 1], found[place + 1]) == ("slot", "commit")
        assert 0 < found[place][1] <= 7
    assert service.reward([(late[0].decision_id, 1.0)]) == ["recorded"]
    with watched(service) as found:
        service.tidy()
    assert not found, "nothing more to delete"


def test_that_rewards_were_late_is_deleted_in_slots_too(service, clock, monkeypatch):
    monkeypatch.setattr(erasure, "PIECE", 4)
    made(service)
    decided = decide(service, 10)
    clock.now += 61
    service.close_due()
    assert {*service.reward([(one.decision_id, 1.0) for one in decided])} == {"late"}
    service.decide([("page", [service.check("page", core.Ask())], f"key {n}") for n in range(9)])
    with watched(service) as found:
        clock.now += core.KEPT + 1
        while service.close_due():
            pass
        assert not [one for one in found if one[0].startswith("DELETE")]
        service.tidy(lambda: found.append("slot"))
    assert not left(service, schema.late)
    deletions = [place for place, one in enumerate(found) if one[0].startswith("DELETE")]
    assert [found[place][1] for place in deletions] == [4, 4, 1, 4, 4, 2]
    assert all(found[place - 1] == "slot" for place in deletions)


@pytest.mark.parametrize("rewards", [0, 10])
@pytest.mark.parametrize("hours", [0, 25])
def test_that_a_database_refuses_to_write_does_not_tell_that_rewards_came(service, clock, monkeypatch, rewards, hours):
    """Such a refusal is noted in the log, which is public. After a day it would be of rewards that came late."""

    def locked():
        raise Fault("unavailable", "The database does not answer (Planted); nothing was changed.")

    made(service)
    decided = decide(service, 10)
    if not hours:
        service.reward([(one.decision_id, 1.0) for one in decided[:rewards]])
    clock.now += 61
    service.close_due()
    if hours:
        service.tidy()
        service.reward([(one.decision_id, 1.0) for one in decided[:rewards]])
        clock.now += hours * 3600
    with monkeypatch.context() as patch:
        patch.setattr(service.database, "writing", locked)
        with pytest.raises(Fault, match="Planted"):
            service.tidy()
    service.tidy()
    service.tidy()
    assert not left(service)
    assert not left(service, schema.late)


def test_a_slot_is_waited_for_unless_enough_of_it_is_left(monkeypatch):
    class Clock:
        now, slept = 0.0, 0.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.slept += seconds

    for since, waits in ((0.0, 0.0), (0.4 * SLOT, 0.0), (0.6 * SLOT, BEAT - 0.6 * SLOT), (BEAT - 0.001, 0.001)):
        clock = Clock()
        clock.now = 8_000 * BEAT + since
        monkeypatch.setattr(grouping, "time", clock)
        grouping.wait_for_slot()
        assert clock.slept == pytest.approx(waits, abs=1e-9)


def test_who_dies_between_a_release_and_its_deletions_leaves_nothing_behind(workers, clock, monkeypatch):
    one = workers()
    made(one)
    decided = decide(one, 20)
    one.reward([(each.decision_id, 1.0) for each in decided])
    clock.now += 61

    def die(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(closing, "close", die)
        with pytest.raises(MemoryError):
            one.close_due()  # sealed, and not released: nobody may delete anything
    other = workers()
    other.refresh()
    other.tidy()
    assert left(other) == {*range(20)}
    clock.now += 61
    assert other.close_due() == 1
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "erase", die)
        with pytest.raises(MemoryError):
            other.tidy()
    third = workers()
    third.refresh()
    third.tidy()
    assert left(third) == {*range(10, 20)}
    other.tidy()  # who failed tries again
    assert left(other) == {*range(10, 20)}
    assert third.close_due() == 1
    third.tidy()
    assert not left(third)


def test_an_export_holds_no_spent_reward(service, clock, tmp_path, monkeypatch):
    """One stream closed a later batch than the other, whose rewards of earlier rounds wait."""
    monkeypatch.setattr("adaprivate.service.core.secrets.token_bytes", bytes)  # the holdback's coins are always the same
    made(service, holdback=0.4, rounds=1_000, batch_size=20)
    decided = decide(service, 70)
    service.reward([(one.decision_id, 1.0) for one in decided])
    limits, waiting = all_closed(service, clock, decided)
    assert any(one.round >= min(limits.values()) and one.round not in waiting for one in decided)
    file, passphrase = tmp_path / "page.bandit", "a passphrase of the test's"
    export(service.database, service.journal, "page", file, passphrase)
    _, private = moving._read(file, passphrase)
    assert {one["round"] for one in private["rewards"]} == waiting


@pytest.mark.parametrize("keep", [False, True])
def test_a_database_that_a_bandit_left_keeps_no_reward_of_it(workers, clock, tmp_path, keep):
    """No batch closes there any more. So nothing else would delete rewards that waited, nor exact sums."""
    service = workers()
    made(service, keep_rewards=keep)
    decided = decide(service, 15)
    service.reward([(one.decision_id, 1.0) for one in decided])
    clock.now += 61
    service.close_due()
    file, passphrase = tmp_path / "page.bandit", "a passphrase of the test's"
    export(service.database, service.journal, "page", file, passphrase)
    with service.database.reading() as connection:
        books = connection.scalars(sa.select(schema.books.c.book)).all()
    assert set(books) == {b""}
    assert left(service) == ({*range(15)} if keep else set())
    workers().refresh()  # a worker starts in spite of it
    import_(file, service.database, service.journal, passphrase)
    assert left(service) == ({*range(15)} if keep else {*range(10, 15)})
    other = workers()
    other.refresh()
    decide(other, 5)
    clock.now += 61
    assert other.close_due() == 1


# --- bytes ------------------------------------------------------------------------------------------------------------

VALUES = [0.1234567 + n * 1e-4 for n in range(200)]


def found_in(folder):
    """How many of these rewards stand in files of the database."""
    files = {path.name: path.read_bytes() for path in folder.glob("service.db*") if path.is_file()}
    return {name: sum(struct.pack(">d", value) in data for value in VALUES) for name, data in files.items()}


@pytest.fixture
def insecure(monkeypatch):
    """An SQLite that was built to leave what is deleted where it is, as some are."""
    really = database._prepare

    def prepare(connection, record):
        connection.execute("PRAGMA secure_delete = OFF")
        really(connection, record)

    monkeypatch.setattr(database, "_prepare", prepare)


@pytest.mark.usefixtures("insecure")
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("plant", [False, True])
def test_no_byte_of_a_used_reward_is_left_in_a_file(workers, clock, tmp_path, plant, monkeypatch):
    """In the database, its log, whatever is beside it: within two seconds after the last piece."""
    if plant:
        monkeypatch.setattr(database, "_PRAGMAS", tuple(one for one in database._PRAGMAS if "secure" not in one))
    service = workers()
    made(service, rounds=4_000, batch_size=200)
    ids = [one.decision_id for one in decide(service, 200)]
    service.reward([*zip(ids, VALUES, strict=True)])
    assert sum(found_in(tmp_path).values()) >= 200
    clock.now += 61
    assert service.close_due() == 1
    service.tidy()
    clock.now += core.FORGET_AFTER
    service.tidy()
    assert any(found_in(tmp_path).values()) == plant, found_in(tmp_path)
    with service.database.engine.connect() as one, service.database.engine.connect() as other:
        assert [each.exec_driver_sql("PRAGMA secure_delete").scalar() for each in (one, other)] == [not plant] * 2


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_log_that_somebody_reads_is_emptied_as_soon_as_they_are_done(workers, clock, tmp_path):
    reader, service = workers(), workers()
    made(service)
    log = tmp_path / "service.db-wal"
    with reader.database.reading() as connection:
        connection.scalar(sa.text("SELECT count(*) FROM bandits"))
        decide(service, 1)
        clock.now += core.FORGET_AFTER
        service.tidy()
        assert log.stat().st_size > 0
    service.tidy()
    assert log.stat().st_size == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_decision_folds_the_log_in_because_rewards_filled_it(service):
    """SQLite would do so in the commit that makes the log a thousand pages long."""
    with service.database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() >= 20_000
