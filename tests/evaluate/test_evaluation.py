"""Policies on logs: replay, learning from others' decisions, and what publishing an estimate costs."""

import math

import numpy as np
import polars as pl
import pytest

import adaprivate as ap
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.logs.estimators import Sample, estimate
from adaprivate.logs.judge import judge, learn_from, sample_for
from adaprivate.logs.log import Log
from adaprivate.logs.log_table import read_log
from adaprivate.logs.release import release, together
from adaprivate.logs.replay import replay
from adaprivate.mechanisms import Secure, Simulated
from adaprivate.runtime.policy import Policy

D, K = 3, 4


def logged(n, seed=0, propensities=True):
    """Uniform choice between candidates, mean reward 1/2 + theta'x."""
    rng = np.random.default_rng([seed, 1])
    candidates = rng.standard_normal((n, K, D))
    candidates /= np.linalg.norm(candidates, axis=2, keepdims=True)
    actions = rng.integers(0, K, size=n)
    means = 0.5 + candidates[np.arange(n), actions] @ np.array([0.4, -0.2, 0.1])
    rewards = (rng.uniform(size=n) < means).astype(float)
    return Log(candidates, actions, rewards, np.full(n, 1 / K) if propensities else None)


def made(name, rounds, seed=0, **options):
    return Policy(policies.settings(name, {"dimension": D, "rounds": rounds, **options}), seed=seed, source=None)


@pytest.mark.parametrize("name", ["lints", "adaprivate-ts"])
def test_replay_is_playing_the_rows_it_accepts(name):
    """The accepted rows, played alone, leave the same sums; rewards of other rows are never looked at."""
    options = {"batch_size": 20} if name == "adaprivate-ts" else {}
    log = logged(600)
    policy = made(name, 150, **options)
    rows = replay(policy, log, rounds=100)
    assert len(rows) == 100
    alone = made(name, 150, **options)
    for row in rows:
        alone.observe(log.candidates[row, log.actions[row]], float(log.rewards[row]))
    policy.advance()
    alone.advance()
    assert policy.round == alone.round == 100
    mine, its = policy.state.learner, alone.state.learner
    np.testing.assert_allclose(mine.coordinates, its.coordinates, atol=1e-12)
    np.testing.assert_allclose(mine.root, its.root, atol=1e-12)
    if name == "adaprivate-ts":
        np.testing.assert_allclose(policy.state.book.sums, alone.state.book.sums, atol=1e-12)
        assert np.abs(policy.state.book.sums).max() > 1
    hidden = log.rewards.copy()
    hidden[np.setdiff1d(np.arange(len(log)), rows)] = 0.123
    blind = Log(log.candidates, log.actions, hidden, log.propensities)
    assert replay(made(name, 150, **options), blind, rounds=100).tolist() == rows.tolist()


def test_replay_evens_out_what_was_logged():
    """Actions logged at 5 : 1 are accepted evenly by random choice: counts within 5 standard deviations."""
    rng = np.random.default_rng(0)
    actions = (rng.uniform(size=6_000) < 1 / 6).astype(np.int64)
    log = Log(np.eye(2)[None], actions, np.ones(6_000), np.where(actions == 1, 1 / 6, 5 / 6))
    policy = Policy(policies.settings("random", {"dimension": 2, "rounds": 6_000}), seed=0, source=None)
    rows = replay(policy, log, rounds=6_000)
    share = log.actions[rows].mean()
    assert log.acceptance == pytest.approx(1 / 6)
    assert len(rows) == pytest.approx(1_000, abs=5 * math.sqrt(1_000))
    assert share == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(len(rows)))
    unkept = Log(log.candidates, log.actions, log.rewards)
    assert unkept.actions[replay(policy, unkept, rounds=6_000)].mean() < 0.25  # what it would be without keeping


def test_estimators_agree_on_a_learned_policy():
    """All four within four standard errors of each other, and above what was logged."""
    log = logged(8_000)
    policy = made("noise-aware-ucb", 4_000)
    learn_from(policy, log.part(slice(0, 4_000)))
    rows = sample_for(policy.state, log.part(slice(4_000, None)))
    found = [estimate(name, rows) for name in ("ips", "snips", "dm", "dr")]
    for one in found:
        assert abs(one.value - found[-1].value) < 4 * math.hypot(one.sem, found[-1].sem)
        assert one.value > log.rewards.mean() + 3 * one.sem
    assert found[0].effective_sample_size == pytest.approx(1_000, rel=0.15)


def test_evaluate_every_estimator():
    log = logged(2_400)
    for estimator in ("replay", "ips", "snips", "dm", "dr"):
        found, guarantee, *_ = judge(log, "adaprivate-ts", estimator, options={"batch_size": 100, "epsilon": 2.0})
        assert 0.3 < found.low < found.value < found.high < 1.0
        assert guarantee.nominal_epsilon == 2
        assert guarantee.simulated
        assert found.rows == (pytest.approx(600, abs=110) if estimator == "replay" else 1_200)  # five standard deviations
    with pytest.raises(
        InputError, match="propensity=None to be a column of the log for dr: name it with propensity=, or --propensity"
    ):
        judge(logged(100, propensities=False), "lints", "dr")
    assert judge(logged(400, propensities=False), "lints", "dm")[1] is None
    with pytest.raises(InputError, match="CoreSetState"):
        judge(log, "coreset-elimination", "ips")


def test_release_costs_what_it_says():
    rng = np.random.default_rng(3)
    rows = Sample((rng.uniform(size=500) < 0.4).astype(float), rng.uniform(0, 3, 500))
    found, guarantee = release("ips", rows, epsilon=1.0, delta=1e-5, noise=Secure())
    assert guarantee.epsilon <= 1
    assert guarantee.epsilon > 0.999
    assert not guarantee.simulated
    assert privacy.CONDITIONS["reward-range"] in guarantee.enforced
    plain = estimate("ips", rows)
    assert found.effective_sample_size == plain.effective_sample_size
    assert found.rewarded is None
    assert abs(found.value - plain.value) < 6 * found.sem
    with pytest.raises(InputError, match="estimator='dr'"):
        release("dr", rows, epsilon=1.0, delta=1e-5, noise=Secure())


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips"])
def test_release_adds_the_noise_that_its_price_needs(estimator):
    """400 releases: the noise has the calibrated standard deviation times what one reward can move.

    The bound is five standard deviations of an estimated one (18 %); 2/3 and 3/2 of it are rejected.
    """
    rng = np.random.default_rng(4)
    rows = Sample((rng.uniform(size=80) < 0.4).astype(float), rng.uniform(0, 3, 80))
    plain = estimate(estimator, rows)
    released = [release(estimator, rows, epsilon=1.0, delta=1e-5, noise=Simulated(k))[0] for k in range(400)]
    weights = np.ones(80) if estimator == "replay" else rows.weights
    most = weights.max() / (80 if estimator == "ips" else weights.sum())  # what one reward can move
    noise = np.array([one.value for one in released]) - plain.value
    expected = privacy.gaussian_sigma(1.0, 1e-5) * most * math.sqrt(1.25)  # a fifth of an event's weight is the interval's
    assert abs(noise.mean()) < 5 * expected / 20
    assert abs(noise.std() / expected - 1) < 0.18
    assert all(one.sem >= expected for one in released)
    exact = release(estimator, rows, epsilon=1e4, delta=1e-5, noise=Simulated(0))[0]
    assert exact.value == pytest.approx(plain.value, abs=0.01)
    assert exact.sem == pytest.approx(plain.sem, rel=0.1)  # rewards are 0 or 1


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips"])
def test_a_published_spread_is_hardly_ever_too_small(estimator):
    """400 releases: noise makes the spread smaller than it is in 2.5 % at most, as an interval of 95 % allows.

    The bound is four standard errors of that share; with no allowance for the noise of the second sum it is half of them.
    """
    rng = np.random.default_rng(4)
    rows = Sample((rng.uniform(size=80) < 0.4).astype(float), rng.uniform(0, 3, 80))
    weights = np.ones(80) if estimator == "replay" else rows.weights
    shares = weights / (80 if estimator == "ips" else weights.sum())
    value = shares @ rows.rewards
    spread = (shares * rows.rewards) @ shares - value**2 / 80
    if estimator != "ips":
        spread = float((shares * (rows.rewards - value)) @ (shares * (rows.rewards - value)))
    error = privacy.gaussian_sigma(1.0, 1e-5) * shares.max() * math.sqrt(1.25)
    found = [release(estimator, rows, epsilon=1.0, delta=1e-5, noise=Simulated(k))[0].sem for k in range(400)]
    too_small = np.mean([sem**2 - error**2 < spread for sem in found])
    assert too_small <= 0.025 + 4 * math.sqrt(0.025 / 400)


def test_what_is_published_together():
    policy, price = (
        privacy.guarantee(privacy.GaussianPrice(mu), privacy.events(), delta) for mu, delta in ((0.5, 1e-5), (0.3, 1e-6))
    )
    same, apart = together(policy, price, same_rewards=True), together(policy, price, same_rewards=False)
    assert same.epsilon == policy.epsilon + price.epsilon
    assert same.delta == pytest.approx(1.1e-5)
    exact = privacy.gdp_epsilon(math.hypot(0.5, 0.3), 1.1e-5)
    assert exact <= same.epsilon  # adding up is sound
    assert apart.epsilon == max(policy.epsilon, price.epsilon)
    assert not same.exact


def test_a_released_evaluation_states_both():
    log = logged(1_600)
    options = {"batch_size": 100, "calibration": "exact"}
    _, replayed, *_ = judge(log, "adaprivate-ts", "replay", options=options, release_epsilon=0.5)
    assert not replayed.simulated
    assert replayed.epsilon == pytest.approx(1.5, abs=2e-3)
    assert replayed.delta == pytest.approx(2e-5)
    apart = judge(log, "adaprivate-ts", "snips", options=options, release_epsilon=0.5)
    assert apart.guarantee.epsilon == pytest.approx(1, abs=1e-3)
    assert apart.published == (
        "The estimate is published with epsilon 0.5 (noise added). The larger of it and the policy's 1 holds because no "
        "reward is in both parts of the log."
    )
    with pytest.raises(InputError, match="to be private"):
        judge(log, "lints", "ips", release_epsilon=1.0)
    _, chance, *_ = judge(log, "random", "ips", release_epsilon=1.0)
    assert chance.epsilon == pytest.approx(1, abs=1e-3)
    found = ap.evaluate(log, "adaprivate-ts", "replay", options=options, release_epsilon=0.5)
    row = found.to_dicts()[0]
    assert (row["release_epsilon"], row["person_rows"], row["interval"], row["method"]) == (0.5, None, "noise", "noise")
    assert row["published"].endswith("The policy's 1 is added because both use the same rewards.")
    assert row["published"] in " ".join(str(found).split())


@pytest.mark.parametrize(("options", "delta"), [({}, 1e-5), ({"channel": "flip"}, 0.0), ({"channel": "items"}, 0.0)])
def test_a_policy_of_channels_learns_with_exact_noise_for_a_release(options, delta):
    _, replayed, *_ = judge(logged(400), "noise-aware-ts", "replay", options=options, release_epsilon=0.5)
    assert not replayed.simulated
    assert replayed.epsilon == pytest.approx(1.5, abs=2e-3)
    assert replayed.delta == pytest.approx(1e-5 + delta)
    assert privacy.CONDITIONS["exact-noise"] in replayed.enforced


def test_decisions_of_a_log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action,reward,age\nred,1,0.5\nblue,0,2.0\nred,0,1.0\n")
    arms = read_log(path).whole()
    assert arms.candidates.tolist() == [np.eye(2).tolist()]
    assert arms.actions.tolist() == [1, 0, 1]
    blocks = read_log(path, context=["age"]).whole()  # 0.5 .. 2 becomes -1 .. 1, beside a 1, in a block for each action
    assert blocks.candidates[1] * math.sqrt(2) == pytest.approx(np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))
    assert blocks.chosen[0] * math.sqrt(2) == pytest.approx([0, 0, 1, -1])
    items = tmp_path / "items.parquet"
    pl.DataFrame({"item": ["blue", "green", "red"], "x": [0.1, 0.2, 0.3], "name": ["a", "b", "c"]}).write_parquet(items)
    shown = read_log(path, items=items).whole()
    assert shown.candidates.tolist() == [[[0.1], [0.2], [0.3]]]
    assert shown.actions.tolist() == [2, 0, 2]
    pl.DataFrame({"item": ["blue"], "x": [0.1]}).write_parquet(items)
    with pytest.raises(InputError, match=r"actions=\['red'\] to be items"):
        read_log(path, items=items)


def test_what_contradicts_a_log_comes_first_and_estimators_say_what_they_judge():
    rng = np.random.default_rng(0)
    n = 3_000
    table = pl.DataFrame(
        {
            "timestamp": [f"at {t}" for t in range(n)],
            "action": rng.integers(3, size=n),
            "reward": (rng.random(n) < 0.2).astype(float),
            "propensity": np.full(n, 1 / 6),
        }
    )
    said = str(ap.evaluate(table, "random", ["replay", "snips"], context=["timestamp"]))
    notes = said.partition("\u2518\n")[2]
    assert notes.startswith("The log's propensities CONTRADICT how often its actions were chosen")
    assert "learned from the first 1,500 rows, on the other 1,500" in " ".join(notes.split())
    assert "timestamp has many values and is hashed into 16 buckets" in " ".join(notes.split())
    right = table.with_columns(propensity=pl.lit(1 / 3))
    assert "CONTRADICT" not in str(ap.evaluate(right, "random", "snips"))


def test_what_is_asked_for_twice_is_refused():
    log = pl.DataFrame({"action": [0, 1] * 40, "reward": [0, 1] * 40, "propensity": [0.5] * 80})
    for given in ({"epsilon": [1, 1.0]}, {"policy": ["linucb", "linucb"]}, {"estimator": ["ips", "ips"]}):
        (name,) = given
        with pytest.raises(InputError, match=rf"Expected {name}=\[.*\] to be all different"):
            ap.evaluate(log, **{"policy": "linucb", "estimator": "ips", **given})


def test_weights_that_do_not_average_one_are_told():
    """Propensities of twice the truth; where a cap is set, less than 1 is what was asked for."""
    rng = np.random.default_rng(0)
    log = pl.DataFrame({"action": rng.integers(2, size=900), "reward": rng.integers(2, size=900)})
    wrong = log.with_columns(propensity=pl.lit(0.95))
    found = ap.evaluate(wrong, "random", ["ips", "replay"])
    assert found["odd_weights"].to_list() == [True, False]
    assert found["mean_weight"].to_list() == [pytest.approx(0.5 / 0.95), None]
    assert "random: weights of ips average 0.5263, not 1" in str(found)
    right = ap.evaluate(log.with_columns(propensity=pl.lit(0.5)), "random", "ips")
    assert "average" not in str(right)
    assert not right["few"].any()
    assert "average" not in str(ap.evaluate(wrong, "random", "ips", cap=0.4))
