"""Saved files: for their owner's eyes, whole or not at all, and with exact noise continued by one policy only."""

import copy
import json
import math
import os
import pickle
import re
import shutil
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

import adaprivate
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, packing
from adaprivate.runtime import storage
from adaprivate.runtime.policy import Policy
from adaprivate.runtime.storage import unpacked

D = 3
TAKEN = (
    r"to be continued once: .* \(process \d+ on .*\) goes on from it, and has drawn (no noise yet|noise since)\. "
    r"A batch released twice is paid for twice\."
)
REPLACED = "to be the file that was saved: it has been moved, removed or replaced since"


def made(exact=True, name="adaprivate-ts", **options):
    noise = {"source": Secure()} if exact else {"seed": 0}
    return adaprivate.policy(name, **{"dimension": D, "rounds": 60, "batch_size": 2, **options}, **noise)


def play(policy, rounds, reward=0.5):
    for _ in range(rounds):
        policy.learn(policy.decide(np.eye(D)), reward)


def leases(folder):
    return sorted(path.name for path in folder.glob("*.lease"))


@pytest.mark.parametrize("exact", [False, True], ids=["simulated", "exact"])
def test_files_are_for_their_owner_alone(exact, tmp_path):
    before = os.umask(0)  # the widest: what is private must not depend on it
    try:
        policy, path = made(exact), tmp_path / "p"
        policy.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
        policy.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        adaprivate.load(path)
        assert [stat.S_IMODE((tmp_path / lease).stat().st_mode) for lease in leases(tmp_path)] == [0o600] * exact
    finally:
        os.umask(before)


def test_the_file_is_closed_to_others_while_it_is_written(tmp_path, monkeypatch):
    seen = []
    sync = os.fsync

    def looked(descriptor):
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
        sync(descriptor)

    monkeypatch.setattr(storage.os, "fsync", looked)
    made().save(tmp_path / "p")
    assert seen == [0o600]


PROGRAM = """
import os, signal, sys
import numpy as np
import adaprivate
from adaprivate.check import InputError
path, what = sys.argv[1:]
try:
    policy = adaprivate.load(path)
except InputError as error:
    print("refused", error)
    sys.exit(3)
if what == "crash":
    os.fsync = lambda descriptor: os._exit(9)
    policy.save(path)
if "draw" in what:
    policy.advance()
    assert policy.version == 1
print("loaded", policy.decided, flush=True)
if "wait" in what:
    sys.stdin.read()
if "killed" in what:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def elsewhere(path, what="load"):
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", PROGRAM, path, what], stdin=pipe, stdout=pipe, text=True)


@pytest.mark.parametrize("exact", [False, True], ids=["simulated", "exact"])
def test_a_crash_while_writing_leaves_the_old_file(exact, tmp_path):
    path = tmp_path / "p"
    policy = made(exact)
    policy.decide(np.eye(D))
    policy.save(path)
    old = path.read_bytes()
    process = elsewhere(path, "crash")
    process.communicate(timeout=120)
    assert process.returncode == 9
    assert path.read_bytes() == old
    if exact:  # who crashed had taken it, and left its lease; but nothing was drawn
        (lease,) = leases(tmp_path)
        assert json.loads((tmp_path / lease).read_text())["process"] == process.pid
    assert adaprivate.load(path).decided == 1
    assert len(leases(tmp_path)) == exact


def test_of_two_processes_one_goes_on(tmp_path):
    path = tmp_path / "p"
    made().save(path)
    both = [elsewhere(path, "wait") for _ in range(2)]
    said = [process.stdout.readline() for process in both]  # whoever loaded it lives on until both have tried
    winner, loser = (0, 1) if said[0].startswith("loaded") else (1, 0)
    assert said[winner] == "loaded 0\n"
    assert f"the process that loaded it (process {both[winner].pid} on " in said[loser]
    assert len(leases(tmp_path)) == 1
    with pytest.raises(InputError, match=rf"process {both[winner].pid} on .* and has drawn no noise yet"):
        adaprivate.load(path)
    for process in both:
        process.communicate(timeout=120)
    assert (both[winner].returncode, both[loser].returncode) == (0, 3)


@pytest.mark.parametrize("end", ["load", "killed"])
def test_who_died_before_drawing_noise_is_followed_by_the_next(end, tmp_path):
    path = tmp_path / "p"
    policy = made()
    play(policy, 2)
    policy.save(path)
    process = elsewhere(path, end)
    said, _ = process.communicate(timeout=120)
    assert (said, process.returncode) == ("loaded 2\n", -signal.SIGKILL if end == "killed" else 0)
    assert len(leases(tmp_path)) == 1
    loaded = adaprivate.load(path)
    (lease,) = leases(tmp_path)
    assert json.loads((tmp_path / lease).read_text())["process"] == os.getpid()
    with pytest.raises(InputError, match=TAKEN):  # which lives
        adaprivate.load(path)
    play(loaded, 3)
    assert loaded.version == 2


@pytest.mark.parametrize("end", ["draw", "draw and killed"])
def test_who_died_after_drawing_noise_is_followed_by_nobody(end, tmp_path):
    path = tmp_path / "p"
    policy = made()
    play(policy, 2)
    policy.save(path)
    process = elsewhere(path, end)
    said, _ = process.communicate(timeout=120)
    assert (said, process.returncode) == ("loaded 2\n", -signal.SIGKILL if "killed" in end else 0)
    drawn = rf"process {process.pid} on .*, which no longer runs, .* goes on from it, and has drawn noise since"
    for forbidden in (lambda: adaprivate.load(path), policy.advance, lambda: policy.decide(np.eye(D))):
        with pytest.raises(InputError, match=drawn):
            forbidden()
    assert policy.version == 0
    (lease,) = leases(tmp_path)
    with pytest.raises(InputError, match=re.escape(f"remove {str(tmp_path.resolve() / lease)!r}")):
        adaprivate.load(path)


def leased(tmp_path, **changes):
    """A saved file with two rounds to release, loaded by nobody, and a lease that says this."""
    path = tmp_path / "p"
    policy = made()
    play(policy, 2)
    policy.save(path)
    other = adaprivate.load(path)
    (lease,) = leases(tmp_path)
    note = json.loads((tmp_path / lease).read_text())
    (tmp_path / lease).write_text(json.dumps({**note, **changes}))
    return path, other


@pytest.mark.parametrize(
    ("changes", "free"),
    [
        ({"started": "1"}, True),  # another process has that number by now
        ({"process": 2**22 + 5}, True),  # none has
        ({"started": "1", "drew": True}, False),
        ({"started": "1", "drew": None}, False),
        ({"started": "1", "machine": "elsewhere"}, False),
        ({"started": None, "process": None}, False),
        ({}, False),
    ],
    ids=str,
)
def test_a_lease_is_taken_over_only_from_the_dead_of_this_machine_that_drew_nothing(changes, free, tmp_path):
    path, _ = leased(tmp_path, **changes)
    if free:
        assert adaprivate.load(path).decided == 2
    else:
        with pytest.raises(InputError, match="to be continued once"):
            adaprivate.load(path)


def test_who_lives_but_cannot_be_looked_at_keeps_its_lease(tmp_path, monkeypatch):
    def hidden(self):
        raise FileNotFoundError

    def somebody_elses(process, number):
        raise PermissionError

    path, _ = leased(tmp_path)
    read = type(path).read_text
    monkeypatch.setattr(type(path), "read_text", lambda self: hidden(self) if "/proc/" in str(self) else read(self))
    monkeypatch.setattr(storage.os, "kill", somebody_elses)
    with pytest.raises(InputError, match=TAKEN):
        adaprivate.load(path)


@pytest.mark.parametrize("draws", ["first", "second"])
def test_of_two_that_hold_a_lease_one_draws(draws, tmp_path):
    """Taken over from one that was thought dead: whoever does not hold it any more is refused before it draws."""
    path, first = leased(tmp_path, started="1")
    second = adaprivate.load(path)
    if draws == "second":
        second.advance()
    with pytest.raises(InputError, match=TAKEN):
        first.advance()
    assert first.version == 0
    second.advance()
    assert second.version == 1


def test_a_lease_removed_by_hand_is_taken_again_before_noise_is_drawn(tmp_path):
    path, first = leased(tmp_path)
    (lease,) = leases(tmp_path)
    (tmp_path / lease).unlink()
    first.advance()
    assert first.version == 1
    with pytest.raises(InputError, match="and has drawn noise since"):
        adaprivate.load(path)


@pytest.mark.parametrize("how", ["copied", "renamed", "linked"])
@pytest.mark.parametrize("first", ["p", "q"])
def test_a_file_in_the_same_folder_is_continued_once_by_whatever_name(how, first, tmp_path):
    path, twin = tmp_path / "p", tmp_path / "q"
    policy = made()
    play(policy, 2)
    policy.save(path)
    if how == "linked":
        os.link(path, twin)
    elif how == "copied":
        shutil.copy(path, twin)
    if how == "renamed":
        taken = adaprivate.load(path) if first == "p" else None
        path.rename(twin)
        taken = taken or adaprivate.load(twin)
    else:
        taken = adaprivate.load(tmp_path / first)
    for one in (one for one in (path, twin) if one.exists()):
        with pytest.raises(InputError, match=TAKEN):
            adaprivate.load(one)
    for forbidden in (policy.advance, lambda: policy.decide(np.eye(D))):
        with pytest.raises(InputError, match=TAKEN):
            forbidden()
    taken.advance()
    assert (taken.version, policy.version) == (1, 0)


def test_a_superseded_saver_is_refused_at_once(kit, tmp_path):
    """Not only when it would release: what it decided until then would be lost."""
    policy = made(batch_size=20)
    play(policy, 1)
    waits = policy.decide(np.eye(D))
    policy.save(tmp_path / "p")
    other = adaprivate.load(tmp_path / "p")
    before = kit.everything(policy)
    for forbidden in (
        lambda: policy.decide(np.eye(D)),
        lambda: policy.decide_many(np.eye(D)[None]),
        lambda: policy.learn(waits, 1.0),
        lambda: policy.learn(waits.token, 1.0),
        lambda: policy.save(tmp_path / "q"),
    ):
        with pytest.raises(InputError, match=TAKEN):
            forbidden()
        assert kit.everything(policy) == before
    other.learn(waits.token, 1.0)
    play(other, 2)


FORKS = """
import os, sys
import numpy as np
import adaprivate
from adaprivate.check import InputError
policy = adaprivate.policy("adaprivate-ts", dimension=3, rounds=60, batch_size=2, source=adaprivate.mechanisms.Secure())
for _ in range(2):
    waits = policy.decide(np.eye(3))
    if _ == 0:
        policy.learn(waits, 1.0)
folder = sys.argv[1]
if sys.argv[2] == "saved":
    policy.save(folder + "/p")
child = os.fork()
if child == 0:
    refused = 0
    for forbidden in (
        lambda: policy.decide(np.eye(3)),
        lambda: policy.decide_many(np.eye(3)[None]),
        lambda: policy.learn(waits, 1.0),
        lambda: policy.learn(waits.token, 1.0),
        lambda: policy.save(folder + "/q"),
        policy.advance,
        policy.finish,
    ):
        try:
            forbidden()
        except InputError as error:
            refused += "to stay in the process that made it: after a fork both would release" in str(error)
    untouched = (policy.round, policy.version, policy.book.batch, policy.decided) == (1, 0, 0, 2)
    os._exit(refused if untouched else 99)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
policy.learn(waits, 1.0)
policy.advance()
print(status, policy.round, policy.version, policy.book.batch, sorted(os.listdir(folder)))
"""


@pytest.mark.parametrize("saved", ["saved", "never saved"])
def test_after_a_fork_the_parent_goes_on_and_the_child_does_not(saved, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORKS, tmp_path, saved], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    status, _, rest = done.stdout.partition(" ")
    assert status == "7"
    assert rest.startswith("2 1 1 [")
    assert "'q'" not in rest
    assert rest.count(".lease") == (saved == "saved")


def test_a_second_load_is_refused_and_told_why(tmp_path):
    path = tmp_path / "p"
    made().save(path)
    first = adaprivate.load(path)
    with pytest.raises(InputError) as caught:
        adaprivate.load(path)
    text = str(caught.value)
    (lease,) = leases(tmp_path)
    assert text.startswith(
        f"Expected {str(path)!r} to be continued once: the process that loaded it (process {os.getpid()} on "
    )
    assert f"remove {str(path.resolve().parent / lease)!r}" in text
    assert "\n" not in text
    play(first, 9)
    first.save(path)
    second = adaprivate.load(path)
    assert second.decided == 9
    for other in (lambda: adaprivate.load(path), lambda: first.save(path), lambda: play(first, 3)):
        with pytest.raises(InputError, match=TAKEN):
            other()


def test_a_saver_that_goes_on_closes_the_file(tmp_path):
    path = tmp_path / "p"
    policy = made()
    play(policy, 2)
    policy.save(path)
    policy.advance()  # the batch of two is released
    assert policy.version == 1
    with pytest.raises(InputError, match=r"the policy that saved it \(process"):
        adaprivate.load(path)
    policy.save(path)
    assert leases(tmp_path) == []
    assert adaprivate.load(path).version == 1


@pytest.mark.parametrize("saved_again", [False, True], ids=["only loaded", "saved again"])
def test_a_saver_whose_file_was_taken_releases_nothing_any_more(kit, saved_again, tmp_path):
    """Also where the other one has saved in the same place, so that nothing of the lease is left."""
    path = tmp_path / "p"
    policy = made()
    play(policy, 1 if saved_again else 2)
    policy.save(path)
    other = adaprivate.load(path)
    message = TAKEN
    if saved_again:
        play(other, 3)
        other.save(path)
        assert leases(tmp_path) == []
        message = REPLACED
    if saved_again:
        play(policy, 1)  # what releases nothing is allowed: no lease is there to tell
    before = kit.everything(policy)
    for forbidden in (
        policy.advance,
        policy.finish,
        lambda: policy.decide(np.eye(D)),
        lambda: policy.decide_many(np.eye(D)[None]),
        lambda: policy.consider(np.eye(D)),
        lambda: policy.propensities(np.eye(D)),
        lambda: policy.observe(np.eye(D)[0], 1.0),
        lambda: policy.save(path),
        lambda: policy.save(tmp_path / "q"),
    ):
        with pytest.raises(InputError, match=message):
            forbidden()
        assert kit.everything(policy) == before  # and it is as it was
    assert policy.version == 0
    assert not (tmp_path / "q").exists()
    play(other, 3)
    other.advance()
    assert other.version == 2 + saved_again


def test_when_the_lease_is_given_back_the_policy_goes_on_as_if_nothing_had_been(tmp_path):
    path = tmp_path / "p"
    policy = made()
    play(policy, 2)
    policy.save(path)
    adaprivate.load(path)
    with pytest.raises(InputError, match=TAKEN):
        policy.advance()
    (lease,) = leases(tmp_path)
    (tmp_path / lease).unlink()
    play(policy, 3)
    policy.advance()
    assert (policy.round, policy.version, policy.book.batch, policy.book.round) == (5, 2, 2, 5)


@pytest.mark.parametrize("loaded", [False, True], ids=["made", "loaded"])
def test_saving_elsewhere_closes_the_older_file(loaded, tmp_path):
    """One file after another, each in a place of its own: only the newest may be continued."""
    policy = made()
    play(policy, 1)
    policy.save(tmp_path / "one")
    if loaded:
        policy = adaprivate.load(tmp_path / "one")
    policy.save(tmp_path / "two")
    with pytest.raises(InputError, match=TAKEN):
        adaprivate.load(tmp_path / "one")
    play(policy, 3)
    policy.save(tmp_path / "three")
    for older in ("one", "two"):
        with pytest.raises(InputError, match=TAKEN):
            adaprivate.load(tmp_path / older)
    assert adaprivate.load(tmp_path / "three").decided == 4


def test_a_file_replaced_while_it_is_loaded_is_not_continued(tmp_path, monkeypatch):
    """Read by one, saved anew by the other, then taken: what was read is no longer what goes on."""
    path = tmp_path / "p"
    policy = made()
    policy.save(path)
    read = type(path).read_bytes

    def slowly(self):
        data = read(self)
        if self == path and not slowly.done:
            slowly.done = True
            policy.save(path)
        return data

    slowly.done = False
    monkeypatch.setattr(type(path), "read_bytes", slowly)
    with pytest.raises(InputError, match=REPLACED):
        adaprivate.load(path)
    assert leases(tmp_path) == []
    play(policy, 3)
    assert policy.version == 1


def test_a_file_is_the_same_by_every_name(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    policy = made()
    play(policy, 2)
    policy.save("p")
    monkeypatch.chdir(tmp_path)
    adaprivate.load("link/p")
    for again in (lambda: adaprivate.load("folder/p"), policy.advance):
        with pytest.raises(InputError, match=TAKEN):
            again()


def test_a_policy_whose_file_is_gone_waits_for_it(tmp_path):
    """Whoever moved or removed it may have gone on from it. Once it is back, so is the policy."""
    folder = tmp_path / "folder"
    folder.mkdir()
    policy = made()
    policy.save(folder / "p")
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=REPLACED):
        play(policy, 5)
    assert policy.version == 0
    (tmp_path / "elsewhere").rename(folder)
    policy.advance()
    play(policy, 5)
    policy.advance()
    assert policy.version >= 1


def test_seeded_policies_may_be_loaded_as_often_as_one_likes(kit, tmp_path):
    path = tmp_path / "p"
    policy = made(exact=False)
    play(policy, 5)
    policy.save(path)
    (tmp_path / "q").write_bytes(path.read_bytes())
    copies = [adaprivate.load(path), adaprivate.load(path), adaprivate.load(tmp_path / "q"), policy]
    for one in copies:
        play(one, 10)
        one.save(tmp_path / "r")
    assert all(kit.everything(one) == kit.everything(policy) for one in copies)
    assert leases(tmp_path) == []


COPIES = {
    "pickle": pickle.dumps,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("part", ["policy", "book", "a list of both"])
def test_exact_policies_and_books_are_not_copied(how, part):
    policy = made()
    play(policy, 3)
    subject = {"policy": policy, "book": policy.book, "a list of both": [policy, policy.book]}[part]
    if how == "copy" and isinstance(subject, list):
        subject = subject[0]
    with pytest.raises(InputError, match=r"^Expected what holds exact noise not to be copied or pickled"):
        COPIES[how](subject)
    play(policy, 3)


@pytest.mark.parametrize(
    "how", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy, copy.copy], ids=["pickle", "deep", "copy"]
)
def test_seeded_policies_are_copied_and_share_nothing(kit, how):
    policy = made(exact=False)
    play(policy, 5)
    twin = how(policy)
    assert kit.everything(twin) == kit.everything(policy)
    before = kit.everything(twin)
    play(policy, 5)
    assert kit.everything(twin) == before
    play(twin, 5)
    assert kit.everything(twin) == kit.everything(policy)


def numbers_in(value):
    """Every number that a stored value holds, however it is packed."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from numbers_in(entry)
    elif isinstance(value, np.ndarray):
        if value.dtype == np.uint8 and value.ndim == 1:
            yield from numbers_in(packing.from_bytes(value.tobytes()))
        elif value.dtype.names:
            for field in value.dtype.names:
                yield from numbers_in(value[field])
        else:
            yield from (float(entry) for entry in value.ravel())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


CASES = {
    "adaprivate-ts": {"batch_size": 8},
    "adaprivate-ucb": {"batch_size": 8, "noise": "sqrt", "centre": 0.5},
    "noise-aware-greedy": {"batch_size": 8},
    "thompson": {"batch_size": None},
}


@pytest.mark.parametrize("name", CASES)
def test_rewards_that_were_counted_are_nowhere_in_the_file(name, tmp_path):
    """Every reward is a number of its own; those of open rounds wait as they are, the others are gone into sums."""
    options = {key: value for key, value in CASES[name].items() if value is not None}
    window = 0 if name == "thompson" else 2
    policy = adaprivate.policy(name, dimension=D, rounds=60, source=Secure(), reward_window=window, **options)
    rewards = [math.pi * (number + 1) % 1 for number in range(21)]
    for reward in rewards:
        policy.learn(policy.decide(np.eye(D)), reward)
    policy.advance()
    policy.save(tmp_path / "p")
    stored = set(numbers_in(unpacked((tmp_path / "p").read_bytes())))
    counted, waiting = rewards[: 21 - window], rewards[21 - window :]
    assert policy.round == len(counted)
    assert all(reward in stored for reward in waiting)
    near = np.array(sorted(stored))
    for reward in counted:
        for told in (reward, reward - policy.settings.missing, 1 - reward):
            found = near[np.abs(near - told) < 1e-12]
            assert found.size == 0, (reward, found)


def test_the_files_words_are_no_code(tmp_path):
    """Nothing is unpickled: a file that is a pickle is refused, and is not run."""
    path = tmp_path / "p"

    class Runs:
        def __reduce__(self):
            return (path.with_name("ran").touch, ())

    path.write_bytes(pickle.dumps(Runs()))
    with pytest.raises(
        InputError, match=r"to be a saved policy: Expected data='something else' to begin as saved policies do"
    ):
        adaprivate.load(path)
    assert not path.with_name("ran").exists()
    assert isinstance(Policy.from_bytes(made().to_bytes()), Policy)
