"""Returning people: who comes in which round of a simulated world. Visits are public, and no policy changes them.

"uniform": every round one of all, evenly. "zipf": person number k comes in proportion to 1 / k, counting from 1.
"sessions": one after another in random order, each for ``SESSION`` rounds in a row, and when all were there, again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Streams, below, streams, uniform
from adaprivate.environments.protocol import draw, draws, room_for, rooms, visitors
from adaprivate.offered import Offered
from adaprivate.purposes import Purpose

VISITS = ("uniform", "zipf", "sessions")
SESSION = 10
World = TypeVar("World")


class PeopledWorld(NamedTuple):
    """A world, and who comes to it."""

    world: Any
    often: Floats
    """How likely someone up to each person is to come; empty where all are alike."""
    order: Integers
    """The order of those who come in sessions, else one entry, the number of people."""
    words: Streams
    """The stream of those who come."""


@rooms.of(PeopledWorld)
def _room(world: PeopledWorld, count: int, dimension: int) -> Any:
    return room_for(world.world, count, dimension)


@draws.of(PeopledWorld)
def _draw(
    world: PeopledWorld, round_index: int, candidates: Floats | Offered, means: Floats, rewards: Floats, rng: Streams
) -> None:
    draw(world.world, round_index, candidates, means, rewards, rng)


@visitors.of(PeopledWorld)
def _visitor(world: PeopledWorld, round_index: int) -> int:
    if world.often.shape[0] > 0:
        return int(np.searchsorted(world.often, uniform(world.words, 0), side="right"))
    if world.order.shape[0] > 1:
        return int(world.order[(round_index // SESSION) % world.order.shape[0]])
    return below(world.words, 0, world.order[0])


def check_people(people: object, visits: object) -> None:
    """Refuse what :func:`peopled` cannot make."""
    check.whole("people", people, at_least=0)
    check.one_of("visits", visits, VISITS)


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
