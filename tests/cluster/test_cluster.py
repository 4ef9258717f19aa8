"""Sweeps on dask workers, in processes of their own: bit for bit what threads here get, whoever is killed meanwhile."""

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types

import distributed
import numpy as np
import psutil
import pytest

import adaprivate as ap
from adaprivate import InputError, LittleToLearnWarning, cluster, environments, policies
from adaprivate.audit import audited, policy_target
from adaprivate.cli import published
from adaprivate.cli.published import reproduced
from adaprivate.cluster import Task, alike, on_dask
from adaprivate.cluster.results import _checked
from adaprivate.experiments import Experiment
from adaprivate.simulation import run_all, whole_state
from adaprivate_papers._world import _played, measured

WORLD = environments.environment("synthetic", {"dimension": 4, "arms": 20, "candidates": 3})
CLOCK = "rounds_per_second"
SWEEP = {"rounds": 300, "seeds": 24, "epsilon": [0.5, 2.0], "options": {"dimension": 4, "batch_size": 30}}
POLICIES = ["adaprivate-ts", "noise-aware"]


@pytest.fixture(scope="module")
def local():
    """The address of two workers, each its own process, that all tests of this file share."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with on_dask._silent("distributed.nanny"), on_dask._local(2) as made:
        yield made.scheduler_address
    gc.collect()
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert [child for child in left if "resource_tracker" not in " ".join(child.cmdline())] == []


def numbers(runs):
    return [[(r.seed, r.reward, r.regret, r.best, r.random, r.curve.tobytes()) for r in row] for row in runs]


def pids(address):
    with distributed.Client(address, set_as_default=False) as client:
        return client.run(os.getpid)


def test_every_policys_noise_is_that_of_its_seed_in_blocks_of_any_size():
    seeds = list(range(3, 20))
    for name in policies.names():
        for settings in policies.examples(name):
            whole = settings.noise_tables(seeds)
            for size in (1, 2, 7):
                parts = [settings.noise_tables(seeds[i : i + size]) for i in range(0, len(seeds), size)]
                assert np.concatenate(parts).tobytes() == np.ascontiguousarray(whole).tobytes(), (name, size)


def test_a_killed_worker_changes_no_bit_and_nothing_is_counted_twice(local):
    plain = ap.simulate(POLICIES, **SWEEP).drop(CLOCK)
    done, killed = [], []

    def kill(rounds):
        done.append(rounds)
        if len(done) == 2:
            killed.append(max(pids(local).values()))
            os.kill(killed[0], signal.SIGKILL)

    table = ap.simulate(POLICIES, **SWEEP, cluster=local, progress=kill)
    assert table.drop(CLOCK).equals(plain)
    assert sum(done) == 300 * 24 * (2 * 2 + 2)  # every seed of every policy once, with both yardsticks
    assert len(done) > 10  # it was killed in the midst of it
    assert killed[0] not in pids(local).values()


CLIENT = """
import json, sys
import adaprivate as ap
from adaprivate.cli import terminal

def say(rounds):
    print("done", flush=True)
    if {wait}:
        sys.stdin.readline()

if __name__ == "__main__":
    sweep = json.loads(sys.argv[3])
    table = ap.simulate(sweep.pop("policies"), **sweep, cluster=sys.argv[1], results=sys.argv[2], progress=say)
    print(table.drop("rounds_per_second").write_json())
"""


def test_a_killed_client_continues_from_its_file(local, tmp_path):
    plain = ap.simulate(POLICIES, **SWEEP).drop(CLOCK)
    path = tmp_path / "kept"
    sweep = json.dumps({"policies": POLICIES, **SWEEP})

    def client(wait):
        script = tmp_path / f"client_{wait}.py"
        script.write_text(CLIENT.format(wait=wait))
        return subprocess.Popen([sys.executable, str(script), local, str(path), sweep], stdin=-1, stdout=-1, text=True)

    first = client(True)
    for _ in range(3):  # it waits to be told after each piece of work
        assert first.stdout.readline() == "done\n"
        first.stdin.write("go on\n")
        first.stdin.flush()
    assert first.stdout.readline() == "done\n"
    first.kill()
    first.communicate()
    before = path.read_bytes()
    kept = {(key, seed) for key, parts in map(_checked, before.splitlines()[1:]) for seed, _ in parts}
    assert kept
    path.write_bytes(before + b'{"key": "cut sho')
    second = client(False)
    said = second.communicate(timeout=300)[0].splitlines()
    assert second.returncode == 0
    assert json.loads(said[-1]) == json.loads(plain.write_json())
    assert path.read_bytes().startswith(before)
    later = [
        (key, seed) for key, parts in map(_checked, path.read_bytes()[len(before) :].splitlines()) for seed, _ in parts
    ]
    assert len(later) == len(set(later)) == 24 * (2 * 2 + 2) - len(kept)
    assert not kept & set(later)


def test_an_interruption_keeps_what_all_have_finished_and_leaves_nobody(tmp_path):
    """Ctrl-C reaches every process of a terminal: the workers leave it to the one that asks them."""
    path = tmp_path / "kept"
    script = tmp_path / "client.py"
    script.write_text(CLIENT.replace("results=sys.argv[2]", "results=sys.argv[2], jobs=1").format(wait=True))
    sweep = json.dumps({"policies": ["random"], **SWEEP, "epsilon": None, "options": {"dimension": 4}})
    asked = [sys.executable, str(script), "local", str(path), sweep]
    quiet = {**os.environ, "ADAPRIVATE_QUIET": "1"}  # else it says so where nothing was compiled before
    client = subprocess.Popen(asked, stdin=-1, stdout=-1, stderr=-1, text=True, start_new_session=True, env=quiet)
    for _ in range(3):  # of each of three policies the first block
        assert client.stdout.readline() == "done\n"
        client.stdin.write("go on\n")
        client.stdin.flush()
    assert client.stdout.readline() == "done\n"
    family = psutil.Process(client.pid).children(recursive=True)
    os.killpg(client.pid, signal.SIGINT)
    said, errors = client.communicate(timeout=120)
    assert (client.returncode, errors) == (0, "")
    assert 0 < json.loads(said.splitlines()[-1])[0]["seeds"] < 24
    assert family
    assert psutil.wait_procs(family, timeout=30)[1] == []


def test_an_interrupted_reproduction_does_not_wait_for_what_has_begun(local):
    """Settings run at once, each waiting for its own tasks: where one is interrupted, the others are told."""
    asked, ended = threading.Event(), []

    def run(setting, seeds):
        if setting == "interrupted":
            assert asked.wait(60)
            raise KeyboardInterrupt
        tasks = [Task(f"sleep {n}", time.sleep, (2.0,)) for n in range(4)]
        asked.set()
        try:
            for _ in cluster.current().completed(tasks):
                pass
        except BaseException as error:
            ended.append(type(error))
            raise

    with cluster.using(local), pytest.raises(KeyboardInterrupt):
        published._rows(run, ["waits", "interrupted"], 1, lambda count: None)
    assert ended == [ConnectionError]


def test_states_warnings_and_blocks_travel(local):
    chosen = [policies.settings(name, {"dimension": 4, "rounds": 60}) for name in ("noise-aware", "lints", "random")]
    plain = run_all(chosen, WORLD, range(7), keep_state=whole_state)
    hopeless = policies.settings("noise-aware-ts", {"dimension": 4, "rounds": 60, "epsilon": 0.01, "horizon": 20})
    with cluster.using(local):
        found = run_all(chosen, WORLD, range(7), keep_state=whole_state)
        with pytest.warns(LittleToLearnWarning) as said:
            run_all([hopeless], WORLD, range(6))
    assert len({str(one.message) for one in said}) == len(said)  # once, whoever says it
    with cluster.using(local), pytest.warns(LittleToLearnWarning):  # and again to the next who asks the same workers
        run_all([hopeless], WORLD, range(6))
    assert numbers(found) == numbers(plain)
    for one, two in zip(plain[0], found[0], strict=True):
        assert one.state.learner.scalars.tolist() == two.state.learner.scalars.tolist()
    with cluster.using(local), pytest.raises(InputError, match=r"^Expected lints on synthetic, seeds 0 to 0 to be made of"):
        run_all([chosen[1]], WORLD, [0], keep_state=lambda state: state)


def test_an_audit_finds_the_same(local):
    def finding():
        return audited(policy_target("adaprivate-ts", {"epsilon": 2.0}), trials=300).to_dict() | {"seconds": 0}

    plain = finding()
    with cluster.using(local):
        assert finding() == plain
        exact = audited(policy_target("adaprivate-ts", {"epsilon": 2.0}, exact_noise=True), trials=100)
    assert exact.looked_at >= 100
    assert exact.off_grid == 0


@pytest.fixture
def known_module(local, tmp_path):
    """A module that workers can import, with a function that refuses."""
    (tmp_path / "on_workers.py").write_text(
        "from adaprivate import InputError\ndef fails(place):\n    raise InputError(f'Expected place={place} > 9.')\n"
    )
    sys.path.insert(0, str(tmp_path))
    import on_workers

    def reach(folder):
        sys.path.insert(0, folder)

    with distributed.Client(local, set_as_default=False) as client:
        client.run(reach, str(tmp_path))
    yield on_workers
    sys.path.remove(str(tmp_path))
    del sys.modules["on_workers"]


def test_bad_input_is_reported_once_with_its_own_line(local, known_module):
    with cluster.using(local), pytest.raises(InputError, match=r"^Expected place=3 > 9\.$"):
        list(cluster.current().completed([Task("bad", known_module.fails, (3,)), Task("worse", known_module.fails, (3,))]))


def test_what_workers_cannot_import_is_said(local, tmp_path, monkeypatch):
    module = types.ModuleType("only_here")
    exec("def nothing():\n    pass\n", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    said = r"^Expected mine to be known to every worker: install its package there .*No module named 'only_here'\.$"
    with cluster.using(local), pytest.raises(InputError, match=said):
        list(cluster.current().completed([Task("mine", module.nothing, ())]))


EDITED = """
import sys
import edited
from adaprivate import cluster
if __name__ == "__main__":
    with cluster.using(sys.argv[1]):
        print([value for _, value in cluster.current().completed([cluster.Task("mine", edited.said, ())])])
"""


def test_a_worker_that_has_older_code_of_a_package_is_refused(local, tmp_path, monkeypatch):
    """It imported a module before the edit, and would go on computing with that."""
    (tmp_path / "client.py").write_text(EDITED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
    (tmp_path / "edited.py").write_text("def said():\n    return 1\n")

    def imported(folder):
        sys.path.insert(0, folder)
        __import__("edited")
        return alike.package("edited")

    with distributed.Client(local, set_as_default=False) as client:  # as a first task does, on every worker
        client.run(imported, str(tmp_path))

    def asked():
        return subprocess.run([sys.executable, str(tmp_path / "client.py"), local], capture_output=True, text=True)

    assert asked().stdout == "[1]\n"
    (tmp_path / "edited.py").write_text("def said():\n    return 22\n")
    after = asked()
    assert after.stdout == ""
    assert after.stderr.splitlines()[-1].endswith("to have the same source of edited: start workers anew after an edit.")


def test_other_code_or_arithmetic_on_a_worker_is_refused(local, monkeypatch):
    ours = alike.fingerprint()
    monkeypatch.setattr(alike, "fingerprint", lambda: {**ours, "numba": "0.1"})
    with pytest.raises(InputError, match=rf"numba is {ours['numba']} there, 0\.1 here\.$"), cluster.using(local):
        pass
    monkeypatch.setattr(alike, "fingerprint", lambda: {**ours, alike.ARITHMETIC: "another"})
    with pytest.warns(UserWarning, match="processors compute otherwise than this one"), cluster.using(local):
        assert cluster.current().machine[alike.ARITHMETIC] == ours[alike.ARITHMETIC]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        *(
            (wrong, rf"^Expected cluster='{re.escape(wrong)}' to be local or tcp://host:port\.$")
            for wrong in (
                "here",
                "tcp://",
                "tls://",
                "tcp://host",
                "tcp://:8786",
                "tcp://host:",
                "tcp://host:much",
                "tcp://[",
            )
        ),
        (
            "tls://127.0.0.1:9",
            r"^Expected cluster='tls://127\.0\.0\.1:9' to have certificates in dask's configuration .*\.$",
        ),
        ("tcp://127.0.0.1:9", r"^Expected cluster='tcp://127\.0\.0\.1:9' to be a dask scheduler that answers: .*\.$"),
    ],
)
def test_no_cluster_there(address, said, monkeypatch):
    monkeypatch.setattr(on_dask, "PATIENCE", 0.5)
    with pytest.raises(InputError, match=said), cluster.using(address):
        pass


def test_nobody_else_who_is_logged_in_reaches_local_workers():
    """A scheduler runs what it is sent: it listens to who has the certificate of this run."""

    async def connected(address, **known):
        comm = await distributed.comm.connect(address, timeout=5, **known)
        comm.abort()

    with cluster.using("local", jobs=1):
        client = cluster.current()._client
        address = client.scheduler_info()["address"]
        assert address.startswith("tls://127.0.0.1:")
        asyncio.run(connected(address, **client.security.get_connection_args("client")))
        with pytest.raises(OSError, match="closed"):
            asyncio.run(connected(address.replace("tls://", "tcp://")))
        other = distributed.Security.temporary().get_connection_args("client")
        with pytest.raises(OSError, match=r"(?i)ssl|certificate|connect"):
            asyncio.run(connected(address, **other))
        mine = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        open_to = {
            at.laddr.ip for pid in mine for at in psutil.Process(pid).net_connections() if at.status == psutil.CONN_LISTEN
        }
        assert open_to == {"127.0.0.1"}


def test_a_worker_of_unlike_arithmetic_is_found_out(tmp_path):
    """The compiler told of another processor: vector sums of another width."""
    code = "from adaprivate.cluster import alike; print(alike.arithmetic())"
    told = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "ADAPRIVATE_CACHE": str(tmp_path)}
    other = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True).stdout
    assert len(other.strip()) == len(alike.arithmetic())
    assert other.strip() != alike.arithmetic()
    assert alike.arithmetic() == alike.arithmetic()


def test_the_command_line_takes_a_cluster(local, capsys):
    from adaprivate.cli import simulate

    how = {"policy": ["random"], "rounds": 30, "seeds": 4, "json": True}
    simulate(**how)
    plain = json.loads(capsys.readouterr().out)["rows"]
    simulate(**how, cluster=local)
    found = json.loads(capsys.readouterr().out)["rows"]
    for row in (*plain, *found):
        row.pop(CLOCK)
    assert found == plain


def test_an_experiment_plays_its_settings_at_once_and_gets_the_same_rows(local, tmp_path):
    def run(setting, seeds):
        row = measured(setting, seeds)
        return {"place": setting["place"], "regret": row["regret"], "share": row["learned_share"]}

    world = {"dimension": 4, "arms": 20, "candidates": 3}
    settings = [{"place": n, "policy": "lints", "rounds": 100 + n, "world": world} for n in range(5)]
    chosen = Experiment("small", "here", "About it.", settings, run, 6, lambda rows: [], None, settings, True)
    plain = reproduced(chosen, tmp_path / "here", lambda n: None).rows
    _played.cache_clear()
    done = []
    with cluster.using(local):
        assert reproduced(chosen, tmp_path / "there", done.append).rows == plain
    assert done == [1] * 5


def test_a_task_that_ends_every_worker_is_given_up(tmp_path, monkeypatch):
    """Last: its workers are its own, and die of it."""
    monkeypatch.setattr(on_dask, "DEATHS", 0)
    (tmp_path / "deadly.py").write_text("import os, signal\ndef dies():\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
    import deadly

    with (
        cluster.using("local", jobs=1),
        pytest.raises(InputError, match=r"^Expected lints, seeds 0 to 4 not to end its worker"),
    ):
        list(cluster.current().completed([Task("lints, seeds 0 to 4", deadly.dies, ())]))
