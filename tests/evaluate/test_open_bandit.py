"""The Open Bandit sample: IPS of its Thompson policy from the log of random choice, against the published recipe.

The recipe (Saito et al. 2021, the quickstart of Open Bandit Pipeline): 100,000 draws of Beta variables with the published
prior of the "all" campaign, RandomState(12345); the share of draws in which an item comes first, second, third is its
probability in that position; the IPS value relative to the mean click rate of the random log is printed there as 1.198126.
Where the sample is not at hand a made log of the same columns stands in, and only the two computations are compared.
"""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adaprivate.logs.estimators import Sample, estimate
from adaprivate.logs.log_table import read_log

CLICKS = """47 8 62 142 3 14 7 857 12 15 6 100 48 23 71 61 13 16 518 30 7 4 23 8 10 11 11 18 121 11 11 10 14 9 204 58
3 19 42 1013 2 328 15 31 14 138 45 55 23 38 10 401 52 6 3 6 5 32 35 133 52 820 43 195 8 42 40 4 32 30 9
22 6 23 5 54 8 22 65 246"""
OTHERS = """12198 3566 15993 35522 2367 4609 3171 181745 4372 4951 3100 24665 13210 7061 18061 17449 5644 6787 111326
8776 3334 2271 7389 2659 3665 4724 3561 5085 27407 4601 4756 4120 4736 3788 45292 14719 2189 5589 11995
222255 2308 70034 4801 8274 5421 31912 12213 13576 6230 10382 4141 85731 12811 2707 2250 2668 2886 9581
9465 28336 12062 162793 12107 41240 3162 11604 10818 2923 8897 8654 4000 6580 3174 6766 2602 14506 3968
7523 16532 51964"""
SAMPLE = Path(os.environ.get("ADAPRIVATE_DATA", "")) / "obd-small" / "random_all.parquet"


def made_sample(path):
    rng = np.random.default_rng(0)
    frame = {
        "item_id": rng.integers(80, size=3_000),
        "position": rng.integers(1, 4, size=3_000),
        "click": (rng.uniform(size=3_000) < 0.02).astype(int),
        "propensity_score": np.full(3_000, 1 / 80),
    }
    pl.DataFrame(frame).with_row_index("user_feature_0").write_parquet(path)
    return path


@pytest.fixture(scope="module")
def shares():
    """Of each item in each position, by the recipe."""
    alpha, beta = (np.array(text.split(), dtype=float) for text in (CLICKS, OTHERS))
    drawn = np.random.RandomState(12345).beta(alpha, beta, size=(100_000, 80))
    first = np.argsort(drawn, axis=1)[:, ::-1][:, :3]
    return np.stack([np.bincount(first[:, k], minlength=80) / 100_000 for k in range(3)], axis=1)


def test_the_published_recipe(shares, tmp_path):
    real = SAMPLE.exists()
    path = SAMPLE if real else made_sample(tmp_path / "made.parquet")
    raw = pl.read_parquet(path)
    item, position, click, score = (raw[c].to_numpy() for c in ("item_id", "position", "click", "propensity_score"))
    recipe = np.mean(click * shares[item, position - 1] / score)
    log = read_log(path)
    held = log.whole()
    slots = raw[log.columns.position].to_numpy() - 1
    weights = shares[np.array([int(name) for name in log.names])[held.actions], slots] / held.propensities
    found = estimate("ips", Sample(held.rewards, weights))
    assert found.value == pytest.approx(recipe, rel=1e-6)
    assert found.low < recipe < found.high
    if real:
        assert found.value / held.rewards.mean() == pytest.approx(1.198126, abs=5e-7)
    else:
        print("Open Bandit sample not at hand: made log")
