"""The file of results: what is finished is found again, bit for bit, and nothing else ever is."""

import dataclasses
import importlib.metadata
import json
import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import InputError, cluster, environments, policies
from adaprivate.cluster import Results, alike
from adaprivate.cluster.results import HEADER, _checked
from adaprivate.simulation import run_all

WORLD = environments.environment("synthetic", {"dimension": 4, "arms": 20, "candidates": 3})


def made(name="adaprivate-ts", rounds=40, **options):
    options |= {} if name == "random" else {"batch_size": 9}
    return policies.settings(name, {"dimension": 4, "rounds": rounds, **options})


def first_number(state):
    return int(state.learner.scalars[0]["round"]) if hasattr(state, "learner") else None


def swept(path, seeds=range(6), chosen=None, **how):
    """The runs, and how many of them were really played: the rest was found in the file."""
    with cluster.using(results=path):
        before = path.stat().st_size
        runs = run_all(chosen or [made(), made("random")], WORLD, seeds, jobs=1, **how)
        return runs, sum(len(_checked(line)[1]) for line in path.read_bytes()[before:].splitlines())


def numbers(runs):
    return [[(r.seed, r.reward, r.regret, r.best, r.random, r.curve.tobytes()) for r in row] for row in runs]


def test_what_is_finished_is_not_done_again_and_comes_back_bit_for_bit(tmp_path):
    path = tmp_path / "new" / "kept.jsonl"
    plain = run_all([made(), made("random")], WORLD, range(6), jobs=1)
    first, added = swept(path)
    again, nothing = swept(path)
    assert added == 12
    assert nothing == 0
    assert numbers(first) == numbers(again) == numbers(plain)
    assert [run.seconds for run in again[0]] == [run.seconds for run in first[0]]
    longer, more = swept(path, range(8))
    assert numbers(longer) == numbers(run_all([made(), made("random")], WORLD, range(8), jobs=1))
    assert more == 4  # the two new seeds of either policy
    told = []
    swept(path, range(8), progress=told.append)
    assert sum(told) == 2 * 8 * 40


@pytest.mark.parametrize(
    ("chosen", "world"),
    [
        ([made(epsilon=2.0)], WORLD),
        ([made(delta=1e-6)], WORLD),
        ([made(rounds=41)], WORLD),
        ([made("adaprivate-ucb")], WORLD),
        ([made()], dataclasses.replace(WORLD, arms=21)),
    ],
)
def test_other_settings_are_other_results(tmp_path, chosen, world):
    path = tmp_path / "kept"
    with cluster.using(results=path):
        run_all([made()], WORLD, range(2), jobs=1)
        before = path.stat().st_size
        run_all([made()], WORLD, range(2), jobs=1)
        assert path.stat().st_size == before
        run_all(chosen, world, range(2), jobs=1)
        assert path.stat().st_size > before


@pytest.mark.parametrize("name", ["source of adaprivate", "numba", "numpy", alike.ARITHMETIC])
def test_other_code_and_machines_never_use_them(tmp_path, monkeypatch, name):
    path = tmp_path / "kept"
    swept(path)
    ours = alike.fingerprint()
    monkeypatch.setattr(alike, "fingerprint", lambda: {**ours, name: "another"})
    assert swept(path)[1] == 12


def test_another_packages_policies_are_known_by_their_source(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    text = "from adaprivate.policies.linear.baselines import RandomSettings\nclass Mine(RandomSettings):\n    pass\n"
    (home / "my_settings.py").write_text(text)
    monkeypatch.syspath_prepend(str(home))
    import my_settings

    own = [my_settings.Mine(dimension=4, rounds=40)]
    path = tmp_path / "kept"
    assert swept(path, chosen=own)[1] > 0
    assert swept(path, chosen=own)[1] == 0
    (home / "my_settings.py").write_text(text + "# edited\n")
    alike.code_cache._package.cache_clear()
    assert swept(path, chosen=own)[1] > 0


def test_what_was_kept_of_a_state_is_found_by_its_function(tmp_path):
    path = tmp_path / "kept"
    for _ in range(2):
        assert swept(path, keep_state=first_number)[0][0][0].state == 40
    assert swept(path, keep_state=first_number)[1] == 0
    for place in (1, 2):  # two functions of one name
        assert swept(path, keep_state=lambda state, place=place: place)[0][0][0].state == place


def test_a_line_cut_short_is_taken_off_and_done_again(tmp_path):
    path = tmp_path / "kept"
    whole, _ = swept(path)
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    again, added = swept(path)
    assert added == 3  # the block of seeds that the line was of
    assert numbers(again) == numbers(whole)
    assert swept(path)[1] == 0


def test_every_damaged_line_is_done_again(tmp_path):
    path = tmp_path / "kept"
    whole, _ = swept(path)
    lines = path.read_bytes().splitlines(keepends=True)
    record = json.loads(lines[2])
    other = "B" if record["data"][-9] == "A" else "A"
    record["data"] = record["data"][:-9] + other + record["data"][-8:]
    lines[2] = json.dumps(record).encode() + b"\n"
    lines[4] = b"\x00\xff no record\n"
    sound = json.loads(lines[1])["data"]  # sound by itself, in another's place: only the checksum tells
    lines[3] = json.dumps({**json.loads(lines[3]), "data": sound}).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    again, added = swept(path)
    assert added == 9
    assert numbers(again) == numbers(whole)


def test_a_line_under_another_key_is_damaged(tmp_path):
    kept = Results(tmp_path / "kept")
    kept.put("key", {0: 1.0})
    kept.close()
    (line,) = (tmp_path / "kept").read_bytes().splitlines()[1:]
    assert _checked(line) == ("key", [[0, 1.0]])
    assert _checked(json.dumps({**json.loads(line), "key": "another"}).encode()) is None


def test_a_line_nested_too_deeply_is_damaged(tmp_path):
    path = tmp_path / "kept"
    whole, _ = swept(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"[" * 200_000 + b"]" * 200_000 + b"\n"
    path.write_bytes(b"".join(lines))
    again, added = swept(path)
    assert added == 3  # the block of seeds that the line was of
    assert numbers(again) == numbers(whole)


def test_what_is_put_is_on_the_disk_before_it_returns(tmp_path, monkeypatch):
    path, fsync, synced = tmp_path / "kept", os.fsync, []

    def seen(file):
        fsync(file)
        synced.append(path.read_bytes())

    kept = Results(path)
    monkeypatch.setattr(os, "fsync", seen)
    for n in range(2):
        kept.put(f"key {n}", {0: 1.0})
        assert len(synced) == n + 1
        assert synced[-1] == path.read_bytes()
        assert f'"key {n}"'.encode() in synced[-1]
    kept.close()


def test_what_is_no_regular_file_is_refused(tmp_path):
    """A device is read without end, and a pipe waited for."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/full")
    for path in ("/dev/full", "/dev/zero", tmp_path / "pipe", tmp_path / "link", tmp_path):
        with pytest.raises(InputError, match=r"^Expected results='.*' to be a regular file, or a new one\.$"):
            Results(path)


def test_a_fingerprint_says_every_version_that_numbers_depend_on():
    versions = {
        name: importlib.metadata.version(name)
        for name in ("adaprivate", "numpy", "scipy", "numba", "llvmlite", "dp-accounting")
    }
    found = alike.fingerprint()
    assert {name: found[name] for name in versions} == versions
    assert set(found) == {*versions, "source of adaprivate", "Python", alike.ARITHMETIC}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 1.0000001),
        (1.0, math.nextafter(1.0, 2.0)),
        (1, 1.0),
        (True, 1),
        ("1", 1),
        (np.zeros(6), np.zeros(6, dtype=np.int64)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros((2, 3)), np.zeros(6)),
        (np.array([1.0]), np.array([math.nextafter(1.0, 2.0)])),
        ([1.0, 2.0], (1.0, 2.0)),
        (made(epsilon=1.0), made(epsilon=1.0000001)),
    ],
)
def test_unequal_values_have_unequal_names(one, other):
    assert alike.digest(one) != alike.digest(other)
    assert alike.digest(one) == alike.digest(one)


@pytest.mark.parametrize("left", [b"", HEADER[:9]])
def test_a_file_that_was_only_begun_is_a_new_one(tmp_path, left):
    path = tmp_path / "kept"
    path.write_bytes(left)
    assert swept(path)[1] == 12


def test_another_file_is_left_alone(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("# Notes\nof mine")
    with pytest.raises(InputError, match=r"^Expected results='.* to be a new file, or one of results\.$"):
        swept(path)
    assert path.read_text() == "# Notes\nof mine"


def test_two_writers_are_refused_and_a_dead_one_is_not_waited_for(tmp_path):
    path = tmp_path / "kept"
    code = (
        "import sys; from adaprivate.cluster import Results; r = Results(sys.argv[1]); print('held', flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=-1, stdout=-1, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=r"to be written by one process: another one is writing to it\.$"):
            Results(path)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    Results(path).close()


def test_a_disk_that_takes_parts_and_then_nothing(tmp_path, monkeypatch):
    """What was written in parts is whole; what was refused halfway is taken off, and later lines are not joined to it."""
    path, write, left = tmp_path / "kept", os.write, [1000]

    def in_parts(file, data):
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        return write(file, data[:40])

    kept = Results(path)
    monkeypatch.setattr(os, "write", in_parts)
    kept.put("key 0", {0: "of some length, " * 3})
    left[0] = 1
    with pytest.raises(OSError, match="No space left"):
        kept.put("key 1", {0: "of some length, " * 3})
    left[0] = 1000
    kept.put("later", {0: "text"})
    kept.close()
    kept = Results(path)
    found = [kept.get(key, 0) for key in ("key 0", "key 1", "later")]
    kept.close()
    assert found == ["of some length, " * 3, None, "text"]
    assert all(_checked(line) for line in path.read_bytes().splitlines()[1:])


def test_values_return_as_they_were_and_what_could_not_is_not_kept(tmp_path):
    record = np.zeros(1, dtype=np.dtype([("committed", np.int64), ("width", np.float64)], align=True))
    values = {0: {"a": 0.1 + 0.2, "n": None, "curve": np.array([np.nan, -0.0])}, 1: [record, True, "text"]}
    kept = Results(tmp_path / "kept")
    kept.put("key", values)
    kept.put("other", {0: (1, 2)})  # a tuple would come back as a list
    kept.close()
    kept = Results(tmp_path / "kept")
    assert kept.get("key", 0)["a"] == values[0]["a"]
    assert kept.get("key", 0)["curve"].tobytes() == values[0]["curve"].tobytes()
    assert kept.get("key", 1)[0].dtype == record.dtype
    assert kept.get("other", 0) is None
    kept.close()


def test_simulate_and_plans_take_a_file(tmp_path):
    how = {"rounds": 50, "seeds": 3, "jobs": 1, "options": {"dimension": 4, "batch_size": 9}}
    clock = "rounds_per_second"
    plain = ap.simulate(["adaprivate-ts"], **how).drop(clock)
    first = ap.simulate(["adaprivate-ts"], **how, results=tmp_path / "kept")
    again = ap.simulate(["adaprivate-ts"], **how, results=tmp_path / "kept")
    assert plain.equals(first.drop(clock))
    assert first.equals(again)
    plan = ap.plan(dimension=3, candidates=3, rounds=100, epsilon=[1.0])
    one, two = (plan.simulate(2, jobs=1, results=tmp_path / "plan") for _ in range(2))
    assert one.measured == two.measured == plan.simulate(2, jobs=1).measured
