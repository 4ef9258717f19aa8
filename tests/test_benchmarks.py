"""The command that measures everything: what it writes, how it judges, and that a part that fails is said to have failed.

No time is asserted: sizes are tiny. That the engine, loops fused by hand and C++ play alike is.
"""

import importlib
import json
import math
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tests.programs import GIT

from adaprivate.check import InputError

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def measuring(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("measuring")


@pytest.fixture
def shown(measuring):
    return importlib.import_module("shown")


def bench(out, *arguments, **environment):
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--tiny", "--out", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    return done, json.loads((out / "bench.json").read_text()), (out / "bench.md").read_text()


def test_every_part_that_needs_no_installation_measures_something(tmp_path):
    parts = ["engine", "arms", "growth", "accounting", "cores", "starting"]
    done, found, page = bench(tmp_path, "--parts", ",".join(parts))
    assert done.returncode == 0, done.stderr
    assert list(found["parts"]) == parts
    assert not any("failed" in part for part in found["parts"].values())
    for name in parts:
        assert f"## {name}: " in page
    goals = {goal["what"]: goal for part in found["parts"].values() for goal in part["found"].get("targets", [])}
    (regret,) = [goal["value"] for what, goal in goals.items() if "regret to hand-fused and" in what]
    assert 0 <= regret <= 1e-9
    assert {row["policy"] for row in found["parts"]["engine"]["found"]["raw"]} == {"adaprivate-ts", "linucb"}
    assert goals["Gaussian noise composed: epsilon: largest difference (their grid is 0.0001)"]["value"] <= 1e-4
    assert found["machine"]["cores"] == os.cpu_count()
    assert found["versions"]["numba"]
    picture = (tmp_path / "bench.svg").read_text()
    assert picture.count("growth in") >= 2
    assert "numbers without meaning" in page


def test_other_libraries_do_the_same_work(tmp_path):
    """Ours alone, by the driver that all have: the rest need to be installed."""
    done, found, _ = bench(tmp_path, "--parts", "peers")
    assert done.returncode == 0, done.stderr
    ((row,),) = [rows for name, rows in found["parts"]["peers"]["found"].items() if name.startswith("d 5, K 3")]
    assert row["learner"] == "lints"
    assert row["of chance's"] < 0.8


def test_a_part_that_fails_is_said_to_and_the_rest_goes_on(tmp_path):
    (tmp_path / "breaks.py").write_text("def measured(quick):\n    raise ValueError('Expected a=1 > 2.')\n")
    (tmp_path / "dies.py").write_text("import os\n\ndef measured(quick):\n    os.abort()\n")
    (tmp_path / "sound.py").write_text(
        "'''Something: else.'''\n\ndef measured(quick):\n"
        "    return {'rows': [{'a': 1, 'b': 2.5}, {'a': 10_000, 'c': None}], 'raw': [3],\n"
        "            'one': {'x': True, 'in': {'it': {'y': 7}}},\n"
        "            'targets': [{'what': 'speed', 'value': 3.0, 'least': 4.0},\n"
        "                        {'what': 'size', 'value': 3.0, 'most': 4.0}]}\n"
    )
    done, found, page = bench(tmp_path / "out", "--parts", "breaks,dies,nowhere,sound", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert found["parts"]["breaks"]["failed"] == "ValueError: Expected a=1 > 2."
    assert "code -6" in found["parts"]["dies"]["failed"]
    assert "No module named 'nowhere'" in found["parts"]["nowhere"]["failed"]
    for line in (
        "1 of 5 targets met.",
        "| breaks | to run | ValueError: Expected a=1 > 2. | **failed** |",
        "| sound | speed >= 4 | 3 | **missed** |",
        "| sound | size <= 4 | 3 | met |",
        "## sound: Something",
        "| 10,000 |  | - |",
        "**one**: x: yes",
        "**one, in**",
        "| it | 7 |",
    ):
        assert line in page
    assert "**raw**" not in page
    assert (tmp_path / "out" / "bench.svg").read_text().startswith("<?xml")


def test_a_part_measured_again_stands_beside_the_others(tmp_path, shown):
    for number in (1, 2):
        (tmp_path / f"part{number}.py").write_text(f"def measured(quick):\n    return {{'value': {number}}}\n")
        bench(tmp_path, "--parts", f"part{number}", PYTHONPATH=str(tmp_path))
    _, found, page = bench(tmp_path, "--parts", "part1", PYTHONPATH=str(tmp_path))
    assert {name: part["found"] for name, part in found["parts"].items()} == {"part1": {"value": 1}, "part2": {"value": 2}}
    assert page.count("Measured in") == 2
    results = {
        "date": "now",
        "commit": "new",
        "parts": {"a": {"date": "then", "commit": "old"}, "b": {"date": "now", "commit": "new"}},
    }
    assert shown.older(results) == " Measured earlier: a: then, commit old."


def test_targets_are_judged_by_their_numbers(measuring, shown):
    target, met = measuring.target, measuring.met
    assert met(target("x", 2.0, least=2.0))
    assert met(target("x", 2.0, most=2.0))
    assert not met(target("x", 1.999, least=2.0))
    assert not met(target("x", 2.001, most=2.0))
    assert not met(target("x", math.nan, least=0.0))
    assert not met(target("x", None, most=0.0))
    part = {"found": {"targets": [target("x", 1.0, least=2.0) | {"met": True}]}}
    assert shown.judged({"parts": {"p": part}})[0][""] == "**missed**"


def test_each_item_keeps_its_best_and_takes_turns(measuring):
    played, seconds = [], {"a": [3.0, 1.0, 2.0], "b": [5.0, 6.0, 4.0]}

    def item(name):
        return lambda: played.append(name) or seconds[name][played.count(name) - 1]

    assert measuring.turns({name: item(name) for name in seconds}, 3) == {"a": 1.0, "b": 4.0}
    assert played == ["a", "b"] * 3


def test_what_was_not_compared_meets_no_target(measuring):
    assert measuring.worst([1e-12, -3.0, 2.0]) == 3.0
    assert math.isnan(measuring.worst([]))
    assert math.isnan(measuring.worst([0.0, math.nan]))
    engine = importlib.import_module("engine")
    row = {"policy": "linucb", "d": 5, "K": 25, "engine": 1.0, "over C++": None}
    for rows, apart in (
        ([], {}),
        ([row], {("linucb", "C++", 5, 25): 1e-6}),
        ([row], {("linucb", "hand-fused", 5, 25): math.nan}),
    ):
        assert not any(measuring.met(goal) for goal in engine.goals(rows, apart, []))
    found = list(engine.goals([row | {"over C++": 1.2}], {("linucb", "C++", 5, 25): 1e-12}, []))
    assert [goal["what"] for goal in found if measuring.met(goal)] == [
        "largest relative difference of regret to hand-fused and C++",
        "linucb, d 5, K 25: our time over C++",
    ]
    beside = {"policy": "noise-aware", "beside": "linucb", "d": 5, "K": 25, "rounds": 10_000}
    for ratio in (1.2, 1.31):
        found = engine.goals([], {}, [beside | {"time over its": ratio}])
        (private,) = [goal for goal in found if not math.isnan(goal["value"])]
        assert private["value"] == ratio
        assert measuring.met(private) is (ratio < 1.3)


PLAYED = [(d, k) for d in (5, 20, 50, 100, 300) for k in (5, 25, 1_000, 10_000)]


def test_every_target_of_the_engine_is_listed_whatever_was_measured(measuring):
    """Limits are written here again: whoever moves one moves both."""
    engine = importlib.import_module("engine")
    assert engine.AGAINST_CPP["adaprivate-ts"] == {(20, 5): 1.0, (5, 25): 1.2, (50, 20): 1.2, (50, 1_000): 1.3}
    assert engine.AGAINST_CPP["linucb"] == dict.fromkeys({*PLAYED, (50, 20), (100, 10)} - {(300, 10_000)}, 1.3)
    with pytest.raises(InputError, match="would take about"):
        engine.settings("linucb", engine.world(300, 10_000), 0.05)
    limits = {goal["what"]: goal.get("least", goal.get("most")) for goal in engine.goals([], {}, [])}
    expected = {
        "largest relative difference of regret to hand-fused and C++": 1e-9,
        "adaprivate-ts, d 20, K 5: hand-fused time / ours": 0.75,
        "adaprivate-ts, d 20, K 5: NumPy's time / ours": 100.0,
    }
    for name, cells in engine.AGAINST_CPP.items():
        expected |= {f"{name}, d {d}, K {k}: our time over C++": most for (d, k), most in cells.items()}
    for size in ("d 5, K 25", "d 20, K 5", "d 50, K 20"):
        for rounds in ("10,000", "50,000"):
            for ours, other in (("noise-aware-ts", "lints"), ("noise-aware-ucb", "linucb"), ("noise-aware", "linucb")):
                expected[f"{ours}, {size}, {rounds} rounds: time over {other}'s, releases included"] = 1.3
    assert limits == expected
    assert all(math.isnan(goal["value"]) for goal in engine.goals([], {}, []))


def test_targets_of_other_parts_are_listed_too(measuring):
    peers, large = importlib.import_module("peers"), importlib.import_module("large")
    found = list(peers.goals({}, peers.SHAPES))
    assert len(found) == 15
    assert all(math.isnan(goal["value"]) for goal in found)
    (megabytes,) = large.goals({})
    assert (megabytes["what"], megabytes["most"]) == ("noise-aware, d 500, T 1e+06: megabytes of its state", 30.0)
    assert not measuring.met(megabytes)


@pytest.mark.parametrize("quick", [True, False])
def test_memory_of_large_problems_is_judged_in_every_run(measuring, monkeypatch, quick):
    large = importlib.import_module("large")
    for heavy in ("planning", "by_dimension", "long_run", "catalogue"):
        monkeypatch.setattr(large, heavy, lambda *_: {})
    started = large.started
    monkeypatch.setattr(
        large, "started", lambda name, d, rounds, **options: started(name, min(d, 500), min(rounds, 10**6), **options)
    )
    (megabytes,) = large.measured(quick)["targets"]
    assert measuring.met(megabytes)
    assert "large" in importlib.import_module("bench").PARTS


def test_a_part_that_was_asked_for_and_not_measured_is_missed(shown):
    results = {"parts": {"a": {"found": {"targets": [{"what": "x", "value": 1.0, "most": 2.0}]}}}, "asked": ["a", "large"]}
    assert shown.verdicts(results).startswith("1 of 2 targets met.")
    assert "| large | to be measured | not measured | **missed** |" in shown.verdicts(results)


def test_memory_is_measured_to_the_most_rounds(measuring, monkeypatch):
    """Of every policy: noise-aware-ts, whose plan is long, too."""
    growth = importlib.import_module("growth")
    played = []

    def noted(policy, *_):
        played.append(policy.rounds)
        return types.SimpleNamespace(seconds=1.0, state=())

    monkeypatch.setattr(growth, "run_one", noted)
    monkeypatch.setattr(growth, "from_now_on", lambda: None)
    monkeypatch.setattr(growth, "largest_resident", lambda: 0.0)
    assert [row["T"] for row in growth.lengths_of("noise-aware-ts", (10**4, 10**8))] == [10**4, 10**8]
    assert played[-1] == 10**8


def test_what_was_measured_on_other_code_is_said(shown, tmp_path):
    """By what git has, not by the clock: a commit that changes no code changes nothing."""
    program = GIT.need()

    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run([program, "-C", str(tmp_path), *identity, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def committed(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--message", path)
        return git("rev-parse", "--short=10", "HEAD")

    git("init", "--quiet")
    first = committed("src/a.py", "1")
    results = {"commit": first, "parts": {"engine": {"commit": first}, "large": {}}}
    assert shown.changed(results, tmp_path) == ""
    committed("README.md", "text")
    assert shown.changed(results, tmp_path) == ""
    second = committed("benchmarks/peers/b.py", "2")
    assert (
        shown.changed(results, tmp_path)
        == f"{shown.CHANGED} engine, large: measured at commit {first}, 2 commits before this."
    )
    results["parts"]["large"]["commit"] = second
    assert shown.changed(results, tmp_path) == f"{shown.CHANGED} engine: measured at commit {first}, 2 commits before this."
    (tmp_path / "src" / "a.py").write_text("3")
    assert f"large: measured at commit {second}, 0 commits before this" in shown.changed(results, tmp_path)
    git("checkout", "--quiet", "src/a.py")
    results["parts"] = {"large": {"commit": f"{second}-dirty"}, "arms": {"commit": "unknown"}}
    said = shown.changed(results, tmp_path)
    assert f"large: measured at commit {second}-dirty, 0 commits" in said
    assert "arms: measured at commit unknown, which is not known here" in said
    (tmp_path / "none").mkdir()
    assert shown.changed(results, "/") == ""


def test_regrets_that_differ_are_seen(measuring, monkeypatch):
    """A loop beside the engine that plays another policy: its regret is said to be another."""
    engine = importlib.import_module("engine")
    play = engine.fused.play
    monkeypatch.setattr(engine.fused, "play", lambda *given: (play(*given)[0], 1.001 * play(*given)[1]))
    monkeypatch.setattr(engine, "others", lambda name: {"hand-fused": engine.fused.play})
    _, apart, _ = engine.cell(5, 5, ("linucb",), 1, 0.002)
    assert apart["linucb", "hand-fused"] == pytest.approx(1e-3, rel=0.01)


def test_the_fastest_of_another_library_is_the_one_to_beat(measuring):
    peers = importlib.import_module("peers")
    rounds = {("ours", peers.PRIVATE): 2e-6, ("vowpalwabbit", "slow"): 90e-6, ("vowpalwabbit", "fast"): 30e-6}
    best = {(5, 25): {who: {"round": seconds, "regret": 1.0} for who, seconds in rounds.items()}}
    values = {goal["what"]: goal["value"] for goal in peers.goals(best, [(5, 25)])}
    assert values[f"fastest vowpalwabbit / {peers.PRIVATE}, d 5, K 25"] == pytest.approx(15)
    assert math.isnan(values[f"fastest mabwiser / {peers.PRIVATE}, d 5, K 25"])


TAKEN = """
import numpy as np
import growth

before = np.ones(20_000_000)
del before
growth.from_now_on()
begun = growth.largest_resident()
taken = np.ones(6_000_000)
more = growth.largest_resident() - begun
growth.from_now_on()
print(more * 2**20 / taken.nbytes, (growth.largest_resident() - begun) * 2**20 / taken.nbytes)
"""


def test_memory_that_a_run_takes_is_seen_however_much_was_taken_before():
    """In a process of its own, as it is measured: a large one may give back as much at the same moment."""
    command = [sys.executable, "-c", TAKEN]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    more, again = map(float, done.stdout.split())
    assert more > 0.8
    assert again < 1.2


def test_exponents_are_those_of_powers(measuring):
    sizes = [1, 2, 50, 100, 200, 400]
    slope, error = measuring.exponent(sizes, [7 + 0 * n if n < 50 else 3 * n**1.7 for n in sizes], 50)
    assert slope == pytest.approx(1.7)
    assert error == pytest.approx(0, abs=1e-9)
    noisy, wide = measuring.exponent([1, 2, 4], [1, 2.2, 3.8])
    assert noisy == pytest.approx(math.log(3.8, 4))
    assert wide > 0.05


def test_the_page_says_what_was_measured(shown):
    """The targets in the README are those of the numbers beside it."""
    results = json.loads((BENCHMARKS / "results" / "bench.json").read_text())
    page = (BENCHMARKS / "README.md").read_text()
    block = page.partition(shown.BEGIN)[2].partition(shown.END)[0].strip()
    assert unchanging(block, shown) == f"{shown.head(results)}\n\n{shown.verdicts(results)}"
    assert unchanging((BENCHMARKS / "results" / "bench.md").read_text(), shown) == shown.markdown(results)


def unchanging(page, shown):
    """The page without the paragraph on later commits, which any commit may make another."""
    return "\n\n".join(part for part in page.split("\n\n") if not part.startswith(shown.CHANGED))


def test_parts_once_asked_for_stay_asked_for(measuring, tmp_path):
    """Also where what was measured is dropped, as on another machine."""
    bench = importlib.import_module("bench")
    earlier = {"machine": {"processor": "another"}, "versions": {}, "parts": {"large": {}}, "asked": ["engine", "large"]}
    (tmp_path / "bench.json").write_text(json.dumps(earlier))
    results = bench.begun(tmp_path / "bench.json", "quick", ["arms"])
    assert (results["asked"], results["parts"]) == (["engine", "large", "arms"], {})
    assert bench.begun(None, "quick", ["arms"])["asked"] == ["arms"]


def test_what_is_timed_of_parsing_is_said_alike_wherever_it_is_said(measuring):
    peers = importlib.import_module("peers")
    driver = (BENCHMARKS / "peers" / "vowpalwabbit.py").read_text()
    assert ".parse(" in driver.partition("def decide")[2].partition("def learn")[0]
    assert ".parse(" not in driver.partition("def prepare")[2].partition("def decide")[0]
    published = json.loads((BENCHMARKS / "results" / "bench.json").read_text())["parts"]["peers"]["found"]
    for notes in (peers.__doc__, published["notes"]):
        assert "writing it is not timed, parsing it is, inside decide" in " ".join(notes.split())
    work = peers.listed()["vowpalwabbit"]["work"]
    assert "parsed once a round inside decide, which is timed" in work
    assert work in {row["how its work differs"] for row in published["what is compared"]}


def test_journeys_count_functions_and_files_and_few_of_them():
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "journeys.py"), "adaprivate-ts", "batch_size=5", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["make another"]["functions"] > found["learn"]["functions"] > 0
    assert found["learn"]["files"] <= 5
    assert found["third decide"]["files"] <= 12
    assert found["make the first policy"]["imported"] <= 110
    assert found["until a release"]["files"] > found["third decide"]["files"]
