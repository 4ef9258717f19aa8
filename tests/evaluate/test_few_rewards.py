"""Estimates that few rewards carry: they are marked, and their intervals cover, whatever the weights."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import adaprivate as ap
from adaprivate.evaluation.estimators import Sample, estimate
from adaprivate.evaluation.tallies import FEW_REWARDED


def test_no_reward_at_all_is_not_certainty():
    """0 of 119: Garwood's bound, -log(0.025) / 119, not 0 .. 0; all of 119, the same from the other side."""
    none = estimate("replay", Sample(np.zeros(119)))
    assert (none.value, none.low, none.few, none.method) == (0.0, 0.0, True, "few-rewards")
    assert none.high == pytest.approx(-np.log(0.025) / 119)
    every = estimate("replay", Sample(np.ones(119)))
    assert (every.value, every.high, every.few) == (1.0, 1.0, True)
    assert every.low == pytest.approx(1 + np.log(0.025) / 119)
    w = np.linspace(0, 3, 119)
    assert estimate("ips", Sample(np.zeros(119), w)).high == pytest.approx(-np.log(0.025) * 3 / 119)
    assert estimate("snips", Sample(np.zeros(119), w)).high == pytest.approx(-np.log(0.025) * 3 / w.sum())
    X, F = np.random.default_rng(0).standard_normal((2, 119, 2))
    for name in ("dm", "dr"):
        found = estimate(name, Sample(np.zeros(119), w, X, F))
        assert found.few
        assert found.low < found.high
        assert found.high > 0.01


def test_equal_weights_give_garwoods_interval():
    for clicks in (1, 7, 20):
        r = (np.arange(5_000) < clicks).astype(float)
        found = estimate("replay", Sample(r), confidence=0.9)
        assert found.few
        assert found.rewarded == pytest.approx(clicks)
        assert found.low * 5_000 == pytest.approx(chi2.ppf(0.05, 2 * clicks) / 2)
        assert found.high * 5_000 == pytest.approx(chi2.ppf(0.95, 2 * clicks + 2) / 2)
    enough = estimate("replay", Sample((np.arange(5_000) < FEW_REWARDED).astype(float)))
    assert (enough.few, enough.method) == (False, "asymptotic")


def test_the_bootstrap_of_few_is_not_believed_either():
    r = np.zeros(300)
    r[7] = 1
    assert estimate("replay", Sample(r), interval="bootstrap").method == "few-rewards"
    wilson = estimate("replay", Sample(r), interval="wilson")
    assert (wilson.method, wilson.few) == ("wilson", True)
    z, n, p = 1.959964, 300, 1 / 300
    middle, reach = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (wilson.low, wilson.high) == pytest.approx(
        ((middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)), rel=1e-5
    )


LOGS, N = 600, 400


def coverage(estimator, rate, weighted, people, interval="asymptotic"):
    """How often the interval covers the truth over logs of 400 rows (or 100 people of four rows that click alike)."""
    covered = below = 0
    for k in range(LOGS):
        rng = np.random.default_rng([k, int(1e6 * rate), weighted, people])
        who = np.repeat(np.arange(N // 4), 4)
        lively = rng.gamma(1.0, 1.0, N // 4)[who] if people else np.ones(N)  # how fond of clicking a person is
        chance = np.minimum(rate * lively, 1.0)
        w = rng.choice([0.2, 1.0, 6.0], size=N, p=[0.5, 0.4, 0.1]) / 1.1 if weighted else np.ones(N)  # mean 1
        r = (rng.random(N) < chance * np.where(w > 5, 1.5, 1.0)).astype(float) if weighted else rng.random(N) < chance
        truth = rate * (0.5 * 0.2 + 0.4 * 1.0 + 0.1 * 6.0 * 1.5) / 1.1 if weighted else rate
        X = (w > 5).astype(float)[:, None]  # mean rewards are linear in it; the evaluated policy's mean of it is 0.6 / 1.1
        F = np.full_like(X, 0.6 / 1.1)
        rows = Sample(np.asarray(r, dtype=float), w, X, F, who if people else None)
        found = estimate(estimator, rows, interval=interval)
        covered += found.low <= truth <= found.high
        below += found.high < truth
    return covered / LOGS, below / LOGS


@pytest.mark.parametrize("rate", [0.0005, 0.004, 0.02])
@pytest.mark.parametrize(
    ("estimator", "weighted", "people"),
    [("replay", 0, 0), ("ips", 1, 0), ("snips", 1, 0), ("dr", 1, 0), ("dm", 1, 0), ("replay", 0, 1)],
)
def test_intervals_of_rare_clicks_cover(estimator, weighted, people, rate):
    """0.2, 1.6 and 8 clicks expected: 95 % intervals cover in 92.5 % at least (95 % is 2.8 standard errors away).

    Power: the usual interval misses the truth far more often where 0.2 or 1.6 are expected.
    """
    covered, _ = coverage(estimator, rate, weighted, people)
    assert covered >= 0.925


def test_the_usual_interval_would_not_cover(monkeypatch):
    from adaprivate.evaluation import estimators

    monkeypatch.setattr(estimators, "FEW_REWARDED", -1)
    covered, below = coverage("ips", 0.004, 1, 0)
    assert covered < 0.85
    assert below > 0.1


def test_a_row_is_marked_in_the_table():
    rng = np.random.default_rng(0)
    n = 600
    log = pl.DataFrame({"action": rng.integers(3, size=n), "reward": np.zeros(n), "propensity": np.full(n, 1 / 3)})
    found = ap.evaluate(log, "linucb", ["replay", "ips", "snips", "dr", "dm"])
    assert found["few"].all()
    assert found["rewarded"].to_list() == [0.0] * 5
    assert (found["high"] > found["low"]).all()
    text = str(found)
    assert "0 .. 0 " not in text
    assert text.count("0 rewards") == 6  # the log's own row, too
    assert "few: so few rewards" in text
    many = ap.evaluate(log.with_columns(reward=(pl.int_range(n) % 2).cast(pl.Float64)), "linucb", "snips")
    assert not many["few"].any()
    assert "few" not in str(many)
