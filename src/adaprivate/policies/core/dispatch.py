"""What a policy is to compiled code: a state, how it chooses, how it learns."""

from __future__ import annotations

from typing import Any

from adaprivate.check import Floats
from adaprivate.compiled import Dispatch, Streams


def select(state: Any, candidates: Floats, rng: Streams) -> int:
    """The index of the chosen row of ``candidates`` (K, d); ``rng`` holds two streams: exploration, and other choices."""
    raise TypeError(f"{type(state).__name__} has no compiled select")


def update(state: Any, features: Floats, reward: float, rng: Streams) -> None:
    """Learn that these features earned this reward."""
    raise TypeError(f"{type(state).__name__} has no compiled update")


selects = Dispatch(select)
updates = Dispatch(update)
