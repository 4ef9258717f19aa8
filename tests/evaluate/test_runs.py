"""Intervals hold a policy's own random draws, and a published estimate is of one run: more would cost its budget again."""

import dataclasses
import json
import math

import numpy as np
import polars as pl
import pytest
from scipy.special import stdtrit

import adaprivate as ap
from adaprivate import cli
from adaprivate.check import InputError
from adaprivate.logs import judge as judging
from adaprivate.logs.estimators import Estimate
from adaprivate.logs.judge import judge, over_runs, run_seeds
from adaprivate.logs.log import Log
from adaprivate.runtime.policy import Policy

ROWS, CANDIDATES, DIMENSION = 1_000, 4, 3
EARNS = {"noise-aware": 0.6905, "rr-linucb": 0.6718}
"""What policies earn per round in replay of such logs, the mean over 300 logs and 5 runs on each; standard error 0.002."""
OPTIONS = {"noise-aware": {"base_rate": 0.5, "missing": 0.0}, "rr-linucb": {}}


def logged(number, n=ROWS):
    """Uniform choice between candidates, mean reward 1/2 + theta'x."""
    rng = np.random.default_rng([number, 77])
    candidates = rng.standard_normal((n, CANDIDATES, DIMENSION))
    candidates /= np.linalg.norm(candidates, axis=2, keepdims=True)
    actions = rng.integers(0, CANDIDATES, n)
    means = 0.5 + candidates[np.arange(n), actions] @ np.array([0.35, -0.2, 0.1])
    rewards = (rng.random(n) < means).astype(float)
    return Log(candidates, actions, rewards, np.full(n, 1 / CANDIDATES))


@pytest.mark.parametrize("name", EARNS)
def test_intervals_cover_what_a_policy_earns_when_run_afresh(name):
    """25 logs. The intervals cover 97.0 and 95.7 % of 300; by one run they covered 80 and 61 %.

    Should other random numbers be drawn: 22 of 25 are asked for, which 95.7 % misses once in 50 such changes.
    """
    found = [ap.evaluate(logged(k), name, options=OPTIONS[name]).table.row(0, named=True) for k in range(25)]
    assert sum(row["low"] <= EARNS[name] <= row["high"] for row in found) >= 22
    assert {(row["seeds"], row["run_noise"]) for row in found} == {(5, "included")}
    assert np.mean([row["high"] - row["low"] for row in found]) < 0.25  # no coverage by sheer length


def test_the_mean_over_runs_and_how_far_its_interval_reaches():
    """Squares of the rows' reach and of Student's between runs add up, on each side by itself."""
    made = Estimate("ips", 0.30, 0.05, 0.20, 0.45, 0.95, 40.0, 100, 20.0, mean_weight=0.9)
    other = dataclasses.replace(made, value=0.40, sem=0.07, low=0.26, high=0.60, rows=103, rewarded=30.0, few=True)
    third = dataclasses.replace(made, value=0.38, method="few-rewards", effective_sample_size=55.0, odd_weights=True)
    found = over_runs([made, other, third])
    values = np.array([0.30, 0.40, 0.38])
    luck = values.std(ddof=1) / math.sqrt(3)
    reach = stdtrit(2, 0.975) * luck
    assert found.value == pytest.approx(0.36)
    assert found.run_sd == pytest.approx(values.std(ddof=1))
    assert found.sem == pytest.approx(math.sqrt((0.05**2 + 0.07**2 + 0.05**2) / 3 + luck**2))
    assert found.low == pytest.approx(0.36 - math.sqrt((0.10**2 + 0.14**2 + 0.18**2) / 3 + reach**2))
    assert found.high == pytest.approx(0.36 + math.sqrt((0.15**2 + 0.20**2 + 0.07**2) / 3 + reach**2))
    assert (found.effective_sample_size, found.rows, found.rewarded, found.mean_weight) == (
        45,
        101,
        pytest.approx(70 / 3),
        0.9,
    )
    assert (found.seeds, found.few, found.odd_weights, found.method) == (3, True, True, "few-rewards")
    assert over_runs([made]) is made
    nothing = Estimate("replay", 0.0, 0.0, 0.0, 0.04, 0.95, 90.0, 90, 0.0, few=True, method="few-rewards")
    once = dataclasses.replace(nothing, value=0.1, high=0.15)
    assert over_runs([nothing] * 4).low == 0
    assert over_runs([nothing, nothing, once]).low == 0  # a mean reward is not below what rewards can be


def test_runs_have_seeds_of_their_own_and_the_first_is_the_one_given():
    assert run_seeds(7, 1) == [7]
    assert run_seeds(7, 3) == run_seeds(7, 5)[:3]
    assert len({*run_seeds(7, 50), *run_seeds(8, 50)}) == 100
    with pytest.raises(InputError, match="seeds=0 >= 1"):
        judge(logged(0, 100), "linucb", "ips", seeds=0)


@pytest.fixture
def learners(monkeypatch):
    """Every policy that is made to learn from a log."""
    made = []

    def make(*given, **how):
        made.append(Policy(*given, **how))
        return made[-1]

    monkeypatch.setattr(judging, "Policy", make)
    return made


@pytest.mark.parametrize(
    ("name", "estimator", "runs"), [("random", "replay", 1), ("linucb", "replay", 2), ("linucb", "dr", 2)]
)
def test_a_policy_that_draws_nothing_has_the_interval_of_one_run(learners, name, estimator, runs):
    """A second run shows that a policy is deterministic. Of one that learns nothing it is known before."""
    log = logged(0, 400)
    alone = judge(log, name, estimator, seeds=1).estimate
    learners.clear()
    found = judge(log, name, estimator, seeds=6)
    assert found.estimate == alone
    assert found.run_noise == "none"
    assert len(learners) == runs


@pytest.mark.parametrize(
    ("options", "name"), [({}, "noise-aware"), ({"calibration": "exact", "batch_size": 25}, "adaprivate-ts")]
)
def test_a_published_estimate_learns_once_and_costs_what_it_did(learners, options, name):
    """Several runs would each release sums of the same rewards: they are refused, and none is made unasked."""
    log = logged(0, 300)
    found = judge(log, name, "replay", options=options, release_epsilon=0.5, seeds=None)
    assert len(learners) == 1
    assert learners[0].source is not None
    assert found.guarantee.epsilon == pytest.approx(1.5, abs=2e-3)
    assert (found.estimate.seeds, found.estimate.run_sd, found.run_noise) == (1, None, "left out")
    with pytest.raises(InputError, match=r"seeds must be 1 for a released estimate \(got 2\)"):
        judge(log, name, "replay", options=options, release_epsilon=0.5, seeds=2)
    assert len(learners) == 1
    chance = judge(log, "random", "ips", release_epsilon=0.5)
    assert chance.run_noise == "none"


def table(n=600):
    rng = np.random.default_rng(5)
    shown, hour = rng.integers(3, size=n), rng.random(n)
    earned = (rng.random(n) < 0.3 + 0.2 * shown * hour) * 1.0
    return pl.DataFrame({"action": shown, "reward": earned, "propensity": np.full(n, 1 / 3), "hour": hour})


ASKED = {"policy": ["random", "rr-linucb"], "estimator": ["replay", "snips", "dr"], "context": ["hour"]}


def test_what_values_are_of_is_said():
    several = " ".join(str(ap.evaluate(table(), **ASKED)).split())
    assert (
        "Each value is the mean of 5 runs of the policy. Its interval is for the policy's expected reward per round"
        in several
    )
    assert "leaves out" not in several
    one = ap.evaluate(table(), **ASKED, seeds=1)
    assert one["run_noise"].to_list() == ["none"] * 3 + ["left out"] * 3
    assert "rr-linucb: the value is of one run" in " ".join(str(one).split())


@pytest.mark.parametrize(("least", "most"), [(0, 120), (-3, 5)])
def test_values_are_on_the_scale_of_rewards(least, most):
    plain = ap.evaluate(table(), **ASKED, seeds=2).table
    scaled = table().with_columns(reward=least + (most - least) * pl.col("reward"))
    found = ap.evaluate(scaled, **ASKED, seeds=2, reward_range=(least, most))
    for column in ("value", "low", "high", "log_value", "log_low", "log_high"):
        assert found[column].to_list() == pytest.approx([least + (most - least) * value for value in plain[column]])
    for column in ("sem", "run_sd"):
        widened = [None if value is None else (most - least) * value for value in plain[column]]
        assert found[column].to_list() == pytest.approx(widened)
    assert found["log_reward_range"].to_list() == [[least, most]] * 6
    assert f"({least} .. {most})" in str(found)
    assert " .. 1)" not in str(ap.evaluate(table(), "random"))
    assert found["rewarded"].to_list() == pytest.approx(plain["rewarded"].to_list())  # counts have no unit


def test_a_published_value_is_on_the_scale_of_rewards():
    scaled = table().with_columns(reward=120 * pl.col("reward"))
    found = ap.evaluate(scaled, "random", "ips", reward_range=(0, 120), release_epsilon=40.0).table.row(0, named=True)
    assert found["value"] == pytest.approx(120 * table()["reward"].mean(), abs=15)  # five standard errors, and noise
    assert found["low"] < found["value"] < found["high"]
    assert found["sem"] > 0.5


def test_the_base_rate_that_is_assumed_is_said():
    """None is computed from the log: the policy's own starting point is told, and how to state a public one."""
    found = ap.evaluate(table(), "noise-aware", ["replay", "snips"], context=["hour"], seeds=1)
    said = " ".join(str(found).split())
    for row in found.to_dicts():
        corrects = "corrects it by" if row["learns_base_rate"] else "does not correct it"
        assert f"noise-aware, {row['estimator']}: base_rate was not given. The policy" in said
        assert f"{row['assumed_base_rate']:.2g} and {corrects}" in said
    assert "Do not compute it from this log's rewards" in said
    other = table().with_columns(reward=1 - pl.col("reward"))
    again = ap.evaluate(other, "noise-aware", ["replay", "snips"], context=["hour"], seeds=1)
    for rate in (*found["assumed_base_rate"], *again["assumed_base_rate"]):
        sixteenths = 16 * (0.5 - rate) / (0.5 - 1 / 3)  # between any mean and one right class of three, by released flips
        assert sixteenths == pytest.approx(round(sixteenths), abs=1e-9)
    told = ap.evaluate(table(), "noise-aware", "snips", context=["hour"], options={"base_rate": 0.4}, seeds=1)
    assert told["assumed_base_rate"].to_list() == [None]
    assert "base_rate was not given" not in str(told)
    assert "base_rate" not in str(ap.evaluate(table(), "linucb", "dm", context=["hour"]))


def test_at_the_command_line(monkeypatch, capsys, tmp_path):
    path = tmp_path / "log.csv"
    table(200).with_columns(reward=120 * pl.col("reward")).write_csv(path)
    asked = ["evaluate", str(path), "--policy", "rr-linucb", "--reward-range", "0", "120", "--seeds", "3"]

    def said(*further):
        monkeypatch.setattr("sys.argv", ["adaprivate", *asked, *further])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capsys.readouterr().out

    document = json.loads(said("--json"))
    (row,) = document["rows"]
    assert {"policy", "estimator", "value", "low", "high", "effective_sample_size"} <= set(row)
    assert row["seeds"] == 3
    assert 1 < row["low"] < row["value"] < row["high"] < 120
    assert document["log"]["reward_range"] == [0, 120]
    assert document["log"]["value"] > 1
    assert "(0 .. 120)" in said()
    monkeypatch.setattr("sys.argv", ["adaprivate", "evaluate", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "base_rate=P" in capsys.readouterr().out
