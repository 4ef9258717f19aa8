"""data check: every fault is listed, with its rows; right logs are called right as often as promised."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from adaprivate.cli import app
from adaprivate.logs import inspection, tables
from adaprivate.logs.columns import columns_of
from adaprivate.logs.facts import check_log
from adaprivate.logs.findings import FALSE_ALARM, Share, chance
from adaprivate.logs.inspection import inspect
from adaprivate.logs.log_table import read_log
from adaprivate.logs.tables import source_of


def sound(n=600, seed=0):
    """Three actions with chances of their own, in order of time, by forty people."""
    rng = np.random.default_rng(seed)
    chances = np.array([0.2, 0.3, 0.5])
    action = rng.choice(3, size=n, p=chances)
    return pl.DataFrame(
        {
            "id": np.arange(n),
            "time": 1_000 + np.arange(n),
            "user": rng.integers(40, size=n),
            "action": np.array(["a", "b", "c"])[action],
            "reward": (rng.random(n) < 0.3).astype(float),
            "propensity": chances[action],
            "age": rng.uniform(20, 60, n),
        }
    )


def broken():
    """The same with something wrong in many rows."""
    return (
        sound()
        .with_row_index()
        .with_columns(
            action=pl.when(pl.col("index") == 3).then(None).otherwise("action"),
            reward=pl.when(pl.col("index").is_in([5, 6]))
            .then(7.25)
            .when(pl.col("index") == 8)
            .then(float("nan"))
            .otherwise("reward"),
            propensity=pl.when(pl.col("index") == 10)
            .then(0.0)
            .when(pl.col("index") == 11)
            .then(1.5)
            .when(pl.col("index") == 12)
            .then(None)
            .otherwise("propensity"),
            user=pl.when(pl.col("index") == 20).then(None).otherwise("user"),
            time=pl.when(pl.col("index") == 30).then(0).otherwise("time"),
            id=pl.when(pl.col("index").is_in([40, 41, 42, 43, 44, 45, 46])).then(39).otherwise("id"),
            age=pl.when(pl.col("index") == 50).then(float("inf")).otherwise("age"),
        )
        .drop("index")
    )


FOUND = {
    ("action", "is missing"): (1, (4,)),
    ("reward", "is not within 0 .. 1"): (2, (6, 7)),
    ("reward", "is missing"): (1, (9,)),
    ("propensity", "is not above 0"): (1, (11,)),
    ("propensity", "is above 1"): (1, (12,)),
    ("propensity", "is missing"): (1, (13,)),
    ("user", "is missing"): (1, (21,)),
    ("id", "has come before"): (7, (41, 42, 43, 44, 45)),
    ("age", "is not a finite number"): (1, (51,)),
}
LATE = {("time", inspection.EARLIER): (1, (31,))}


def listed(facts, kind="faults"):
    return {(one["column"], one["wrong"]): (one["rows"], tuple(one["places"])) for one in facts[kind]}


def test_all_faults_are_listed_with_their_rows():
    facts = check_log(broken(), time="time", context=["age"])
    assert listed(facts) == FOUND
    assert listed(facts, "remarks").items() >= LATE.items()
    assert "7.25" not in str(facts)  # a reward's value


def test_the_same_in_blocks(monkeypatch, tmp_path):
    """Whatever the size of a block, and from a file: its first row is held against the last of the one before."""
    broken().write_parquet(tmp_path / "log.parquet")
    for size in (7, 30, 31):
        monkeypatch.setattr(tables, "BLOCK", size)
        facts = check_log(tmp_path / "log.parquet", time="time", context=["age"])
        assert listed(facts) == FOUND
        assert listed(facts, "remarks").items() >= LATE.items()


def test_the_command_lists_them_and_ends_with_1(tmp_path):
    broken().write_csv(tmp_path / "log.csv")
    sound().write_csv(tmp_path / "sound.csv")
    asked = ["data", "check", str(tmp_path / "log.csv"), "--time", "time", "--context", "age"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1
    assert "7.25" not in done.stdout
    facts = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    lines = {key: (rows, tuple(place + 1 for place in places)) for key, (rows, places) in FOUND.items()}
    assert listed(facts) == lines  # the first line names the columns
    fine = CliRunner().invoke(app, ["data", "check", str(tmp_path / "sound.csv"), "--time", "time"])
    assert (fine.exit_code, "No faults." in fine.stdout) == (0, True)


def test_missing_columns_and_no_rows():
    facts = check_log(sound().drop("reward", "action"))
    assert listed(facts) == {
        ("action", "is not a column of the log"): (1, ()),
        ("reward", "is not a column of the log"): (1, ()),
    }
    assert listed(check_log(sound().clear())) == {(None, "the log holds no rows"): (1, ())}
    assert listed(check_log(sound(), propensity="chance")) == {("chance", "is not a column of the log"): (1, ())}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pl.lit(1 / 3), "too small"),  # as if choice had been uniform
        (pl.col("propensity") / 2, "too small"),
        (pl.col("propensity") * 2, "too large"),
        (pl.lit(1.0), "too large"),
    ],
)
def test_wrong_propensities_are_found(change, said):
    facts = check_log(sound(2_000).with_columns(propensity=change))
    assert facts["faults"]
    assert any(said in one["wrong"] for one in facts["faults"])
    assert all("action" in one["wrong"] for one in facts["faults"])


def test_right_propensities_pass():
    """400 right logs, propensities fixed or by the row: false alarms at most at the stated rate.

    Three or more among 800 have chance 0.05 at a rate of 1e-3; the test is exact or conservative for fixed ones.
    """
    alarms = 0
    for seed in range(400):
        rng = np.random.default_rng([7, seed])
        n = 300
        fixed = rng.dirichlet(np.ones(6))
        odds = np.exp(1.5 * rng.standard_normal((n, 6)))
        for chances in (np.broadcast_to(fixed, (n, 6)), odds / odds.sum(axis=1, keepdims=True)):
            action = (rng.random((n, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(0, 5)
            known = chances[np.arange(n), action]
            table = pl.DataFrame({"action": action, "reward": np.zeros(n), "propensity": known})
            alarms += bool(inspect(source := source_of(table), columns_of(source)).faults)
    assert alarms <= 2


def test_the_chance_is_the_binomial_one_for_fixed_propensities():
    from scipy.stats import binom

    for n, p, rows in ((100, 0.2, 31), (100, 0.2, 9), (1_000, 0.01, 3), (50, 0.9, 50)):
        low, high = chance(Share(rows, n, rows / p, rows / p**2, p, p))
        assert low == pytest.approx(binom.cdf(rows, n, p))
        assert high == pytest.approx(binom.sf(rows - 1, n, p))


def test_an_action_next_to_impossible_is_no_fault():
    """Right propensities, 1e-5 in most rows: the sum of 1/p is far too small, and that is said without calling it wrong."""
    rng = np.random.default_rng(3)
    n = 5_000
    often = rng.random(n) < 0.1
    chance_of_a = np.where(often, 0.9, 1e-5)
    a = rng.random(n) < chance_of_a
    table = pl.DataFrame(
        {"action": np.where(a, "a", "b"), "reward": np.zeros(n), "propensity": np.where(a, chance_of_a, 1 - chance_of_a)}
    )
    facts = check_log(table)
    assert not facts["faults"]
    assert any("next to impossible" in one["wrong"] for one in facts["remarks"])


def test_without_propensities_uneven_choice_is_worth_knowing():
    uneven = check_log(sound(2_000).drop("propensity"))
    assert not uneven["faults"]
    assert any("not chosen evenly" in one["wrong"] for one in uneven["remarks"])
    rng = np.random.default_rng(0)
    even = check_log(pl.DataFrame({"action": rng.integers(3, size=2_000), "reward": np.zeros(2_000)}))
    assert not any("evenly" in one["wrong"] for one in even["remarks"])
    assert even["false_alarm"] == FALSE_ALARM


def test_candidates_and_what_was_chosen_of_them():
    table = pl.DataFrame(
        {
            "item": ["a", "b", "z", "c"],
            "offered": [["a", "b"], ["b", "c"], ["a", "b"], ["c", "c"]],
            "reward": [0, 1, 0, 1],
            "propensity": [0.5] * 4,
        }
    )
    assert listed(check_log(table, action="item", candidates="offered")) == {
        ("item", "is not among the candidates of its row"): (1, (3,)),
        ("offered", "names a candidate twice"): (1, (4,)),
    }
    none = float("nan")
    cells = {"x_0_0": [1.0, 1, 1, None, 1], "x_0_1": [0.0, 0, none, None, 1], "x_1_0": [1.0, None, 1, 1, 1]}
    wide = pl.DataFrame({"action": [1, 1, 0, 1, 2], "reward": [0] * 5, **cells, "x_1_1": [1.0, None, 1, 1, np.inf]})
    assert listed(check_log(wide, candidates="x")) == {
        ("action", "is not the number of a candidate of its row"): (3, (2, 4, 5)),
        ("x_0_0", "and the like are missing for some features of a candidate"): (1, (3,)),
        ("x_0_0", "and the like leave out a candidate before others"): (1, (4,)),
        ("x_0_0", "and the like are not finite"): (1, (5,)),
    }


def test_people_and_their_visits():
    facts = check_log(sound())
    assert facts["people"] == sound()["user"].n_unique()
    assert any("one has" in one["wrong"] for one in facts["remarks"])


def test_many_people_are_counted_about(monkeypatch):
    """By the 10,000 smallest hashes: within 5 %, five times the standard error. Exact up to as many users."""
    monkeypatch.setattr(inspection, "MOST_PEOPLE", 10_000)
    table = pl.DataFrame({"user": np.arange(200_000) % 150_000, "action": 0, "reward": 0.0})
    source = source_of(table)
    assert inspect(source, columns_of(source)).people == pytest.approx(150_000, rel=0.05)
    for users in (9_999, 10_000):
        source = source_of(table.with_columns(pl.col("user") % users))
        assert inspect(source, columns_of(source)).people == users


def told(table, **columns):
    """What is worth knowing, and what is wrong, with how many rows."""
    found = check_log(table, **columns)
    return [[(one["column"], one["wrong"], one["rows"]) for one in found[kind]] for kind in ("remarks", "faults")]


def test_rows_that_are_there_twice_are_worth_knowing():
    table = sound().drop("id")
    words = "all columns but the reward are as in an earlier row: the same person, at the same time, twice"
    assert words not in str(told(table))
    again = table[::10].with_columns(reward=1 - pl.col("reward"))  # whatever they earned
    assert (None, words, 60) in told(pl.concat([table, again]))[0]
    assert words not in str(told(pl.concat([table, again]).drop("time")))  # then people may just have come again


def test_a_misspelt_action_is_worth_knowing():
    names = ["football"] * 3_000 + ["tennis"] * 3_000 + ["footbal"] * 10
    table = pl.DataFrame({"action": names, "reward": [0.0] * len(names)})
    assert ("action", "is 'footbal' in only 10 rows. Did you mean football?", 10) in told(table)[0]
    often = table.with_columns(action=pl.col("action").replace({"football": "page 11", "footbal": "page 12"}))
    assert "only" not in str(told(often))  # a number is not misspelt


def test_propensities_in_percent_are_called_so():
    table = sound().with_columns(propensity=100 * pl.col("propensity"))
    assert ("propensity", "is above 1: these look like percentages, so divide by 100", 600) in told(table)[1]
    assert "percentages" not in str(told(broken()))
    assert "adds up to" not in str(told(table))  # one cause, one message
    facts = check_log(table)
    assert (len(facts["faults"]), facts["least_propensity"]) == (1, pytest.approx(20.0))
    assert check_log(sound())["least_propensity"] == pytest.approx(0.2)


def test_times_out_of_order_are_no_fault(tmp_path):
    """As rows are put in order first: exit code 0."""
    table = sound().sample(fraction=1.0, shuffle=True, seed=0)
    table.write_csv(tmp_path / "log.csv")
    done = CliRunner().invoke(app, ["data", "check", str(tmp_path / "log.csv"), "--time", "time"])
    assert (done.exit_code, "No faults." in done.stdout) == (0, True)
    assert "evaluate puts rows in order first" in " ".join(done.stdout.replace("\u2502", " ").split())


def test_a_number_that_is_hashed_for_a_few_texts_says_which(tmp_path):
    ages = [str(20 + k % 60) for k in range(600)]
    ages[300] = ages[301] = "unknown"
    table = sound().with_columns(age=pl.Series(ages))
    table.write_csv(tmp_path / "age.csv")
    said = ("age", "is a number in all but 2 rows (lines 302, 303), so it is hashed", 2)
    assert said in told(tmp_path / "age.csv", context=["age"])[0]
    stream = read_log(tmp_path / "age.csv", context=["age"])
    assert any(
        "age is a number in all but 2 rows (lines 302, 303), so it is hashed into" in note for note in stream.notes()
    )
    who = sound().with_columns(who=pl.format("person {}", "id"))
    assert ("who", "has many values and is hashed: of a time or a person little can be learned so", 600) in told(
        who, context=["who"]
    )[0]
    assert "hashed" not in str(told(sound(), context=["age"]))
    assert "hashed" not in str(told(table.with_columns(age=pl.lit("old")), context=["age"]))


def test_describe_takes_the_columns_that_check_takes(tmp_path):
    table = sound().rename({"time": "clock", "propensity": "clicks"}).with_columns(reward=2 * pl.col("reward"))
    table.write_csv(tmp_path / "log.csv")
    asked = [str(tmp_path / "log.csv"), "--context", "cl", "--context", "age", "--time", "clock", "--propensity", "clicks"]
    asked += ["--user", "user", "--id", "id", "--reward-range", "0", "2"]
    assert CliRunner().invoke(app, ["data", "check", *asked[:1], *asked[3:]]).exit_code == 0
    done = CliRunner().invoke(app, ["data", "describe", *asked[:1], *asked[3:]])
    assert done.exit_code == 0
    assert [field["name"] for field in json.loads(done.stdout)["context"]] == ["age"]


def test_a_column_that_is_not_there_is_asked_for():
    assert ("rewrd", "is not a column of the log. Did you mean reward?", 1) in told(sound(), reward="rewrd")[1]
