"""The command line as a user runs it: its output, its exit code, in real processes where that may make a difference."""

import contextlib
import io
import json
import math
import re
import subprocess
import sys
import tomllib
import types
import warnings
from pathlib import Path

import pytest

import adaprivate
from adaprivate import cli, privacy
from adaprivate.cli import terminal


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "adaprivate", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def called(*arguments):
    """The exit code, and what is printed, when the command runs in this process: no start to pay for."""
    out, said = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        patched.setattr(sys, "argv", ["adaprivate", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return ended.value.code, out.getvalue(), said.getvalue()


def document(*arguments):
    code, out, said = called(*arguments, "--json")
    assert code == 0, said
    assert said in ("", "compiling (once; later runs start at once) ...\n")
    return json.loads(out)


@pytest.mark.parametrize(
    "arguments",
    [
        ("calibrate", "--epsilon", "1", "--delta", "1e-5", "--batches", "33", "--noise", "sqrt"),
        ("list", "policies"),
        ("reproduce", "--list"),
    ],
    ids=["calibrate", "list", "reproduce"],
)
def test_a_process_prints_the_same_document_and_nothing_else(arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout) == document(*arguments)


def test_calibrate_a_single_release():
    found = document("calibrate", "--epsilon", "1", "--delta", "1e-5")
    assert {"sigma", "mu", "rho", "sigma_zcdp", "epsilon", "delta", "prefix_std"} <= set(found)
    assert found["sigma"] == pytest.approx(3.7306, abs=5e-5)
    assert found["sigma_zcdp"] == pytest.approx(4.9006, abs=5e-5)
    assert found["mu"] == pytest.approx(1 / found["sigma"])
    assert found["epsilon"] <= 1
    assert found["prefix_std"] == []
    assert privacy.Guarantee.from_json(json.dumps(found["guarantee"])).unit == "event"


@pytest.mark.parametrize(
    ("noise", "largest"),
    [("independent", 5.74), ("tree", 5.48), ("honaker", 4.44), ("sqrt", 2.18), ("banded", 2.35), ("blt", 2.18)],
)
def test_calibrate_running_sums(noise, largest):
    found = document("calibrate", "--epsilon", "1", "--delta", "1e-5", "--batches", "33", "--noise", noise)
    assert len(found["prefix_std"]) == 33
    assert max(found["prefix_std"]) * found["mu"] == pytest.approx(largest, abs=6e-3)


def test_calibrate_optimal_beats_square_root():
    def mean_square(noise):
        found = document("calibrate", "--epsilon", "1", "--delta", "1e-5", "--batches", "34", "--noise", noise)
        return sum(s * s for s in found["prefix_std"])

    assert mean_square("optimal") < mean_square("sqrt")


def test_calibrate_users():
    options = ("calibrate", "--epsilon", "5", "--delta", "1e-5", "--unit", "user", "--clip", "1", "--batches-per-user", "5")
    assert document(*options)["sigma"] == pytest.approx(3.989, abs=6e-4)
    assert document(*options, "--neighbours", "add-remove")["sigma"] == pytest.approx(1.994, abs=6e-4)
    spread = document(*options, "--batches", "64", "--noise", "sqrt", "--separation", "12")
    close = document(*options, "--batches", "64", "--noise", "sqrt")
    assert spread["sigma"] / close["sigma"] == pytest.approx(4.838 / 6.576, abs=1e-3)


def test_calibrate_sampling():
    found = document("calibrate", "--epsilon", "1", "--delta", "1e-5", "--sampling-rate", "0.5")
    assert found["sigma"] == pytest.approx(2.495, abs=5e-4)
    assert found["mu"] is None
    assert privacy.CONDITIONS["secret-sample"] in found["guarantee"]["assumptions"]


def test_calibrate_by_rounds_and_batch_size():
    base = ("calibrate", "--epsilon", "1", "--delta", "1e-5", "--noise", "sqrt")
    by_rounds = document(*base, "--rounds", "10000", "--batch-size", "300")
    assert by_rounds == document(*base, "--batches", "33")
    assert by_rounds["guarantee"]["exact"]
    assert not document(*base[:-1], "blt", "--batches", "33")["guarantee"]["exact"]


def test_simulate():
    options = ("--policy", "adaprivate-ts", "--policy", "linucb", "--epsilon", "1", "--epsilon", "5", "--rounds", "900")
    rows = document("simulate", *options, "--seeds", "2", "--option", "batch_size=100", "--option", "dimension=4")["rows"]
    assert [(row["policy"], row["epsilon"]) for row in rows] == [
        ("adaprivate-ts", 1.0),
        ("adaprivate-ts", 5.0),
        ("linucb", None),
    ]
    contract = {"policy", "environment", "epsilon", "delta", "rounds", "seeds", "reward_mean", "reward_sem", "regret_mean"}
    contract |= {"regret_sem", "percent_of_linucb", "percent_of_tuned_linucb", "percent_of_tuned_linucb_sem"}
    contract |= {"learned_share", "rounds_per_second", "guarantee"}
    assert all(contract <= set(row) for row in rows)
    assert rows[2]["percent_of_linucb"] == 100
    assert all(row["percent_of_tuned_linucb"] != row["percent_of_linucb"] for row in rows)
    assert rows[0]["batch_size"] == 100
    assert rows[0]["dimension"] == 4
    text = run("simulate", *options, "--seeds", "2").stdout
    assert "adaprivate-ts" in text
    assert "learned share" in text
    assert "% of LinUCB" in text
    assert "of tuned" in text


def test_plan():
    found = document("plan", "--arms", "3", "--rounds", "2000", "--epsilon", "1", "--epsilon", "8", "--seeds", "3")["rows"]
    assert {row["epsilon"] for row in found} == {1.0, 8.0}
    for epsilon in (1.0, 8.0):
        rows = [row for row in found if row["epsilon"] == epsilon]
        assert {"noise-aware", "filtered-thompson", "modified-thompson", "lazy-dp-ts", "dp-se"} <= {
            row["policy"] for row in rows
        }
        best = min((row for row in rows if row["exact_noise"]), key=lambda r: r["regret_share"])
        assert [row for row in rows if row["recommended"]] == [best]
        for row in rows:
            assert set(row["regret"]) == set(row["regret_sem"]) == {"spread", "gap 0.1", "gap 0.05"}
            difference = row["regret_share"] - best["regret_share"]
            near = abs(difference) < 2 * math.hypot(row["regret_share_sem"], best["regret_share_sem"])
            expected = "recommended" if row is best else "tied" if near else "ahead" if difference < 0 else ""
            assert row["standing"] == expected
            assert (row["wrong_commitments"] is None) is (row["policy"] != "filtered-thompson")
            assert 0 <= row["regret"]["spread"] <= 2000 * 0.5
            assert row["delta"] == (
                1e-5 if row["policy"] in ("filtered-thompson", "modified-thompson", "adac-ucb") else 0.0
            )
            assert "epsilon = " in row["guarantee"]
            assert row["exact_noise"] is row["guarantee"].startswith("This protects")
            assert row["exact_noise"] is (row["policy"] != "adac-ucb")
            assert (privacy.CONDITIONS["exact-noise"] in row["enforced"]) is row["exact_noise"]
            assert privacy.CONDITIONS["no-replay"] in row["assumptions"]
    filtered = next(row for row in found if row["policy"] == "filtered-thompson")
    assert filtered["parameters"]["eta"] == pytest.approx(privacy.gdp_mu(1.0, 1e-5))
    assert filtered["parameters"]["prepulls"] >= 1
    text = run("plan", "--arms", "3", "--rounds", "500", "--epsilon", "2", "--seeds", "2").stdout
    assert "take " in text
    assert "simulation" in text
    assert "% wrong" in text
    assert "public worlds" in text


def test_plan_of_features(tmp_path):
    options = ("plan", "--dimension", "4", "--candidates", "3", "--rounds", "300", "--base-rate", "0.2")
    found = document(*options, "--epsilon", "0.5", "1", "5")
    assert [row["epsilon"] for row in found["rows"]] == [0.5, 1.0, 5.0]
    assert [row["epsilon"] for row in document(*options, "--epsilon", "0.5", "--epsilon", "1")["rows"]] == [0.5, 1.0]
    code, out, said = called(*options, "--epsilon", "1", "5", "--simulate", "--seeds", "2", "--out", str(tmp_path))
    assert code == 0, said
    for part in ("learned share", "simulated", "knee", "ap.policy(", "POST /bandits", "twice the rounds", "rr-linucb"):
        assert part in out
    assert (tmp_path / "plan.svg").is_file()
    line = next(line.strip() for line in out.splitlines() if line.strip().startswith("adaprivate simulate "))
    rows = document(*line.split()[1:], "--seeds", "2")["rows"]
    assert {row["policy"] for row in rows} == {"noise-aware", "rr-linucb"}
    assert rows[0]["base_rate"] == 0.2


LARGE = "Remark: epsilon = 25"
LOG = "action,reward,propensity\n" + "0,1,0.5\n1,0,0.5\n" * 200
WEAK = {
    "simulate": ("simulate", "--policy", "noise-aware", "--policy", "linucb", "--rounds", "300", "--seeds", "2"),
    "evaluate": ("evaluate", "{log}", "--policy", "noise-aware", "--policy", "linucb"),
    "plan": ("plan", "--dimension", "4", "--candidates", "3", "--rounds", "300"),
    "arms": ("plan", "--arms", "3", "--rounds", "300", "--seeds", "2"),
}


@pytest.mark.parametrize("name", WEAK)
def test_a_weak_guarantee_is_called_weak_wherever_it_is_printed(name, tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    words = [word.format(log=tmp_path / "log.csv") for word in WEAK[name]]
    for epsilon, delta, said in (
        ("25", "1e-5", "Remark: epsilon = 2"),
        ("2", "0.03", "Remark: delta = 0.03 is above 1 / "),
        ("2", "1e-5", ""),
    ):
        arguments = (*words, "--epsilon", epsilon, "--delta", delta)
        remarks = [remark for row in document(*arguments)["rows"] for remark in row["remarks"]]
        assert bool(remarks) is bool(said)
        assert all(remark.startswith(said) for remark in remarks)
        code, out, _ = called(*arguments)
        assert code == 0
        text = " ".join(out.split())
        assert (said in text) if said else ("Remark" not in text)


def test_how_many_a_delta_is_too_large_for():
    """People, where they are protected; else a reward each round."""
    words = ("simulate", "--policy", "noise-aware", "--rounds", "300", "--seeds", "1", "--option", "people=20")
    for delta, more, units in ((0.03, ("unit=event",), "300"), (0.06, ("unit=user",), "20")):
        options = [word for one in more for word in ("--option", one)]
        (row,) = document(*words, *options, "--delta", str(delta))["rows"]
        assert row["remarks"] == [
            f"Remark: delta = {delta} is above 1 / {units}; publishing one of them at random, whole, would meet it. "
            "Choose it well below that."
        ]
    assert document(*words, "--option", "unit=user", "--delta", "0.03")["rows"][0]["remarks"] == []


def test_the_page_and_reports_call_a_weak_guarantee_weak():
    from adaprivate.report import front, pages
    from adaprivate.report.promises import promises

    (told,) = promises([{"policy": "noise-aware", "options": {"epsilon": 25.0}, "rounds": 300}])
    assert told["remarks"][0].startswith(LARGE)
    assert LARGE in pages._promise(told)
    glance = types.SimpleNamespace(epsilons=[25.0], usual=25.0, promises={25.0: told})
    assert LARGE in front._guarantee(glance)
    assert front._weak(glance) == told["remarks"]


def test_data_check(tmp_path):
    (tmp_path / "u.data").write_text("1\t2\t3\t4\n2\t2\t5\t4\n")
    found = document("data", "check", str(tmp_path / "u.data"))
    assert {key: found[key] for key in ("kind", "ratings", "users", "items", "duplicates")} == {
        "kind": "ratings",
        "ratings": 2,
        "users": 2,
        "items": 1,
        "duplicates": 0,
    }
    assert "ratings" in run("data", "check", str(tmp_path)).stdout
    (tmp_path / "log.csv").write_text("arm,click\n1,0\n2,yes\n")
    done = run("data", "check", str(tmp_path / "log.csv"), "--action", "arm", "--reward", "click")
    assert (done.returncode, done.stderr) == (1, "")
    assert "is not a number" in done.stdout
    assert "yes" not in done.stdout  # a reward's value


def test_lists():
    assert {"adaprivate-ts", "linucb", "random"} <= {entry["name"] for entry in document("list", "policies")["policies"]}
    assert "synthetic" in {entry["name"] for entry in document("list", "environments")["environments"]}


def test_tables_for_people():
    text = run("calibrate", "--epsilon", "1", "--delta", "1e-5", "--batches", "33", "--noise", "sqrt").stdout
    for part in ("sigma", "largest", "This protects the value of any one reward", "It holds only if you keep to"):
        assert part in text
    listing = run("list", "mechanisms").stdout
    assert all(name in listing for name in ("gaussian", "tree", "blt", "optimal", "wishart", "catalogue"))


def test_list_as_json():
    found = document("list", "mechanisms")["mechanisms"]
    assert all(entry["summary"] for entry in found)
    assert {"claims", "prefix-noise"} <= {entry["name"] for entry in document("reproduce", "--list")["experiments"]}


def test_reproduce_writes_a_report(tmp_path):
    with contextlib.chdir(tmp_path):
        found = document("reproduce", "claims", "--out", "report")
    assert found["experiment"] == "claims"
    fields = {"row", "column", "paper", "ours", "sem", "verdict", "tolerance", "number", "seeds", "computed", "says"}
    assert fields == set(found["cells"][0])
    assert "unsound as published" in {cell["says"] for cell in found["cells"]}
    assert (tmp_path / "report" / "claims.html").exists()
    assert (tmp_path / "report" / "index.html").exists()


def test_one_version():
    stated = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert run("--version").stdout == run("version").stdout == f"{stated}\n"
    assert document("version") == {"version": stated}
    assert adaprivate.__version__ == stated


BASE = ("calibrate", "--epsilon", "1", "--delta", "1e-5")
ON_ARMS = ("--environment", "bernoulli-arms")
MISTAKES = [
    (("calibrate", "--epsilon", "-1", "--delta", "1e-5"), "Expected epsilon=-1.0 > 0."),
    (("calibrate", "--epsilon", "nan", "--delta", "1e-5"), "Expected epsilon=nan > 0."),
    (("calibrate", "--epsilon", "1", "--delta", "1"), "Expected delta=1.0 > 0 and < 1."),
    (("calibrate", "--epsilon", "one", "--delta", "1e-5"), "Invalid value for '--epsilon'"),
    (("calibrate", "--epsilon", "1"), "Missing option '--delta'"),
    ((*BASE, "--batches", "0"), "Expected batches=0 >= 1."),
    ((*BASE, "--batches", "9", "--noise", "pink"), "Expected noise='pink' in {"),
    ((*BASE, "--noise", "tree"), "Expected noise='tree' to be given with batches."),
    ((*BASE, "--clip", "1"), "Expected clip=1.0 to be given with unit=user only."),
    ((*BASE, "--unit", "user"), "Expected batches_per_user=None >= 1 for unit=user."),
    ((*BASE, "--unit", "user", "--batches-per-user", "2"), "Expected clip=None > 0 for unit=user."),
    ((*BASE, "--unit", "town"), "Expected unit='town' in {event, user}."),
    ((*BASE, "--neighbours", "add-remove"), "Expected neighbours='add-remove' == replace for unit=event."),
    ((*BASE, "--sampling-rate", "2"), "Expected sampling_rate=2.0 > 0 and <= 1."),
    ((*BASE, "--sampling-rate", "0.5", "--batches", "9", "--noise", "tree"), "== independent with sampling_rate"),
    ((*BASE, "--rounds", "100"), "Expected rounds=100, batch_size=None to be given together"),
    ((*BASE, "--rounds", "100", "--batch-size", "300"), "Expected batch_size=300 <= 100."),
    (("simulate", "--policy", "wish"), "Expected policy='wish' in {"),
    (("simulate", "--policy", "random", "--environment", "wish"), "Expected environment='wish' in {"),
    (("simulate", "--policy", "linucb", "--option", "wish=1"), "Expected option='wish' in {"),
    (("simulate", "--policy", "linucb", "--option", "alpha"), "Expected option='alpha' to be key=value."),
    (("simulate", "--policy", "linucb", "--option", "alpha=-1"), "Expected alpha=-1 >= 0."),
    (("simulate", "--policy", "adaprivate-ts", "--epsilon", "-1"), "Expected epsilon=-1.0 > 0."),
    (("simulate", "--policy", "adaprivate-ts", "--delta", "1"), "Expected delta=1.0 > 0 and < 1."),
    (("simulate", "--policy", "adaprivate-ts", "--rounds", "100"), "Expected batch_size=300 <= rounds=100."),
    (("simulate", "--policy", "random", "--seeds", "0"), "Expected seeds=0 >= 1."),
    (("simulate", "--policy", "random", "--jobs", "0"), "Expected jobs=0 >= 1."),
    (("simulate", "--policy", "thompson", "--rounds", "50"), "Expected environment='synthetic' to offer the same arms"),
    (("plan", "--arms", "1", "--rounds", "50", "--epsilon", "1"), "Expected arms=1 >= 2."),
    (("plan", "--arms", "9", "--rounds", "30", "--epsilon", "1"), "Expected rounds=30 >= 36."),
    (("plan", "--arms", "9", "--rounds", "50", "--epsilon", "0"), "Expected epsilon=0.0 > 0."),
    (
        ("plan", "--arms", "9", "--rounds", "50", "--epsilon", "1", "--epsilon", "1"),
        "Expected epsilon=[1.0, 1.0] to be all",
    ),
    (
        ("simulate", "--policy", "filtered-thompson", *ON_ARMS, "--epsilon", "0.1", "--option", "eta=2"),
        "Expected epsilon=0.1 not to be given with eta=2.",
    ),
    (("plan", "--arms", "9", "--rounds", "50", "1"), "Expected 1 to follow an option, as in --epsilon 1."),
    (("plan", "--dimension", "9", "--rounds", "50", "--epsilon", "1"), "Expected candidates to be given: a whole number."),
    (
        ("plan", "--dimension", "9", "--candidates", "2", "--rounds", "50", "--epsilon", "1", "--seeds", "3"),
        "Expected seeds=3 to be given with simulate, or with arms.",
    ),
    (("reproduce", "table1", "--seeds", "0"), "Expected seeds=0 >= 1."),
    (("reproduce", "claims", "--out", "/proc/nowhere"), "/proc/nowhere"),
    (("reproduce", "table1", "--only", "TS"), "Expected only=['TS'] not to be given"),
    (("reproduce", "everything"), "Expected experiment='everything' in {"),
    (("reproduce",), "reproduce --list names them"),
    (("data", "check", "/nowhere"), "Expected /nowhere to exist."),
    (("list", "wishes"), "Expected kind='wishes' in {policies, environments, mechanisms, experiments}."),
    (("wish",), "No such command 'wish'"),
    (("calibrate", "--wish"), "No such option"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_mistakes_end_with_one_line_and_exit_code_2(arguments, message):
    is_a_mistake(*called(*arguments), message)


def is_a_mistake(code, out, said, message):
    assert code == 2
    assert out == ""
    assert message in said
    assert said.startswith("adaprivate: ")
    assert "[Errno" not in said
    assert said.count("\n") == 1


FIRST = {arguments[0]: (arguments, message) for arguments, message in reversed(MISTAKES)}


@pytest.mark.parametrize(("arguments", "message"), FIRST.values(), ids=FIRST)
def test_mistakes_in_a_process_of_their_own(arguments, message):
    """The first of every command."""
    done = run(*arguments)
    is_a_mistake(done.returncode, done.stdout, done.stderr, message)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("list",),
        ("calibrate",),
        ("simulate",),
        ("evaluate",),
        ("plan",),
        ("reproduce",),
        ("version",),
        ("data",),
        ("data", "check"),
    ],
)
def test_every_command_explains_itself(command):
    code, out, _ = called(*command, "--help")
    assert code == 0
    assert "Usage" in out


def test_a_process_explains_itself():
    done = run("--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (("simulate", "--policy", "noise-aware-t"), "Did you mean noise-aware-ts?"),
        (("simulate", "--policy", "random", "--environment", "syntetic"), "Did you mean synthetic?"),
        (("simulate", "--policy", "adaprivate-ts", "--option", "batchsize=10"), "Did you mean batch_size?"),
        ((*BASE, "--unit", "users"), "Did you mean user?"),
        (("reproduce", "tabel1"), "Did you mean table1?"),
        (("list", "polices"), "Did you mean policies?"),
        (("simulat",), "Did you mean 'simulate'?"),
        (("calibrate", "--epsilo", "1"), "--epsilon"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_word_that_is_nearly_right_is_asked_for(arguments, question):
    is_a_mistake(*called(*arguments), question)


def test_of_many_words_the_one_that_was_perhaps_meant_comes_first():
    said = called("simulate", "--policy", "noise-awre")[2]
    assert re.match(
        r"adaprivate: Expected policy='noise-awre' to be one of \d+ names\. Did you mean noise-aware\? They are ", said
    )


def test_several_epsilons_may_follow_wherever_several_are_taken():
    words = ("simulate", "--policy", "noise-aware", "--rounds", "50", "--seeds", "1", "--quiet")
    found = [document(*words, *more) for more in (("--epsilon", ".5", "2"), ("--epsilon", ".5", "--epsilon", "2"))]
    assert [[row["epsilon"] for row in one["rows"]] for one in found] == [[0.5, 2], [0.5, 2]]
    is_a_mistake(*called(*words, "2"), "Expected 2 to follow an option, as in --epsilon 2.")


def test_worlds_are_listed_with_their_options():
    listed = {one["name"]: one["options"] for one in document("list", "environments")["environments"]}
    assert {"arms", "base_rate", "people"} <= set(listed["synthetic"])
    assert "base_rate" in called("list", "environments")[1]


def test_a_plan_without_an_epsilon_is_of_the_usual_ones():
    base = ("plan", "--dimension", "5", "--candidates", "3", "--rounds", "1000")
    assert [row["epsilon"] for row in document(*base)["rows"]] == [0.1, 0.5, 1, 2, 5]
    code, out, _ = called(*base, "--epsilon", "1", "5")
    assert code == 0
    assert "< the one to take" in out
    assert "candidates that come again (--items 6)" in out
    assert max(len(line) for line in out.splitlines() if "┃" in line or "│" in line) <= 120


def test_a_word_that_is_nothing_like_any_is_not_guessed():
    assert "Did you mean" not in called("simulate", "--policy", "wish")[2]


ETA = ("simulate", "--policy", "filtered-thompson", *ON_ARMS, "--rounds", "60", "--seeds", "1", "--option", "eta=1")


def test_a_budget_may_be_stated_without_epsilon():
    (row,) = document(*ETA)["rows"]
    assert (row["eta"], row["epsilon"]) == (1, None)
    assert "epsilon = 4.377" in row["guarantee"]  # what 1-GDP is at delta 1e-5
    is_a_mistake(*called(*ETA, "--epsilon", "1"), "Expected epsilon=1.0 not to be given with eta=1.")


def test_beside_it_others_run_at_their_default():
    rows = document(*ETA, "--policy", "modified-thompson", "--policy", "dp-se")["rows"]
    assert [row["epsilon"] for row in rows] == [None, None, 1.0]


def test_quiet_says_nothing_but_results_and_mistakes(monkeypatch):
    monkeypatch.setenv("ADAPRIVATE_QUIET", "")  # and is put back after the test
    small = ("simulate", "--policy", "noise-aware", "--rounds", "60", "--seeds", "1", "--option", "dimension=20", "--json")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert "\nadaprivate: " in "\n" + called(*small)[2]
        code, out, said = called(*small, "--quiet")
    assert (code, said, len(json.loads(out)["rows"])) == (0, "", 1)
    assert called("simulate", "--quiet", "--policy", "wish")[2].startswith("adaprivate: Expected policy='wish'")


def test_no_color(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-7]")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with_colours = run("--help").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured.search(with_colours)
    assert not coloured.search(run("--help").stdout)
    assert not coloured.search(run("list", "environments").stdout)


def test_a_document_holds_no_number_that_json_does_not_know():
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON"):
            terminal.print_json({"rows": [{"share": value}]})


def test_shells_are_told_what_can_follow(monkeypatch):
    monkeypatch.setenv("_ADAPRIVATE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "adaprivate sim")
    monkeypatch.setenv("COMP_CWORD", "1")
    command = "import sys; sys.argv[0] = 'adaprivate'; from adaprivate.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["simulate"]


def test_starting_needs_nothing_heavy():
    heavy = "numpy", "numba", "polars", "scipy", "matplotlib", "dp_accounting"
    command = f"import sys, adaprivate, adaprivate.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"
