"""Logged bandits and labelled tables: what is read, what is recognised, what is refused."""

import numpy as np
import polars as pl
import pytest

from adaprivate import data, logs
from adaprivate.check import InputError
from adaprivate.logs.log_table import read_log

LOG = "action,reward,propensity,age,town\n3,1,0.1,20,a\n1,0,0.25,30,b\n3,0.3,0.25,40,a\n"


def written(tmp_path, text, name="log.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_log_by_its_usual_names_and_by_given_ones(tmp_path):
    found = read_log(written(tmp_path, LOG), context=["age", "town"])
    assert found.names == ("1", "3")
    whole = found.whole()
    assert whole.actions.tolist() == [1, 0, 1]
    assert whole.rewards.tolist() == [1, 0, 0.3]
    assert whole.propensities.tolist() == [0.1, 0.25, 0.25]
    assert found.columns.context == ("age", "town")
    table = pl.read_csv(tmp_path / "log.csv").rename({"action": "arm", "reward": "click", "propensity": "p"})
    table.write_parquet(tmp_path / "log.parquet")
    other = read_log(tmp_path / "log.parquet", action="arm", reward="click", propensity="p", context=["ag"])
    assert other.whole().actions.tolist() == whole.actions.tolist()
    assert other.columns.context == ("age",)
    assert read_log(tmp_path / "log.parquet", action="arm", reward="click").whole().propensities is None


def test_candidates_of_every_row(tmp_path):
    text = "action,reward,x_0_0,x_0_1,x_1_0,x_1_1\n1,0,1,2,3,4\n0,1,5,6,7,8\n"
    found = read_log(written(tmp_path, text), candidates="x").whole()
    longest = np.hypot(7, 8)
    assert found.candidates * longest == pytest.approx(np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]))
    assert found.actions.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"line 3, column action to be right: it is not the number of a candidate"):
        read_log(written(tmp_path, text.replace("\n0,1", "\n2,1")), candidates="x")
    with pytest.raises(InputError, match=r"to have a column x_1_1; it has action, reward, x_0_0, x_0_1, x_1_0, y\.$"):
        read_log(written(tmp_path, text.replace("x_1_1", "y")), candidates="x")


def test_columns_that_are_not_there_are_asked_for_by_name(tmp_path):
    path = written(tmp_path, "arm,clics,age,user\n1,1,2,a\n0,0,3,b\n")
    with pytest.raises(InputError) as caught:
        read_log(path)
    assert str(caught.value) == (
        f"Expected {path} to have a column action or item_id, or another that action= (--action) names; "
        "it has arm, clics, age, user."
    )
    for named in ({}, {"reward": "clicks"}):
        with pytest.raises(InputError, match=r"it has arm, clics, age, user\. Did you mean clics\?$"):
            read_log(path, action="arm", **named)
    with pytest.raises(InputError, match=r"to have a column user_id; it has arm, clics, age, user\. Did you mean user\?$"):
        read_log(path, action="arm", reward="clics", user="user_id")
    with pytest.raises(InputError, match=r"a column agee or columns that begin so; .* Did you mean age\?$"):
        read_log(path, action="arm", reward="clics", context=["agee"])


def test_second_names_serve_where_the_first_are_not_there(tmp_path):
    text = "item_id,click,propensity_score\n3,1,0.25\n1,0,0.25\n"
    found = read_log(written(tmp_path, text))
    whole = found.whole()
    assert (found.names, whole.rewards.tolist(), whole.propensities.tolist()) == (("1", "3"), [1, 0], [0.25, 0.25])
    assert logs.check_path(written(tmp_path, text))["columns"]["reward"] == "click"
    first = read_log(written(tmp_path, text.replace("item_id", "action,item_id").replace("\n", "\n7,", 2)))
    assert first.names == ("7",)


PEOPLE = "action,reward,user_id,age\n3,1,zoe,20\n1,0,abe,30\n3,0,zoe,40\n1,1,12,50\n"


def users_of(log, **columns):
    """The users of a log's rows, numbered in the order in which they come; None where there are none."""
    users = read_log(log, **columns).whole().users
    return None if users is None else [list(dict.fromkeys(users.tolist())).index(user) for user in users.tolist()]


def test_whose_decisions_they_were(tmp_path):
    path = written(tmp_path, PEOPLE)
    assert users_of(path) == [0, 1, 0, 2]
    assert read_log(path).people == 3
    assert logs.check_path(path)["people"] == 3
    renamed = written(tmp_path, PEOPLE.replace("user_id", "who"), "who.csv")
    assert users_of(renamed) is None
    assert logs.check_path(renamed)["people"] is None
    assert users_of(renamed, user="who") == [0, 1, 0, 2]
    assert logs.check_path(renamed, user="who")["people"] == 3
    assert users_of(path, user="") is None
    table = pl.DataFrame({"action": [1, 2, 1], "reward": [0, 1, 0], "user": [7.0, 5.5, 7.0], "user_id": ["a", "b", "c"]})
    assert users_of(table) == [0, 1, 0]  # user comes before user_id
    assert users_of(table, user="user_id") == [0, 1, 2]
    assert users_of(table.with_columns(pl.col("user_id").cast(pl.Categorical)), user="user_id") == [0, 1, 2]
    spelled = table.with_columns(user=pl.Series(["\u00e9", "e\u0301", "e"]))  # one accent, encoded in two ways
    assert users_of(spelled) == [0, 0, 1]
    assert read_log(spelled).people == 2
    assert read_log(table, context=["us"]).columns.context == ("user_id",)  # a user is no context ...
    assert read_log(table, context=["user"]).columns.context == ("user",)  # ... unless it is said to be
    assert read_log(table.rename({"user": "reward", "reward": "x"}), reward="x", action="action").people == 3


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (("1,0,abe", "1,0,"), {}, "line 3, column user_id to be right: it is missing"),
        (("zoe", "zoe"), {"user": "action"}, None),
        (("zoe", "zoe"), {"user": "reward"}, None),
    ],
)
def test_faults_of_people_in_logs(tmp_path, change, options, message):
    path = written(tmp_path, PEOPLE.replace(*change, 1))
    with pytest.raises(InputError) as caught:
        read_log(path, **options)
    own = f"Expected user={options.get('user')!r} not to be the action, the reward or the propensity."
    assert str(caught.value).startswith(own if message is None else f"Expected {path}, {message}")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "", "b"], "row 2, column user to be right: it is missing"),
        (["a", "b", None], "row 3, column user to be right: it is missing"),
        ([1.0, float("nan"), 2.0], "row 2, column user to be right: it is missing"),
        ([None, 5, 2], "row 1, column user to be right: it is missing"),
        ([[1], [2], [1]], "column user: 'List(Int64)' to be texts or numbers"),
    ],
)
def test_people_must_be_named_in_every_row(tmp_path, values, message):
    table = pl.DataFrame({"action": [1, 2, 1], "reward": [0, 1, 0], "user": values})
    table.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InputError) as caught:
        read_log(tmp_path / "log.parquet")
    assert str(caught.value).startswith(f"Expected {tmp_path / 'log.parquet'}, {message}")


def test_the_open_bandit_dataset_is_recognised(tmp_path):
    text = "timestamp,item_id,position,click,propensity_score,user_feature_0\n1,7,3,0,0.1,u\n2,9,1,1,0.2,v\n"
    found = read_log(written(tmp_path, text), context=["user_feature_"])
    assert found.names == ("7", "9")
    assert found.whole().rewards.tolist() == [0, 1]
    assert (found.columns.position, found.columns.time) == ("position", "timestamp")
    assert found.columns.context == ("user_feature_0",)
    assert logs.check_path(tmp_path)["logs"][0]["rows"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("3,1,0.1", "3,high,0.1"), "line 2, column reward to be right: it is not a number"),
        (("1,0,0.25", "1,7,0.25"), "line 3, column reward to be right: it is not within 0 .. 1"),
        (("1,0,0.25", "1,0,0"), "line 3, column propensity to be right: it is not above 0"),
        (("1,0,0.25", "1,0,"), "line 3, column propensity to be right: it is missing"),
        (("1,0,0.25", ",0,0.25"), "line 3, column action to be right: it is missing"),
        (("40,a", "40,a,b"), "line 4, column 6: '...' not to follow 5 values"),
    ],
)
def test_faults_of_logs(tmp_path, change, message):
    path = written(tmp_path, LOG.replace(*change, 1))
    with pytest.raises(InputError) as caught:
        read_log(path)
    assert str(caught.value).startswith(f"Expected {path}, {message}")
    assert "high" not in str(caught.value)


def test_labelled_tables(tmp_path):
    X, y = np.arange(12.0).reshape(4, 3), np.array([5, 2, 5, 9])
    np.savez(tmp_path / "data.npz", X=X, y=y)
    table = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "kind": y})
    table.write_parquet(tmp_path / "t.parquet")
    table.rename({"kind": "label"}).write_csv(tmp_path / "t.csv")
    for found in (
        data.labelled(tmp_path),
        data.labelled(tmp_path / "t.parquet", label="kind"),
        data.labelled(tmp_path / "t.csv"),
    ):
        assert found.classes == ("2", "5", "9")
        assert found.label.tolist() == [1, 0, 1, 2]
        assert np.array_equal(found.rows, X)
    assert logs.check_path(tmp_path / "t.parquet", label="kind")["classes"] == {"2": 1, "5": 2, "9": 1}
    with pytest.raises(InputError, match=r"t\.parquet, line 1: .* to name the column of labels"):
        data.labelled(tmp_path / "t.parquet")
    np.savez(tmp_path / "data.npz", X=np.where(X == 4, np.nan, X), y=y)
    with pytest.raises(InputError, match=r"row 2, column 1: nan to be finite"):
        data.labelled(tmp_path)
    np.savez(tmp_path / "data.npz", X=X, y=y[:3])
    with pytest.raises(InputError, match=r"to hold X \(n, d\) and y \(n,\)"):
        data.labelled(tmp_path)


def test_what_looks_like_nothing_known_is_said_to(tmp_path):
    with pytest.raises(InputError, match=r"to be ratings, a log .*; by its columns \(a, b\) it looks like none\.$"):
        logs.check_path(written(tmp_path, "a,b\n1,2\n"))


def test_where_data_is_looked_for(tmp_path, monkeypatch):
    (tmp_path / "second").mkdir()
    monkeypatch.setenv("ADAPRIVATE_DATA", str(tmp_path))
    assert data.folder(("first", "second")) == tmp_path / "second"
    assert data.folder(("first",), str(tmp_path / "x")) == tmp_path / "x"
    assert data.folder(("second",), str(tmp_path)) == tmp_path / "second"
    with pytest.raises(InputError, match=r"^Expected ADAPRIVATE_DATA='.*' to hold a folder first or third\.$"):
        data.folder(("first", "third"))
    monkeypatch.delenv("ADAPRIVATE_DATA")
    with pytest.raises(InputError, match=r"^Expected data=PATH, or the variable ADAPRIVATE_DATA"):
        data.folder(("first",))
