"""The journal of what was published: durable before it counts, the same for all processes, never read as something else."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from adaprivate.check import InputError
from adaprivate.service import journal as journal_module
from adaprivate.service.journal import Journal, Published, place

UID = "b4f0"


def _lines(journal: Journal, uid: str = UID) -> list[str]:
    return (journal.path / f"{uid}.published").read_text().splitlines()


def _made(path: Path, batches: int = 3, *, begun: bool = True) -> Journal:
    journal = Journal(path, clock=lambda: 1_700_000_000.0)
    if begun:
        journal.begin(UID)
    for batch in range(batches):
        journal.published(UID, 0, batch, f"digest{batch}")
    return journal


class TestNotes:
    def test_what_one_process_notes_another_reads(self, tmp_path: Path) -> None:
        here, there = Journal(tmp_path / "j"), Journal(tmp_path / "j")
        assert there.last(UID, 0) is None
        here.published(UID, 0, 0, "aa")
        assert there.last(UID, 0) == (0, "aa")
        here.published(UID, 0, 1, "bb")
        here.published(UID, 1, 0, "cc")
        assert there.last(UID, 0) == (1, "bb")
        assert there.last(UID, 1) == (0, "cc")
        assert there.last("other", 0) is None

    def test_noted_once(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 2)
        before = _lines(journal)
        for other in (journal, Journal(journal.path)):
            other.published(UID, 0, 0, "digest0")
            other.publish(UID, 0, {0: "digest0", 1: "digest1"})
            other.begin(UID)
        assert _lines(journal) == before

    def test_another_release_of_a_published_batch_is_refused(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j")
        for other in (journal, Journal(journal.path)):
            with pytest.raises(Published, match=r"batch=1 .* to be published once"):
                other.publish(UID, 0, {1: "fresh", 3: "digest3"})
        assert journal.last(UID, 0) == (2, "digest2")

    def test_it_is_on_the_disk_before_it_counts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = _made(tmp_path / "j", 1)
        seen: list[str] = []

        def note(descriptor: int) -> None:
            seen.append(os.pread(descriptor, 10_000, 0).decode())

        monkeypatch.setattr(journal_module, "_synchronise", note)
        journal.published(UID, 0, 1, "later")
        assert len(seen) == 1
        assert "later" in seen[0]
        Journal(journal.path).published(UID, 0, 1, "later")  # another wrote it, and may not have come to the disk yet
        assert len(seen) == 2
        journal.published(UID, 0, 1, "later")
        assert len(seen) == 2

    def test_after_a_failing_disk_the_note_is_made_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = _made(tmp_path / "j", 1)

        def fail(descriptor: int) -> None:
            raise OSError("no")

        with monkeypatch.context() as broken:
            broken.setattr(journal_module, "_synchronise", fail)
            with pytest.raises(OSError, match="no"):
                journal.published(UID, 0, 1, "bb")
        synchronised = len(_lines(journal))
        journal.published(UID, 0, 1, "bb")
        assert len(_lines(journal)) == synchronised + 1
        assert journal.last(UID, 0) == (1, "bb")

    def test_files_are_for_the_owners_eyes(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "deep" / "j")
        assert journal.path.stat().st_mode & 0o777 == 0o700
        assert (journal.path / f"{UID}.published").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("uid", ["", "../x", "a/b", "a b", "ä", "x" * 65])
    def test_uids_are_words(self, tmp_path: Path, uid: str) -> None:
        with pytest.raises(InputError, match="uid"):
            Journal(tmp_path).begin(uid)

    @pytest.mark.parametrize("digest", ["", "a b", "a\nb"])
    def test_digests_are_words(self, tmp_path: Path, digest: str) -> None:
        with pytest.raises(InputError, match="digest"):
            Journal(tmp_path).published(UID, 0, 0, digest)


class TestConflicts:
    def test_a_database_that_was_rolled_back(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 5)
        rows = {batch: f"digest{batch}" for batch in range(5)}
        assert journal.conflicts(UID, 0, rows) == []
        assert journal.conflicts(UID, 0, {**rows, 5: "committed, not shown yet"}) == []
        assert journal.conflicts(UID, 0, {0: "digest0", 1: "digest1", 2: "digest2"}) == [3, 4]
        assert journal.conflicts(UID, 0, {**rows, 2: "fresh noise"}) == [2]
        assert journal.conflicts(UID, 0, {}) == [0, 1, 2, 3, 4]
        assert journal.conflicts(UID, 1, {0: "x"}) == []

    def test_state(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j")
        rows = {0: "digest0", 1: "digest1", 2: "digest2"}
        assert journal.state(UID, {0: rows}) == "whole"
        assert journal.state(UID, {0: {**rows, 3: "ahead"}, 1: {0: "ahead"}}) == "whole"
        assert journal.state(UID, {0: {0: "digest0"}}) == "behind"
        assert journal.state(UID, {}) == "behind"
        assert Journal(tmp_path / "lost").state(UID, {0: rows}) == "unknown"
        assert Journal(tmp_path / "lost").state(UID, {}) == "unknown"

    def test_a_journal_that_was_lost_stays_unknown_though_new_batches_are_noted(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 4, begun=False)
        rows = {0: {batch: f"digest{batch}" for batch in range(4)}}
        assert journal.state(UID, rows) == "unknown"
        journal.begin(UID)  # too late: something was noted before
        assert journal.state(UID, rows) == "unknown"
        journal.vouch(UID)
        assert Journal(journal.path).state(UID, rows) == "whole"

    def test_a_note_lost_in_the_middle_makes_it_unknown(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 4)
        lines = _lines(journal)
        (journal.path / f"{UID}.published").write_text("\n".join(lines[:2] + lines[3:]) + "\n")
        assert Journal(journal.path).state(UID, {0: {b: f"digest{b}" for b in range(4)}}) == "unknown"

    def test_going_on_knowingly(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 5)
        old_worker = Journal(journal.path)
        old_worker.published(UID, 0, 4, "digest4")
        rows = {batch: f"digest{batch}" for batch in range(3)}
        journal.again(UID, 0, 3)
        assert journal.conflicts(UID, 0, rows) == []
        assert journal.state(UID, {0: rows}) == "whole"
        journal.published(UID, 0, 3, "fresh3")
        known = Journal(journal.path).known(UID)
        assert known.repeated == {0: [(3, 4)]}
        assert (known.times(0), known.times(1)) == (2, 1)
        assert known.conflicts(0, {**rows, 3: "digest3", 4: "digest4"}) == [3], "the older database is now the other one"
        with pytest.raises(InputError, match="published once"):  # whoever still has the old release in memory
            old_worker.published(UID, 0, 3, "digest3")
        journal.again(UID, 0, 3)
        journal.published(UID, 0, 3, "fresher3")
        assert journal.known(UID).times(0) == 3

    def test_what_was_noted_before_going_on_is_noted_again(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 2)
        Journal(journal.path).again(UID, 0, 1)
        assert journal.last(UID, 0) == (0, "digest0")
        journal.published(UID, 0, 1, "digest1")  # still in this one's memory
        assert Journal(journal.path).last(UID, 0) == (1, "digest1")

    def test_a_bandit_that_moved_away(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 2)
        rows = {0: "digest0", 1: "digest1"}
        journal.moved(UID)
        journal.moved(UID)
        assert len(_lines(journal)) == 4
        assert journal.conflicts(UID, 0, rows) == [2], "the next batch is released elsewhere"
        assert journal.conflicts(UID, 0, {0: "digest0"}) == [1]
        assert journal.state(UID, {0: rows}) == "behind"
        journal.returned(UID)
        assert Journal(journal.path).state(UID, {0: rows}) == "whole"

    def test_what_is_known_stays_as_it_was_read(self, tmp_path: Path) -> None:
        """So that the database can be read after it: a batch closed in between is no conflict."""
        journal = _made(tmp_path / "j", 1)
        known = journal.known(UID)
        journal.published(UID, 0, 1, "digest1")
        assert known.conflicts(0, {0: "digest0"}) == []
        assert journal.conflicts(UID, 0, {0: "digest0"}) == [1]


class TestDamage:
    def test_half_a_line_is_no_line_and_the_next_stands_alone(self, tmp_path: Path) -> None:
        whole = _made(tmp_path / "whole", 2)
        data = (whole.path / f"{UID}.published").read_bytes()
        last = data.rindex(b"\n", 0, -1) + 1
        for cut in range(last, len(data)):
            torn = Journal(tmp_path / f"torn{cut}")
            torn.path.mkdir()
            (torn.path / f"{UID}.published").write_bytes(data[:cut])
            early = Journal(torn.path)
            assert early.last(UID, 0) == (0, "digest0"), "a note without its end was never returned from"
            torn.published(UID, 0, 1, "anew")
            for reader in (early, torn, Journal(torn.path)):
                assert reader.last(UID, 0) == (1, "anew")
                assert reader.state(UID, {0: {0: "digest0", 1: "anew"}}) == "whole"

    def test_no_damaged_byte_is_read_as_something_else(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 3)
        file = journal.path / f"{UID}.published"
        data = file.read_bytes()
        true = {0: "digest0", 1: "digest1", 2: "digest2"}
        for position in range(len(data)):
            for change in (1, 32, 0x80):
                damaged = bytearray(data)
                damaged[position] ^= change
                file.write_bytes(bytes(damaged))
                known = Journal(journal.path).known(UID)
                assert known.published.get(0, {}).items() <= true.items()
                assert known.published.keys() <= {0}
                assert not known.moved

    def test_lines_of_another_bandit_do_not_count(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 2)
        (journal.path / "other.published").write_bytes((journal.path / f"{UID}.published").read_bytes())
        assert journal.last("other", 0) is None

    def test_a_full_disk_in_the_middle_of_a_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = _made(tmp_path / "j", 1)
        real = os.write
        with monkeypatch.context() as full:
            full.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:20]))
            with pytest.raises(OSError, match="full"):
                journal.published(UID, 0, 1, "bb")
        journal.published(UID, 0, 1, "bb")
        assert Journal(journal.path).last(UID, 0) == (1, "bb")

    def test_a_journal_that_disappears_is_not_believed_from_memory(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 2)
        (journal.path / f"{UID}.published").unlink()
        journal.path.rmdir()
        assert journal.last(UID, 0) is None
        assert journal.state(UID, {0: {0: "digest0", 1: "digest1"}}) == "unknown"
        journal.published(UID, 0, 1, "digest1")
        assert Journal(journal.path).last(UID, 0) == (1, "digest1")
        assert journal.state(UID, {0: {0: "digest0", 1: "digest1"}}) == "unknown"

    def test_a_newer_format_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as newer:
            newer.setattr(journal_module, "_VERSION", "2")
            _made(tmp_path / "j", 1)
        with pytest.raises(InputError, match="use the adaprivate that wrote it"):
            Journal(tmp_path / "j").last(UID, 0)


def _publish_all(path: Path, start: multiprocessing.synchronize.Event, batches: int, digest: str, told: Path) -> None:
    journal = Journal(path)
    start.wait()
    for batch in range(batches):
        try:
            journal.published(UID, 0, batch, digest or f"d{batch}")
        except InputError:
            continue
        with told.open("a") as file:
            file.write(f"{batch}\n")


class TestManyProcesses:
    @pytest.mark.parametrize("digests", [("", "", "", ""), ("aa", "bb", "cc", "dd")])
    def test_they_agree(self, tmp_path: Path, digests: tuple[str, ...]) -> None:
        """The same releases: each is noted once. Different ones: of each batch a single one is ever shown."""
        batches, context = 60, multiprocessing.get_context("spawn")
        start = context.Event()
        told = [tmp_path / f"told{i}" for i in range(len(digests))]
        workers = [
            context.Process(target=_publish_all, args=(tmp_path / "j", start, batches, digest, told[i]))
            for i, digest in enumerate(digests)
        ]
        for worker in workers:
            worker.start()
        start.set()
        for worker in workers:
            worker.join(120)
            assert worker.exitcode == 0
        journal = Journal(tmp_path / "j")
        assert len(_lines(journal)) == batches
        assert sorted(journal.known(UID).published[0]) == [*range(batches)]
        shown = [int(line) for file in told if file.exists() for line in file.read_text().split()]
        assert len(shown) == (batches * len(digests) if digests[0] == "" else batches)

    def test_one_writes_while_the_others_wait(self, tmp_path: Path) -> None:
        journal = _made(tmp_path / "j", 1)
        noting = threading.Thread(target=lambda: Journal(journal.path).published(UID, 0, 1, "mine"))
        with (journal.path / f"{UID}.published").open("rb+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            noting.start()
            noting.join(0.3)
            assert noting.is_alive()
            assert journal.last(UID, 0) == (0, "digest0")
        noting.join(30)
        assert journal.last(UID, 0) == (1, "mine")

    def test_threads_of_one_process_agree(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "j")
        threads = [
            threading.Thread(target=lambda: [journal.published(UID, 0, b, f"d{b}") for b in range(40)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(_lines(journal)) == 40

    def test_what_was_returned_from_survives_being_killed(self, tmp_path: Path) -> None:
        script = (
            "import sys\nfrom adaprivate.service.journal import Journal\n"
            f"journal = Journal(sys.argv[1])\nbatch = int(sys.argv[2])\n"
            f"while True:\n    journal.published({UID!r}, 0, batch, f'd{{batch}}')\n"
            "    print(batch, flush=True)\n    batch += 1\n"
        )
        said = -1
        for attempt in range(4):
            command = [sys.executable, "-c", script, str(tmp_path / "j"), str(said + 1)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
                assert worker.stdout is not None
                for _ in range(7 + attempt):
                    said = int(worker.stdout.readline())
                worker.send_signal(signal.SIGKILL)
                said = max([said, *(int(line) for line in worker.stdout if line.endswith("\n"))])
            published = Journal(tmp_path / "j").known(UID).published[0]
            assert {b: f"d{b}" for b in range(said + 1)}.items() <= published.items()
            said = max(published)


class TestPlace:
    def test_beside_the_file_or_as_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(journal_module.PLACE, raising=False)
        assert place("sqlite:///adaprivate.db") == Path("adaprivate.db.journal")
        assert place("sqlite:////var/lib/a.db?timeout=3") == Path("/var/lib/a.db.journal")
        assert place("sqlite+pysqlite:///a.db") == Path("a.db.journal")
        with pytest.raises(InputError, match="Expected journal to be given"):
            place("postgresql://u@h/d")
        with pytest.raises(InputError, match="journal's place"):
            place("sqlite://")
        monkeypatch.setenv(journal_module.PLACE, "/elsewhere")
        assert place("sqlite:///adaprivate.db") == Path("/elsewhere")
        assert place("postgresql://u@h/d", "/given") == Path("/given")
