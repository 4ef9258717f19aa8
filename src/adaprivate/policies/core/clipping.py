"""What each person adds to a batch, kept apart until it ends and clipped then, compiled for simulation."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, kernel, record
from adaprivate.people.ledger import Ledger, charge, empty_ledger, resized
from adaprivate.people.shares import GRAM_BITS, VECTOR_BITS, WHOLE
from adaprivate.people.visits import place_of

_GRID = 2.0**-VECTOR_BITS
_SCALAR = 1


class Contributors(NamedTuple):
    """The people of the open batch. A ledger of single numbers says at which w <= 1 each entered which batch: public."""

    ledger: Ledger
    """Its latest entries are those of the open batch."""
    gram: Integers
    shares: Integers
    along: Floats
    """1: the direction of a single number."""
    own: Floats
    """The sum of each person in the open batch (most, size): private."""
    visits: Integers
    """And how many visits it is of."""
    scalars: Record
    """The first entry of the open batch."""


def contributors(size: int, people: int, longest: int, gram: Integers, shares: Integers) -> Contributors:
    """Nobody yet, with room for so many people, no more than rounds, and batches of at most ``longest`` rounds."""
    return Contributors(
        ledger=empty_ledger(1, people, people),
        gram=gram,
        shares=shares,
        along=np.ones(1),
        own=np.zeros((longest, size)),
        visits=np.zeros(longest, dtype=np.int64),
        scalars=record(first=0),
    )


def fixed_batches(most: int, batches: int) -> tuple[Integers, Integers]:
    """Products and shares of a ledger by which everyone enters ``most`` of so many batches, each at w = 1."""
    return np.eye(batches, dtype=np.int64) * 2**GRAM_BITS, np.arange(1, most + 1, dtype=np.int64) * WHOLE


def without_ledger(open_batch: Contributors) -> Contributors:
    """The same but for its ledger, which is empty."""
    return open_batch._replace(ledger=empty_ledger(1, 0, 0))


def with_ledger(open_batch: Contributors, held: Ledger, room: Ledger) -> Contributors:
    """The same with what this ledger holds, in as much room as that one has."""
    return open_batch._replace(ledger=resized(held, len(room.numbers), len(room.batches)))


@kernel
def enter(open_batch: Contributors, number: int, batch: int) -> int:
    """This person comes to this batch, the open one: their place in it; -1 for one who may not enter it."""
    people, first = open_batch.ledger, open_batch.scalars[0].first
    person = place_of(people, number)
    latest = people.latest[person]
    if latest < 0 or people.batches[latest] != batch:
        if not charge(people, open_batch.gram, open_batch.shares, _SCALAR, number, batch, open_batch.along):
            return -1
        latest = people.latest[person]
        for i in range(open_batch.own.shape[1]):
            open_batch.own[latest - first, i] = 0.0
        open_batch.visits[latest - first] = 0
    open_batch.visits[latest - first] += 1
    return int(latest - first)


@kernel
def weight_of(open_batch: Contributors, place: int) -> float:
    """w of the person at this place of the open batch."""
    return float(open_batch.ledger.vectors[open_batch.scalars[0].first + place, 0] * _GRID)


@kernel
def close_batch(open_batch: Contributors, clip: float, total: Floats) -> None:
    """Add everyone's sum, clipped to norm w clip, to the total; the next batch is open then."""
    s, size = open_batch.scalars[0], open_batch.own.shape[1]
    entered = open_batch.ledger.scalars[0].visits
    for place in range(entered - s.first):
        square = 0.0
        for i in range(size):
            square += open_batch.own[place, i] * open_batch.own[place, i]
        most = clip * weight_of(open_batch, place)
        scale = most / math.sqrt(square) if square > most * most else 1.0
        for i in range(size):
            total[i] += scale * open_batch.own[place, i]
    s.first = entered
