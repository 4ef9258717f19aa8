"""Worlds of recorded ratings against a plain reading of their files, on whatever data there is."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adaprivate import data, environments, policies
from adaprivate.check import InputError
from adaprivate.compiled import entry, streams
from adaprivate.environments.protocol import draw, visitor
from adaprivate.simulation import run_all, whole_state

REAL = (Path(os.environ["ADAPRIVATE_DATA"]) / "jester-1").exists() and (
    Path(os.environ["ADAPRIVATE_DATA"]) / "ml-1m"
).exists()


@entry
def _play(world, candidates, means, rewards, chosen, who, rng):
    for t in range(len(means)):
        draw(world, t, candidates[t], means[t], rewards[t], rng)
        chosen[t] = world.chosen[:-1]
        who[t] = visitor(world, t)


@entry
def _play_table(world, candidates, means, rewards, rng):
    for t in range(len(means)):
        draw(world, t, candidates[t], means[t], rewards[t], rng)


def met(place, seed=0, rounds=4000):
    shape = (rounds, place.candidates)
    candidates, means, rewards = np.empty((*shape, place.dimension)), np.empty(shape), np.empty(shape)
    chosen, who = np.empty(shape, dtype=np.int64), np.empty(rounds, dtype=np.int64)
    _play(place.world(seed), candidates, means, rewards, chosen, who, streams(seed, 1, 2))
    return candidates, means, chosen, who


def played(place, seed=0, rounds=4000):
    return met(place, seed, rounds)[:3]


@pytest.mark.parametrize("name", ["jester", "movielens"])
def test_each_round_is_one_person_and_distinct_items_of_theirs(name):
    place = environments.environment(name, {"dimension": 7, "candidates": 5})
    world = place.world(0)
    candidates, means, chosen, who = met(place)
    person = np.searchsorted(world.starts, chosen, side="right") - 1
    assert (person == who[:, None]).all()
    assert all(len(set(row)) == 5 for row in chosen)
    assert np.array_equal(means, world.likes[chosen])
    assert np.array_equal(candidates, world.items[world.rated[chosen]])
    people = len(world.starts) - 1
    counts = np.bincount(person[:, 0], minlength=people)
    assert counts.max() < 4000 / people + 8 * (4000 / people) ** 0.5 + 8  # drawn evenly


@pytest.mark.parametrize(
    ("name", "features"), [("jester", "svd"), ("jester", "dp-svd"), ("movielens", "svd"), ("movielens", "user-item")]
)
def test_who_comes_is_whose_ratings_earn(name, features):
    """By the ratings themselves: what each round pays is what the visitor of that round thought of the item."""
    place = environments.environment(name, {"dimension": 4, "candidates": 5, "features": features})
    world, split = place.world(1), place.split(place.path())
    people = np.unique(split.user[split.offered])
    offered = zip(split.user[split.offered], split.item[split.offered], split.rating[split.offered], strict=True)
    liked = {(int(user), int(item)): float(rating >= place.like) for user, item, rating in offered}
    candidates, means, chosen, who = met(place, 1, 300)
    items = world.rated[chosen]
    assert len(set(who.tolist())) > 20
    theirs = [[liked[int(people[u]), int(item)] for item in row] for u, row in zip(who, items, strict=True)]
    assert theirs == means.tolist()
    wrong = np.roll(who, 1)
    others = [[liked.get((int(people[u]), int(item))) for item in row] for u, row in zip(wrong, items, strict=True)]
    assert others != means.tolist()
    tastes = world.people[who][:, None] if features == "user-item" else 1.0
    assert np.allclose(candidates, world.items[items] * tastes)


@pytest.mark.parametrize("name", ["jester", "movielens"])
def test_a_policy_protects_the_people_of_a_recorded_world(name):
    place = environments.environment(name, {"dimension": 4, "candidates": 5})
    options = {"dimension": 4, "rounds": 250, "unit": "user", "counted_visits": 3}
    run = run_all([policies.settings("noise-aware", options)], place, [2], keep_state=whole_state)[0][0]
    who = met(place, 2, 250)[3]
    firsts = list(dict.fromkeys(who.tolist()))
    ledger = run.state.book.ledger
    assert ledger.numbers[: len(firsts)].tolist() == firsts
    assert int(ledger.scalars["people"][0]) == len(firsts)
    assert ledger.visits[: len(firsts)].tolist() == [min(3, int((who == person).sum())) for person in firsts]


def test_jester_is_what_its_definition_says():
    place = environments.environment("jester", {"dimension": 6})
    table = data.ratings(place.path()).table
    per_person = table.group_by("user").len()
    jokes = table["item"].n_unique()
    complete = set(per_person.filter(pl.col("len") == jokes)["user"].to_list())
    world = place.world(3)
    assert len(world.starts) - 1 == len(complete)
    inside = table.filter(pl.col("user").is_in(list(complete)))
    others = table.filter(~pl.col("user").is_in(list(complete)))
    assert world.likes.mean() == pytest.approx((inside["rating"] >= 4).mean())
    assert place.base_rate == pytest.approx((others["rating"] >= 4).mean())
    people = {u: n for n, u in enumerate(sorted(set(others["user"].to_list())))}
    R = np.zeros((len(people), jokes))
    R[[people[u] for u in others["user"]], others["item"].to_numpy() - 1] = (
        others["rating"].to_numpy() - others["rating"].cast(pl.Float64).mean()
    )
    _, S, Vt = np.linalg.svd(R, full_matrices=False)
    X = Vt[:6].T * S[:6]
    assert np.allclose(world.items @ world.items.T, X @ X.T / (X**2).sum(axis=1).max())
    if REAL:
        assert (len(complete), jokes) == (7200, 100)
        assert place.base_rate == pytest.approx(0.310, abs=5e-4)
        _, means, _ = played(dataclasses.replace(place, dimension=50), rounds=20_000)
        assert means.mean() == pytest.approx(0.336, abs=0.004)
        assert means.max(axis=1).mean() == pytest.approx(0.862, abs=0.01)


def test_movielens_holds_out_half_of_the_other_half():
    place = environments.environment("movielens", {"dimension": 5})
    split = place.split(place.path())
    training, others = np.unique(split.user[split.training]), np.unique(split.user[~split.training])
    assert not set(training) & set(others)
    assert abs(len(training) - len(others)) <= 2 + 0.01 * len(others)
    assert not (split.offered & (split.training | split.profile)).any()
    held = np.bincount(split.user[split.offered])
    rest = np.bincount(split.user[split.profile], minlength=len(held))[: len(held)]
    assert held[held > 0].min() >= 20
    assert (held - rest)[held > 0].min() >= 0
    assert (held - rest)[held > 0].max() <= 1
    assert np.bincount(split.item[split.training]).min() >= 20
    if REAL:
        assert 2300 < len(place.world(0).starts) - 1 < 2450
        assert place.base_rate == pytest.approx(0.580, abs=5e-4)
        _, means, _ = played(dataclasses.replace(place, dimension=50), rounds=20_000)
        assert means.mean() == pytest.approx(0.618, abs=0.004)
        assert means.max(axis=1).mean() == pytest.approx(0.995, abs=0.003)


def test_products_of_person_and_item():
    place = environments.environment("movielens", {"dimension": 4, "candidates": 3, "features": "user-item"})
    world = place.world(0)
    candidates, _, chosen = played(place, rounds=200)
    person = np.searchsorted(world.starts, chosen, side="right") - 1
    assert np.allclose(candidates, world.items[world.rated[chosen]] * world.people[person])
    everyone = np.repeat(np.arange(len(world.people)), np.diff(world.starts))
    norms = np.linalg.norm(world.people[everyone] * world.items[world.rated], axis=1)
    assert norms.max() == pytest.approx(1, abs=1e-9)
    assert norms.max() <= 1


def test_worlds_share_everything_but_private_features():
    place = environments.environment("jester", {"dimension": 5})
    assert place.world(0).items is place.world(1).items
    assert place.world(0).chosen is not place.world(1).chosen
    private = dataclasses.replace(place, features="dp-svd", feature_epsilon=2.0)
    assert not np.array_equal(private.world(0).items, private.world(1).items)
    assert np.array_equal(private.world(1).items, private.world(1).items)
    assert private.world(0).rated.tolist() == place.world(0).rated.tolist()
    assert place.feature_guarantee() is None
    assert private.feature_guarantee().epsilon == pytest.approx(2.0)
    assert private.base_rate == 0.5  # nobody's likes are public then


def test_a_table_as_a_bandit(tmp_path):
    X, y = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]]), np.array([1, 0, 2])
    np.savez(tmp_path / "t.npz", X=X, y=y)
    place = environments.environment("classification", {"data": str(tmp_path / "t.npz"), "scaling": "max-norm"})
    assert (place.dimension, place.candidates) == (9, 3)
    world = place.world(0)
    standard = np.sqrt(8 / 3)
    rows = np.array([[-2 / standard, 0, 1], [0, 0, 1], [2 / standard, 0, 1]])
    assert np.allclose(world.rows, rows / np.linalg.norm(rows, axis=1).max())
    shape = (50, 3)
    candidates, means, rewards = np.empty((*shape, 9)), np.empty(shape), np.empty(shape)

    _play_table(world, candidates, means, rewards, streams(0, 1, 2))
    for offered, mean in zip(candidates, means, strict=True):
        blocks = offered.reshape(3, 3, 3)
        row = int(np.flatnonzero((world.rows == blocks[0, 0]).all(axis=1))[0])
        assert all(np.array_equal(blocks[a, b], world.rows[row] * (a == b)) for a in range(3) for b in range(3))
        assert mean.tolist() == [float(y[row] == a) for a in range(3)]


def test_refusals(tmp_path):
    for name, options, message in [
        ("jester", {"features": "user-item"}, r"features='user-item' in \{svd, dp-svd\}"),
        ("jester", {"scaling": "none"}, "scaling='none' in"),
        ("movielens", {"features": "dp-svd"}, "least_ratings=20 == 0 with dp-svd"),
        ("movielens", {"features": "user-item", "scaling": "unit"}, "scaling='unit' == max-norm"),
        ("movielens", {"films": 0}, "films=0 >= 1"),
        ("jester", {"feature_epsilon": 0}, "feature_epsilon=0 > 0"),
    ]:
        with pytest.raises(InputError, match=f"^Expected {message}"):
            environments.environment(name, options)
    with pytest.raises(InputError, match=r"^Expected candidates=\d+ <= \d+, the items each person rated"):
        environments.environment("jester", {"candidates": 101, "dimension": 3}).world(0)
    with pytest.raises(InputError, match=r"^Expected dimension=101 <= 100"):
        environments.environment("jester", {"dimension": 101}).world(0)
    other = environments.environment("jester", {"data": environments.environment("movielens", {}).path()})
    with pytest.raises(InputError, match=r"to be Jester's ratings\.$"):
        other.world(0)
