"""Logs in other people's formats: Vowpal Wabbit's dsjson, Open Bandit Pipeline's dicts, JSON lines, large text."""

import json

import numpy as np
import polars as pl
import pytest

import adaprivate as ap
from adaprivate.check import InputError
from adaprivate.logs import formats, tables
from adaprivate.logs.facts import check_log
from adaprivate.logs.log_table import read_log
from adaprivate.logs.tables import source_of


def decision(number, chosen, cost, probability, shared, candidates, **more):
    """A line of dsjson as VW's own services write it."""
    count = len(candidates)
    ranked = [chosen + 1, *(k + 1 for k in range(count) if k != chosen)]
    rest = (1 - probability) / max(count - 1, 1)
    return {
        "_label_cost": cost,
        "_label_probability": probability,
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
        "Timestamp": f"2024-05-01T10:{number // 60:02d}:{number % 60:02d}.0000000Z",
        "EventId": f"event-{number}",
        "a": ranked,
        "p": [probability, *[rest] * (count - 1)],
        "c": {**shared, "_multi": candidates},
        "VWState": {"m": "model/1"},
        **more,
    }


def news(n=400, seed=0):
    """Two or three articles: sport is clicked in the evening, politics in the morning."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(n):
        evening = bool(rng.random() < 0.5)
        topics = ["sport", "politics", "music"][: int(rng.integers(2, 4))]
        chosen = int(rng.integers(len(topics)))
        liked = 0.7 if (topics[chosen] == "sport") == evening else 0.2
        shared = {"User": {"part": "evening" if evening else "morning", "age": int(rng.integers(20, 60))}}
        items = [{"Article": {"topic": topic, "length": 0.5 + place}} for place, topic in enumerate(topics)]
        cost = -float(rng.random() < liked)
        lines.append(decision(number, chosen, cost, 1 / len(topics), shared, items))
    return lines


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_dsjson_by_hand(tmp_path):
    lines = [
        decision(
            0, 1, -1.0, 0.75, {"User": {"age": 30, "vip": True}}, [{"i": {"kind": "a"}}, {"i": {"kind": "b", "new": 1}}]
        ),
        {"Outcome": 1, "EventId": "dangling"},
        decision(1, 0, 0.0, 0.5, {"User": {"age": 41}}, [{"i": {"kind": "b"}}, {"i": {"kind": "a"}}, {"i": {"kind": "c"}}]),
        decision(2, 0, -0.5, 0.5, {"User": {"age": 50}}, [{"i": {"kind": "b"}}], _skipLearn=True),
    ]
    source = source_of(written(tmp_path / "log.dsjson", lines))
    table = source.lazy().collect()
    assert table["_action"].to_list() == [1, 0]
    assert table["_reward"].to_list() == [1.0, 0.0]
    assert table["_propensity"].to_list() == [0.75, 0.5]
    assert table["_id"].to_list() == ["event-0", "event-1"]
    assert table["User.age"].to_list() == ["30", "41"]
    assert table["User.vip"].to_list() == ["true", None]
    assert table["candidate.i.kind"].to_list() == [["a", "b"], ["b", "a", "c"]]
    assert table["candidate.i.new"].to_list() == [[None, "1"], None]


def test_a_label_may_stand_in_a_and_p_alone(tmp_path):
    line = decision(0, 2, -1.0, 0.6, {"x": 1}, [{"k": 1}, {"k": 2}, {"k": 3}])
    for name in ("_labelIndex", "_label_Action", "_label_probability"):
        del line[name]
    source = source_of(written(tmp_path / "log.dsjson", [line]))
    table = source.lazy().collect()
    assert (table["_action"][0], table["_propensity"][0]) == (2, 0.6)


def test_features_of_dsjson_are_products_of_namespaces(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "PIECE", 37)  # pieces that do not have the same columns
    lines = news(120)
    stream = read_log(written(tmp_path / "log.dsjson", lines))
    assert len(stream) == 120
    assert stream.count == 3
    assert stream.columns.context == ("User.part", "User.age")
    names = stream.features.featuriser.context_length
    assert names == 2 + 1
    whole = stream.whole()
    assert whole.counts.tolist() == [len(line["c"]["_multi"]) for line in lines]
    assert whole.actions.tolist() == [line["_labelIndex"] for line in lines]
    assert np.linalg.norm(whole.candidates, axis=2).max() <= 1 + 1e-12
    one = stream.features  # a candidate by hand: (1, context) x (1, item)
    row = 5
    context = one.contexts(pl.DataFrame({n: [str(lines[row]["c"]["User"][n[5:]])] for n in stream.columns.context}))
    item = one.of_columns(
        pl.DataFrame({f"candidate.Article.{k}": [str(v)] for k, v in lines[row]["c"]["_multi"][1]["Article"].items()})
    )
    expected = np.outer(np.concatenate([[1.0], context[0]]), item[0]).ravel()
    assert whole.candidates[row, 1] == pytest.approx(expected / (np.sqrt(3) * np.sqrt(3)))


def test_a_policy_learns_from_dsjson(tmp_path):
    path = written(tmp_path / "log.json", news(3_000))
    assert not check_log(path)["faults"]
    found = ap.evaluate(path, ["random", "tuned-linucb"], "snips")
    random, learned = found["value"].to_list()
    assert random == pytest.approx(0.45, abs=0.06)  # standard error 0.013
    assert learned > random + 0.1  # the best earns 0.7 with sport or politics always there
    assert found["log_candidates"][0] == 3


def test_faults_of_dsjson(tmp_path):
    path = tmp_path / "log.dsjson"
    path.write_text("{}\nno json\n")
    with pytest.raises(InputError, match=r"line 2: '\.\.\.' to be a JSON object"):
        source_of(path)
    with pytest.raises(InputError, match="to hold decisions"):
        source_of(written(path, [{"Outcome": 1}]))
    with pytest.raises(InputError, match=r"line 1, column c._multi: 'NoneType' to list the candidates"):
        source_of(written(path, [{"_label_cost": 0, "c": {"x": 1}}]))
    outside = decision(0, 0, 3.0, 1.5, {"x": 1}, [{"k": 1}, {"k": 2}])
    faults = check_log(written(path, [outside]))["faults"]
    assert {(one["column"], one["wrong"]) for one in faults} == {
        ("_reward", "is not within 0 .. 1"),
        ("_propensity", "is above 1"),
    }


def test_costs_beyond_one_are_read_with_their_range(tmp_path):
    lines = [decision(k, 0, float(k % 3 - 1), 0.5, {"x": k % 2}, [{"k": 1}, {"k": 2}]) for k in range(9)]
    path = written(tmp_path / "log.dsjson", lines)
    with pytest.raises(InputError, match=r"_reward to be right: it is not within 0 \.\. 1"):
        read_log(path)
    assert read_log(path, reward_range=(-1.0, 1.0)).whole().rewards.tolist() == [1.0, 0.5, 0.0] * 3


def feedback(n=900, seed=0):
    """What obp's SyntheticBanditDataset gives."""
    rng = np.random.default_rng(seed)
    context, actions = rng.standard_normal((n, 3)), rng.integers(4, size=n)
    liked = 1 / (1 + np.exp(1 - context[:, 0] * (actions - 1.5)))
    return {
        "n_rounds": n,
        "n_actions": 4,
        "context": context,
        "action_context": np.eye(4),
        "action": actions,
        "position": None,
        "reward": (rng.random(n) < liked).astype(int),
        "expected_reward": None,
        "pi_b": None,
        "pscore": np.full(n, 0.25),
    }


def test_feedback_of_open_bandit_pipeline():
    given = feedback()
    stream = read_log(given)
    whole = stream.whole()
    assert stream.columns.context == ("context_0", "context_1", "context_2")
    assert (stream.count, stream.people) == (4, None)
    assert whole.actions.tolist() == given["action"].tolist()
    assert whole.propensities.tolist() == [0.25] * 900
    found = ap.evaluate(given, ["random", "tuned-linucb"], "dr")
    assert found["value"][1] > found["value"][0]
    with pytest.raises(InputError, match="to hold reward"):
        read_log({"action": [1]})
    with pytest.raises(InputError, match=r"feedback.context.shape=\(2,\)"):
        read_log({"action": [1, 0], "reward": [1, 0], "context": [1, 2]})
    bare = {name: given[name] for name in ("action", "reward", "pscore")}
    assert read_log({**bare, "n_actions": 9}).count == 9  # some were never chosen
    slates = {**given, "position": np.zeros(900, dtype=int)}
    assert read_log(slates).columns.position == "position"


def test_json_lines_and_large_text_give_what_a_table_gives(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    n = 500
    table = pl.DataFrame(
        {
            "action": rng.choice(["x", "y"], n),
            "reward": rng.integers(2, size=n),
            "propensity": np.full(n, 0.5),
            "user": rng.integers(50, size=n),
            "age": rng.integers(18, 80, size=n),
            "town": rng.choice(["a", "b", "c"], n),
        }
    )
    table.write_ndjson(tmp_path / "log.jsonl")
    table.write_csv(tmp_path / "log.csv")
    asked = {"context": ["age", "town"], "estimator": ["snips", "dr"], "policy": "linucb"}
    expected = ap.evaluate(table, **asked)
    assert ap.evaluate(tmp_path / "log.jsonl", **asked).equals(expected)
    assert ap.evaluate(tmp_path / "log.csv", **asked).equals(expected)
    monkeypatch.setattr(tables, "LARGE", 0)
    assert ap.evaluate(tmp_path / "log.jsonl", **asked).equals(expected)
    large = source_of(tmp_path / "log.csv")
    assert set(large.schema.values()) == {pl.String}
    assert ap.evaluate(tmp_path / "log.csv", **asked).equals(expected)
    with (tmp_path / "log.csv").open("a") as stream:
        stream.write("x,2,0.5,1,20,a\n")
    with pytest.raises(InputError, match=r"log.csv, line 502, column reward .* 0 \.\. 1\. State .* --reward-range\."):
        ap.evaluate(tmp_path / "log.csv", **asked)
