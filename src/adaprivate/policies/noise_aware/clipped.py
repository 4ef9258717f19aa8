"""A noise-aware learner and the sums of people's rewards clipped by person and batch, compiled: it protects nobody.

A person's (reward - 1/2) e of one batch are added up and clipped to norm w/2, so that whatever their rewards are, they move
its sum by w at most. A ledger of single numbers says what w is when they enter the batch: 1 for each of a fixed number of
batches, or what their share allows. What clipping leaves depends on rewards; the learner takes it to be what it is where
they are even chances: of n visits w sqrt(n), as if each counted for w (sqrt(n) - sqrt(n - 1)). That is biased where
rewards are not, or visits alike. See :mod:`adaprivate.mechanisms.units.user`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, kernel, record
from adaprivate.mechanisms.ledger import GRAM_BITS, VECTOR_BITS, WHOLE, Ledger, charge, gram, ledger, resized, shares
from adaprivate.mechanisms.people import place_of
from adaprivate.mechanisms.units.ledger import followed
from adaprivate.policies.core.books import fill_direction, release
from adaprivate.policies.core.dispatch import counted, read, select, selects, updates, visits
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, propensities_of
from adaprivate.policies.core.settings import grown
from adaprivate.policies.noise_aware.state import NoiseAwareState

if TYPE_CHECKING:
    from adaprivate.policies.noise_aware.settings import NoiseAwareSettings

_GRID = 2.0**-VECTOR_BITS
SCALAR = 1
_ALONG = np.ones(1)


class ClippedSums(NamedTuple):
    """Sums of people's clipped contributions to batches: private, all but the ledger and what was released."""

    ledger: Ledger
    """Who entered which batch, at which w: the latest entries are those of the batch that is open."""
    gram: Integers
    shares: Integers
    along: Floats
    """1: the direction of a single number."""
    own: Floats
    """The sum of each person in the open batch, where the noise is round (most, size): private."""
    visits: Integers
    """And how many visits it is of."""
    sums: Floats
    """The sum of each batch (batches + 1, size): private."""
    noise: Floats
    ends: Integers
    encoder: Floats
    whitener: Floats
    """Maps events to coordinates where the noise is round; ``root`` maps back."""
    root: Floats
    catalogue: Floats
    """The whitener, where a catalogue's shape gives events their length; else empty."""
    event: Floats
    direction: Floats
    aim: Floats
    """Room for e, its direction, and that in coordinates where the noise is round."""
    released: Floats
    """The last release: public."""
    scalars: Record
    """The centre, whether what follows the last batch is kept, who comes, the first entry of the open batch, rounds and
    batches so far."""


class Clipped(NamedTuple):
    """A noise-aware learner, and sums in which people are clipped."""

    learner: NoiseAwareState
    book: ClippedSums


def clipped_sums(settings: NoiseAwareSettings, noise: Floats) -> ClippedSums:
    """The empty sums, with the noise of one seed."""
    plan, size, batches = settings.batches, settings.size, len(settings.batches.ends)
    people, most = settings.boundaries[-1], settings.counted_batches
    fixed = settings.weights == "clip"
    root = np.ascontiguousarray(settings.shape.root)
    whitener = np.ascontiguousarray(np.linalg.inv(root))
    longest = int(np.diff([0, *plan.ends, people]).max()) + 1
    return ClippedSums(
        ledger=ledger(1, people, min(people, most * people)),
        gram=np.eye(batches + 1, dtype=np.int64) * 2**GRAM_BITS if fixed else gram(followed(plan.encoder())),
        shares=np.arange(1, most + 1) * WHOLE if fixed else shares("scalar", most),
        along=_ALONG.copy(),
        own=np.zeros((longest, size)),
        visits=np.zeros(longest, dtype=np.int64),
        sums=np.zeros((batches + 1, size)),
        noise=noise,
        ends=np.array(plan.ends, dtype=np.int64),
        encoder=plan.encoder(),
        whitener=whitener,
        root=root,
        catalogue=np.zeros((0, 0)) if settings.catalogue is None else whitener,
        event=np.zeros(size),
        direction=np.zeros(size),
        aim=np.zeros(size),
        released=np.zeros(size),
        scalars=record(centre=settings.middle, continues=plan.continues, person=-1, first=0, round=0, batch=0),
    )


def carried(fresh: ClippedSums, old: ClippedSums) -> ClippedSums:
    """The sums of a shorter plan as those of this one."""
    empty = ledger(1, 0, 0)
    plain = fresh._replace(ledger=empty)
    found: ClippedSums = grown(plain, old._replace(ledger=empty))
    return found._replace(ledger=resized(old.ledger, len(fresh.ledger.numbers), len(fresh.ledger.batches)))


@kernel
def enter(book: ClippedSums) -> int:
    """The place among the people of the open batch of whoever comes; -1 for one who may not enter it."""
    s, people = book.scalars[0], book.ledger
    if s.batch >= book.ends.shape[0] and not s.continues:
        return -1
    person = place_of(people, s.person)
    latest = people.latest[person]
    if latest < 0 or people.batches[latest] != s.batch:
        if not charge(people, book.gram, book.shares, SCALAR, s.person, s.batch, book.along):
            return -1
        latest = people.latest[person]
        for i in range(book.aim.shape[0]):
            book.own[latest - s.first, i] = 0.0
        book.visits[latest - s.first] = 0
    return int(latest - s.first)


@kernel
def close(book: ClippedSums) -> None:
    """Clip what each person added to the open batch, and add that to its sum; the next batch is open then."""
    s, people = book.scalars[0], book.ledger
    size = book.aim.shape[0]
    for place in range(people.scalars[0].visits - s.first):
        square = 0.0
        for i in range(size):
            square += book.own[place, i] * book.own[place, i]
        most = 0.5 * people.vectors[s.first + place, 0] * _GRID
        scale = most / math.sqrt(square) if square > most * most else 1.0
        for i in range(size):
            for j in range(size):
                book.sums[s.batch, i] += book.root[i, j] * scale * book.own[place, j]
    s.first = people.scalars[0].visits


@selects.of(Clipped)
def _select(state: Clipped, candidates: Floats, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@visits.of(Clipped)
def _visit(state: Clipped, person: int) -> None:
    state.book.scalars[0].person = person


@updates.of(Clipped)
def _update(state: Clipped, features: Floats, reward: float, rng: Streams) -> None:
    book, s = state.book, state.book.scalars[0]
    size = book.event.shape[0]
    fill_direction(features, book.catalogue, book.event, book.direction)
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += book.whitener[i, j] * book.direction[j]
        book.aim[i] = total
    place = enter(book)
    weight = 0.0
    if place >= 0:
        book.visits[place] += 1
        n = book.visits[place]
        weight = book.ledger.vectors[s.first + place, 0] * _GRID * (math.sqrt(n) - math.sqrt(n - 1.0))
        for i in range(size):
            book.own[place, i] += (reward - s.centre) * book.aim[i]
    for i in range(size):
        state.learner.direction[i] = weight * book.direction[i]
    counted(state.learner, features)
    s.round += 1
    s.person = -1
    if s.batch < book.ends.shape[0] and s.round == book.ends[s.batch]:
        close(book)
        release(s.batch, book.sums, book.noise, book.encoder, book.released)
        s.batch += 1
        read(state.learner, book.released)


@propensities_of(Clipped)
def _of_learner(state: Clipped, candidates: Floats, **how: Any) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)
