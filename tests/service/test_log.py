"""The decision log, on both databases: what is in it, what is not, and that `adaprivate evaluate` reads it back."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import adaprivate as ap
from adaprivate.check import InputError
from adaprivate.cli.decision_log import log as log_command
from adaprivate.logs import check_path
from adaprivate.logs.log_table import read_log
from adaprivate.service import log as logs
from adaprivate.service.core import Ask, BanditSpec
from adaprivate.service.faults import Fault
from adaprivate.service.log import decisions_frame, write_log

RATES = {"a": 0.15, "b": 0.4, "c": 0.75}
ITEMS = {"a": [1.0, 0.0], "b": [0.6, 0.8], "c": [0.0, 1.0]}


def play(service, clock, rounds, name="page", group=20, reward=True, **options):
    """A bandit with three items and visitors who like them at these rates: every decision, and what it earned."""
    plain = {"policy": "noise-aware", "dimension": 2, "rounds": 2_000, "reward_window": 10.0, "missing": 0.0}
    service.create(BanditSpec(name=name, **{**plain, **options}))
    service.put_items(name, ITEMS)
    rng, decisions, earned = np.random.default_rng(0), [], []
    for _ in range(rounds // group):
        asks = [service.check(name, Ask(user=user_of(service, name, rng))) for _ in range(group)]
        some = service.decide([(name, asks, None)])[0]
        likes = [bool(rng.random() < RATES[one.item]) for one in some]
        if reward:
            service.reward([(one.decision_id, like) for one, like in zip(some, likes, strict=True) if like])
        decisions += some
        earned += likes
        clock.now += 11.0
        while service.close_due():
            pass
    return decisions, np.array(earned)


def user_of(service, name, rng):
    return f"person {rng.integers(12)}" if service.room(name).bandit.needs_user else None


def test_what_is_in_it(service, clock):
    began = clock.now
    decisions, _ = play(service, clock, 200, holdback=0.3)
    frame = decisions_frame(service, "page", ids=True)
    features = [f"x_{k}_{j}" for k in range(3) for j in range(2)]
    public = ["round", "at", "version", "stream", "item", "action", "candidates", "propensity", "decision_id"]
    assert frame.columns == [*public, *features]
    assert frame["round"].to_list() == [*range(200)]
    assert frame["item"].to_list() == [one.item for one in decisions]
    assert frame["decision_id"].to_list() == [one.decision_id for one in decisions]
    assert frame["version"].to_list() == [one.version for one in decisions]
    assert frame["propensity"].to_list() == [one.propensity for one in decisions]
    assert (frame["stream"] == "holdback").to_list() == [one.holdback for one in decisions]
    assert set(frame["candidates"].to_list()[7]) == {"a", "b", "c"}
    for row in frame.sample(20, seed=0).iter_rows(named=True):
        assert row["candidates"][row["action"]] == row["item"]
        offered = [[row[f"x_{k}_{j}"] for j in range(2)] for k in range(3)]
        assert offered == [ITEMS[one] for one in row["candidates"]]
    seconds = frame["at"].dt.epoch("ms") / 1000
    assert seconds.to_list() == [began + 11.0 * (number // 20) for number in range(200)]
    assert "decision_id" not in decisions_frame(service, "page").columns


def test_each_stream_has_its_own_propensities(service, clock):
    """Of the mixture p = share / K + (1 - share) q; the holdback's are uniform."""
    decisions, _ = play(service, clock, 400, policy="noise-aware-ts", holdback=0.25)
    held = decisions_frame(service, "page", stream="holdback")
    assert set(held["stream"]) == {"holdback"}
    assert held["round"].to_list() == [one.round for one in decisions if one.holdback]
    assert held["propensity"].to_list() == pytest.approx([1 / 3] * len(held))
    own = decisions_frame(service, "page", stream="policy")
    mixed = [one.propensity for one in decisions if not one.holdback]
    assert (0.25 / 3 + 0.75 * own["propensity"]).to_list() == pytest.approx(mixed)
    assert len(held) + len(own) == 400
    with pytest.raises(InputError, match=r"in \{policy, holdback\}"):
        decisions_frame(service, "page", stream="both")


def test_there_are_no_rewards_unless_they_are_kept(service, clock):
    play(service, clock, 100, name="careful")
    play(service, clock, 100, name="keeping", keep_rewards=True)
    assert "reward" not in decisions_frame(service, "careful").columns
    assert "reward" in decisions_frame(service, "keeping").columns
    assert "reward" not in decisions_frame(service, "keeping", rewards=False).columns


def test_kept_rewards_are_those_that_came(service, clock, tmp_path):
    """Of rounds that can still earn one there is no row; one that never came is what it counts as."""
    _, earned = play(service, clock, 400, keep_rewards=True, holdback=0.2)
    asks = [service.check("page", Ask()) for _ in range(7)]
    service.decide([("page", asks, None)])
    frame = decisions_frame(service, "page")
    assert 300 < len(frame) <= 400
    assert frame["reward"].to_list() == earned[frame["round"].to_numpy()].astype(float).tolist()
    assert len(decisions_frame(service, "page", rewards=False)) == 407
    facts = write_log(service, "page", tmp_path / "log.parquet")
    assert (facts["rows"], facts["waiting"]) == (len(frame), 407 - len(frame))
    half = decisions_frame(service, "page", absent=0.5)
    assert set(half["reward"]) == {0.5, 1.0}
    assert (half["reward"] == 1.0).to_list() == (frame["reward"] == 1.0).to_list()


def test_flipped_rewards_are_no_rewards(service, clock, tmp_path):
    _, earned = play(service, clock, 200, keep_rewards=True, options={"channel": "flip"})
    frame = decisions_frame(service, "page")
    assert frame["reward"].is_null().to_list() == earned[: len(frame)].tolist()
    assert set(frame["reward"].drop_nulls()) == {0.0}  # what never came counts as that
    assert write_log(service, "page", tmp_path / "log.parquet")["flipped"] == earned[: len(frame)].sum() > 0


def test_the_caller_s_own_rewards(service, clock, tmp_path):
    decisions, earned = play(service, clock, 100)
    table = pl.DataFrame({"decision_id": [one.decision_id for one in decisions], "reward": earned, "other": earned})
    frame = decisions_frame(service, "page", rewards=table)
    assert frame["reward"].to_list() == earned.astype(float).tolist()
    some = pl.concat([table.head(60), pl.DataFrame({"decision_id": ["1p0-0"], "reward": [True], "other": [True]})])
    some.sample(61, shuffle=True, seed=0).write_csv(tmp_path / "mine.csv")
    facts = write_log(service, "page", tmp_path / "log.parquet", rewards=tmp_path / "mine.csv", absent=0.25)
    assert facts["rewards_of_other_decisions"] == 1
    found = pl.read_parquet(tmp_path / "log.parquet")["reward"].to_list()
    assert found == [*earned[:60].astype(float), *[0.25] * 40]
    for wrong in (
        table.drop("reward"),
        table.drop("decision_id"),
        pl.concat([table, table]),
        table.with_columns(reward=pl.lit(7.125)),
        table.with_columns(reward=pl.lit("7.125")),
        table.with_columns(reward=pl.lit(None, dtype=pl.Float64)),
    ):
        with pytest.raises(InputError) as caught:
            decisions_frame(service, "page", rewards=wrong)
        assert "7.125" not in str(caught.value)


def test_people_are_numbers(service, clock):
    play(service, clock, 200, unit="user", holdback=0.3)
    frame = decisions_frame(service, "page")
    assert frame["user"].dtype == pl.Int64
    assert frame["user"].n_unique() == 12
    assert "person" not in str(frame.rows())
    assert frame.group_by("user").agg(pl.col("stream").n_unique())["stream"].to_list() == [1] * 12  # one coin a person
    play(service, clock, 200, name="judged", unit="user", keep_rewards=True)
    judged = ap.evaluate(decisions_frame(service, "judged"), "noise-aware", "snips", options={"unit": "user"})
    assert judged["log_people"][0] == 12


def test_offers_that_differ(service, clock):
    """Items that are gone, fewer candidates than at most, and features that came with the request."""
    plain = {"policy": "adaprivate-ts", "dimension": 2, "rounds": 100, "batch_size": 10}
    service.create(BanditSpec(name="page", **plain))
    service.put_items("page", ITEMS)
    asked = [Ask(["a", "b"]), Ask([("x", [0.3, 0.1]), ("y", [3.0, 4.0]), ("z", [0.0, 0.0])]), Ask(["c"], propensity=False)]
    service.decide([("page", [service.check("page", ask) for ask in asked], None)])
    service.put_items("page", {"a": [0.0, 1.0], "d": [1.0, 0.0]})
    service.decide([("page", [service.check("page", Ask())], None)])
    frame = decisions_frame(service, "page")
    assert frame["candidates"].to_list() == [["a", "b"], ["x", "y", "z"], ["c"], ["a", "d"]]
    assert frame["propensity"].null_count() == 1
    cells = frame.select(pl.concat_list(f"x_{k}_{j}" for k in range(3) for j in range(2)).alias("x"))["x"].to_list()
    assert cells[0] == [1.0, 0.0, 0.6, 0.8, None, None]
    assert cells[1] == pytest.approx([0.3, 0.1, 0.6, 0.8, 0.0, 0.0])
    assert cells[2] == [0.0, 1.0, None, None, None, None]
    assert cells[3] == [0.0, 1.0, 1.0, 0.0, None, None]
    assert [row["candidates"][row["action"]] for row in frame.iter_rows(named=True)] == frame["item"].to_list()
    told = frame.with_columns(reward=pl.Series([1.0, 0.0, 1.0, 0.0]))
    for columns, dimension in (({"candidates": "x"}, 2), ({"candidates": "candidates", "action": "item"}, 7)):
        read = ap.evaluate(told, "linucb", "dm", propensity="", train=0.25, **columns).row(0, named=True)
        assert (read["log_rows"], read["log_candidates"], read["log_dimension"]) == (4, 3, dimension)


def test_features_are_as_the_featuriser_made_them(service, clock):
    described = {
        "context": [{"name": "hour", "kind": "number", "low": 0, "high": 24}],
        "items": {"kind": "features", "length": 2, "norm": 1.0},
    }
    service.create(BanditSpec(name="page", policy="adaprivate-ts", rounds=100, batch_size=10, featuriser=described))
    service.put_items("page", ITEMS)
    hours = [0, 6, 24]
    asks = [service.check("page", Ask(["b", "a"], context={"hour": hour})) for hour in hours]
    service.decide([("page", asks, None)])
    frame = decisions_frame(service, "page")
    for row, c in zip(frame.iter_rows(named=True), (-1.0, -0.5, 1.0), strict=True):
        found = [[row[f"x_{k}_{j}"] for j in range(4)] for k in range(2)]
        wanted = [np.array([*ITEMS[one], *(c * np.array(ITEMS[one]))]) / np.sqrt(2) for one in ("b", "a")]
        assert np.allclose(found, wanted)


def test_it_is_written_in_parts_and_whole_or_not_at_all(service, clock, tmp_path, monkeypatch):
    play(service, clock, 300, group=7, keep_rewards=True, holdback=0.2)
    whole = decisions_frame(service, "page")
    monkeypatch.setattr(logs, "PART", 50)
    monkeypatch.setattr(logs, "PAGE", 3)
    path = tmp_path / "log.parquet"
    facts = write_log(service, "page", path)
    assert pl.read_parquet(path).equals(whole)
    assert (facts["rows"], facts["columns"], facts["rewards"], facts["private"]) == (
        len(whole),
        len(whole.columns),
        True,
        True,
    )
    assert path.stat().st_mode & 0o777 == 0o600  # for the owner's eyes
    assert not write_log(service, "page", path, rewards=False)["private"]
    before = path.read_bytes()
    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_log(service, "page", path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if "parquet" in one.name] == ["log.parquet"]
    monkeypatch.setattr(logs, "MOST_COLUMNS", 5)
    assert "x_0_0" not in decisions_frame(service, "page").columns
    assert "x_0_0" in decisions_frame(service, "page", features=True).columns


def test_no_decisions_and_no_bandit(service, clock, tmp_path):
    play(service, clock, 0, keep_rewards=True)
    frame = decisions_frame(service, "page")
    assert len(frame) == 0
    assert {"round", "item", "propensity", "candidates", "reward"} <= set(frame.columns)
    assert write_log(service, "page", tmp_path / "log.parquet")["rows"] == 0
    with pytest.raises(Fault) as caught:
        decisions_frame(service, "nobody")
    assert caught.value.kind == "unknown-bandit"
    with pytest.raises(InputError, match="folder"):
        write_log(service, "page", tmp_path / "nowhere" / "log.parquet")
    with pytest.raises(InputError, match="source"):
        decisions_frame("sqlite:///x", "page")


def run(*arguments):
    command = [sys.executable, "-m", "adaprivate", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_evaluate_reads_it_back(service, clock, database_url, tmp_path):
    """From the database by the command, through the file, to `adaprivate evaluate`: what uniform choice earned is known."""
    _, earned = play(service, clock, 1_200, policy="noise-aware-ts", epsilon=4.0, keep_rewards=True, holdback=0.5)
    path = tmp_path / "log.parquet"
    app = typer.Typer()
    app.command()(log_command)
    base = ["page", "--out", str(path), "--database", database_url]
    done = CliRunner().invoke(app, [*base, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) | {"rows": 0, "columns": 0} == {
        "file": str(path),
        "rows": 0,
        "columns": 0,
        "rewards": True,
        "private": True,
        "flipped": 0,
        "waiting": 1_200 - json.loads(done.stdout)["rows"],
        "stream": None,
        "features": True,
    }
    rows = json.loads(done.stdout)["rows"]
    for columns in ([], ["--candidates", "x"]):
        found = run("evaluate", path, "--policy", "noise-aware", "--estimator", "snips", *columns)
        assert found["log"]["rows"] == rows
        assert found["log"]["value"] == pytest.approx(earned[pl.read_parquet(path)["round"].to_numpy()].mean())
        (row,) = found["rows"]
        assert abs(row["value"] - RATES["c"]) < 1.5 * (row["high"] - row["low"])  # it finds the best; 5.9 deviations
        assert row["low"] > np.mean([*RATES.values()])
    done = CliRunner().invoke(app, [*base, "--stream", "holdback"], catch_exceptions=False)
    assert "PRIVATE" in done.stdout
    assert check_path(path, candidates="x")["kind"] == "log"
    held = read_log(path, candidates="x").whole()
    assert held.propensities.tolist() == pytest.approx([1 / 3] * len(held))
    random = ap.evaluate(path, "random", "ips", candidates="x")
    width = random["high"][0] - random["low"][0]
    assert abs(random["value"][0] - np.mean([*RATES.values()])) < 1.5 * width  # 5.9 standard deviations


def test_the_command_says_what_is_wrong(service, clock, database_url, tmp_path):
    play(service, clock, 0)
    app = typer.Typer()
    app.command()(log_command)
    for arguments, words in [
        (["nobody", "--database", database_url], "nobody"),
        (["page", "--database", f"sqlite:///{tmp_path}/none.db"], "none.db"),
        (["page", "--database", database_url, "--rewards", "x.csv", "--no-rewards"], "not both"),
        (["page", "--database", database_url, "--rewards", "x.csv"], "x.csv"),
    ]:
        done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "log.parquet")])
        assert isinstance(done.exception, InputError)
        assert words in str(done.exception)
    assert not (tmp_path / "none.db").exists()
    assert not (tmp_path / "log.parquet").exists()
