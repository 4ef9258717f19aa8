"""adaprivate evaluate as a user runs it."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import adaprivate as ap
from adaprivate import cli
from adaprivate.check import InputError
from adaprivate.logs.judge import judge
from adaprivate.logs.log_table import read_log


def run(*arguments):
    command = [sys.executable, "-m", "adaprivate", "evaluate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def document(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr in ("", "compiling (once; later runs start at once) ...\n")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Uniform choice between three candidates of two features: 1,500 rows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.7, 0.7, size=(1_500, 3, 2))
    a = rng.integers(3, size=1_500)
    r = (rng.uniform(size=1_500) < 0.5 + x[np.arange(1_500), a] @ [0.5, -0.2]).astype(int)
    names = [f"x_{k}_{j}" for k in range(3) for j in range(2)]
    lines = [",".join(["action", "reward", "propensity", *names])]
    lines += [f"{a[t]},{r[t]},{1 / 3:.9f}," + ",".join(f"{v:.6f}" for v in x[t].ravel()) for t in range(1_500)]
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_replay_and_snips(log):
    base = (log, "--candidates", "x", "--epsilon", 1, "--epsilon", 8, "--option", "batch_size=50")
    found = document(*base, "--policy", "adaprivate-ts", "--policy", "linucb", "--estimator", "replay")
    assert [(row["policy"], row["epsilon"]) for row in found["rows"]] == [
        ("adaprivate-ts", 1.0),
        ("adaprivate-ts", 8.0),
        ("linucb", None),
    ]
    assert {"policy", "estimator", "value", "low", "high", "effective_sample_size"} <= set(found["rows"][0])
    assert found["log"]["candidates"] == 3
    assert found["log"]["dimension"] == 2
    for row in found["rows"]:
        assert row["low"] < row["value"] < row["high"]
    released = document(*base[:-4], "--policy", "noise-aware-ucb", "--estimator", "snips", "--release-epsilon", "1")
    assert released["log"]["value"] is None  # what was logged is not published along with it
    assert released["rows"][0]["released"]
    assert "SIMULATED" not in released["rows"][0]["guarantee"]


def test_python_gives_what_the_command_prints(log):
    names, words = ["adaprivate-ts", "linucb"], ["replay", "dr"]
    asked = {"epsilon": [1.0, 8.0], "candidates": "x", "options": {"batch_size": 50, "alpha": 0.5}, "seed": 3}
    table = ap.evaluate(log, names, words, **asked)
    flags = [part for name in names for part in ("--policy", name)] + [part for e in words for part in ("--estimator", e)]
    flags += ["--epsilon", 1, "--epsilon", 8, "--option", "batch_size=50", "--option", "alpha=0.5", "--seed", 3]
    assert document(log, "--candidates", "x", *flags)["rows"] == table.to_dicts()
    assert ap.evaluate(pl.read_csv(log), names, words, **asked).equals(table)
    cases = [(*case, word) for case in (("adaprivate-ts", 1.0), ("adaprivate-ts", 8.0), ("linucb", None)) for word in words]
    assert table.select("policy", "epsilon", "estimator").rows() == cases
    assert table["batch_size"].to_list() == [50] * 4 + [None] * 2
    assert table["alpha"].to_list() == [None] * 4 + [0.5] * 2
    assert set(table["seed"]) == {3}
    found, guarantee, *_ = judge(read_log(log, candidates="x"), "linucb", "dr", options={"alpha": 0.5}, seed=3)
    assert guarantee is None
    assert table.row(5, named=True).items() >= {"value": found.value, "low": found.low, "sem": found.sem}.items()


def test_an_option_of_a_policy_is_not_taken_for_ours(log):
    table = ap.evaluate(log, "adac-oful", "dm", candidates="x", options={"confidence": 0.8})
    assert table.row(0, named=True).items() >= {"confidence": 0.95, "policy_confidence": 0.8}.items()


def test_items_may_be_a_table():
    rng = np.random.default_rng(1)
    items = pl.DataFrame({"name": ["a", "b", "c"], "width": [0.5, -0.5, 0.2], "height": [0.1, 0.3, -0.4]})
    log = pl.DataFrame({"action": rng.choice(["a", "b", "c"], 90), "reward": rng.integers(2, size=90)})
    by_features = read_log(log, items=items).whole()
    assert by_features.candidates.tolist() == [items.select("width", "height").to_numpy().tolist()]
    assert [items["name"][int(row)] for row in by_features.actions] == log["action"].to_list()
    assert ap.evaluate(log, "linucb", "dm", items=items).equals(ap.evaluate(by_features, "linucb", "dm"))


def test_python_mistakes():
    log = pl.DataFrame({"action": [0, 1, 0, 1], "reward": [1, 0, 1, 1]})
    for wrong, asked, said in [
        (log, {"policy": []}, "policy="),
        (log, {"estimator": "magic"}, "estimator='magic'"),
        (log, {"options": {"dimension": 3}}, "option='dimension' in {"),
        (log, {"estimator": ["replay", "dm"], "release_epsilon": 1.0}, "policies x epsilons x estimators=2 == 1"),
        (log.with_columns(reward=pl.lit(7)), {}, "log, row 1, column reward"),
        ("nowhere.csv", {}, "nowhere.csv to be a file"),
    ]:
        with pytest.raises(InputError, match=said):
            ap.evaluate(wrong, **{"policy": "linucb", **asked})


class Frame:
    """What is asked of a pandas DataFrame, which is not at hand in every test run."""

    def __init__(self, columns):
        self.columns, self._arrays = list(columns), list(columns.values())

    @property
    def iloc(self):
        return self

    def __getitem__(self, key):
        return Values(self._arrays[key[1]])


class Values:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values

    def isna(self):
        return Values(np.array([value is None or value != value for value in self.values]))


def test_tables_of_other_kinds_are_the_same_log(tmp_path):
    rng = np.random.default_rng(2)
    pages, clicked, hour = rng.choice(["a", "b", "c"], 90), rng.integers(2, size=90), rng.uniform(0, 24, 90)
    log = pl.DataFrame({"page": pages, "clicked": clicked, "hour": hour})
    asked = {"action": "page", "reward": "clicked", "context": ["hour"]}
    usual = ap.evaluate(log, "linucb", "dm", **asked)
    texts = np.array([*pages[:-1], None], dtype=object)
    frames = [Frame({"page": pages.astype(object), "clicked": clicked, "hour": hour})]
    for table in (*frames, log.to_dicts(), log.to_dict(as_series=False), log.lazy()):
        assert ap.evaluate(table, "linucb", "dm", **asked).equals(usual)
        plan = ap.plan(from_log=table, action="page", context=["hour"], base_rate=0.3, epsilon=1.0)
        assert plan.task == ap.plan(from_log=log, action="page", context=["hour"], base_rate=0.3, epsilon=1.0).task
        assert "From page, hour of the table given; no other column was read." in str(plan)
    with pytest.raises(InputError, match="log, row 90, column page to be right: it is missing"):
        ap.evaluate(Frame({"page": texts, "clicked": clicked}), "linucb", "dm", action="page", reward="clicked")
    items = [{"name": name, "width": 0.1 * k} for k, name in enumerate("abc")]
    by_items = ap.evaluate(log, "linucb", "dm", action="page", reward="clicked", items=items)
    assert by_items.equals(ap.evaluate(log, "linucb", "dm", action="page", reward="clicked", items=pl.DataFrame(items)))


def test_what_is_no_table_says_what_to_give():
    for wrong in (None, 7, b"log.csv", ["a", "b"], np.zeros((3, 2))):
        with pytest.raises(
            InputError, match=r"Expected log=\w+ to be a path, a polars or pandas DataFrame, a list of dicts"
        ):
            ap.evaluate(wrong, "linucb", "dm")
    with pytest.raises(InputError, match="Expected from_log=int to be a path"):
        ap.plan(from_log=7)
    with pytest.raises(InputError, match="Expected log to be a table, with values of one type in each column") as raised:
        ap.evaluate({"page": ["a", "b"], "clicked": [0.75]}, "linucb", "dm", action="page", reward="clicked")
    assert "0.75" not in str(raised.value)


def test_quiet_leaves_the_table_and_the_guarantees(log):
    asked = (log, "--candidates", "x", "--policy", "noise-aware-ucb", "--estimator", "dr")
    loud, quiet = run(*asked), run(*asked, "--quiet")
    assert quiet.returncode == 0, quiet.stderr
    assert "as logged" in quiet.stdout
    assert "noise-aware-ucb: " in quiet.stdout
    for remark in ("Computed from raw rewards", "Each row, and each run on this log"):
        assert remark in loud.stdout
        assert remark not in quiet.stdout


def test_a_table_for_people(log):
    done = run(log, "--candidates", "x", "--policy", "linucb", "--estimator", "dr", "--interval", "bootstrap")
    assert done.returncode == 0, done.stderr
    assert "as logged" in done.stdout
    assert "raw rewards" in done.stdout


def mistake(monkeypatch, capsys, *arguments):
    """The one line that a mistake ends with, in this process."""
    monkeypatch.setattr(sys, "argv", ["adaprivate", "evaluate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (4, "1,x", ["line 4", "reward to be right: it is not a number"]),
        (3, "1,7", ["line 3", "reward to be right: it is not within 0 .. 1"]),
        (5, "1,1,1", ["line 5", "column 3: '...' not to follow 2 values"]),
        (2, ",1", ["line 2", "action"]),
    ],
)
def test_one_line_for_a_bad_log(monkeypatch, capsys, tmp_path, line, text, said):
    lines = ["action,reward", "0,1", "1,0", "0,1", "1,1"]
    lines[line - 1] = text
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines) + "\n")
    found = mistake(monkeypatch, capsys, path, "--policy", "linucb", "--estimator", "dm")
    assert all(part in found for part in ["bad.csv", *said])
    assert ("adaprivate data check lists all faults" in found) == ("to be right" in found)


def test_a_log_of_no_rows_says_so_and_no_more(monkeypatch, capsys, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("action,reward\n")
    said = mistake(monkeypatch, capsys, path, "--policy", "linucb")
    assert said == f"adaprivate: Expected {path} to hold decisions: the log holds no rows.\n"


def test_other_mistakes(monkeypatch, capsys, log, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    for path, arguments, said in [
        (log, ("--policy", "linucb", "--estimator", "magic"), "estimator='magic'"),
        (log, ("--policy", "linucb", "--option", "batch_size=3"), "option='batch_size'"),
        (log, ("--policy", "linucb", "--estimator", "ips", "--propensity", "chance"), "chance"),
        (log, ("--policy", "linucb", "--estimator", "ips", "--release-epsilon", "1"), "to be private"),
        (broken, ("--policy", "linucb"), "broken.parquet"),
        (tmp_path / "none.csv", ("--policy", "linucb"), "none.csv"),
    ]:
        candidates = ("--candidates", "x") if path == log else ()
        assert said in mistake(monkeypatch, capsys, path, *candidates, *arguments)
