"""Noise shaped to a catalogue: feasible as computed, optimal by an independent solver, as private as round noise."""

import math
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import catalogue as shapes
from adaprivate.mechanisms.catalogue import Shape, ShapedPrefixSum, error_weight
from adaprivate.mechanisms.independent import Independent
from adaprivate.mechanisms.noise import Secure, Simulated

FALSE_ALARM = 1e-6
SOURCES = {"simulated": lambda: Simulated(5), "secure": Secure}


def catalogue(n, d, power, seed):
    """Unit vectors whose coordinates fall off as i^-power."""
    x = np.random.default_rng(seed).standard_normal((n, d)) * np.arange(1.0, d + 1) ** -power
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def longest(shape, items):
    return max(np.linalg.norm(shape.whiten(item)) for item in items)


def least_by_slsqp(items, weight):
    """Minimise tr(weight P^-1) over P = L L' with x' P x <= 1, a general-purpose solver from three starts."""
    d = items.shape[1]
    lower = np.tril_indices(d)

    def precision(parameters):
        root = np.zeros((d, d))
        root[lower] = parameters
        return root @ root.T

    def slack(parameters):
        return 1 - np.einsum("ni,ij,nj->n", items, precision(parameters), items)

    found = []
    for seed in range(3):
        start = np.diag(np.random.default_rng(seed).uniform(0.2, 0.5, d))[lower]
        result = minimize(
            lambda q: np.trace(weight @ np.linalg.inv(precision(q))),
            start,
            method="SLSQP",
            constraints=[{"type": "ineq", "fun": slack}],
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if slack(result.x).min() > -1e-7:
            found.append(result.fun)
    return min(found)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_optimal_by_an_independent_solver(d, seed):
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(8, d)) * [1.0, 0.3, 0.1][:d]
    root = rng.normal(size=(d, d))
    weight = root @ root.T + 0.1 * np.eye(d)
    shape = Shape.for_catalogue(items, weight, tolerance=1e-6)
    cost, reference = np.trace(weight @ shape.covariance), least_by_slsqp(items, weight)
    assert cost == pytest.approx(reference, rel=2e-5)
    assert shape.gap <= 1e-6
    assert cost / (1 + shape.gap) <= reference * (1 + 1e-6)


@pytest.mark.parametrize("power", [0, 0.5, 1])
@pytest.mark.parametrize("events", [1000, 10_000])
def test_gain_over_round_noise(power, events):
    """None for round catalogues; a factor of 3 to 4 in noise energy when coordinates fall off as 1 / i."""
    items = catalogue(1000, 20, power, seed=1)
    weight = error_weight(items, events, ridge=1.0)
    shape = Shape.for_catalogue(items, weight)
    ratio = np.trace(weight @ shape.covariance) / np.trace(weight)
    low, high = {0: (0.99, 1 + 1e-9), 0.5: (0.6, 0.8), 1: (0.22, 0.34)}[power]
    assert low < ratio < high
    assert shape.gap <= 1e-3
    assert 1 - 1e-6 < longest(shape, items) <= 1


def test_a_large_catalogue_meets_its_tolerance():
    items = catalogue(3000, 40, 1, seed=2) * np.random.default_rng(3).uniform(0.1, 1, (3000, 1))
    weight = error_weight(items, 10_000, ridge=1.0)
    shape = Shape.for_catalogue(items, weight)
    assert shape.gap <= 1e-3
    assert longest(shape, items) <= 1
    assert np.trace(weight @ shape.covariance) < 0.2 * np.trace(weight)


def test_gap_is_a_true_certificate():
    items = catalogue(60, 6, 1, seed=4)
    rough, fine = (Shape.for_catalogue(items, tolerance=t) for t in (0.3, 1e-6))
    ratio = np.trace(rough.covariance) / np.trace(fine.covariance)
    assert 1 < ratio <= 1 + rough.gap <= 1.3


@pytest.mark.parametrize(
    ("items", "weight"),
    [
        (np.array([[1.0, 0, 0], [0.5, 0.5, 0]]), None),
        (np.array([[0.3, 0.4, 0.0]]), None),
        (np.array([[0.6, 0.8]] * 5 + [[0.0, 0.0]]), None),
        (np.array([[0.6, 0.8], [0.6, 0.8 + 1e-13]]), None),
        (catalogue(50, 3, 1, seed=5), np.diag([1.0, 0.0, 0.0])),
        (catalogue(50, 3, 1, seed=5), np.diag([1.0, 1e-14, 1e3])),
        (7 * catalogue(50, 3, 1, seed=6), None),
        (np.eye(4), None),
        (np.array([[2.0]]), None),
    ],
    ids=["plane", "one item", "copies and zero", "near copies", "singular", "nearly singular", "long", "axes", "scalar"],
)
def test_degenerate_catalogues(items, weight):
    shape = Shape.for_catalogue(items, weight)
    assert longest(shape, items) <= 1
    assert longest(shape, items) > 1 - 1e-5
    assert shape.gap <= 1e-3
    for item in items:
        assert shape.unwhiten(shape.whiten(item)) == pytest.approx(item, abs=1e-9)
        assert np.array_equal(shape.clip(item), item)


def test_directions_no_item_has_are_all_but_clipped_away():
    shape = Shape.for_catalogue(np.array([[1.0, 0, 0], [0.5, 0.5, 0]]))
    assert np.linalg.norm(shape.clip(np.array([0.0, 0.0, 1.0]))) < 1e-5
    assert np.trace(shape.covariance) == pytest.approx(np.trace(shape.covariance[:2, :2]))


def test_coordinates():
    root = np.array([[2.0, 0.0], [1.0, 0.5]])
    shape = Shape(root)
    x = np.array([0.3, -0.4])
    assert shape.covariance == pytest.approx(root @ root.T)
    assert shape.unwhiten(shape.whiten(x)) == pytest.approx(x)
    assert np.linalg.norm(shape.whiten(x)) ** 2 == pytest.approx(x @ np.linalg.inv(shape.covariance) @ x)
    far = np.array([3.0, 4.0])
    assert np.linalg.norm(shape.whiten(shape.clip(far))) == pytest.approx(1)
    assert shape.clip(far) / far == pytest.approx([shape.clip(far)[0] / 3] * 2)
    assert np.linalg.norm(shape.whiten(far)) > 1
    round_ = Shape.isotropic(3)
    assert np.array_equal(round_.whiten(np.ones(3)), np.ones(3))
    assert round_.gap is None


def test_error_weight():
    items = catalogue(30, 4, 1, seed=7)
    design = 2 * np.eye(4) + 500 * np.mean([np.outer(x, x) for x in items], axis=0)
    assert error_weight(items, 500, 2.0) == pytest.approx(np.linalg.matrix_power(np.linalg.inv(design), 2))
    assert error_weight(items, 0, 2.0) == pytest.approx(np.eye(4) / 4)


def build(noise, steps=3, items=None, **change):
    items = catalogue(40, 4, 1, seed=8) if items is None else items
    shape = Shape.for_catalogue(items, error_weight(items, 100, 1.0))
    return ShapedPrefixSum(Independent(steps=steps), shape, **{"noise_multiplier": 2.0, "noise": noise, **change}), items


@pytest.mark.parametrize("source", SOURCES)
def test_released_noise_has_the_shape_with_power(source):
    """v' W^-1 v / sigma^2 summed over fresh releases is chi-square; level 1e-6, scales 2/3 and 3/2 rejected."""
    noise = SOURCES[source]()
    mechanism, _ = build(noise, steps=600)
    zero = np.full(4, 0, dtype=object) if noise.exact else np.zeros(4)
    prefixes = np.array([mechanism.release(zero) for _ in range(600)])
    fresh = np.diff(prefixes, axis=0, prepend=0)
    W = mechanism.coordinates.covariance
    statistic = np.einsum("ni,ij,nj->", fresh, np.linalg.inv(W), fresh) / 4
    low, high = chi2.ppf(FALSE_ALARM / 2, 2400), chi2.isf(FALSE_ALARM / 2, 2400)
    assert low < statistic < high
    assert not low < statistic * 9 / 4 < high
    assert not low < statistic * 4 / 9 < high
    # each direction on its own, the loudest and the quietest: round noise would fail one of them
    values, vectors = np.linalg.eigh(W)
    for j in (0, 3):
        along = float(((fresh @ vectors[:, j]) ** 2).sum() / (4 * values[j]))
        assert chi2.ppf(FALSE_ALARM / 2, 600) < along < chi2.isf(FALSE_ALARM / 2, 600)
    assert mechanism.prefix_covariance(2) == pytest.approx(3 * 4 * W)


@pytest.mark.parametrize("source", SOURCES)
def test_collected_events_come_back_in_the_original_coordinates(source):
    class Silent(Simulated):
        def gaussian(self, values, scale):
            return np.asarray(values, dtype=float) * (2.0**-40 if self.exact else 1.0)

    noise = Silent(0)
    noise.exact = SOURCES[source]().exact
    mechanism, items = build(noise)
    batch = mechanism.collector(centre=0.25)
    rng = np.random.default_rng(9)
    expected = np.zeros(4)
    for _ in range(2):
        for item in items:
            reward = float(rng.uniform())
            batch.add(item, reward)
            expected += (reward - 0.25) * item
        assert mechanism.release(batch.take()) == pytest.approx(expected, abs=2e-4 if noise.exact else 1e-12)
    assert batch.clipped == 0
    batch.add(3 * items[0] / np.linalg.norm(mechanism.coordinates.whiten(items[0])), 1.0)
    assert batch.clipped == 1


def test_one_reward_moves_the_sum_by_at_most_the_noise_unit():
    """Mahalanobis sensitivity: in exact integers, no reward of any vector, however long, moves the sum by more than 1."""
    mechanism, items = build(Secure())
    rng = np.random.default_rng(10)
    worst = 0
    for x in (*items, *rng.normal(size=(100, 4)) * 5):
        sums = []
        for reward in (0.0, 1.0):
            batch = mechanism.collector(centre=0.5)
            batch.add(x, reward)
            sums.append(batch.take())
        worst = max(worst, sum(int(entry) ** 2 for entry in sums[1] - sums[0]))
    assert 0.999 * 4**20 < worst <= 4**20


def test_price_and_guarantee():
    mechanism, _ = build(Simulated(0))
    assert mechanism.price == privacy.GaussianPrice(0.5)
    text = privacy.CONDITIONS["catalogue"]
    assert text in mechanism.guarantee(1e-5).assumptions
    assert text in mechanism.guarantee(1e-5, mechanism.collector()).enforced
    user, _ = build(Simulated(0), participation=privacy.users(1.0, 2, "add-remove"))
    assert user.guarantee(1e-5).unit == "user"
    secure, _ = build(Secure())
    assert secure.price.mu == 0.5
    assert secure.price.slack > 0


def test_survives_saving_midway():
    whole, _ = build(Simulated(1))
    part, _ = build(Simulated(1))
    sums = np.random.default_rng(2).normal(size=(3, 4))
    expected = [whole.release(s) for s in sums]
    got = [part.release(sums[0])]
    resumed, _ = build(part.noise)
    resumed.state = pickle.loads(pickle.dumps(part.state))
    got += [resumed.release(s) for s in sums[1:]]
    assert np.array_equal(expected, got)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Shape(np.ones((2, 2))), r"Expected root=\[\[1.0, 1.0\], \[1.0, 1.0\]\] to be invertible\."),
        (lambda: Shape(np.zeros((2, 2))), r"Expected root=.* to be invertible\."),
        (lambda: Shape(np.zeros((2, 3))), r"Expected root.shape=\(2, 3\) == \(2, 2\)\."),
        (lambda: Shape(np.zeros((0, 0))), r"Expected root.shape=\(0, 0\) == \(1, 1\)\."),
        (lambda: Shape(np.full((2, 2), math.nan)), r"Expected root\[0, 0\]=nan to be finite\."),
        (lambda: Shape.isotropic(0), r"Expected dimension=0 >= 1\."),
        (lambda: Shape.isotropic(2).whiten(np.ones(3)), r"Expected features.shape=\(3,\) == \(2,\)\."),
        (lambda: Shape.isotropic(2).whiten([0.0, math.inf]), r"Expected features\[1\]=inf to be finite\."),
        (lambda: Shape.isotropic(2).unwhiten(np.ones(3)), r"Expected vector.shape=\(3,\) == \(2,\)\."),
        (lambda: Shape.for_catalogue(np.zeros((3, 2))), r"Expected items.shape=\(3, 2\) to hold an item other than 0\."),
        (lambda: Shape.for_catalogue(np.zeros((0, 2))), r"Expected items.shape=\(0, 2\) to hold an item other than 0\."),
        (lambda: Shape.for_catalogue(np.full((3, 2), 1e200)), r"Expected items=1e\+200 to have its largest number between"),
        (lambda: Shape.for_catalogue(np.full((3, 2), 1e-200)), r"Expected items=1e-200 to have its largest number between"),
        (lambda: Shape.for_catalogue(np.ones(3)), r"Expected items.shape=\(3,\) == \(\*, \*\)\."),
        (lambda: Shape.for_catalogue([[1, math.nan]]), r"Expected items\[0, 1\]=nan to be finite\."),
        (lambda: Shape.for_catalogue(np.eye(2), np.eye(3)), r"Expected weight.shape=\(3, 3\) == \(2, 2\)\."),
        (lambda: Shape.for_catalogue(np.eye(2), [[1, 2], [0, 1]]), r"Expected weight\[0, 1\] - weight\[1, 0\]=2.0 == 0\."),
        (lambda: Shape.for_catalogue(np.eye(2), np.diag([1, -1])), r"Expected weight's smallest eigenvalue=-1.0 >= 0"),
        (lambda: Shape.for_catalogue(np.eye(2), np.zeros((2, 2))), r"Expected weight's smallest eigenvalue=0.0 >= 0"),
        (lambda: Shape.for_catalogue(np.eye(2), tolerance=0), r"Expected tolerance=0 > 0\."),
        (lambda: error_weight(np.eye(2), 10, 0), r"Expected ridge=0 > 0\."),
        (lambda: error_weight(np.eye(2), -1, 1), r"Expected events=-1 >= 0\."),
        (lambda: error_weight(np.zeros((0, 2)), 1, 1), r"Expected items.shape=\(0, 2\) to hold at least one item\."),
        (lambda: build(Simulated(0), noise_multiplier=0), r"Expected noise_multiplier=0 > 0\."),
        (lambda: build(Simulated(0))[0].release(np.zeros(3)), r"Expected increment.shape=\(3,\) == \(4,\)\."),
        (lambda: build(Simulated(0))[0].release(np.full(4, math.nan)), r"Expected increment\[0\]=nan to be finite\."),
        (lambda: build(Secure())[0].release(np.zeros(4)), r"Expected increment.dtype='float64' to be whole numbers"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_refuses_more_batches_than_the_strategy_covers():
    mechanism, _ = build(Simulated(0), steps=1)
    mechanism.release(np.zeros(4))
    with pytest.raises(InputError, match=r"Expected releases=2 <= 1, the strategy's steps\."):
        mechanism.release(np.zeros(4))


def large_catalogue(count, dimension, seed=3):
    """Items of many lengths, most of them short in some directions, a few far out in one that others hardly have."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((count, dimension)) / np.arange(1, dimension + 1)
    items /= np.linalg.norm(items, axis=1).max()
    items[::997, -1] *= 40 * rng.random(len(items[::997]))
    return items / np.linalg.norm(items, axis=1).max()


@pytest.mark.parametrize("weighted", [False, True])
def test_of_many_items_every_one_lies_in_the_ellipsoid_and_it_is_nearly_the_least(weighted, monkeypatch):
    """The shape is sought on some of them and checked on all; all at once, it has the same trace up to the gaps."""
    items = large_catalogue(20_000, 6)
    weight = error_weight(items, events=1000, ridge=1.0) if weighted else None
    few = Shape.for_catalogue(items, weight)
    assert max(np.linalg.norm(few.whiten(item)) for item in items) <= 1
    monkeypatch.setattr(shapes, "_CORE", len(items))
    every = Shape.for_catalogue(items, weight)
    cost = [np.trace((np.eye(6) if weight is None else weight) @ shape.covariance) for shape in (few, every)]
    assert max(few.gap, every.gap) <= 1e-3
    assert cost[0] == pytest.approx(cost[1], rel=1e-3)


def test_the_longest_of_all_items_is_found_as_if_each_were_looked_at(monkeypatch):
    """In blocks, to the last bit; of more than can be looked at one by one a bound, larger by rounding alone."""
    shape = Shape(np.linalg.cholesky(np.cov(large_catalogue(500, 6).T)))
    items = large_catalogue(5000, 6)
    longest = max(float(np.linalg.norm(shape.whiten(item))) for item in items)
    assert shapes._longest(shape, items) == longest
    monkeypatch.setattr(shapes, "_CORE", 0)
    assert longest <= shapes._longest(shape, items) <= longest * (1 + 1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_of_items_equally_long_but_for_rounding_none_is_longer_than_what_is_found(seed):
    """Products of blocks round otherwise than those of single items, so the longest of either need not be the same one."""
    shape = Shape(np.random.default_rng(seed).standard_normal((7, 7)))
    sphere = np.random.default_rng(seed).standard_normal((2000, 7))
    items = (sphere / np.linalg.norm(sphere, axis=1, keepdims=True)) @ shape.root.T
    assert shapes._longest(shape, items) == max(float(np.linalg.norm(shape.whiten(item))) for item in items)
