"""Off-policy estimators: by hand where that is possible, and whether their intervals cover the truth."""

import math

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.logs.estimators import Sample, effective_sample_size, estimate
from adaprivate.logs.judge import learn_from, sample_for
from adaprivate.logs.log import Log
from adaprivate.logs.replay import replay
from adaprivate.policies.core.propensities import choice_probabilities
from adaprivate.runtime.policy import Policy

R, W = np.array([1.0, 0.0, 1.0, 0.0]), np.array([2.0, 0.5, 0.0, 1.5])


def test_by_hand():
    ips = estimate("ips", Sample(R, W))
    assert ips.value == 0.5
    assert ips.sem == pytest.approx(0.5)  # of 2, 0, 0, 0: standard deviation 1
    again = estimate("ips", Sample(np.tile(R, 40), np.tile(W, 40)))
    assert (again.few, again.method, again.rewarded) == (False, "asymptotic", 40)
    assert again.high - again.value == pytest.approx(again.sem * 1.974996, rel=1e-6)  # Student's t, 159 degrees of freedom
    assert again.sem == pytest.approx(np.sqrt(0.75 * 160 / 159 / 160))
    assert ips.effective_sample_size == pytest.approx(16 / 6.5)
    assert ips.rewarded == 1
    snips = estimate("snips", Sample(R, W))
    assert snips.value == 0.5
    assert snips.sem == pytest.approx(np.sqrt((1 + 0.0625 + 0 + 0.5625) / 3 / 4))  # w (r - 1/2), mean weight 1
    assert estimate("replay", Sample(R)).value == 0.5
    assert effective_sample_size(np.ones(7)) == 7


def rows_with_features(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=n), rng.uniform(0.5, 2, n), rng.standard_normal((n, 3)), rng.standard_normal((n, 3))


def test_direct_method_is_least_squares():
    r, w, X, F = rows_with_features()
    ones = np.ones((len(r), 1))
    theta = np.linalg.lstsq(np.hstack([X, ones]), r, rcond=None)[0]
    found = estimate("dm", Sample(r, w, X, F))
    assert found.value == pytest.approx((np.hstack([F, ones]) @ theta).mean())
    ahead = estimate("dm", Sample(r + np.eye(len(r))[7], w, X, F)).value - found.value  # linear in rewards
    again = estimate("dm", Sample(r + 2 * np.eye(len(r))[7], w, X, F)).value - found.value
    assert again == pytest.approx(2 * ahead)


def test_the_error_of_the_direct_method_is_the_sandwich():
    """Five coefficients of 20 rows: the square is divided by 15, not by 19."""
    rng = np.random.default_rng(3)
    r, X, F = rng.random(20), rng.random((20, 4)), rng.random((20, 4))
    found = estimate("dm", Sample(r, None, X, F))
    X, F = np.hstack([X, np.ones((20, 1))]), np.hstack([F, np.ones((20, 1))])
    theta = np.linalg.solve(X.T @ X, X.T @ r)
    influence = F @ theta - found.value + 20 * (X @ np.linalg.solve(X.T @ X, F.mean(axis=0))) * (r - X @ theta)
    assert found.sem == pytest.approx(math.sqrt(20 / 15 * (influence @ influence)) / 20)


def test_wilsons_interval_counts_people():
    """50 people of four rows each, with weights of their own: (sum w)^2 over the squares of people's sums."""
    w, who = np.repeat(np.linspace(0.5, 1.5, 50), 4), np.repeat(np.arange(50), 4)
    r = (np.arange(200) % 3 == 0).astype(float)
    found = estimate("snips", Sample(r, w, people=who), interval="wilson")
    n, z, p = w.sum() ** 2 / (np.bincount(who, w) ** 2).sum(), 1.959964, found.value
    middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = (middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-5)


def test_the_bootstrap_in_chunks_is_the_bootstrap_at_once():
    """More numbers than are drawn at once: a Poisson count for each row and resample, in order."""
    n, resamples = 30_000, 100  # 67 resamples at once
    r = (np.arange(n) % 4 == 0).astype(float)
    found = estimate("replay", Sample(r), interval="bootstrap", resamples=resamples, seed=5)
    counts = np.random.default_rng(5).poisson(1.0, size=(resamples, n))
    low, high = np.quantile(counts @ r / counts.sum(axis=1), [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)


def test_doubly_robust_in_the_two_cases_it_must_be_right():
    r, w, X, F = rows_with_features()
    assert estimate("dr", Sample(r, np.ones(len(r)), X, X)).value == pytest.approx(r.mean())
    linear = X @ [0.1, -0.2, 0.3] + 0.4
    assert estimate("dr", Sample(linear, w, X, F)).value == pytest.approx((F @ [0.1, -0.2, 0.3] + 0.4).mean())


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips", "dm", "dr"])
def test_the_bootstrap_has_the_same_width(estimator):
    """2,000 resamples of 2,000 rows: widths within 12 % (the quantiles' own error is about 3 %)."""
    r, w, X, F = rows_with_features(2_000)
    rows = Sample(r, w, X, F)
    one, other = (estimate(estimator, rows, interval=kind, resamples=2_000) for kind in ("asymptotic", "bootstrap"))
    assert one.value == other.value
    assert other.high - other.low == pytest.approx(one.high - one.low, rel=0.12)
    assert other.low < one.value < other.high


def test_what_is_refused():
    with pytest.raises(InputError, match="the log needs propensities"):
        estimate("ips", Sample(R))
    with pytest.raises(InputError, match="features of each row"):
        estimate("dm", Sample(R, W))
    with pytest.raises(InputError, match="estimator='magic'"):
        estimate("magic", Sample(R))
    with pytest.raises(InputError, match=r"min\(weights\)=-1"):
        Sample(R, -np.ones(4))
    with pytest.raises(InputError, match="never chooses"):
        estimate("snips", Sample(R, np.zeros(4)))


class World:
    """Forty sets of four candidates, a linear mean reward, logs by a softmax that prefers the wrong candidates."""

    def __init__(self):
        rng = np.random.default_rng(11)
        self.sets = rng.standard_normal((40, 4, 3))
        self.sets /= np.linalg.norm(self.sets, axis=2, keepdims=True)
        self.means = 0.5 + self.sets @ np.array([0.3, -0.3, 0.2])
        lean = np.exp(self.sets[:, :, 0] - 2 * self.means)
        self.logging = 0.1 + 0.6 * lean / lean.sum(axis=1, keepdims=True)

    def log(self, n, key):
        rng = np.random.default_rng(key)
        place = rng.integers(40, size=n)
        actions = (rng.uniform(size=(n, 1)) > self.logging[place].cumsum(axis=1)).sum(axis=1)
        rewards = (rng.uniform(size=n) < self.means[place, actions]).astype(float)
        return Log(self.sets[place], actions, rewards, self.logging[place, actions])


REPETITIONS, N = 500, 400


@pytest.fixture(scope="module")
def covering():
    """How often intervals of 1 x, 2/3 x and 3/2 x the stated width cover the truth; the mean error in standard errors."""
    world = World()
    settings = policies.settings("adaprivate-ts", {"dimension": 3, "rounds": 900, "batch_size": 300, "v": 3.0})
    policy = Policy(settings, seed=1, source=None)
    learn_from(policy, world.log(900, [1]))
    chosen = choice_probabilities(policy.state, world.sets, draws=65_536).probability
    assert 0.02 < np.median(chosen.max(axis=1)) < 0.98  # a policy that does draw
    truth = float((chosen * world.means).sum(axis=1).mean())
    found = {}
    for repetition in range(REPETITIONS):
        log = world.log(N, [2, repetition])
        rows = sample_for(policy.state, log, seed=repetition)
        kept = replay(policy, log, rounds=N, seed=repetition, learn=False)
        for name in ("ips", "snips", "dm", "dr", "replay"):
            got = estimate(name, Sample(log.rewards[kept]) if name == "replay" else rows)
            off, reach = abs(got.value - truth), (got.high - got.low) / 2
            hits = [off <= scale * reach for scale in (1, 2 / 3, 3 / 2)]
            found.setdefault(name, []).append([*hits, (got.value - truth) / got.sem])
    return {name: np.array(values, dtype=float).mean(axis=0) for name, values in found.items()}


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips", "dm", "dr"])
def test_intervals_cover(covering, estimator):
    """500 logs of 400 rows, 95 % intervals: within 92 .. 98 % (false alarm 0.3 % if seeds were redrawn).

    Power: intervals of 2/3 and 3/2 of the width (81 and 99.7 %) fall outside. The bias is below four standard errors.
    """
    right, short, long, bias = covering[estimator]
    assert 0.92 <= right <= 0.98
    assert short < 0.92
    assert long > 0.98
    assert abs(bias) < 4 / np.sqrt(REPETITIONS)


def test_wrong_propensities_are_seen():
    """The same logs judged as if choice had been uniform: ips is off by many standard errors."""
    world = World()
    policy = Policy(policies.settings("linucb", {"dimension": 3, "rounds": 900}), seed=1, source=None)
    learn_from(policy, world.log(900, [1]))
    truth = float((choice_probabilities(policy.state, world.sets).probability * world.means).sum(axis=1).mean())
    log = world.log(200_000, [3])
    uniform = Log(log.candidates, log.actions, log.rewards, np.full(len(log), 0.25))
    right, wrong = (estimate("ips", sample_for(policy.state, one)) for one in (log, uniform))
    assert abs(right.value - truth) < 4 * right.sem
    assert abs(wrong.value - truth) > 8 * wrong.sem
