"""Books in compiled form, for simulation: sums in floating point and noise drawn beforehand. They protect nobody.

What they release is what a :class:`~adaprivate.mechanisms.book.Book` of the same plan releases, but for its exact noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, kernel, record, routine, uniform
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.policies.core.dispatch import collects


class SimulatedSums(NamedTuple):
    """Sums of (reward - centre) e over batches, e the features and perhaps 1: private, all but what was released."""

    sums: Floats
    """The sum of each batch (batches, size), and of what follows where the plan continues; or where running sums are
    released that of all so far (1, size): private."""
    noise: Floats
    """The noise of each release (batches, size)."""
    ends: Integers
    """The round after which each batch is released."""
    encoder: Floats
    """C, for releases of its rows; empty where running sums are released."""
    whitener: Floats
    """Maps e to coordinates where the noise is round, if e may have to be clipped there; else empty."""
    event: Floats
    """Room for e."""
    direction: Floats
    """Room for e scaled to the length at which noise is priced, where that is what is summed; else empty."""
    released: Floats
    """The last release: public."""
    scalars: Record
    """The public centre and sampling rate, rounds seen, batches released."""


def simulated_sums(plan: BatchPlan, noise: Floats) -> SimulatedSums:
    """The empty book of this plan, with the noise of one seed."""
    plain = not plan.unit.needs_user and plan.unit.scales(plan.dimension) is None
    check.expect(plain, "unit", plan.unit.name, "== event in simulation")
    batches, size = len(plan.ends), plan.size
    clips = plan.shape is not None and plan.catalogue
    return SimulatedSums(
        sums=np.zeros((1 if plan.decoded else batches + plan.continues, size)),
        noise=noise,
        ends=np.array(plan.ends, dtype=np.int64),
        encoder=np.zeros((0, 0)) if plan.decoded else plan.encoder(),
        whitener=np.asarray(np.linalg.inv(plan.shape.root), np.float64) if clips and plan.shape else np.zeros((0, 0)),
        event=np.zeros(size),
        direction=np.zeros(size if plan.direction else 0),
        released=np.zeros(size),
        scalars=record(centre=float(plan.centre), sampling_rate=float(plan.sampling_rate), round=0, batch=0),
    )


@kernel
def whitened_square(whitener: Floats, event: Floats) -> float:
    """The squared norm of an event where the noise is round."""
    square = 0.0
    for i in range(event.shape[0]):
        total = 0.0
        for j in range(event.shape[0]):
            total += whitener[i, j] * event[j]
        square += total * total
    return square


@kernel
def fill_event(features: Floats, whitener: Floats, event: Floats) -> float:
    """The features, then 1 if there is room; returns by how much they must shrink to fit where the noise is round."""
    d, size = features.shape[0], event.shape[0]
    for j in range(d):
        event[j] = features[j]
    if size > d:
        event[d] = 1.0
    if whitener.shape[0] == 0:
        return 1.0
    square = whitened_square(whitener, event)
    return 1.0 / math.sqrt(square) if square > 1.0 else 1.0


@kernel
def fill_direction(features: Floats, whitener: Floats, event: Floats, direction: Floats) -> None:
    """The features, then 1 if there is room; and the same scaled to the length at which noise is priced.

    That is the features by themselves to length 1, or where a catalogue gives the coordinates the event as a whole.
    """
    d, size = features.shape[0], event.shape[0]
    square = 0.0
    for j in range(d):
        event[j] = features[j]
        direction[j] = features[j]
        square += features[j] * features[j]
    if size > d:
        event[d] = 1.0
        direction[d] = 1.0
    reach = d
    if whitener.shape[0] > 0:
        reach = size
        square = whitened_square(whitener, event)
    if square > 0.0:
        scale = 1.0 / math.sqrt(square)
        for j in range(reach):
            direction[j] *= scale


@routine
def release(batch: int, sums: Floats, noise: Floats, encoder: Floats, released: Floats) -> None:
    """What is released of this batch: its row of C s plus noise, or the running sum plus noise where C is empty."""
    for i in range(released.shape[0]):
        if encoder.shape[0] == 0:
            released[i] = sums[0, i] + noise[batch, i]
        else:
            total = noise[batch, i]
            for j in range(batch + 1):
                total += encoder[batch, j] * sums[j, i]
            released[i] = total


@collects.of(SimulatedSums)
def _collect(book: SimulatedSums, features: Floats, reward: float, rng: Streams) -> bool:
    s = book.scalars[0]
    batch = s.batch
    s.round += 1
    weight = reward - s.centre
    if s.sampling_rate < 1.0:
        weight = weight / s.sampling_rate if uniform(rng, 1) < s.sampling_rate else 0.0
    running = book.encoder.shape[0] == 0
    kept = book.noise.shape[0] if running else book.sums.shape[0]
    if batch >= kept:  # never released, and so not kept
        return False
    row = 0 if running else batch
    d, size = features.shape[0], book.event.shape[0]
    if book.direction.shape[0] > 0:
        fill_direction(features, book.whitener, book.event, book.direction)
        for i in range(size):
            book.sums[row, i] += weight * book.direction[i]
    else:
        if book.whitener.shape[0] > 0:
            weight *= fill_event(features, book.whitener, book.event)
        for i in range(d):
            book.sums[row, i] += weight * features[i]
        if size > d:
            book.sums[row, d] += weight
    if batch >= book.ends.shape[0] or s.round != book.ends[batch]:
        return False
    release(batch, book.sums, book.noise, book.encoder, book.released)
    s.batch += 1
    return True


class ClearRewards(NamedTuple):
    """Every reward read as it is, by policies without privacy."""

    released: Floats
    """The last reward less the centre."""
    scalars: Record
    """The public centre."""


def clear_rewards(centre: float) -> ClearRewards:
    """The book of a policy without privacy."""
    return ClearRewards(np.zeros(1), record(centre=float(centre)))


@collects.of(ClearRewards)
def _read_at_once(book: ClearRewards, features: Floats, reward: float, rng: Streams) -> bool:
    book.released[0] = reward - book.scalars[0].centre
    return True
