"""A noise-aware learner and the sums of people's rewards clipped by person and batch, compiled: it protects nobody.

A person's (reward - 1/2) e of one batch are added up and clipped to norm w/2, so that whatever their rewards are, they move
its sum by w at most: w is 1 for each of a fixed number of batches, or what their share of a ledger allows. What clipping
leaves depends on rewards; the learner takes it to be what it is where they are even chances: of n visits w sqrt(n), as if
each counted for w (sqrt(n) - sqrt(n - 1)). That is biased where rewards are not, or visits are alike.
See :mod:`adaprivate.mechanisms.units.user`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, record
from adaprivate.mechanisms.units.ledger import followed
from adaprivate.offered import Offered
from adaprivate.people.shares import gram, shares
from adaprivate.policies.core.books import fill_direction, release
from adaprivate.policies.core.clipping import (
    Contributors,
    close_batch,
    contributors,
    enter,
    fixed_batches,
    weight_of,
    with_ledger,
    without_ledger,
)
from adaprivate.policies.core.dispatch import counted, read, select, selects, updates, visits
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, propensities_of
from adaprivate.policies.core.settings import grown
from adaprivate.policies.noise_aware.people import through
from adaprivate.policies.noise_aware.state import NoiseAwareState

if TYPE_CHECKING:
    from adaprivate.policies.noise_aware.settings import NoiseAwareSettings

CLIP = 0.5
"""With rewards centred at 1/2, one event is not clipped, and whoever is replaced moves a batch by 1 at most."""


class ClippedSums(NamedTuple):
    """Sums of people's clipped contributions to batches: private, all but who came and what was released."""

    people: Contributors
    total: Floats
    """Room for the sum of the batch that ends, where the noise is round: private."""
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
    """The centre, whether what follows the last batch is kept, who comes, rounds and batches so far."""


class Clipped(NamedTuple):
    """A noise-aware learner, and sums in which people are clipped."""

    learner: NoiseAwareState
    book: ClippedSums


def clipped_sums(settings: NoiseAwareSettings, noise: Floats) -> ClippedSums:
    """The empty sums, with the noise of one seed."""
    plan, size, batches = settings.batches, settings.size, len(settings.batches.ends)
    people, most = settings.boundaries[-1], settings.counted_batches
    if settings.weights == "clip":
        charged = fixed_batches(most, batches + 1)
    else:
        charged = gram(followed(plan.encoder())), shares("scalar", most)
    root = np.ascontiguousarray(settings.shape.root)
    whitener = np.ascontiguousarray(np.linalg.inv(root))
    return ClippedSums(
        people=contributors(size, people, int(np.diff([0, *plan.ends, people]).max()) + 1, *charged),
        total=np.zeros(size),
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
        scalars=record(centre=settings.middle, continues=plan.continues, person=-1, round=0, batch=0),
    )


def carried(fresh: ClippedSums, old: ClippedSums) -> ClippedSums:
    """The sums of a shorter plan as those of this one."""
    bare = [book._replace(people=without_ledger(book.people)) for book in (fresh, old)]
    found: ClippedSums = grown(*bare)
    return found._replace(people=with_ledger(found.people, old.people.ledger, fresh.people.ledger))


@selects.of(Clipped, offers=True)
def _select(state: Clipped, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@visits.of(Clipped)
def _visit(state: Clipped, person: int) -> None:
    state.book.scalars[0].person = person


@updates.of(Clipped)
def _update(state: Clipped, features: Floats, reward: float, rng: Streams) -> None:
    book, s = state.book, state.book.scalars[0]
    size = book.event.shape[0]
    fill_direction(features, book.catalogue, book.event, book.direction)
    through(book.whitener, book.catalogue.shape[0] == 0, book.direction, book.aim)
    place = -1
    if s.batch < book.ends.shape[0] or s.continues:
        place = enter(book.people, s.person, s.batch)
    weight = 0.0
    if place >= 0:
        n = book.people.visits[place]
        weight = weight_of(book.people, place) * (math.sqrt(n) - math.sqrt(n - 1.0))
        for i in range(size):
            book.people.own[place, i] += (reward - s.centre) * book.aim[i]
    for i in range(size):
        state.learner.direction[i] = weight * book.direction[i]
    counted(state.learner, features)
    s.round += 1
    s.person = -1
    if s.batch < book.ends.shape[0] and s.round == book.ends[s.batch]:
        for i in range(size):
            book.total[i] = 0.0
        close_batch(book.people, CLIP, book.total)
        for i in range(size):
            for j in range(size):
                book.sums[s.batch, i] += book.root[i, j] * book.total[j]
        release(s.batch, book.sums, book.noise, book.encoder, book.released)
        s.batch += 1
        read(state.learner, book.released)


@propensities_of(Clipped)
def _of_learner(state: Clipped, candidates: Floats, **how: Any) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)
