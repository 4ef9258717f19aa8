"""What an environment is to compiled code: a state from which each round's candidates and rewards are drawn, and who comes.

People may return. Who comes in which round is public, and no policy changes it. "uniform": every round one of all, evenly.
"zipf": person number k comes in proportion to 1 / k, counting from 1. "sessions": one after another in random order, each
for ``SESSION`` rounds in a row, and when all were there, again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Dispatch, Streams, below, streams, uniform
from adaprivate.offered import Offered
from adaprivate.purposes import Purpose


def room_for(world: Any, count: int, dimension: int) -> Any:
    """What ``draw`` fills in with candidates: rows, or for a world of fixed items their places in its table."""
    raise TypeError(f"{type(world).__name__} has no compiled room_for")


def _room_for_rows(world: Any, count: int, dimension: int) -> Floats:
    return np.empty((count, dimension))


def draw(world: Any, round_index: int, candidates: Floats | Offered, means: Floats, rewards: Floats, rng: Streams) -> None:
    """Fill in this round's candidates (K, d), their mean rewards (K,) and the reward each would give (K,).

    ``candidates`` is an array, or what :func:`room_for` made for this world.

    Must use ``rng`` in the same way whatever a policy does, so that every policy meets the same world on the same seed.
    """
    raise TypeError(f"{type(world).__name__} has no compiled draw")


def visitor(world: Any, round_index: int) -> int:
    """Who comes in the round just drawn, as a number; -1 in a world that tells nobody apart. Asked once a round."""
    raise TypeError(f"{type(world).__name__} has no compiled visitor")


def _nobody(world: Any, round_index: int) -> int:
    return -1


rooms = Dispatch(room_for, _room_for_rows)
draws = Dispatch(draw)
visitors = Dispatch(visitor, _nobody)


VISITS = ("uniform", "zipf", "sessions")
SESSION = 10
World = TypeVar("World")


class PeopledWorld(NamedTuple):
    """A world, and who comes to it."""

    world: Any
    often: Floats  # How likely someone up to each person is to come; empty where all are alike.
    order: Integers  # The order of those who come in sessions, else one entry, the number of people.
    words: Streams  # The stream of those who come.


@rooms.of(PeopledWorld)
def _people_room(world: PeopledWorld, count: int, dimension: int) -> Any:
    return room_for(world.world, count, dimension)


@draws.of(PeopledWorld)
def _people_draw(
    world: PeopledWorld, round_index: int, candidates: Floats | Offered, means: Floats, rewards: Floats, rng: Streams
) -> None:
    draw(world.world, round_index, candidates, means, rewards, rng)


@visitors.of(PeopledWorld)
def _people_visitor(world: PeopledWorld, round_index: int) -> int:
    if world.often.shape[0] > 0:
        return int(np.searchsorted(world.often, uniform(world.words, 0), side="right"))
    if world.order.shape[0] > 1:
        return int(world.order[(round_index // SESSION) % world.order.shape[0]])
    return below(world.words, 0, world.order[0])


def peopled(world: World, people: int, visits: str, seed: int) -> World | PeopledWorld:
    """The world with so many people coming to it; itself for none."""
    if people == 0:
        return world
    often, order = np.zeros(0), np.array([people], dtype=np.int64)
    if visits == "zipf":
        often = np.cumsum(1 / np.arange(1.0, people + 1))
        often /= often[-1]
    elif visits == "sessions" and people > 1:
        order = np.random.default_rng([seed, Purpose.VISITS]).permutation(people)
    return PeopledWorld(world, often, order, streams(seed, Purpose.VISITS))
