"""The command that measures everything: what it writes, how it judges, and that a part that fails is said to have failed.

No time is asserted: sizes are tiny. That the engine, loops fused by hand and C++ play alike is.
"""

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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
    same, over = engine.goals([row | {"over C++": 1.2}], {("linucb", "C++", 5, 25): 1e-12}, [])
    assert measuring.met(same)
    assert measuring.met(over)
    (private,) = list(
        engine.goals([], {}, [{"policy": "p", "beside": "q", "d": 5, "K": 5, "rounds": 10**4, "time over its": 2}])
    )[1:]
    assert not measuring.met(private)


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


def test_memory_that_a_run_takes_is_seen_however_much_was_taken_before(measuring):
    growth = importlib.import_module("growth")
    before = np.ones(20_000_000)
    del before
    growth.from_now_on()
    begun = growth.largest_resident()
    taken = np.ones(6_000_000)
    assert growth.largest_resident() - begun > 0.8 * taken.nbytes / 2**20
    growth.from_now_on()
    assert growth.largest_resident() - begun < 1.2 * taken.nbytes / 2**20


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
    assert block == f"{shown.head(results)}\n\n{shown.verdicts(results)}"
    assert (BENCHMARKS / "results" / "bench.md").read_text() == shown.markdown(results)
