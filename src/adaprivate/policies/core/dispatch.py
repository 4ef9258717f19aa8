"""What a policy is to compiled code: a state that chooses and learns.

A policy whose rewards reach its choices only through releases is *split*: a learner, which is public and never sees a
reward, and a book, which is private and collects them. Other states learn from a reward directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from adaprivate.check import Floats
from adaprivate.compiled import Dispatch, Function, Streams, kernel
from adaprivate.offered import Offered, rows_of


def select(state: Any, candidates: Floats | Offered, rng: Streams) -> int:
    """The index of the chosen one of ``candidates`` (K, d); ``rng`` holds two streams: exploration, and other choices."""
    raise TypeError(f"{type(state).__name__} has no compiled select")


def update(state: Any, features: Floats, reward: float, rng: Streams) -> None:
    """Learn that these features earned this reward."""
    raise TypeError(f"{type(state).__name__} has no compiled update")


def counted(state: Any, features: Floats) -> None:
    """A round with these features is over, its reward in the book; a learner's state is public before and after."""
    raise TypeError(f"{type(state).__name__} has no compiled counted")


def read(state: Any, released: Floats) -> None:
    """Take in what was released."""
    raise TypeError(f"{type(state).__name__} has no compiled read")


def collect(book: Any, features: Floats, reward: float, rng: Streams) -> bool:
    """Enter an event into a simulated book; True if that closed a batch: its release is then in ``book.released``."""
    raise TypeError(f"{type(book).__name__} has no compiled collect")


def visit(state: Any, person: int) -> None:
    """The next event to be counted is of this person, by a number of theirs; -1: nobody is told apart."""
    raise TypeError(f"{type(state).__name__} has no compiled visit")


def _any_visit(state: Any, person: int) -> None:
    return


class Selects(Dispatch):
    """The choices of state types, with candidates as rows of an array; with ``offers`` read by ``how_many`` and ``row``."""

    def of(self, state: type, *, offers: bool = False) -> Callable[[Function], Function]:
        """Register how this state type chooses."""
        own = super().of(state)
        if offers:
            return own

        def register(function: Function) -> Function:
            choose = kernel(function)

            def from_rows(state: Any, candidates: Any, rng: Any) -> Any:
                return choose(state, rows_of(candidates), rng)

            own(from_rows)
            return function

        return register


selects = Selects(select)
updates = Dispatch(update)
counts = Dispatch(counted)
reads = Dispatch(read)
collects = Dispatch(collect)
visits = Dispatch(visit, _any_visit)


class Split(NamedTuple):
    """A learner and a simulated book: together what a private policy is in simulation."""

    learner: Any
    book: Any


@selects.of(Split, offers=True)
def _select(state: Split, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@visits.of(Split)
def _visit(state: Split, person: int) -> None:
    visit(state.learner, person)
    visit(state.book, person)


@updates.of(Split)
def _update(state: Split, features: Floats, reward: float, rng: Streams) -> None:
    counted(state.learner, features)
    if collect(state.book, features, reward, rng):
        read(state.learner, state.book.released)
