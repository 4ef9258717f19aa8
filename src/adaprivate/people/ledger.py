"""The ledger of people: what each has added to which batch so far, and what they may still add. Public, but for names.

Every visit contributes (reward - centre) f with a public vector f. A person's rewards together move the released rows by
at most the root of

    L = sum over pairs s, t of their visits of |G_j(s)j(t)| |f_s . f_t|,     G = C'C,  j(t) the batch of visit t,

whatever the rewards are (docs/privacy.md, Theorem 2). The ledger scales f so that L stays within the person's share of 1
after every visit, and checks it in whole numbers: f on the grid 2^-10, |G| rounded up to 2^-30, L in units of 2^-50. It is
kept in flat arrays: a person takes 29 bytes, and a counted visit 8 and two for each coordinate.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, bound, entry, kernel, record
from adaprivate.people.shares import GRAM_BITS, MOST_VISITS, VECTOR_BITS, WAYS, WHOLE, gram, shares
from adaprivate.people.visits import fill_slots, place_of, slots_for

_UNIT = 2.0**VECTOR_BITS


class Ledger(NamedTuple):
    """Who added what. Vectors are in coordinates where the noise is round."""

    slots: npt.NDArray[np.int32]
    """A hash table of people: 1 + their place, 0 for none; its length is a power of 2."""
    numbers: npt.NDArray[np.int64]
    """The number by which each person is known."""
    spent: npt.NDArray[np.int64]
    """L of each person."""
    visits: npt.NDArray[np.uint8]
    """How many visits of each person were counted."""
    latest: npt.NDArray[np.int32]
    """The last of them, -1 for none."""
    before: npt.NDArray[np.int32]
    """For each counted visit that person's visit before it."""
    batches: npt.NDArray[np.int32]
    """Its batch."""
    vectors: npt.NDArray[np.int16]
    """Its f."""
    last: npt.NDArray[np.int64]
    """f of the last visit, all zeros if it was not counted."""
    work: Floats
    """Room for the vectors of a person's visits in units of the grid, each followed by its |G|, for a basis of them, and
    for the new one."""
    scalars: Record
    """People and visits kept, rounds charged, visits that were beyond a person's shares."""


def empty_ledger(size: int, people: int, visits: int) -> Ledger:
    """An empty ledger of vectors of this length, with room for so many people and counted visits."""
    return Ledger(
        slots=slots_for(people),
        numbers=np.zeros(people, dtype=np.int64),
        spent=np.zeros(people, dtype=np.int64),
        visits=np.zeros(people, dtype=np.uint8),
        latest=np.full(people, -1, dtype=np.int32),
        before=np.zeros(visits, dtype=np.int32),
        batches=np.zeros(visits, dtype=np.int32),
        vectors=np.zeros((visits, size), dtype=np.int16),
        last=np.zeros(size, dtype=np.int64),
        work=np.zeros((2 * MOST_VISITS + 3, size + 1)),
        scalars=record(people=0, visits=0, round=0, beyond=0),
    )


@kernel
def _cost(book: Ledger, gram: Integers, count: int, batch: int) -> int:
    """What ``book.last`` would add to L, of a person whose earlier vectors are the first ``count`` rows of ``work``.

    Products of whole numbers below 2^53 are exact in floating point, in whatever order they are added.
    """
    size, new = book.last.shape[0], book.work.shape[0] - 1
    square = 0.0
    for i in range(size):
        book.work[new, i] = book.last[i]
        square += book.work[new, i] * book.work[new, i]
    total = gram[batch, batch] * np.int64(square)
    for n in range(count):
        product = 0.0
        for i in range(size):
            product += book.work[n, i] * book.work[new, i]
        total += 2 * np.int64(book.work[n, size]) * np.int64(abs(product))
    return int(total)


@kernel
def _weight(book: Ledger, gram: Integers, aim: Floats, row: int, count: int, batch: int, room: float) -> float:
    """The largest w for which w times the direction in this row of ``work`` fits the room; its vectors are the others'."""
    size = aim.shape[0]
    square, cross = 0.0, 0.0
    for i in range(size):
        square += book.work[row, i] * book.work[row, i]
    if not square > 1e-12:
        return 0.0
    for n in range(count):
        product = 0.0
        for i in range(size):
            product += book.work[n, i] * book.work[row, i]
        cross += book.work[n, size] * abs(product)
    cross *= 2.0**-GRAM_BITS / _UNIT
    own = gram[batch, batch] * 2.0**-GRAM_BITS * square
    # w with own w^2 + 2 cross w = room, in the form that does not cancel; and |f| <= 1
    return min(room / (cross + math.sqrt(cross * cross + own * room)), 1.0 / math.sqrt(square))


@kernel
def charge(book: Ledger, gram: Integers, shares: Integers, way: int, number: int, batch: int, aim: Floats) -> bool:
    """Count a visit of this person to this batch, along ``aim`` (of norm 1 at most): its f is then in ``book.last``.

    False, and f is 0, if the person has no share left. A function of public things alone.
    """
    s = book.scalars[0]
    size = aim.shape[0]
    s.round += 1
    for i in range(size):
        book.last[i] = 0
    person = place_of(book, number)
    counted = np.int64(book.visits[person])
    if counted >= shares.shape[0]:
        s.beyond += 1
        return False
    allowed = shares[counted] - book.spent[person]
    room = allowed * (1.0 / WHOLE)
    count = 0
    visit = book.latest[person]
    while visit >= 0:  # the earlier vectors that this one is charged against
        weight = gram[book.batches[visit], batch]
        if weight > 0:
            for i in range(size):
                book.work[count, i] = book.vectors[visit, i]
            book.work[count, size] = weight
            count += 1
        visit = book.before[visit]
    plain, new = 2 * MOST_VISITS, 2 * MOST_VISITS + 1
    for i in range(size):
        book.work[plain, i] = aim[i]
    best = plain
    # 1 / N of each where they are all alike
    scale = 1.0 / shares.shape[0] if way == 2 else _weight(book, gram, aim, plain, count, batch, room)
    if way == 0 and count > 0:
        _project(book, aim, count, new)
        weight_new = _weight(book, gram, aim, new, count, batch, room)
        along_plain, along_new = 0.0, 0.0
        for i in range(size):
            along_plain += aim[i] * book.work[plain, i]
            along_new += aim[i] * book.work[new, i]
        if weight_new * along_new > scale * along_plain:
            best, scale = new, weight_new
    cost = 0
    for trial in range(64):  # rounded to the grid it may not fit, and is then made shorter
        for i in range(size):
            book.last[i] = np.int64(math.floor(scale * book.work[best, i] * _UNIT + 0.5))
        cost = _cost(book, gram, count, batch)
        if cost <= allowed:
            break
        scale *= 0.998 if trial < 48 else 0.8
    if cost > allowed:
        for i in range(size):
            book.last[i] = 0
        cost = 0
    kept = s.visits
    for i in range(size):
        book.vectors[kept, i] = book.last[i]
    book.batches[kept] = batch
    book.before[kept] = book.latest[person]
    book.latest[person] = kept
    book.spent[person] += cost
    book.visits[person] += 1
    s.visits += 1
    return True


@kernel
def _project(book: Ledger, aim: Floats, count: int, row: int) -> None:
    """Into this row of ``work``: what is left of ``aim`` outside the span of the first ``count`` rows."""
    size = aim.shape[0]
    for i in range(size):
        book.work[row, i] = aim[i]
    rank = MOST_VISITS
    for n in range(count):
        before = 0.0
        for i in range(size):
            book.work[rank, i] = book.work[n, i]
            before += book.work[n, i] * book.work[n, i]
        for m in range(MOST_VISITS, rank):
            product = 0.0
            for i in range(size):
                product += book.work[m, i] * book.work[rank, i]
            for i in range(size):
                book.work[rank, i] -= product * book.work[m, i]
        square = 0.0
        for i in range(size):
            square += book.work[rank, i] * book.work[rank, i]
        if square > 1e-3 * before and square > 1e-9:  # else on the grid it lies among the others
            norm = 1.0 / math.sqrt(square)
            product = 0.0
            for i in range(size):
                book.work[rank, i] *= norm
                product += book.work[rank, i] * book.work[row, i]
            for i in range(size):
                book.work[row, i] -= product * book.work[rank, i]
            rank += 1


@entry
def _charge(book: Any, gram: Integers, shares: Integers, way: int, number: int, batch: int, aim: Floats) -> bool:
    return charge(book, gram, shares, way, number, batch, aim)


@entry
def _covered(book: Any, gram: Integers, shares: Integers) -> bool:
    """Whether what is said to be spent covers everybody's visits, and stays within their shares."""
    for person in range(book.scalars[0].people):
        count = np.int64(book.visits[person])
        if count > shares.shape[0] or book.spent[person] > (shares[count - 1] if count > 0 else 0):
            return False
        owed, one = np.int64(0), book.latest[person]
        while one >= 0:
            count -= 1
            other = one
            while other >= 0:
                product = np.int64(0)
                for i in range(book.vectors.shape[1]):
                    product += np.int64(book.vectors[one, i]) * np.int64(book.vectors[other, i])
                owed += (1 if other == one else 2) * gram[book.batches[one], book.batches[other]] * abs(product)
                other = book.before[other]
            one = book.before[one]
        if count != 0 or owed > book.spent[person]:
            return False
    return True


def resized(book: Ledger, people: int, visits: int) -> Ledger:
    """The same ledger with room for so many people and counted visits."""
    found = empty_ledger(book.last.shape[0], people, visits)
    held, kept = int(book.scalars["people"][0]), int(book.scalars["visits"][0])
    for name in ("numbers", "spent", "visits", "latest"):
        getattr(found, name)[:held] = getattr(book, name)[:held]
    for name in ("before", "batches", "vectors"):
        getattr(found, name)[:kept] = getattr(book, name)[:kept]
    found.last[:] = book.last
    found.scalars[:] = book.scalars
    fill_slots(found)
    return found


class PeopleLedger:
    """A ledger that grows, for exact noise: it is charged once for every round, in order.

    ``encoder``: C of the batches, of columns of norm 1 at most. It is shared, not copied, where a book is followed by
    another: what it holds does not depend on rewards.
    """

    def __init__(self, size: int, encoder: Floats, way: str, visits: int) -> None:
        self.way = check.one_of("way", way, WAYS)
        self.shares = shares(way, check.whole("visits", visits, at_least=1, at_most=MOST_VISITS))
        self.gram = gram(encoder)
        self.arrays = empty_ledger(size, 16, 16)
        self._bound: Any = None

    @property
    def rounds(self) -> int:
        """How many rounds were charged."""
        return int(self.arrays.scalars["round"][0])

    def counts(self) -> dict[str, int]:
        """People, visits counted, and visits that found no share left: public."""
        s = self.arrays.scalars[0]
        return {"people": int(s["people"]), "counted": int(s["visits"]), "beyond": int(s["beyond"])}

    @property
    def vector(self) -> Integers:
        """f of the last visit, in units of 2^-10."""
        return self.arrays.last

    def charge(self, number: int, person: int, batch: int, aim: Floats) -> Integers:
        """f of round ``number``, which this person's visit to this batch is; asked again, the same."""
        if self.rounds == number + 1:
            return self.vector
        check.expect(self.rounds == number, "round", number, f"== {self.rounds}, the next one")
        check.whole("batch", batch, at_least=0, at_most=len(self.gram) - 1)
        s, arrays = self.arrays.scalars[0], self.arrays
        if s["people"] == len(arrays.numbers) or s["visits"] == len(arrays.batches):
            room = [size * 2 if full else size for size, full in self._sizes()]
            self.arrays = resized(arrays, *room)
        given = (self.arrays, self.gram, self.shares, WAYS.index(self.way), person, batch, aim)
        if self._bound is None:
            self._bound = bound(_charge, *given)
        self._bound(*given)
        return self.vector

    def _sizes(self) -> list[tuple[int, bool]]:
        s, arrays = self.arrays.scalars[0], self.arrays
        sizes = (len(arrays.numbers), len(arrays.batches))
        return [(size, bool(s[name] == size)) for size, name in zip(sizes, ("people", "visits"), strict=True)]

    def follow(self, gram: Integers, batches: int) -> Self:
        """The same people under another encoder's products, which charge nobody more in the first ``batches`` batches."""
        kept, now = self.gram[:batches, :batches], gram[:batches, :batches]
        dearer = now.shape != kept.shape or bool((now > kept).any())
        check.expect(not dearer, "encoder", "another", "to charge people no more for what they added before")
        twin = copy(self)
        twin.gram = gram
        return twin

    def state(self) -> dict[str, Any]:
        """Everything, in arrays: who was there when, and what they were shown."""
        held, kept = int(self.arrays.scalars["people"][0]), int(self.arrays.scalars["visits"][0])
        parts = {name: getattr(self.arrays, name)[:held] for name in ("numbers", "spent", "visits", "latest")}
        parts |= {name: getattr(self.arrays, name)[:kept] for name in ("before", "batches", "vectors")}
        return {**parts, "last": self.arrays.last, "scalars": self.arrays.scalars}

    def restore(self, state: Any) -> None:
        """Continue from an earlier :meth:`state`."""
        size = len(self.vector)
        try:
            people, visits = len(state["numbers"]), len(state["before"])
            found = empty_ledger(size, max(people, 16), max(visits, 16))
            for name in ("numbers", "spent", "visits", "latest", "before", "batches", "vectors", "last", "scalars"):
                into = getattr(found, name)
                part = state[name]
                fits = part.dtype == into.dtype and part.shape[1:] == into.shape[1:]
                check.expect(fits, f"ledger.{name}", str(part.dtype), f"to hold {into.dtype}")
                into[: len(part)] = part
            s = found.scalars[0]
            whole = (
                [int(s["people"]), int(s["visits"])] == [people, visits]
                and all(len(state[name]) == people for name in ("spent", "visits", "latest"))
                and all(len(state[name]) == visits for name in ("batches", "vectors"))
                and int(found.visits[:people].sum()) == visits
                and bool(((found.spent[:people] >= 0) & (found.spent[:people] <= WHOLE)).all())
                and bool(((found.batches[:visits] >= 0) & (found.batches[:visits] < len(self.gram))).all())
                and bool(((found.latest[:people] >= -1) & (found.latest[:people] < visits)).all())
                and bool((found.before[:visits] < np.arange(visits)).all() and (found.before[:visits] >= -1).all())
            )
        except check.InputError:
            raise
        except Exception as error:  # whatever damaged parts provoke
            raise check.InputError(f"Expected data to hold a ledger ({type(error).__name__}).") from None
        spent = whole and _covered(found, self.gram, self.shares)
        check.expect(spent, "ledger", "another", "to be whole, and to hold what everyone spent")
        fill_slots(found)
        self.arrays = found
