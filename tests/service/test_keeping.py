"""Rolled back, backed up, restored, moved: a batch that was published is never closed again unknowingly."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.service.conftest import Clock, decide, made, new_database

from adaprivate.check import InputError
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.privacy import CONDITIONS, gdp_epsilon
from adaprivate.privacy.price import EitherPrice, GaussianPrice, PurePrice, compose
from adaprivate.service import backups, keeping, migrations, moving, schema, sealing
from adaprivate.service.core import Service
from adaprivate.service.database import Database
from adaprivate.service.faults import Fault
from adaprivate.service.journal import Journal

PASSPHRASE = "correct horse battery staple"


def _play(service: Service, clock: Clock, batches: int, name: str = "page", *, open_rounds: int = 0) -> list[str]:
    """So many batches, closed, of ten rounds with rewards; and further rounds. The ids of the last decisions."""
    ids: list[str] = []
    for count in [10] * batches + [open_rounds] * (open_rounds > 0):
        ids = [one.decision_id for one in decide(service, count, name)]
        assert {*service.reward([(one, place % 2 == 0) for place, one in enumerate(ids)])} == {"recorded"}
        if count == 10:
            clock.now += 61
            assert service.close_due() == 1
    return ids


def _rows(url: str, table: sa.Table, *, but: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    database = Database(url)
    with database.reading() as connection:
        query = sa.select(table).order_by(*table.primary_key.columns)
        found = [{k: row[k] for k in row if k not in but} for row in connection.execute(query).mappings()]
    database.close()
    return found


def _everything(url: str, *, but: tuple[str, ...] = ()) -> dict[str, list[dict[str, Any]]]:
    return {table.name: _rows(url, table, but=but) for table in schema.metadata.sorted_tables}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def another(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Callable[[str], str]:
    """The address of another new database: of the same kind, or of the other."""

    def make(kind: str) -> str:
        wanted = ("sqlite" if database_url.startswith("sqlite") else "postgresql") if kind == "same" else kind
        if wanted == "sqlite":
            return f"sqlite:///{tmp_path / 'another.db'}"
        return new_database(request.getfixturevalue("postgresql"))

    return make


class TestState:
    def test_of_a_database(
        self, service: Service, clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        assert keeping.state(database, journal) == "whole", "there is nothing to lack"
        made(service)
        _play(service, clock, 2)
        assert keeping.state(database, journal) == "whole"
        assert keeping.state(database, Journal(tmp_path / "lost")) == "unknown"
        journal.published(service.room("page").bandit.uid, 0, 2, "elsewhere")
        assert keeping.state(database, journal) == "behind"
        standing = keeping.standings(database, journal)["page"]
        assert standing.state == "behind"
        assert standing.reason is not None
        assert standing.reason.startswith("Batch 2 of the policy was published, which this database does not know")
        assert "adaprivate resume page --void no-replay" in standing.reason

    def test_vouching_for_a_database_whose_journal_was_lost(
        self, service: Service, clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service)
        _play(service, clock, 2)
        fresh = Journal(tmp_path / "fresh")
        keeping.vouch(database, fresh, "page")
        assert keeping.state(database, fresh) == "whole"
        journal.published(service.room("page").bandit.uid, 0, 2, "elsewhere")
        with pytest.raises(InputError, match="nobody can vouch"):
            keeping.vouch(database, journal, "page")
        with pytest.raises(InputError, match="to be a bandit of this database"):
            keeping.vouch(database, journal, "nobody")


class TestPrice:
    """Closed forms: the same release twice, each with noise of its own."""

    def test_gaussian_noise_grows_by_the_root(self) -> None:
        for times in (2, 3, 8):
            price = keeping.repeated(GaussianPrice(0.3), times)
            assert price is not None
            assert price.epsilon(1e-5) == pytest.approx(gdp_epsilon(0.3 * math.sqrt(times), 1e-5), rel=1e-9)

    def test_pure_epsilon_grows_by_the_number(self) -> None:
        price = keeping.repeated(PurePrice(0.7), 3)
        assert price is not None
        assert price.epsilon(0.0) == pytest.approx(2.1)

    def test_of_alternatives_each_release_may_take_another(self) -> None:
        pure, gaussian = PurePrice(1.0), GaussianPrice(0.27)
        price = keeping.repeated(EitherPrice((pure, gaussian)), 2)
        assert price is not None
        pairs = [compose(pair).epsilon(1e-5) for pair in ([pure, pure], [pure, gaussian], [gaussian, gaussian])]
        assert price.epsilon(1e-5) == pytest.approx(max(pairs), rel=1e-6)

    def test_what_is_not_worked_out_is_not_stated(self) -> None:
        from adaprivate.privacy.price import SampledGaussianPrice

        assert keeping.repeated(SampledGaussianPrice(2.0, 0.5), 2) is None
        assert keeping.repeated(GaussianPrice(0.3), 1_000) is None


class TestBackup:
    def test_it_holds_everything_and_is_for_its_owners_eyes(
        self, service: Service, clock: Clock, database_url: str, tmp_path: Path
    ) -> None:
        made(service, holdback=0.3, keep_rewards=True)
        decide(service, 25)
        clock.now += 61
        service.close_due()
        file = tmp_path / "backup.db"
        written = backups.backup(database_url, file)
        assert written == {"file": str(file), "bandits": 1, "bytes": file.stat().st_size}
        assert file.stat().st_mode & 0o777 == 0o600
        assert _everything(f"sqlite:///{file}") == _everything(database_url)

    def test_it_is_one_moment_though_workers_go_on(
        self, service: Service, clock: Clock, database_url: str, tmp_path: Path
    ) -> None:
        made(service, rounds=100_000, batch_size=50_000)
        stop = threading.Event()

        def decide_on() -> None:
            while not stop.is_set():
                decide(service, 2)

        deciding = threading.Thread(target=decide_on)
        deciding.start()
        try:
            for number in range(5):
                file = tmp_path / f"backup{number}.db"
                backups.backup(database_url, file)
                with closing(sqlite3.connect(file)) as copy:
                    (decided,) = copy.execute("SELECT decided FROM bandits").fetchone()
                    assert copy.execute("SELECT coalesce(sum(count), 0) FROM decisions").fetchone() == (decided,)
        finally:
            stop.set()
            deciding.join()
        assert decided > 0

    def test_nothing_is_written_over_or_left_behind(self, service: Service, database_url: str, tmp_path: Path) -> None:
        made(service)
        file = tmp_path / "backup.db"
        file.write_text("precious")
        with pytest.raises(InputError, match=r"not to exist; say --replace"):
            backups.backup(database_url, file)
        assert file.read_text() == "precious"
        backups.backup(database_url, file, replace=True)
        with pytest.raises(InputError, match="to exist"):
            backups.backup(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "other.db")
        with pytest.raises(InputError, match="folder that exists"):
            backups.backup(database_url, tmp_path / "nowhere" / "other.db")
        assert not (tmp_path / "none.db").exists()
        assert [one.name for one in tmp_path.iterdir() if "part" in one.name or one.name == "other.db"] == []

    def test_the_database_is_not_its_own_backup(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'a.db'}"
        migrations.upgrade(url)
        with pytest.raises(InputError, match="not to be the database itself"):
            backups.backup(url, tmp_path / "a.db", replace=True)


class TestRestore:
    def _restored(
        self, service: Service, url: str, file: Path, journal: Journal, **options: Any
    ) -> dict[str, keeping.Standing]:
        service.close()
        return backups.restore(file, url, journal, **{"replace": True, **options})

    @pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
    def test_everything_comes_back_in_either_kind_of_database(
        self,
        service: Service,
        clock: Clock,
        database_url: str,
        another: Callable[[str], str],
        journal: Journal,
        tmp_path: Path,
        kind: str,
    ) -> None:
        made(service)
        made(service, "other", policy="noise-aware", dimension=3)
        ids = _play(service, clock, 2, open_rounds=5)
        file, target = tmp_path / "backup.db", another(kind)
        backups.backup(database_url, file)
        found = backups.restore(file, target, journal, keep_ids=True)
        assert {name: one.state for name, one in found.items()} == {"page": "whole", "other": "whole"}
        assert _everything(target) == _everything(database_url)
        again = Service(target, journal=journal.path, clock=clock)
        try:
            again.refresh()
            assert again.reward([(ids[0], True)]) == ["duplicate"]
            made(again, "third")  # numbered after those that came
            decide(again, 5)
            clock.now += 61
            assert again.close_due() == 1
            assert again.status("page")["guarantee"]["void"] == []
            assert again.status("page")["state"] == "open"
        finally:
            again.close()

    def test_without_a_release_since_it_goes_on_but_earlier_ids_are_refused(
        self, workers: Callable[..., Service], clock: Clock, database_url: str, journal: Journal, tmp_path: Path
    ) -> None:
        """The round of a decision that was lost is given out again: its old id must not bring a reward for the new one."""
        service = workers()
        made(service)
        kept = _play(service, clock, 1, open_rounds=3)
        backups.backup(database_url, tmp_path / "backup.db")
        lost = decide(service, 1)[0]
        found = self._restored(service, database_url, tmp_path / "backup.db", journal)
        assert found["page"] == keeping.Standing("whole", None)
        again = workers()
        again.refresh()
        anew = decide(again, 1)[0]
        assert anew.round == lost.round
        assert again.reward([(lost.decision_id, 1.0), (kept[0], 1.0), (anew.decision_id, 1.0)]) == [
            "unknown",
            "unknown",
            "recorded",
        ]
        assert again.status("page")["state"] == "open"

    def test_batches_published_since_halt_it(
        self, workers: Callable[..., Service], clock: Clock, database_url: str, journal: Journal, tmp_path: Path
    ) -> None:
        service = workers()
        made(service)
        made(service, "quiet")
        _play(service, clock, 1)
        decide(service, 10)
        backups.backup(database_url, tmp_path / "backup.db")
        clock.now += 61
        assert service.close_due() == 1
        _play(service, clock, 1)
        before = _rows(database_url, schema.ledger)
        found = self._restored(service, database_url, tmp_path / "backup.db", journal)
        assert found["quiet"].state == "whole"
        assert found["page"].state == "behind"
        again = workers()
        again.refresh()
        clock.now += 1_000
        assert again.close_due() == 0, "a batch that was published is not closed again"
        assert _rows(database_url, schema.ledger) == before[:1]
        status = again.status("page")
        assert status["state"] == "halted"
        assert status["reason"].startswith("Batches 1 to 2 of the policy were published, which this database does not know")
        with pytest.raises(Fault, match="halted"):
            decide(again, 1)
        assert len(decide(again, 1, "quiet")) == 1
        with pytest.raises(Fault):
            again.resume("page")

    def test_a_file_copied_back_by_hand_halts_it_too(self, tmp_path: Path, clock: Clock, journal: Journal) -> None:
        """No command of ours saw it: a copy of the file, as a snapshot of the machine's disk brings it back."""
        url, path = f"sqlite:///{tmp_path / 'a.db'}", tmp_path / "a.db"
        migrations.upgrade(url)
        service = Service(url, journal=journal.path, clock=clock)
        made(service)
        decide(service, 10)
        service.close()
        shutil.copy(path, tmp_path / "copy.db")
        service = Service(url, journal=journal.path, clock=clock)
        service.refresh()
        clock.now += 61
        assert service.close_due() == 1
        service.close()
        shutil.copy(tmp_path / "copy.db", path)
        for _ in range(2):
            again = Service(url, journal=journal.path, clock=clock)
            again.refresh()
            assert again.close_due() == 0
            assert again.status("page")["state"] == "halted"
            again.close()
        assert _rows(url, schema.ledger) == []

    def test_going_on_knowingly(
        self,
        workers: Callable[..., Service],
        clock: Clock,
        database_url: str,
        database: Database,
        journal: Journal,
        tmp_path: Path,
    ) -> None:
        service = workers()
        made(service)
        old = decide(service, 10)[0].decision_id
        backups.backup(database_url, tmp_path / "backup.db")
        clock.now += 61
        assert service.close_due() == 1
        self._restored(service, database_url, tmp_path / "backup.db", journal)
        with database.reading() as connection:
            secret = connection.scalar(sa.select(schema.bandits.c.secret))
        with pytest.raises(InputError, match="no-replay"):
            keeping.resume(database, journal, "page")
        with pytest.raises(InputError, match="void='everything'"):
            keeping.resume(database, journal, "page", void="everything")
        text = keeping.resume(database, journal, "page", void="no-replay")
        plan: Any = plan_from_bytes(_rows(database_url, schema.books)[0]["plan"])
        price, delta = plan.price(exact_noise=True), plan.delta
        assert isinstance(price, GaussianPrice)
        twice = GaussianPrice(price.mu * math.sqrt(2), 2 * price.slack).epsilon(delta)
        assert text == (
            "no-replay: Batch 0 of the policy was published before, and may be published again: "
            f"epsilon = {twice:.4g} at most (delta = {delta:g}), not {price.epsilon(delta):.4g}, "
            "for everyone in the batches released again and, where noise is shared, in earlier ones."
        )
        with database.reading() as connection:
            assert connection.scalar(sa.select(schema.bandits.c.secret))[:32] != secret[:32]
        again = workers()
        again.refresh()
        assert again.reward([(old, 1.0)]) == ["unknown"], "its round may be given out again"
        assert again.status("page")["guarantee"]["void"] == [text]
        assert again.close_due() == 1
        assert again.status("page")["version"] == 1
        _play(again, clock, 1)
        assert keeping.state(database, journal) == "whole"
        with pytest.raises(InputError, match="nothing to resume"):
            keeping.resume(database, journal, "page", void="no-replay")

    def test_a_copy_that_was_restored_twice_does_not_forget_what_was_said_meanwhile(
        self, workers: Callable[..., Service], clock: Clock, database_url: str, journal: Journal, tmp_path: Path
    ) -> None:
        """The journal remembers that it went on knowingly, though nothing was published since and the database is older."""
        service = workers()
        made(service)
        decide(service, 10)
        backups.backup(database_url, tmp_path / "backup.db")
        clock.now += 61
        assert service.close_due() == 1
        self._restored(service, database_url, tmp_path / "backup.db", journal)
        service = workers()
        texts = [keeping.resume(service.database, journal, "page", void="no-replay")]
        self._restored(service, database_url, tmp_path / "backup.db", journal)
        service = workers()
        service.refresh()
        assert service.status("page")["state"] == "halted"
        assert service.close_due() == 0
        with pytest.raises(InputError, match="no-replay"):
            keeping.resume(service.database, journal, "page")
        texts.append(keeping.resume(service.database, journal, "page", void="no-replay"))
        assert texts[0] == texts[1]
        service.refresh()
        assert service.close_due() == 1
        assert service.status("page")["guarantee"]["void"] == [texts[1]]

    def test_a_second_rollback_is_paid_for_too(
        self, workers: Callable[..., Service], clock: Clock, database_url: str, journal: Journal, tmp_path: Path
    ) -> None:
        service = workers()
        made(service)
        decide(service, 10)
        clock.now += 61
        backups.backup(database_url, tmp_path / "backup.db")
        texts = []
        for _ in range(2):
            service.refresh()
            assert service.close_due() == 1
            self._restored(service, database_url, tmp_path / "backup.db", journal)
            service = workers()
            texts.append(keeping.resume(service.database, journal, "page", void="no-replay"))
        plan: Any = plan_from_bytes(_rows(database_url, schema.books)[0]["plan"])
        price = plan.price(exact_noise=True)
        for times, text in enumerate(texts, 2):
            paid = GaussianPrice(price.mu * math.sqrt(times), times * price.slack).epsilon(plan.delta)
            assert f"epsilon = {paid:.4g} " in str(text)
        (entry,) = json.loads(_rows(database_url, schema.bandits)[0]["void"])
        assert entry == {"text": texts[-1], "epsilon": pytest.approx(paid), "delta": plan.delta}

    def test_without_a_journal_nobody_knows(
        self, workers: Callable[..., Service], clock: Clock, database_url: str, tmp_path: Path
    ) -> None:
        service = workers()
        made(service)
        _play(service, clock, 1)
        backups.backup(database_url, tmp_path / "backup.db")
        found = self._restored(service, database_url, tmp_path / "backup.db", Journal(tmp_path / "fresh"))
        assert found["page"] == keeping.Standing("unknown", None)
        again = workers(journal=tmp_path / "fresh")
        again.refresh()
        stated = again.status("page")["guarantee"]
        assert any("released twice" in text for text in stated["assumptions"])
        again.close()
        found = backups.restore(
            tmp_path / "backup.db", database_url, Journal(tmp_path / "vouched"), replace=True, vouched=True
        )
        assert found["page"].state == "whole"

    def test_what_is_there_is_not_written_over(
        self, service: Service, database_url: str, journal: Journal, tmp_path: Path
    ) -> None:
        made(service)
        backups.backup(database_url, tmp_path / "backup.db")
        decide(service, 3)
        before = _everything(database_url)
        service.close()
        with pytest.raises(InputError, match="--replace"):
            backups.restore(tmp_path / "backup.db", database_url, journal)
        assert _everything(database_url) == before

    @pytest.mark.parametrize("damage", ["cut", "text", "other database", "newer", "missing"])
    def test_what_is_no_backup_is_refused_and_nothing_changed(
        self, service: Service, database_url: str, journal: Journal, tmp_path: Path, damage: str
    ) -> None:
        made(service)
        file = tmp_path / "backup.db"
        backups.backup(database_url, file)
        if damage == "cut":
            os.truncate(file, file.stat().st_size // 2)
        elif damage == "text":
            file.write_text("SQLite, or is it?")
        elif damage == "missing":
            file.unlink()
        else:
            with closing(sqlite3.connect(file)) as connection:
                change = f"UPDATE {migrations.VERSION_TABLE} SET version_num = '9999'"
                connection.execute(change if damage == "newer" else f"DROP TABLE {migrations.VERSION_TABLE}")
                connection.commit()
        service.close()
        before = _everything(database_url)
        wanted = "newer adaprivate" if damage == "newer" else "whole|to be a backup"
        with pytest.raises(InputError, match=wanted):
            backups.restore(file, database_url, journal, replace=True)
        assert _everything(database_url) == before
        assert [one.name for one in tmp_path.iterdir() if "part" in one.name] == []

    def test_a_database_in_use_is_not_replaced(self, tmp_path: Path, clock: Clock, journal: Journal) -> None:
        url = f"sqlite:///{tmp_path / 'a.db'}"
        migrations.upgrade(url)
        service = Service(url, journal=journal.path, clock=clock)
        made(service)
        backups.backup(url, tmp_path / "backup.db")
        with pytest.raises(InputError, match="stop the service first"):
            backups.restore(tmp_path / "backup.db", url, journal, replace=True)
        decide(service, 1)
        service.close()
        backups.restore(tmp_path / "backup.db", url, journal, replace=True)
        assert _rows(url, schema.decisions) == []

    def test_a_backup_of_an_older_adaprivate_is_brought_up_to_date(self, tmp_path: Path, journal: Journal) -> None:
        with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
            connection.executescript((Path(__file__).parent / "old_0001.sql").read_text())
        backups.backup(f"sqlite:///{tmp_path / 'old.db'}", tmp_path / "backup.db")
        url = f"sqlite:///{tmp_path / 'new.db'}"
        assert backups.restore(tmp_path / "backup.db", url, journal)["page"].state == "unknown"
        assert migrations.current(url) == migrations.head()
        assert len(_rows(url, schema.rewards)) == 6


class TestMoving:
    @pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
    def test_a_bandit_goes_on_elsewhere_as_if_nothing_had_been(
        self,
        service: Service,
        clock: Clock,
        database: Database,
        another: Callable[[str], str],
        journal: Journal,
        tmp_path: Path,
        kind: str,
    ) -> None:
        made(service, holdback=0.2)
        ids = [one.decision_id for one in decide(service, 30)]
        service.reward([(one, True) for one in ids[:20]])
        clock.now += 61
        while service.close_due():
            pass
        service.tidy()
        ids = [one.decision_id for one in decide(service, 6)]
        service.reward([(one, True) for one in ids[:3]])
        before = _everything(str(database.url.render_as_string(hide_password=False)))
        file, target = tmp_path / "page.bandit", another(kind)
        written = moving.export(database, journal, "page", file, PASSPHRASE)
        assert written["batches"] == len(before["ledger"]) >= 2
        assert file.stat().st_mode & 0o777 == 0o600
        service.refresh()
        assert service.status("page")["state"] == "moved"
        with pytest.raises(Fault, match="moved"):
            decide(service, 1)
        clock.now += 1_000
        assert service.close_due() == 0

        migrations.upgrade(target)
        there, notes = Database(target), Journal(tmp_path / "there")
        found = moving.import_(file, there, notes, PASSPHRASE)
        assert found == {"bandit": "page", "batches": written["batches"]}
        after = _everything(target, but=("claimed_until",))
        for table, rows in before.items():
            if table not in ("late", "api_keys", "meta"):
                assert after[table] == [{k: v for k, v in row.items() if k != "claimed_until"} for row in rows]
        assert keeping.state(there, notes) == "unknown"  # whether a copy of the file goes on elsewhere, nobody can see
        again = Service(target, journal=notes.path, clock=clock)
        try:
            again.refresh()
            assert again.reward([(ids[0], True), (ids[5], True)]) == ["duplicate", "recorded"]
            version = again.status("page")["version"]
            decide(again, 30)
            clock.now += 61
            while again.close_due():
                pass
            assert again.status("page")["version"] > version
            assert any("released twice" in text for text in again.status("page")["guarantee"]["assumptions"])
            assert made(again, "second")["version"] == 0, "new ones are numbered after it"
        finally:
            again.close()
            there.close()

    def test_what_is_private_is_sealed_and_the_rest_can_be_read(
        self, service: Service, clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service, keep_rewards=True)
        for count in (10, 7):
            ids = [one.decision_id for one in decide(service, count)]
            service.reward([(one, 0.8127364554637281) for one in ids])
            clock.now += 61
            service.close_due()
        url = database.url.render_as_string(hide_password=False)
        (bandit,), (book,) = _rows(url, schema.bandits), _rows(url, schema.books)
        moving.export(database, journal, "page", tmp_path / "page.bandit", PASSPHRASE)
        with zipfile.ZipFile(tmp_path / "page.bandit") as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        assert sorted(parts) == [
            "about.json",
            "books.json",
            "decisions.json",
            "items.json",
            "ledger.json",
            "private.sealed",
            "releases.json",
        ]
        assert json.loads(parts["about.json"])["bandit"]["uid"] == bandit["uid"]
        assert [row["digest"] for row in json.loads(parts["ledger.json"])] == [_rows(url, schema.ledger)[0]["digest"]]
        import base64

        data = (tmp_path / "page.bandit").read_bytes()
        for secret in (bandit["secret"], book["book"], b"0.8127364554637281", PASSPHRASE.encode()):
            for text in (secret, base64.b64encode(secret)):
                assert text not in data
                assert all(text not in part for part in parts.values())
        assert "book" not in json.loads(parts["books.json"])[0]

    def test_its_size_does_not_tell_how_many_rewards_came(
        self, service: Service, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service, "few", rounds=100_000, batch_size=50_000)
        made(service, "many", rounds=100_000, batch_size=50_000)
        sizes = []
        for name, told in (("few", 0), ("many", 2_000)):
            ids = [one.decision_id for one in decide(service, 2_000, name)]
            service.reward([(one, 1 / 3) for one in ids[:told]])
            moving.export(database, journal, name, tmp_path / name, PASSPHRASE)
            with zipfile.ZipFile(tmp_path / name) as archive:
                sizes.append(archive.getinfo("private.sealed").compress_size)
        assert sizes[0] == sizes[1] > 2_000 * 100

    def test_a_reward_that_comes_meanwhile_is_in_the_file_or_refused(
        self,
        workers: Callable[..., Service],
        database: Database,
        journal: Journal,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        service = workers()
        made(service)
        ids = [one.decision_id for one in decide(service, 5)]
        answers: list[str] = []
        coming = threading.Thread(target=lambda: answers.extend(service.reward([(ids[0], True)])))
        real = moving._parts

        def read(*words: Any, **more: Any) -> Any:
            found = real(*words, **more)
            coming.start()
            coming.join(0.5)
            assert answers == [], "it waits for the bandit to have moved"
            return found

        monkeypatch.setattr(moving, "_parts", read)
        moving.export(database, journal, "page", tmp_path / "out", PASSPHRASE)
        coming.join(30)
        assert answers == ["lost"]

    def test_a_wrong_passphrase_or_a_changed_byte_is_refused(
        self, service: Service, clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service)
        _play(service, clock, 1)
        file = tmp_path / "page.bandit"
        with pytest.raises(InputError, match="at least 12 characters"):
            moving.export(database, journal, "page", file, "short")
        moving.export(database, journal, "page", file, PASSPHRASE)
        url = f"sqlite:///{tmp_path / 'target.db'}"
        migrations.upgrade(url)
        target, notes = Database(url), Journal(tmp_path / "there")
        with pytest.raises(InputError, match=r"^Expected passphrase to be the one of this file"):
            moving.import_(file, target, notes, PASSPHRASE + "?")
        for name, change in {
            "about.json": lambda part: part.replace(b'"epsilon', b'"epsilom'),
            "ledger.json": lambda part: part.replace(b'"batch":0', b'"batch":1'),
            "private.sealed": lambda part: part[:-1] + bytes([part[-1] ^ 1]),
        }.items():
            changed = tmp_path / f"{name}.bandit"
            with zipfile.ZipFile(file) as source, zipfile.ZipFile(changed, "w") as copy:
                for one in source.namelist():
                    copy.writestr(one, change(source.read(one)) if one == name else source.read(one))
            assert zipfile.ZipFile(file).read(name) != zipfile.ZipFile(changed).read(name)
            with pytest.raises(InputError, match="the file to be unchanged"):
                moving.import_(changed, target, notes, PASSPHRASE)
        data = file.read_bytes()
        for cut in (0, 10, len(data) // 2, len(data) - 1):
            (tmp_path / "cut.bandit").write_bytes(data[:cut])
            with pytest.raises(InputError, match="that adaprivate exported, whole"):
                moving.import_(tmp_path / "cut.bandit", target, notes, PASSPHRASE)
        assert _rows(url, schema.bandits) == []
        assert not list(tmp_path.glob("*.imported"))
        assert moving.import_(file, target, notes, PASSPHRASE)["bandit"] == "page"
        target.close()

    def test_it_is_imported_once(
        self, service: Service, clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service)
        _play(service, clock, 1)
        file = tmp_path / "page.bandit"
        moving.export(database, journal, "page", file, PASSPHRASE)
        targets = []
        for name in ("one", "two"):
            migrations.upgrade(f"sqlite:///{tmp_path / name}.db")
            targets.append(Database(f"sqlite:///{tmp_path / name}.db"))
        notes = Journal(tmp_path / "there")
        moving.import_(file, targets[0], notes, PASSPHRASE)
        with pytest.raises(InputError, match=r"imported once: page.bandit.imported says"):
            moving.import_(file, targets[1], Journal(tmp_path / "elsewhere"), PASSPHRASE)
        (tmp_path / "page.bandit.imported").unlink()
        with pytest.raises(InputError, match="not to be of a bandit that is in this database"):
            moving.import_(file, targets[0], notes, PASSPHRASE)
        there = Service(f"sqlite:///{tmp_path / 'one.db'}", journal=notes.path, clock=clock)
        there.refresh()
        _play(there, clock, 1)
        there.close()
        with pytest.raises(InputError, match="to hold all that was published"):  # the journal there has gone on
            moving.import_(file, targets[1], notes, PASSPHRASE)
        for target in targets:
            target.close()

    def test_another_of_its_name_is_not_replaced(
        self, service: Service, clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service)
        _play(service, clock, 1)
        moving.export(database, journal, "page", tmp_path / "page.bandit", PASSPHRASE)
        url = f"sqlite:///{tmp_path / 'target.db'}"
        migrations.upgrade(url)
        there = Service(url, journal=tmp_path / "there", clock=clock)
        made(there)
        with pytest.raises(InputError, match=r"name='page' to be free here: say --name"):
            moving.import_(tmp_path / "page.bandit", there.database, there.journal, PASSPHRASE)
        found = moving.import_(tmp_path / "page.bandit", there.database, there.journal, PASSPHRASE, name="front")
        assert found == {"bandit": "front", "batches": 1}
        there.refresh()
        assert there.status("front")["version"] == 1
        assert there.status("page")["version"] == 0
        assert len(decide(there, 1, "front")) == 1
        there.close()

    def test_there_and_back_again(
        self, workers: Callable[..., Service], clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        service = workers()
        made(service)
        _play(service, clock, 1)
        moving.export(database, journal, "page", tmp_path / "out", PASSPHRASE)
        url = f"sqlite:///{tmp_path / 'target.db'}"
        migrations.upgrade(url)
        there = Service(url, journal=tmp_path / "there", clock=clock)
        moving.import_(tmp_path / "out", there.database, there.journal, PASSPHRASE)
        there.refresh()
        _play(there, clock, 1)
        moving.export(there.database, there.journal, "page", tmp_path / "back", PASSPHRASE)
        there.close()
        assert moving.import_(tmp_path / "back", database, journal, PASSPHRASE)["batches"] == 2
        back = workers()
        back.refresh()
        assert back.status("page")["version"] == 2
        _play(back, clock, 1)
        assert keeping.state(database, journal) == "unknown", "a copy of the file may go on elsewhere"
        assert CONDITIONS["no-replay"] in back.status("page")["guarantee"]["assumptions"]
        keeping.vouch(database, journal, "page")
        assert keeping.state(database, journal) == "whole"

    def test_a_bandit_that_was_exported_with_another_journal_is_not_resumed(
        self, service: Service, clock: Clock, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service)
        _play(service, clock, 1)
        moving.export(database, Journal(tmp_path / "other"), "page", tmp_path / "out", PASSPHRASE)
        with pytest.raises(InputError, match="nothing to resume"):
            keeping.resume(database, journal, "page")

    def test_where_it_was_it_does_not_come_back_with_a_backup(
        self, workers: Callable[..., Service], clock: Clock, database_url: str, journal: Journal, tmp_path: Path
    ) -> None:
        service = workers()
        made(service)
        _play(service, clock, 1)
        backups.backup(database_url, tmp_path / "backup.db")
        moving.export(service.database, journal, "page", tmp_path / "out", PASSPHRASE)
        service.close()
        found = backups.restore(tmp_path / "backup.db", database_url, journal, replace=True)
        assert found["page"].state == "behind"
        assert str(found["page"].reason).startswith("It was moved away and goes on elsewhere")
        again = workers()
        again.refresh()
        assert again.status("page")["state"] == "halted"

    def test_a_disk_that_fails_leaves_it_where_it_is(
        self,
        service: Service,
        clock: Clock,
        database: Database,
        journal: Journal,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        made(service)
        _play(service, clock, 1)

        def full(*_: Any) -> None:
            raise OSError("No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(Path, "replace", full)
            with pytest.raises(OSError, match="No space"):
                moving.export(database, journal, "page", tmp_path / "out", PASSPHRASE)
        assert not list(tmp_path.glob("out*"))
        service.refresh()
        assert service.status("page")["state"] == "open"
        _play(service, clock, 1)
        assert keeping.state(database, journal) == "whole"

    def test_an_export_that_was_killed_can_be_taken_back(
        self, service: Service, clock: Clock, database_url: str, database: Database, journal: Journal, tmp_path: Path
    ) -> None:
        made(service)
        _play(service, clock, 1)
        script = (
            "import os, sys, pathlib\nfrom adaprivate.service import moving\n"
            "from adaprivate.service.database import Database\nfrom adaprivate.service.journal import Journal\n"
            "moving.write_private = lambda *_: os._exit(9)\n"  # after the commit, before the file is there
            "moving.export(Database(sys.argv[1]), Journal(sys.argv[2]), 'page', pathlib.Path(sys.argv[3]), 'p' * 12)\n"
        )
        command = [sys.executable, "-c", script, database_url, str(journal.path), str(tmp_path / "out")]
        assert subprocess.run(command, check=False).returncode == 9
        service.refresh()
        assert service.status("page")["state"] == "moved"
        assert keeping.resume(database, journal, "page") is None
        service.refresh()
        _play(service, clock, 1)
        assert service.status("page")["guarantee"]["void"] == []
        moving.export(database, journal, "page", tmp_path / "out", PASSPHRASE)
        with pytest.raises(InputError, match="nothing to resume"):
            keeping.resume(database, journal, "page", void="no-replay")


class TestSeal:
    def test_round_trip_and_refusals(self) -> None:
        data = sealing.sealed(b"rewards", PASSPHRASE, b"public")
        assert b"rewards" not in data
        assert sealing.opened(data, PASSPHRASE, b"public") == b"rewards"
        assert sealing.sealed(b"rewards", PASSPHRASE, b"public") != data, "salt and nonce are fresh"
        for passphrase, public in ((PASSPHRASE + " ", b"public"), (PASSPHRASE, b"Public")):
            with pytest.raises(InputError, match="passphrase"):
                sealing.opened(data, passphrase, public)

    def test_every_part_of_the_head_is_vouched_for(self) -> None:
        data = bytearray(sealing.sealed(b"rewards", PASSPHRASE, b""))
        for place in (0, 1, 2, 3, 4, 19, 20, 31, 32, len(data) - 1):
            changed = data.copy()
            changed[place] ^= 1
            with pytest.raises(InputError):
                sealing.opened(bytes(changed), PASSPHRASE, b"")
        with pytest.raises(InputError, match="damaged"):
            sealing.opened(bytes(data[:20]), PASSPHRASE, b"")

    def test_the_key_is_that_of_the_standard(self) -> None:
        """Against hashlib's scrypt and the documented layout: version, cost, block, lanes, salt, nonce, sealed bytes."""
        import hashlib

        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        data = sealing.sealed(b"rewards", PASSPHRASE, b"public")
        assert data[:4] == bytes([1, 17, 8, 1])
        key = hashlib.scrypt(PASSPHRASE.encode(), salt=data[4:20], n=2**17, r=8, p=1, maxmem=2**28, dklen=32)
        assert AESGCM(key).decrypt(data[20:32], data[32:], data[:32] + b"public") == b"rewards"
