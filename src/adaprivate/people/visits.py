"""People by their numbers: where each has a place in flat arrays, and how many visits of each were counted. Public.

A table of people is any tuple of arrays with ``slots``, ``numbers`` and ``scalars`` whose record has ``people``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.compiled import Record, bound, entry, kernel, record
from adaprivate.people.shares import MOST_VISITS


def slots_for(people: int) -> npt.NDArray[np.int32]:
    """An empty hash table for so many people: 1 + their place, 0 for none; its length is a power of 2."""
    return np.zeros(int(2 ** max(3, math.ceil(math.log2(2 * max(people, 1))))), dtype=np.int32)


@kernel
def place_of(table: Any, number: int) -> int:
    """The place of this person; the first free one, now theirs, of somebody new."""
    mask = table.slots.shape[0] - 1
    key = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    key ^= key >> np.uint64(29)
    slot = np.int64(key & np.uint64(mask))
    while table.slots[slot] > 0:
        place = table.slots[slot] - 1
        if table.numbers[place] == number:
            return int(place)
        slot = (slot + 1) & mask
    s = table.scalars[0]
    place = s.people
    table.slots[slot] = place + 1
    table.numbers[place] = number
    s.people += 1
    return int(place)


@entry
def fill_slots(table: Any) -> None:
    """Find every person's slot anew, in an empty table of slots."""
    s = table.scalars[0]
    people, s.people = s.people, 0
    for place in range(people):
        place_of(table, table.numbers[place])


class Visits(NamedTuple):
    """How many visits of each person were counted."""

    slots: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int64]
    """The number by which each person is known."""
    visits: npt.NDArray[np.uint8]
    scalars: Record
    """How many visits of a person count, people kept, rounds seen, visits counted, whether the last one was."""


def visits_of(most: int, people: int) -> Visits:
    """Nobody has come, of each ``most`` visits will count, and there is room for so many people."""
    check.whole("visits", most, at_least=1, at_most=MOST_VISITS)
    numbers, visits = np.zeros(people, dtype=np.int64), np.zeros(people, dtype=np.uint8)
    return Visits(slots_for(people), numbers, visits, record(most=most, people=0, round=0, counted=0, last=False))


@kernel
def counts_visit(table: Visits, number: int) -> bool:
    """This person comes: whether their visit is one of those that count."""
    s = table.scalars[0]
    place = place_of(table, number)
    s.round += 1
    s.last = table.visits[place] < s.most
    if s.last:
        table.visits[place] += 1
        s.counted += 1
    return bool(s.last)


@entry
def _counts_visit(table: Any, number: int) -> bool:
    return counts_visit(table, number)


class VisitCount:
    """Visits counted with arrays that grow, for exact noise: asked once for every round, in order.

    It is shared, not copied, where a book is followed by another: what it holds does not depend on rewards.
    """

    def __init__(self, visits: int) -> None:
        self.arrays = visits_of(visits, 16)
        self._bound: Any = None

    @property
    def rounds(self) -> int:
        """How many rounds were counted or passed over."""
        return int(self.arrays.scalars["round"][0])

    def counts(self) -> dict[str, int]:
        """People, visits counted, and visits that came too late to be: public."""
        s = self.arrays.scalars[0]
        people, counted = int(s["people"]), int(s["counted"])
        return {"people": people, "counted": counted, "beyond": int(s["round"]) - counted}

    def visit(self, number: int, person: int) -> bool:
        """Whether round ``number``, a visit of this person, counts; asked again, the same."""
        check.whole("user", person, at_least=0)
        if self.rounds != number + 1:
            check.expect(self.rounds == number, "round", number, f"== {self.rounds}, the next one")
            if self.arrays.scalars["people"][0] == len(self.arrays.numbers):
                self._make_room(2 * len(self.arrays.numbers))
            if self._bound is None:
                self._bound = bound(_counts_visit, self.arrays, person)
            self._bound(self.arrays, person)
        return bool(self.arrays.scalars["last"][0])

    def _make_room(self, people: int) -> None:
        held, old = int(self.arrays.scalars["people"][0]), self.arrays
        self.arrays = visits_of(int(old.scalars["most"][0]), people)
        self.arrays.numbers[:held], self.arrays.visits[:held] = old.numbers[:held], old.visits[:held]
        self.arrays.scalars[:] = old.scalars
        fill_slots(self.arrays)

    def state(self) -> dict[str, Any]:
        """Everything, in arrays: who came how often, no more often than counts."""
        held = int(self.arrays.scalars["people"][0])
        return {
            "numbers": self.arrays.numbers[:held].copy(),
            "visits": self.arrays.visits[:held].copy(),
            "scalars": self.arrays.scalars.copy(),
        }

    def restore(self, state: Any) -> None:
        """Continue from an earlier :meth:`state`."""
        whole = isinstance(state, dict) and state.keys() == {"numbers", "visits", "scalars"}
        empty = visits_of(int(self.arrays.scalars["most"][0]), 16)
        kept = (
            all(isinstance(state[name], np.ndarray) and state[name].dtype == getattr(empty, name).dtype for name in state)
            if whole
            else False
        )
        check.expect(kept, "state", type(state).__name__, "to be what state() gave")
        numbers, visits, s = state["numbers"], state["visits"], state["scalars"][0]
        most, held = int(empty.scalars["most"][0]), int(s["people"])
        inside = numbers.shape == visits.shape == (held,) and len(np.unique(numbers)) == held
        inside &= int(s["most"]) == most and bool((visits <= most).all()) and int(visits.sum()) == int(s["counted"])
        check.expect(
            inside and int(s["counted"]) <= int(s["round"]), "state", "another", "to hold each person once, in bounds"
        )
        self.arrays = empty._replace(numbers=numbers.copy(), visits=visits.copy(), scalars=state["scalars"].copy())
        self._make_room(max(16, 2 * held))
