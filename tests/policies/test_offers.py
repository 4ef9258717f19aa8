"""Candidates as places in a table are the same candidates as rows of an array, to worlds and to policies, anyone's too."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from adaprivate import environments
from adaprivate.compiled import borrowed, entry, streams
from adaprivate.environments.protocol import draw, draws, room_for, visitor, visitors
from adaprivate.offered import Offered, how_many, offer, offered, row, rows_of
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.simulation import policy_settings, run_one

WORLDS = {
    "synthetic": {"dimension": 4, "arms": 9, "candidates": 5},
    "drifting": {"dimension": 4, "arms": 9, "candidates": 5, "period": 50},
    "rank-deficient": {"dimension": 4, "arms": 9, "candidates": 5, "rank": 2, "period": 7},
    "bernoulli-arms": {"arms": 4},
}


class Rows(NamedTuple):
    """A world that copies rows whatever the world in it does."""

    world: object


@draws.of(Rows)
def _draw(world, round_index, candidates, means, rewards, rng):
    draw(world.world, round_index, candidates, means, rewards, rng)


@visitors.of(Rows)
def _visitor(world, round_index):
    return visitor(world.world, round_index)


class InRows:
    """The environment, its candidates in rows."""

    def __init__(self, place):
        self._place = place
        self.name, self.dimension, self.candidates = place.name, place.dimension, place.candidates

    def world(self, seed):
        return Rows(self._place.world(seed))


def played(settings, place, seed=5):
    run = run_one(settings, place, seed, settings.noise_tables([seed])[0], points=settings.rounds)
    return run.reward, run.curve.tolist()


@entry
def _both(world, again, rooms, candidates, numbers, rng, twin):
    """How many numbers of all rounds differ between the two forms."""
    differ = 0
    for t in range(numbers.shape[1]):
        draw(borrowed(world), t, borrowed(rooms), numbers[0, t], numbers[1, t], borrowed(rng))
        draw(borrowed(again), t, borrowed(candidates), numbers[2, t], numbers[3, t], borrowed(twin))
        written = rows_of(rooms)
        for a in range(how_many(rooms)):
            for j in range(candidates.shape[1]):
                differ += candidates[a, j] != row(rooms, a)[j]
                differ += candidates[a, j] != written[a, j]
    return differ


@entry
def _offer_the_last(candidates, table, out):
    for a in range(how_many(candidates)):
        offer(candidates, a, table, -1 - a)
    for a in range(how_many(candidates)):
        for j in range(table.shape[1]):
            out[a, j] = row(candidates, a)[j]


def test_places_may_count_from_the_end():
    table, out = np.arange(15.0).reshape(5, 3), np.zeros((4, 3))
    for candidates in (Offered(table, np.zeros(4, np.int64), np.empty((4, 3))), np.empty((4, 3))):
        _offer_the_last(candidates, table, out)
        assert np.array_equal(out, table[:0:-1])


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_offers_the_same_in_both_forms(name):
    place = environments.environment(name, WORLDS[name])
    world, numbers = place.world(3), np.zeros((4, 60, place.candidates))
    table = world.arms
    rng = streams(3, 1, 2)
    rows = np.empty((place.candidates, place.dimension))
    given = Offered(table, np.zeros(place.candidates, np.int64), np.empty_like(rows))
    assert _both(world, place.world(3), given, rows, numbers, rng, rng.copy()) == 0
    assert np.array_equal(numbers[:2], numbers[2:])


@entry
def _room(world, count, dimension):
    return how_many(room_for(world, count, dimension)), row(room_for(world, count, dimension), 0).shape[0]


def test_what_worlds_offer_into():
    """Fixed items as places, whoever comes to them; fresh features as rows."""
    for options in ({}, {"people": 7}, {"arms": 0}):
        world = environments.environment("synthetic", {"dimension": 3, "arms": 9, "candidates": 5, **options}).world(0)
        assert _room(world, 5, 3) == (5, 3)
    given = offered(np.eye(3), 2)
    assert given.places.shape == (2,)
    assert given.room.shape == (2, 3)


POLICIES = [
    "random", "lints", "linucb", "tuned-linucb", "adaprivate-ts", "adaprivate-ucb", "noise-aware", "noise-aware-ts",
    "noise-aware-greedy", "noise-aware-joint", "rr-lints", "jdp-linucb-gaussian", "mishra-thakurta-lints",
    "mishra-thakurta-linucb", "ldp-linucb", "dgs-linucb", "zcdp-episodic", "rarely-switching", "coreset-elimination",
]  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_chooses_the_same_in_both_forms(name):
    place = environments.environment("synthetic", WORLDS["synthetic"])
    settings = policy_settings(name, place, 300, {})
    assert played(settings, place) == played(settings, InRows(place))


def test_a_policy_on_arms_chooses_the_same_in_both_forms():
    place = environments.environment("bernoulli-arms", WORLDS["bernoulli-arms"])
    for name in ("thompson", "lazy-dp-ts"):
        settings = policy_settings(name, place, 300, {})
        assert played(settings, place) == played(settings, InRows(place))


class ReadsRows(NamedTuple):
    """Somebody's policy, written for arrays: the largest sum of features, turned by what it earned."""

    turn: np.ndarray


class ReadsOffers(NamedTuple):
    """The same, reading candidates by their places."""

    turn: np.ndarray


@selects.of(ReadsRows)
def _of_rows(state, candidates, rng):
    best, top = 0, -1e9
    for a in range(candidates.shape[0]):
        score = 0.0
        for j in range(candidates.shape[1]):
            score += candidates[a, j] * state.turn[j]
        if score > top:
            best, top = a, score
    return best


@selects.of(ReadsOffers, offers=True)
def _of_offers(state, candidates, rng):
    best, top = 0, -1e9
    for a in range(how_many(candidates)):
        features, score = row(candidates, a), 0.0
        for j in range(features.shape[0]):
            score += features[j] * state.turn[j]
        if score > top:
            best, top = a, score
    return best


@updates.of(ReadsRows)
@updates.of(ReadsOffers)
def _learn(state, features, reward, rng):
    for j in range(features.shape[0]):
        state.turn[j] += (reward - 0.5) * features[j]


@dataclasses.dataclass(frozen=True)
class Anyones:
    kind: type
    rounds: int = 300

    def start(self, noise):
        return self.kind(np.linspace(-1, 1, 4))

    def noise_tables(self, seeds):
        return np.zeros((len(seeds), 0))


@pytest.mark.parametrize("name", WORLDS)
def test_anyones_policy_is_given_rows(name):
    place = environments.environment(name, WORLDS[name])
    ways = [played(Anyones(kind), where) for kind in (ReadsRows, ReadsOffers) for where in (place, InRows(place))]
    assert ways[0][0] > 0
    assert all(way == ways[0] for way in ways)
