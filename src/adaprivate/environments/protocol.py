"""What an environment is to compiled code: a state from which each round's candidates and rewards are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Dispatch, Streams
from adaprivate.offered import Offered


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
