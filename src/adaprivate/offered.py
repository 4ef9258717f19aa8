"""What a round offers: feature vectors as rows of an array (K, d), or as places in a table that never changes.

Copying rows costs more than scoring them where there are many, so a world of fixed items fills in places. Compiled code
that reads candidates by :func:`how_many` and :func:`row`, and writes them by :func:`offer`, works with both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Dispatch, kernel


class Offered(NamedTuple):
    """Candidates by their places in a table."""

    table: Floats
    """Feature vectors (N, d): nobody may change them."""
    places: Integers
    """Candidate a is row ``places[a]`` of the table (K,)."""
    room: Floats
    """Where they are written out for code that reads rows (K, d)."""


@kernel
def offered(table: Floats, count: int) -> Offered:
    """Room for so many candidates out of this table."""
    return Offered(table, np.zeros(count, np.int64), np.empty((count, table.shape[1])))


def how_many(candidates: Any) -> int:
    """How many candidates there are."""
    raise TypeError(f"{type(candidates).__name__} holds no candidates")


def row(candidates: Any, a: Any) -> Floats:
    """The features of candidate ``a``: to be read, not changed."""
    raise TypeError(f"{type(candidates).__name__} holds no candidates")


def offer(candidates: Any, a: int, table: Floats, place: int) -> None:
    """Have candidate ``a`` be this row of the table."""
    raise TypeError(f"{type(candidates).__name__} holds no candidates")


def rows_of(candidates: Any) -> Floats:
    """All candidates as an array (K, d)."""
    raise TypeError(f"{type(candidates).__name__} holds no candidates")


def _count_rows(candidates: Floats) -> int:
    return len(candidates)


def _own_row(candidates: Floats, a: int) -> Any:
    return candidates[a]


def _copy_row(candidates: Floats, a: int, table: Floats, place: int) -> None:
    for j in range(candidates.shape[1]):
        candidates[a, j] = table[place, j]


def _itself(candidates: Floats) -> Floats:
    return candidates


counting = Dispatch(how_many, _count_rows)
reading = Dispatch(row, _own_row)
offering = Dispatch(offer, _copy_row)
writing_out = Dispatch(rows_of, _itself)


@counting.of(Offered)
def _count_places(candidates: Offered) -> int:
    return len(candidates.places)


@reading.of(Offered)
def _row_of_table(candidates: Offered, a: int) -> Any:
    return candidates.table[np.uint64(candidates.places[a])]  # never from the end: see offer


@offering.of(Offered)
def _note_place(candidates: Offered, a: int, table: Floats, place: int) -> None:
    candidates.places[a] = place if place >= 0 else place + len(table)


@writing_out.of(Offered)
def _write_out(candidates: Offered) -> Floats:
    for a in range(candidates.places.shape[0]):
        place = candidates.places[a]
        for j in range(candidates.table.shape[1]):
            candidates.room[a, j] = candidates.table[place, j]
    return candidates.room
