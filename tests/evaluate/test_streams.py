"""Logs read in blocks: the same numbers as at once, with contexts, items, candidates that vary, people and time."""

import json
import math

import numpy as np
import polars as pl
import pytest

import adaprivate as ap
from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.features import Featuriser
from adaprivate.logs import intervals, tables
from adaprivate.logs import log as logs
from adaprivate.logs.draft import LogFeatures, coordinates
from adaprivate.logs.estimators import Sample, estimate
from adaprivate.logs.judge import Weighing, judge
from adaprivate.logs.log_table import read_log
from adaprivate.logs.replay import replay
from adaprivate.runtime.policy import Policy

ITEMS = pl.DataFrame({"item": ["a", "b", "c", "d"], "price": [1.0, 4.0, 2.0, 9.0], "kind": ["x", "y", "x", "z"]})
DESCRIPTION = {
    "context": [
        {"name": "hour", "kind": "cyclic", "period": 24},
        {"name": "device", "kind": "category", "values": ["phone", "desktop"], "missing": "phone"},
    ],
    "items": {
        "kind": "columns",
        "columns": [
            {"name": "price", "kind": "number", "low": 0, "high": 10},
            {"name": "kind", "kind": "hashed", "buckets": 3},
        ],
    },
    "interactions": "products",
}


def shop(n=1_200, seed=0, rate=0.5):
    """Item b by night, d on phones; choice by a softmax that leans the wrong way."""
    rng = np.random.default_rng(seed)
    hour, phone = rng.uniform(0, 24, n), rng.random(n) < 0.5
    night = np.cos(2 * np.pi * hour / 24)
    means = rate * np.stack([0.5 + 0 * hour, 0.5 + 0.4 * night, 0.5 - 0.2 * night, 0.3 + 0.5 * phone], axis=1)
    odds = np.exp(-2 * means)
    odds /= odds.sum(axis=1, keepdims=True)
    chosen = (rng.random((n, 1)) > odds.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    table = pl.DataFrame(
        {
            "hour": hour,
            "device": np.where(phone, "phone", "desktop"),
            "action": np.array(["a", "b", "c", "d"])[chosen],
            "reward": (rng.random(n) < means[np.arange(n), chosen]).astype(float),
            "propensity": odds[np.arange(n), chosen],
            "user": rng.integers(n // 5, size=n),
        }
    )
    return table, means


def test_columns_are_filled_as_single_contexts_are():
    fields = [
        {"name": "n", "kind": "number", "low": -1, "high": 3, "missing": 0},
        {"name": "c", "kind": "cyclic", "period": 7},
        {"name": "k", "kind": "category", "values": ["u", "v"], "missing": "v"},
        {"name": "h", "kind": "hashed", "buckets": 5},
        {"name": "b", "kind": "category", "values": ["true"], "other": True},
        {"name": "v", "kind": "vector", "length": 2, "norm": 2.0},
    ]
    made = Featuriser(fields, {"kind": "one-hot", "most": 2}, "products")
    rng = np.random.default_rng(0)
    rows = [
        {
            "n": None if k % 7 == 0 else float(rng.normal(1, 3)),
            "c": float(rng.normal(0, 9)),
            "k": [None, "u", "v", "w"][k % 4],
            "h": int(rng.integers(4)),
            "b": bool(k % 2),
            "v": rng.normal(0, 2, 2).tolist(),
        }
        for k in range(60)
    ]
    table = pl.DataFrame(rows)
    from adaprivate.features import Clipping

    one, other = Clipping(), Clipping()
    assert coordinates(made.context, table, one) == pytest.approx(made.context_vectors(rows, other), abs=1e-15)
    assert one == other
    texts = table.drop("v", "b").cast(pl.String)  # as in large text files
    assert coordinates(made.context[:4], texts) == pytest.approx(coordinates(made.context[:4], table))
    with pytest.raises(InputError, match="Expected c to be given in every row"):
        coordinates(made.context, table.with_columns(c=pl.lit(None, pl.Float64)))
    with pytest.raises(InputError, match="c to be a number"):
        coordinates(made.context, table.with_columns(c=pl.lit("noon")))
    with pytest.raises(InputError, match="to have a column 'h'"):
        coordinates(made.context, table.drop("h"))


def test_blocks_give_what_the_whole_gives(tmp_path, monkeypatch):
    """Any size of blocks and parts; from a file or a table."""
    table, _ = shop(400)
    table.write_parquet(tmp_path / "log.parquet")
    expected = read_log(table, items=ITEMS, featuriser=DESCRIPTION).whole()
    dimension = LogFeatures.from_dict(DESCRIPTION).featuriser.dimension
    assert expected.candidates.shape == (400, 4, dimension)
    assert np.linalg.norm(expected.candidates, axis=2).max() <= 1 + 1e-12
    monkeypatch.setattr(tables, "BLOCK", 37)
    monkeypatch.setattr(logs, "MOST_NUMBERS", 5 * 4 * dimension)
    stream = read_log(tmp_path / "log.parquet", items=ITEMS, featuriser=DESCRIPTION)
    parts = list(stream.parts(10, 300))
    assert max(len(part) for part in parts) == 5
    assert np.concatenate([part.candidates for part in parts]).tolist() == expected.candidates[10:300].tolist()
    assert np.concatenate([part.chosen for part in parts]) == pytest.approx(expected.chosen[10:300])
    assert np.concatenate([part.users for part in parts]).tolist() == expected.users[10:300].tolist()


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips", "dm", "dr"])
def test_estimates_in_parts_are_those_at_once(estimator, monkeypatch):
    """linucb does not draw, so that parts change nothing; sums differ by rounding alone."""
    table, _ = shop(800)
    whole = read_log(table, items=ITEMS, featuriser=DESCRIPTION).whole()
    expected = judge(whole, "linucb", estimator, options={"alpha": 0.3}).estimate
    monkeypatch.setattr(tables, "BLOCK", 101)
    monkeypatch.setattr(logs, "MOST_NUMBERS", 2_000)
    found = judge(
        read_log(table, items=ITEMS, featuriser=DESCRIPTION), "linucb", estimator, options={"alpha": 0.3}
    ).estimate
    for name in ("value", "sem", "low", "high", "effective_sample_size", "rewarded", "rows"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9), name


def test_many_rows_or_people_share_sums(monkeypatch):
    """2,000 rows in 250 sums, and 400 people in 100: values stay; standard errors are within 6 times their own error."""
    rng = np.random.default_rng(1)
    r, w, who = (rng.random(2_000) < 0.4).astype(float), rng.uniform(0.2, 2, 2_000), rng.integers(400, size=2_000)
    for people, most in ((None, 250), (who, 100)):
        rows = Sample(r, w, people=people)
        exact = estimate("snips", rows)
        with monkeypatch.context() as smaller:
            smaller.setattr(intervals, "MOST_UNITS", most)
            shared = estimate("snips", rows)
        assert shared.value == pytest.approx(exact.value, rel=1e-12)
        assert shared.sem == pytest.approx(exact.sem, rel=6 / math.sqrt(2 * most))
        assert shared.sem != exact.sem


def test_a_contextual_policy_is_found_better_and_its_value_is_true():
    """The best policy that features can tell learns the world; dr, ips and snips cover its true value.

    Four intervals of five standard errors: false alarm below 1e-5.
    """
    table, means = shop(6_000)
    stream = read_log(table, items=ITEMS, featuriser=DESCRIPTION, user="")
    found = ap.evaluate(stream, "tuned-linucb", ["ips", "snips", "dr", "dm"])
    settings = policies.settings("tuned-linucb", {"dimension": stream.dimension, "rounds": 3_000})
    policy = Policy(settings, seed=0, source=None)
    from adaprivate.logs.judge import learn_from

    learn_from(policy, stream, 3_000)
    weighing = Weighing(policy.state, stream)
    whole = stream.whole().part(slice(3_000, None))
    odds = weighing._probabilities(whole.candidates, None, 0)
    truth = float((odds * means[3_000:]).sum(axis=1).mean())
    assert truth > 1.1 * float(table["reward"].mean())
    for value, sem in zip(found["value"], found["sem"], strict=True):
        assert abs(value - truth) < 5 * sem


def test_drafted_features_are_those_of_their_description(tmp_path):
    table, _ = shop(500)
    drafted = read_log(table, context=["hour", "device"], items=ITEMS)
    description = json.loads(json.dumps(drafted.description))
    stated = read_log(table, items=ITEMS, featuriser=description)
    assert stated.whole().candidates.tolist() == drafted.whole().candidates.tolist()
    path = tmp_path / "features.json"
    path.write_text(json.dumps(description))
    one = ap.evaluate(table, "linucb", "snips", items=ITEMS, featuriser=path)
    two = ap.evaluate(table, "linucb", "snips", items=ITEMS, context=["hour", "device"])
    assert one["value"].to_list() == two["value"].to_list()
    assert one.featuriser == two.featuriser == description
    assert "drafted" in str(two)
    assert "drafted" not in str(one)
    path.write_text("{")
    with pytest.raises(InputError, match=r"features\.json to be a JSON document"):
        ap.evaluate(table, "linucb", "snips", items=ITEMS, featuriser=path)
    with pytest.raises(InputError, match="Expected items to be given"):
        ap.evaluate(table, "linucb", "snips", featuriser=DESCRIPTION)


def varying(n=900, seed=0):
    """Rows that offer two to four of the items: as lists of names, and as columns of features with nulls."""
    rng = np.random.default_rng(seed)
    names = ITEMS["item"].to_list()
    features = ITEMS.select("price", pl.col("price").sqrt().alias("root")).to_numpy() / 10
    rows = []
    for _ in range(n):
        offered = rng.permutation(4)[: rng.integers(2, 5)]
        chosen = int(rng.integers(len(offered)))
        reward = float(rng.random() < 0.2 + 0.6 * (offered[chosen] == 1))
        cells = {f"x_{k}_{j}": None if k >= len(offered) else features[offered[k], j] for k in range(4) for j in range(2)}
        listed = [names[k] for k in offered]
        own = {"item": listed[chosen], "action": chosen, "candidates": listed, "reward": reward}
        rows.append({**own, "propensity": 1 / len(offered), **cells})
    return pl.DataFrame(rows, infer_schema_length=None)


def test_candidates_that_vary():
    """Columns with nulls, lists of names and numbers in lists say the same; not every row offers the best item."""
    table = varying()
    numeric = ITEMS.select("item", pl.col("price") / 10, (pl.col("price").sqrt() / 10).alias("root"))
    by_columns = read_log(table, candidates="x")
    by_name = read_log(table, action="item", candidates="candidates", items=numeric)
    by_place = read_log(table, candidates="candidates", items=numeric)
    one, two, three = (log.whole() for log in (by_columns, by_name, by_place))
    counts = table["candidates"].list.len().to_list()
    for log in (one, two, three):
        assert log.counts.tolist() == counts
        assert log.actions.tolist() == table["action"].to_list()
    for row in range(0, 900, 50):
        assert two.candidates[row, : counts[row]] == pytest.approx(one.candidates[row, : counts[row]])
    assert three.candidates.tolist() == two.candidates.tolist()
    values = [ap.evaluate(log, "linucb", ["snips", "dr"])["value"].to_list() for log in (by_columns, by_name, by_place)]
    assert values[0] == pytest.approx(values[1])
    assert values[0] == pytest.approx(values[2])
    arms = ap.evaluate(table, ["random", "tuned-linucb"], "snips", action="item", candidates="candidates")
    assert arms["log_dimension"].to_list() == [4, 4]
    best = table.select((0.2 + 0.6 * pl.col("candidates").list.contains("b")).mean()).item()
    assert arms["value"][1] == pytest.approx(best, abs=0.12)  # four standard errors
    assert arms["value"][0] == pytest.approx(float(table["reward"].mean()), abs=0.06)


def test_lists_in_a_csv_file(tmp_path):
    table = varying(200)
    texts = table.select("item", "reward", "propensity", pl.col("candidates").list.join("|"))
    texts.write_csv(tmp_path / "log.csv")
    asked = {"action": "item", "candidates": "candidates", "policy": "linucb", "estimator": "snips"}
    assert ap.evaluate(tmp_path / "log.csv", **asked).equals(ap.evaluate(table, **asked))


def test_clipped_values_are_counted_once():
    table, _ = shop(400)
    narrow = {**DESCRIPTION, "context": [{"name": "hour", "kind": "number", "low": 6, "high": 18}]}
    found = ap.evaluate(table, "linucb", ["snips", "dr"], items=ITEMS, featuriser=narrow)
    beyond = table.filter((pl.col("hour") < 6) | (pl.col("hour") > 18)).height
    assert f"{beyond} of 404 values" in found["log_doubts"][0].to_list()[0]  # 400 hours and four prices
    assert not ap.evaluate(table, "linucb", "snips", items=ITEMS, featuriser=DESCRIPTION)["log_doubts"][0].to_list()


def test_replay_of_rows_with_more_or_fewer_candidates_is_even():
    """Without propensities a row of four candidates is kept twice as often as one of two: as many are then accepted.

    Of 6,000 rows about 500 of each size are accepted: equal within 5 standard deviations.
    """
    table = varying(6_000).drop("propensity")
    stream = read_log(table, candidates="x")
    policy = Policy(policies.settings("random", {"dimension": 2, "rounds": 6_000}), seed=0, source=None)
    rows = replay(policy, stream, rounds=6_000)
    sizes = table["candidates"].list.len().to_numpy()
    share = np.bincount(sizes[rows], minlength=5)[2:] / np.bincount(sizes, minlength=5)[2:]
    assert share == pytest.approx([0.25] * 3, abs=5 * math.sqrt(0.25 * 0.75 / 2_000))


def test_replay_is_even_over_parts_that_offer_less(monkeypatch):
    """Rows of two candidates come first, in parts of their own, then rows of five: a fifth of each is accepted.

    Counts are within five standard deviations; by each part's own most, half of the first rows would be.
    """
    n = 3_000
    monkeypatch.setattr(logs, "LARGEST_PART", 500)
    counts = np.repeat([2, 5], n // 2)
    actions = np.random.default_rng(0).integers(counts)
    log = logs.Log(np.ones((n, 5, 1)), actions, np.ones(n), counts=counts)
    policy = Policy(policies.settings("random", {"dimension": 1, "rounds": n}), seed=1, source=None)
    rows = replay(policy, log, rounds=n)
    for kept in (rows[rows < n // 2], rows[rows >= n // 2]):
        assert abs(len(kept) - n / 2 / 5) < 5 * math.sqrt(n / 2 * 0.2 * 0.8)


def test_time_puts_rows_in_order(tmp_path):
    table, _ = shop(300)
    timed = table.with_columns(at=pl.Series([f"2024-01-{1 + k // 24:02d} {k % 24:02d}:00:00" for k in range(300)]))
    mixed = timed.sample(fraction=1.0, shuffle=True, seed=3)
    expected = ap.evaluate(timed, "linucb", ["replay", "dr"], user="")
    assert not ap.evaluate(mixed, "linucb", ["replay", "dr"], user="").equals(expected)
    assert ap.evaluate(mixed, "linucb", ["replay", "dr"], user="", time="at").equals(expected)
    mixed.write_parquet(tmp_path / "log.parquet")
    assert ap.evaluate(tmp_path / "log.parquet", "linucb", ["replay", "dr"], user="", time="at").equals(expected)
    numbers = mixed.with_columns(at=pl.col("at").rank().cast(pl.String))  # texts that are numbers, of several lengths
    assert ap.evaluate(numbers, "linucb", ["replay", "dr"], user="", time="at").equals(expected)
    with pytest.raises(InputError, match="column at to be right: it is no time"):
        ap.evaluate(mixed.with_columns(at=pl.lit("noon")), "linucb", time="at")


def test_people_of_a_log_give_its_intervals():
    """Every row five times, as of one person: the interval is that of the rows once."""
    table, _ = shop(500)
    once = ap.evaluate(table.drop("user"), "random", "ips", train=0.0)
    again = pl.concat([table.with_columns(user=pl.int_range(500))] * 5)
    people = ap.evaluate(again, "random", "ips", train=0.0)
    assert people["log_people"][0] == 500
    assert people["sem"][0] == pytest.approx(once["sem"][0], rel=1e-3)
    assert ap.evaluate(again, "random", "ips", train=0.0, user="")["sem"][0] < 0.5 * once["sem"][0]


def test_replay_says_what_it_assumes():
    table, _ = shop(900)
    known = ap.evaluate(table, "linucb", ["replay", "snips"])
    assert "taken for right" in known["assumes"][0]
    assert known["assumes"][1] is None
    unknown = str(ap.evaluate(table.drop("propensity"), "linucb", "replay"))
    assert "assumes that every candidate was equally likely" in unknown.replace("\n", " ")
    uneven = table.filter((pl.col("action") != "a") | (pl.int_range(900) % 4 == 0)).drop("propensity")
    assert "CONTRADICT" in str(ap.evaluate(uneven, "linucb", "replay"))
    rng = np.random.default_rng(0)
    even = pl.DataFrame({"action": rng.integers(4, size=900), "reward": rng.integers(2, size=900)})
    assert "do not contradict" in str(ap.evaluate(even, "linucb", "replay")).replace("\n", " ")


def test_a_column_of_propensities_that_are_all_null_is_none():
    """As the service writes it where nobody asked for them; one that is named must be there."""
    table, _ = shop(300)
    empty = table.with_columns(propensity=pl.lit(None, pl.Float64))
    assert ap.evaluate(empty, "linucb", "dm").equals(ap.evaluate(table.drop("propensity"), "linucb", "dm"))
    with pytest.raises(InputError, match="propensity=None to be a column of the log for ips"):
        ap.evaluate(empty, "linucb", "ips")
    with pytest.raises(InputError, match=r"row 1, column propensity to be right: it is missing \(as in 300 rows"):
        ap.evaluate(empty, "linucb", "ips", propensity="propensity")


def test_wrong_propensities_are_doubted_where_they_are_used():
    table, _ = shop(2_000)
    wrong = ap.evaluate(table.with_columns(propensity=pl.col("propensity") / 2), "linucb", "snips")
    assert "too small there" in str(wrong).replace("\n", " ")
    assert not ap.evaluate(table, "linucb", "snips")["log_doubts"][0].to_list()


def test_a_result_reads_as_a_table():
    table, _ = shop(3_000)
    found = ap.evaluate(table, policy="linucb", estimator=["snips"], items=ITEMS, context=["hour"])
    assert str(found).startswith("3,000 decisions by")
    assert "linucb" in str(found)
    assert found.select("value").equals(found.table.select("value"))
    assert len(found) == 1
    assert found.to_dicts()[0]["method"] == "asymptotic"
