"""What every environment must do, found by discovery: a new file is tested with no edit here."""

import dataclasses
import importlib
import math
import pkgutil
import sys

import numpy as np
import pytest
from scipy.stats import chi2

from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.compiled import entry, streams
from adaprivate.environments.protocol import draw
from adaprivate.environments.synthetic import REWARDS
from adaprivate.simulation import run_all

FALSE_ALARM = 1e-6
ROUNDS = 20_000
MODULES = [
    importlib.import_module(f"adaprivate.environments.{m.name}") for m in pkgutil.iter_modules(environments.__path__)
]
EXAMPLES = [example for module in MODULES for example in getattr(module, "EXAMPLES", ())]
IDS = [f"{example.name}-{place}" for place, example in enumerate(EXAMPLES)]
each = pytest.mark.parametrize("place", EXAMPLES, ids=IDS)


@entry
def _play(world, candidates, means, rewards, rng):
    for t in range(len(means)):
        draw(world, t, candidates[t], means[t], rewards[t], rng)


def replay(place, seed, rounds=ROUNDS):
    rounds = min(rounds, 20_000_000 // (place.candidates * place.dimension))  # memory
    shape = (rounds, place.candidates)
    candidates, means, rewards = np.empty((*shape, place.dimension)), np.empty(shape), np.empty(shape)
    rng = streams(seed, 1, 2)
    _play(place.world(seed), candidates, means, rewards, rng)
    return candidates, means, rewards, rng


def kinds(place):
    """The environment with every kind of reward it offers."""
    if "reward" not in environments.options(place.name):
        return [place]
    return [dataclasses.replace(place, reward=kind) for kind in REWARDS]


def unbiased(means, rewards):
    """Hoeffding's bound in five groups of rounds by the mean of the first candidate: no group off by more than chance."""
    order = np.argsort(means[:, 0], kind="stable")
    gaps = [(rewards[group, 0] - means[group, 0]).mean() for group in np.array_split(order, 5)]
    bound = math.sqrt(math.log(2 * 5 / FALSE_ALARM) / (2 * (len(means) // 5)))
    return max(map(abs, gaps)) < bound


def test_every_environment_is_found_and_described():
    assert {example.name for example in EXAMPLES} == set(environments.names())
    assert {"synthetic", "synthetic-linear", "rank-deficient"} <= set(environments.names())
    for module in MODULES:
        assert not hasattr(module, "EXAMPLES") or module.__doc__
    for name in environments.names():
        assert len(environments.describe(name)) > 20


@each
def test_features_means_and_rewards_are_in_range(place):
    for variant in kinds(place):
        candidates, means, rewards, _ = replay(variant, 0)
        assert np.linalg.norm(candidates, axis=2).max() <= 1 + 1e-12
        assert means.min() >= 0
        assert means.max() <= 1
        assert rewards.min() >= 0
        assert rewards.max() <= 1
        assert np.ptp(means) > 0.1  # there is something to learn
        assert all(np.isfinite(array).all() for array in (candidates, means, rewards))


@each
def test_rewards_average_to_their_means(place):
    for variant in kinds(place):
        _, means, rewards, _ = replay(variant, 1)
        assert unbiased(means, rewards)
        assert not unbiased(means * 2 / 3, rewards)
        larger = np.minimum(means * 3 / 2, 1)
        assert np.array_equal(larger, means) or not unbiased(larger, rewards)  # recorded rewards are 0 or 1, and known


@each
def test_kinds_of_reward_are_what_they_say(place):
    for variant in kinds(place):
        _, means, rewards, _ = replay(variant, 2, 500)
        kind = getattr(variant, "reward", None)
        if kind == "bernoulli":
            assert set(np.unique(rewards)) == {0.0, 1.0}
        elif kind == "exact":
            assert np.array_equal(rewards, means)
        elif kind == "uniform":
            assert len(np.unique(rewards)) > 500


@each
def test_same_seed_same_world_and_only_then(place):
    first, second, other = replay(place, 3, 50), replay(place, 3, 50), replay(place, 4, 50)
    for part, (one, two, three) in enumerate(zip(first, second, other, strict=True)):
        assert np.array_equal(one, two)
        if part >= 2 or not getattr(place, "fixed_arms", False):
            assert not np.array_equal(one, three)


@each
def test_a_longer_run_begins_like_a_shorter_one(place):
    short, long = replay(place, 5, 40), replay(place, 5, 200)
    for one, two in zip(short[:3], long[:3], strict=True):
        assert np.array_equal(one, two[:40])


@each
def test_no_policy_changes_the_world(place):
    chosen = [policies.settings(name, {"dimension": place.dimension, "rounds": 60}) for name in ("random", "linucb")]
    runs = run_all(chosen, place, [0, 1])
    assert [(r.best, r.random) for r in runs[0]] == [(r.best, r.random) for r in runs[1]]
    _, means, _, _ = replay(place, 0, 60)
    assert runs[0][0].best == pytest.approx(means.max(axis=1).sum(), rel=1e-12)


@each
def test_the_same_features_always_have_the_same_mean(place):
    if not getattr(place, "stationary", True):
        _, means, _, _ = replay(place, 6, 400)
        assert len(np.unique(means)) > 100  # it says it moves, and does
        return
    candidates, means, _, _ = replay(place, 6, 400)
    if getattr(place, "recorded", False):  # the reward depends on who comes, and that is not in the features
        assert set(np.unique(means)) == {0.0, 1.0}
        return
    seen = {}
    for t, (offered, its_means) in enumerate(zip(candidates, means, strict=True)):
        moment = t if place.name == "drifting" else 0  # there, features mean something else as time goes by
        for x, mean in zip(offered, its_means, strict=True):
            assert seen.setdefault((moment, x.tobytes()), mean) == mean


@each
def test_refuses_unknown_and_impossible_settings(place):
    with pytest.raises(InputError, match=r"^Expected option='colour' in \{"):
        environments.environment(place.name, {"colour": "red"})
    for option in ("dimension", "candidates"):
        for value in (0, -1, 2.5, "many", None, True):
            if option in environments.options(place.name):
                with pytest.raises(InputError, match=rf"^Expected {option}(=| to be given)"):
                    environments.environment(place.name, {option: value})


def test_linear_means_are_linear_and_logistic_ones_logistic():
    for link, signal in (("linear", 0.5), ("logistic", 2.0)):
        place = environments.environment("synthetic", {"dimension": 4, "arms": 50, "link": link, "signal": signal})
        world = place.world(9)
        score = world.means - 0.5 if link == "linear" else np.log(world.means / (1 - world.means))
        theta, residual, rank, _ = np.linalg.lstsq(world.arms, score, rcond=None)
        assert rank == 4
        assert residual[0] < 1e-20
        assert np.linalg.norm(theta) == pytest.approx(signal)


def test_candidates_are_drawn_evenly_and_without_repetition():
    place = environments.environment("synthetic", {"dimension": 3, "arms": 7, "candidates": 3})
    candidates, _, _, _ = replay(place, 10)
    arms = {row.tobytes(): i for i, row in enumerate(place.world(10).arms)}
    drawn = np.array([[arms[row.tobytes()] for row in offer] for offer in candidates])
    assert all(len(set(row)) == 3 for row in drawn[:2000])
    for counts in (np.bincount(drawn[:, 0] * 7 + drawn[:, 1], minlength=49), np.bincount(drawn[:, 2], minlength=7)):
        cells = counts[counts > 0]
        expected = cells.sum() / len(cells)
        assert len(cells) in (42, 7)
        assert ((cells - expected) ** 2 / expected).sum() < chi2.ppf(1 - FALSE_ALARM, len(cells) - 1)


def test_rank_deficient_candidates_stay_in_their_block():
    place = environments.environment("rank-deficient", {"dimension": 7, "rank": 3, "arms": 20, "period": 10})
    candidates, _, _, _ = replay(place, 11, 90)
    for t in range(90):
        block = t // 10 % 3
        outside = np.delete(candidates[t], np.arange(3 * block, min(3 * block + 3, 7)), axis=1)
        assert not outside.any()
    assert np.linalg.matrix_rank(candidates.reshape(-1, 7)) == 7


def test_the_plain_synthetic_world_is_that_of_the_paper():
    rng = np.random.default_rng([12, 0])
    theta = rng.standard_normal(20)
    theta *= 2.0 / np.linalg.norm(theta)
    arms = rng.standard_normal((100, 20))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    world = environments.environment("synthetic").world(12)
    assert np.array_equal(world.arms, arms)  # to the last bit: options of other worlds draw nothing here
    assert np.array_equal(world.means, 1 / (1 + np.exp(-(arms @ theta))))


@pytest.mark.parametrize("base_rate", [0.01, 0.03, 0.5, 0.9])
def test_base_rates_are_what_random_play_earns(base_rate):
    for dimension in (3, 100):
        place = environments.environment("synthetic", {"dimension": dimension, "base_rate": base_rate})
        world = place.world(13)
        assert world.means.mean() == pytest.approx(base_rate, rel=1e-9)
        scores = np.log(world.means / (1 - world.means))
        assert scores.std() == pytest.approx(2 / math.sqrt(dimension), rel=0.4)  # odds differ as much as at one half
        _, means, _, _ = replay(dataclasses.replace(place, arms=0), 13)
        assert means.mean() == pytest.approx(base_rate, rel=0.06)  # five standard errors of 4,096 vectors, or less


@pytest.mark.parametrize("arms", [4000, 0])
@pytest.mark.parametrize(("norms", "low", "high"), [(0.2, 0.2, 0.2), ((0.05, 1.0), 0.05, 1.0)])
def test_lengths_of_features_do_not_change_how_much_rewards_differ(arms, norms, low, high):
    place = environments.environment("synthetic", {"dimension": 6, "arms": arms, "norms": norms})
    candidates, means, _, _ = replay(place, 14)
    lengths = np.linalg.norm(candidates, axis=2).ravel()
    assert lengths.min() >= low - 1e-12
    assert lengths.max() <= high + 1e-12
    assert lengths.mean() == pytest.approx((low + high) / 2, rel=0.04)
    assert lengths.std() == pytest.approx((high - low) / math.sqrt(12), rel=0.04, abs=1e-12)
    plain = replay(dataclasses.replace(place, norms=1.0), 14)[1]
    scores, plain_scores = (np.log(m / (1 - m)) for m in (means, plain))
    assert scores.std() == pytest.approx(plain_scores.std(), rel=0.04)


def test_one_hot_arms_are_unit_vectors_with_means_of_their_own():
    place = environments.environment("synthetic", {"dimension": 7, "arms": 7, "candidates": 3, "features": "one-hot"})
    world = place.world(15)
    assert np.array_equal(world.arms, np.eye(7))
    assert len(np.unique(world.means)) == 7
    assert np.linalg.norm(np.log(world.means / (1 - world.means))) == pytest.approx(2)


def test_no_feature_vector_comes_twice_in_a_fresh_world():
    place = environments.environment("synthetic-linear", {"dimension": 3, "arms": 0, "candidates": 50, "decay": 1.0})
    candidates, means, _, _ = replay(place, 16)
    flat = candidates.reshape(-1, 3)
    assert len(np.unique(flat[:, 0])) == len(flat)
    assert np.linalg.norm(flat, axis=1) == pytest.approx(np.ones(len(flat)))
    theta = np.linalg.lstsq(flat, means.ravel() - 0.5, rcond=None)[0]
    assert flat @ theta + 0.5 == pytest.approx(means.ravel())
    assert np.linalg.norm(theta) == pytest.approx(0.5)
    squares = (np.random.default_rng(0).standard_normal((100_000, 3)) / [1, 2, 3]) ** 2
    shares = (squares / squares.sum(axis=1, keepdims=True)).mean(axis=0)  # standard error 0.001
    assert (flat**2).mean(axis=0) == pytest.approx(shares, abs=0.008)


def test_as_many_candidates_as_arms_are_the_same_every_round():
    place = environments.environment("synthetic", {"dimension": 4, "arms": 6, "candidates": 6})
    candidates, _, _, _ = replay(place, 17, 300)
    same = {row.tobytes() for row in candidates[0]}
    assert all({row.tobytes() for row in offer} == same for offer in candidates)
    assert len({offer.tobytes() for offer in candidates}) > 100  # in another order


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"base_rate": 0}, "base_rate=0"),
        ({"base_rate": 0.3, "offset": 1.0}, "offset=1.0"),
        ({"base_rate": 0.3, "link": "linear", "signal": 0.1}, "link='linear'"),
        ({"norms": 0}, "norms="),
        ({"norms": (0.5, 0.2)}, "norms="),
        ({"norms": (0.5, 1.2)}, "norms="),
        ({"norms": "long"}, "norms"),
        ({"features": "one-hot"}, "arms=100"),
        ({"features": "two-hot"}, "features="),
        ({"arms": -1}, "arms=-1"),
        ({"link": "linear", "signal": 0.5, "norms": (0.1, 1.0)}, "signal=0.5"),
    ],
)
def test_refuses_impossible_synthetic_worlds(options, named):
    with pytest.raises(InputError, match=rf"^Expected {named}"):
        environments.environment("synthetic", options)


def test_made_tables_have_correlated_columns_and_classes_apart():
    def accuracy(**options):
        """Of the linear rule fitted to the whole table."""
        place = environments.environment("made-table", {"columns": 8, "classes": 4, **options})
        world = place.world(18)
        assert world.rows.shape == (5000, 9)
        assert set(world.labels) == {0, 1, 2, 3}
        weights = np.linalg.lstsq(world.rows, np.eye(4)[world.labels], rcond=None)[0]
        return ((world.rows @ weights).argmax(axis=1) == world.labels).mean(), np.corrcoef(world.rows[:, :8].T)

    near, _ = accuracy(separation=0.5)
    far, correlation = accuracy(separation=4.0)
    noisy, _ = accuracy(separation=4.0, noise=0.5)
    chance, _ = accuracy(noise=1.0)
    assert 0.25 < near < 0.5 < far
    assert noisy == pytest.approx(far / 2 + 0.125, abs=0.08)
    assert chance < 0.32
    assert np.abs(correlation - np.eye(8)).max() > 0.25


def test_a_made_table_is_played_as_a_recorded_one(tmp_path):
    made = environments.environment("made-table", {"columns": 3, "classes": 3, "rows": 200, "scaling": "unit"})
    world = made.world(19)
    np.savez(tmp_path / "data.npz", X=world.rows[:, :3] / world.rows[:, 3:], y=world.labels)  # columns before their lengths
    recorded = environments.environment("classification", {"data": str(tmp_path), "scaling": "unit"})
    assert (made.dimension, made.candidates) == (recorded.dimension, recorded.candidates) == (12, 3)
    for one, two in zip(replay(made, 19, 100), replay(recorded, 19, 100), strict=True):
        assert np.allclose(one, two)


def test_tables_of_scikit_learn():
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    place = environments.environment("classification", {"data": "sklearn:digits", "scaling": "max-norm"})
    world = place.world(0)
    assert (place.dimension, place.candidates) == (10 * 65, 10)
    assert np.array_equal(world.labels, labels)
    column = rows[:, 20]
    assert world.rows[:, 20] / world.rows[:, 64] == pytest.approx((column - column.mean()) / column.std())
    with pytest.raises(InputError, match=r"^Expected table='moons' in \{"):
        environments.environment("classification", {"data": "sklearn:moons"}).world(0)


def test_says_that_scikit_learn_is_missing(monkeypatch):
    from adaprivate import data

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"^Expected data='sklearn:wine' to be read where scikit-learn is installed"):
        data.labelled("sklearn:wine")
