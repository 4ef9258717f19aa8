"""Rewards of a log are private: no other role names their column, and no error repeats one."""

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import adaprivate as ap
from adaprivate import logs
from adaprivate.check import InputError
from adaprivate.logs import tables
from adaprivate.logs.columns import columns_of, look_like_names
from adaprivate.logs.facts import check_log
from adaprivate.logs.log_table import read_log
from adaprivate.logs.tables import source_of

SECRET = "0.7312"


def table(n=60):
    rng = np.random.default_rng(0)
    reward = rng.integers(2, size=n)
    return pl.DataFrame(
        {
            "page": rng.choice(["x", "y"], n),
            "clicked": reward,
            "chance": np.full(n, 0.5),
            "age": rng.random(n).round(3),
            "own_0_0": rng.random(n),
            "own_1_0": reward,
            "names": ["x|y"] * n,
        }
    )


BASE = {"action": "page", "reward": "clicked", "propensity": "chance"}
FIELD = {"name": "clicked", "kind": "number", "low": 0, "high": 1}
ITEMS = pl.DataFrame({"page": ["x", "y"], "clicked": [0.2, 0.4], "colour": ["red", "blue"]})
ROLES = {
    "action": {"action": "clicked"},
    "propensity": {"propensity": "clicked"},
    "user": {"user": "clicked"},
    "time": {"time": "clicked"},
    "context": {"context": ["clicked"]},
    "candidates that are listed": {"candidates": "clicked"},
    "candidates' features": {"candidates": "own", "reward": "own_1_0"},
    "featuriser": {"featuriser": {"context": [FIELD], "items": {"kind": "one-hot", "most": 2}, "interactions": "blocks"}},
    "items": {"items": ITEMS},
    "items by numbers": {"items": ITEMS.drop("colour")},
    "items by fields": {
        "items": ITEMS,
        "featuriser": {"items": {"kind": "columns", "columns": [FIELD]}, "interactions": "none"},
    },
}


@pytest.mark.parametrize("released", [None, 1.0])
@pytest.mark.parametrize("role", ROLES)
def test_no_other_role_names_the_reward(role, released):
    with pytest.raises(InputError, match="the reward"):
        ap.evaluate(table(), "random", "ips", **{**BASE, **ROLES[role]}, release_epsilon=released)
    fine = ap.evaluate(table(), "random", "ips", **BASE, context=["age"], items=ITEMS.drop("clicked"))
    assert len(fine) == 1  # power: the same without the reward passes


@pytest.mark.parametrize("role", ["action", "propensity", "position", "user", "time", "id", "context", "candidates"])
def test_no_single_column_is_the_reward(role):
    given = {**BASE, role: ["clicked"] if role == "context" else "clicked"}
    with pytest.raises(InputError, match=f"Expected {role}='clicked' not to be the .*reward") as caught:
        columns_of(source_of(table()), **given)
    assert str(caught.value).count("\n") == 0
    with pytest.raises(InputError, match=f"Expected {role}='clicked' not to be the .*reward"):
        check_log(table(), **given)


def test_the_lists_of_a_dsjson_log_are_not_the_reward():
    lists = tables.in_memory(
        tables.File("log"), table(), "row", {"item_columns": ("clicked",), "action": "page", "reward": "clicked"}
    )
    with pytest.raises(InputError, match="Expected candidates='clicked' not to be the reward"):
        columns_of(lists)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("action,reward,chance", True),
        ("日本,récompense,x1", True),
        ("1,0.731,0.5", False),
        ("x,1e-3", False),
        ("x,nan", False),
        ("x,true", False),
        ("x,50%", False),
        ("x,", False),
        ("x,2024-05-01T10:00", False),
        ("x,y,x_duplicated_0", False),
    ],
)
def test_a_first_line_is_told_from_values(line, names):
    assert look_like_names(line.split(",")) == names


@pytest.mark.parametrize("large", [False, True])
def test_a_log_without_a_header_keeps_its_rewards(tmp_path, monkeypatch, large):
    if large:
        monkeypatch.setattr(tables, "LARGE", 0)
    path = tmp_path / "log.csv"
    path.write_text(f"1,{SECRET},0.5\n2,0.25,0.5\n1,0.5,0.5\n")
    for call in (
        lambda: ap.evaluate(path, "random", action="page", reward="clicked"),
        lambda: ap.evaluate(path, "random", action=SECRET[:-1] + "3"),  # near it: it is not asked for either
        lambda: read_log(path),
        lambda: logs.check_path(path),
    ):
        with pytest.raises(InputError, match="does not look like their names") as caught:
            call()
        assert SECRET not in str(caught.value)
    path.write_text(f"{SECRET},{SECRET},1\n2,0.25,0.5\n")
    with pytest.raises(InputError, match=r"to have each name of a column once: \.\.\. is there twice") as caught:
        logs.check_path(path)
    path.write_text(f"page,clicked\nx,1\nx,1,{SECRET}\n")
    with pytest.raises(InputError, match=r"line 3, column 3: '\.\.\.' not to follow 2 values"):
        read_log(path, action="page", reward="clicked")


def test_a_name_that_two_columns_have_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_text('page,"clicked",clicked\nx,1,0\ny,0,1\n')
    for large in (False, True):
        if large:
            monkeypatch.setattr(tables, "LARGE", 0)
        with pytest.raises(InputError, match="to have each name of a column once: 'clicked' is there twice"):
            read_log(path, action="page", reward="clicked")
    path.write_text("page,clicked,clicked_duplicated_0\nx,1,0\ny,0,1\n")
    assert len(read_log(path, action="page", reward="clicked")) == 2
    twice = SimpleNamespace(iloc=None, columns=["page", "clicked", "clicked"])  # as pandas has it
    with pytest.raises(InputError, match="'clicked' is there twice"):
        read_log(twice, action="page", reward="clicked")


def line(**changes):
    fields = {"_label_cost": -0.5, "_label_probability": 0.5, "_labelIndex": 1, "c": {"_multi": [{"a": 1}, {"a": 2}]}}
    return json.dumps({key: value for key, value in {**fields, **changes}.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{{"_label_cost":-{SECRET},"_labelIndex"', "'...' to be a JSON object"),
        (f"[-{SECRET}, 3]", "'...' to be a JSON object"),
        (SECRET, "'...' to be a JSON object"),
        ("[" * 100_000, "'...' to be a JSON object, not nested deeply"),
        (line(_label_cost=f"-{SECRET}"), "column _label_cost: '...' to be a number; it is private and not repeated"),
        (line(_label_cost=[-0.7312]), "column _label_cost: '...' to be a number"),
        (line(_label_cost={"v": -0.7312}), "column _label_cost: '...' to be a number"),
        (line(_label_cost=True), "column _label_cost: '...' to be a number"),
        (line(_label_cost=10**400), "column _label_cost: '...' to be a number"),
        (line(_label_probability="x"), "column _label_probability: 'x' to be a number"),
        (line(_labelIndex=0.7), "column _labelIndex: 0.7 to be a whole number"),
        (line(_labelIndex=True), "column _labelIndex: True to be a whole number"),
        (line(_labelIndex=[1]), r"column _labelIndex: \[1\] to be a whole number"),
        (line(_labelIndex=10**30), "column _labelIndex: 10+ to be a whole number"),
    ],
)
def test_a_broken_line_of_dsjson_is_not_shown(tmp_path, text, message):
    path = tmp_path / "log.dsjson"
    path.write_text(line() + "\n" + text + "\n")
    for call in (source_of, logs.check_path):
        with pytest.raises(InputError, match=f"log.dsjson, line 2.*{message}") as caught:
            call(path)
        assert "7312" not in str(caught.value)


def test_dsjson_needs_neither_time_nor_id(tmp_path):
    path = tmp_path / "log.dsjson"
    path.write_text(
        "".join(line(_labelIndex=k % 2, _label_cost=-(k % 3 == 0)).replace("true", "1") + "\n" for k in range(40))
    )
    path.write_text(path.read_text().replace("false", "0"))
    found = logs.check_path(path)
    assert not found["faults"]
    assert not {"time", "id"} & set(found["columns"])
    assert len(ap.evaluate(path, "random", "ips")) == 1
    path.write_text("".join(line(_labelIndex=k % 2, EventId=None if k < 30 else f"e{k}") + "\n" for k in range(40)))
    (fault,) = logs.check_path(path)["faults"]
    assert (fault["column"], fault["wrong"], fault["rows"]) == ("_id", "is missing", 30)  # and none 'has come before'


def test_only_the_label_of_vw_says_what_was_chosen(tmp_path):
    path = tmp_path / "log.dsjson"
    path.write_text(line(_labelIndex=None, _label_Action=2) + "\n" + line(_labelIndex=None, _label_Action=1) + "\n")
    source = source_of(path)
    assert source.lazy().collect()["_action"].to_list() == [1, 0]


FEEDBACK = {
    "action": [0, 1, 0],
    "reward": [1, 0, 1],
    "pscore": [0.5] * 3,
    "context": np.eye(3),
    "action_context": np.eye(2),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": ["1", f"secret{SECRET}", "0"]}, "Expected feedback.reward to be an array of numbers."),
        ({"reward": [[1], [0, 1], 1]}, "Expected feedback.reward to be an array of numbers."),
        ({"pscore": ["a", "b", "c"]}, "Expected feedback.pscore to be an array of numbers."),
        ({"action": [[1], [0, 1], 1]}, "Expected feedback.action to be an array of numbers."),
        ({"action": [None, "x", 1]}, "Expected feedback.action to be an array of numbers or of texts."),
        ({"position": [0, 1]}, r"Expected feedback.position.shape=\(2,\) == \(3,\)."),
        ({"context": [[1, 2], [3], [4]]}, "Expected feedback.context to be an array of numbers."),
        ({"context": [[1, 2], [3, np.nan], [4, 5]]}, r"Expected feedback.context\[1, 1\]=nan to be finite."),
        ({"action_context": [[1.0], [-np.inf]]}, r"Expected feedback.action_context\[1, 0\]=-inf to be finite."),
        ({"pscore": [0.0] * 3}, "column propensity to be right: it is not above 0"),
    ],
)
def test_faults_of_feedback_are_one_line(change, message):
    with pytest.raises(InputError, match=message) as caught:
        read_log({**FEEDBACK, **change})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("large", [False, True])
def test_a_context_that_is_not_finite_is_refused_with_its_row(tmp_path, monkeypatch, value, large):
    wrong = table().with_columns(age=pl.when(pl.int_range(60) == 7).then(pl.lit(value)).otherwise("age"))
    with pytest.raises(InputError, match=r"Expected log, row 8, column age: .* to be a finite number"):
        ap.evaluate(wrong, "random", "ips", **BASE, context=["age"])
    if large:
        monkeypatch.setattr(tables, "LARGE", 0)
    wrong.write_csv(tmp_path / "log.csv")
    with pytest.raises(InputError, match=r"log.csv, line 9, column age: .* to be a finite number"):
        ap.evaluate(tmp_path / "log.csv", "random", "ips", **BASE, context=["age"])


@pytest.mark.parametrize("column", ["page", "clicked", "chance", "age"])
@pytest.mark.parametrize(
    "value", [pl.Series("v", [[1]] * 60), pl.Series("v", [{"a": 1}] * 60), pl.Series("v", [object()] * 60, dtype=pl.Object)]
)
def test_columns_of_lists_and_the_like_are_one_line(column, value):
    wrong = table().with_columns(value.alias(column))
    for call in (
        lambda: ap.evaluate(wrong, "random", "ips", **BASE, context=["age"]),
        lambda: read_log(wrong, **BASE, context=["age"]),
    ):
        with pytest.raises(InputError, match=f"Expected log, column {column}: .* to be texts or numbers"):
            call()
    if column != "age":
        with pytest.raises(InputError, match=f"Expected log, column {column}: .* to be texts or numbers"):
            check_log(wrong, **BASE)
    check_log(
        wrong.rename({column: "other"}).with_columns(table()[column]), **BASE
    )  # what is not asked for may be anything
