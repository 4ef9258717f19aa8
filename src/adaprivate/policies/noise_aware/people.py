"""A noise-aware learner and the sums of people's rewards in compiled form, for simulation: it protects nobody.

See :mod:`adaprivate.people.ledger` and :mod:`adaprivate.mechanisms.units.ledger`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, kernel, record
from adaprivate.mechanisms.units.ledger import followed
from adaprivate.offered import Offered
from adaprivate.people.ledger import Ledger, charge, empty_ledger, resized
from adaprivate.people.shares import VECTOR_BITS, WAYS, gram, shares
from adaprivate.policies.core.books import fill_direction, release
from adaprivate.policies.core.dispatch import counted, read, select, selects, updates, visits
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, propensities_of
from adaprivate.policies.core.settings import grown
from adaprivate.policies.noise_aware.state import NoiseAwareState

if TYPE_CHECKING:
    from adaprivate.policies.noise_aware.settings import NoiseAwareSettings

_GRID = 2.0**-VECTOR_BITS


class PeopleSums(NamedTuple):
    """Sums of (reward - centre) f over batches: private, all but the ledger and what was released."""

    ledger: Ledger
    gram: Integers
    """|C'C| as the ledger charges it."""
    shares: Integers
    sums: Floats
    """The sum of each batch, and of what follows (batches + 1, size): private."""
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
    """The centre, how visits are weighted, who comes, rounds and batches so far."""


class Peopled(NamedTuple):
    """A noise-aware learner, and sums whose ledger says what each visit is weighted with."""

    learner: NoiseAwareState
    book: PeopleSums


def people_sums(settings: NoiseAwareSettings, noise: Floats) -> PeopleSums:
    """The empty sums, with the noise of one seed."""
    plan, size = settings.batches, settings.size
    room = settings.boundaries[-1]
    root = np.ascontiguousarray(settings.shape.root)
    whitener = np.ascontiguousarray(np.linalg.inv(root))
    return PeopleSums(
        ledger=empty_ledger(size, room, room),
        gram=gram(followed(plan.encoder())),
        shares=shares(settings.weights, settings.counted_visits),
        sums=np.zeros((len(plan.ends) + 1, size)),
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
        scalars=record(centre=settings.middle, way=WAYS.index(settings.weights), person=-1, round=0, batch=0),
    )


def carried(fresh: PeopleSums, old: PeopleSums) -> PeopleSums:
    """The sums of a shorter plan as those of this one."""
    empty = empty_ledger(old.event.shape[0], 0, 0)
    found: PeopleSums = grown(fresh._replace(ledger=empty), old._replace(ledger=empty))
    return found._replace(ledger=resized(old.ledger, len(fresh.ledger.numbers), len(fresh.ledger.batches)))


@selects.of(Peopled, offers=True)
def _select(state: Peopled, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@visits.of(Peopled)
def _visit(state: Peopled, person: int) -> None:
    state.book.scalars[0].person = person


@kernel
def through(matrix: Floats, diagonal: bool, vector: Floats, out: Floats) -> None:
    """The vector in other coordinates."""
    for i in range(vector.shape[0]):
        total = matrix[i, i] * vector[i]
        if not diagonal:
            total = 0.0
            for j in range(vector.shape[0]):
                total += matrix[i, j] * vector[j]
        out[i] = total


@updates.of(Peopled)
def _update(state: Peopled, features: Floats, reward: float, rng: Streams) -> None:
    book, s = state.book, state.book.scalars[0]
    size = book.event.shape[0]
    fill_direction(features, book.catalogue, book.event, book.direction)
    through(book.whitener, book.catalogue.shape[0] == 0, book.direction, book.aim)
    charge(book.ledger, book.gram, book.shares, s.way, s.person, s.batch, book.aim)
    for i in range(size):
        book.aim[i] = book.ledger.last[i] * _GRID
    through(book.root, book.catalogue.shape[0] == 0, book.aim, state.learner.direction)
    counted(state.learner, features)
    for i in range(size):
        book.sums[s.batch, i] += (reward - s.centre) * state.learner.direction[i]
    s.round += 1
    s.person = -1
    if s.batch < book.ends.shape[0] and s.round == book.ends[s.batch]:
        release(s.batch, book.sums, book.noise, book.encoder, book.released)
        s.batch += 1
        read(state.learner, book.released)


@propensities_of(Peopled)
def _of_learner(state: Peopled, candidates: Floats, **how: object) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)  # type: ignore[arg-type]
