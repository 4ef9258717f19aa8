"""The states in which noise-aware policies start, and how they go on under another plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Record, record
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.policies.core.books import simulated_sums
from adaprivate.policies.core.settings import grown
from adaprivate.policies.core.tables import stream_of, stream_tables
from adaprivate.policies.noise_aware import clipped, people
from adaprivate.policies.noise_aware.clipped import Clipped
from adaprivate.policies.noise_aware.folding import places
from adaprivate.policies.noise_aware.outlook import INTERCEPT_DEVIATION
from adaprivate.policies.noise_aware.people import Peopled
from adaprivate.policies.noise_aware.rows import Tables
from adaprivate.policies.noise_aware.simulated import Channelled, SimulatedChannels
from adaprivate.policies.noise_aware.state import CHANNELS, FLIP, OPTIMISTIC, NoiseAwareState, settle_again
from adaprivate.purposes import Purpose

if TYPE_CHECKING:
    from adaprivate.policies.noise_aware.settings import NoiseAwareSettings

OFF = 1e8
"""The prior precision of an intercept that is taken to be known."""
NEVER = 2**62
MOST_OFFERS = 480
MOST_ITEMS = 4096
STREAM = 8
"""The numbers that start a stream, in a table of noise."""


def _route(settings: NoiseAwareSettings) -> tuple[int, int]:
    """The round from which on events go elsewhere than into flips, and where."""
    choice = settings.choice
    if choice is None:
        then = CHANNELS.index(settings.channels[0]) if len(settings.channels) == 1 else FLIP
        return (NEVER if then == FLIP else 0), then
    then = CHANNELS.index(choice.channel)
    return (NEVER if then == FLIP else choice.first), then


def _intercept(settings: NoiseAwareSettings) -> tuple[float, float]:
    """The prior mean and precision of the mean reward's distance from the centre; precision 0: there is none."""
    if not settings.intercept:
        return 0.0, 0.0
    choice, known = settings.choice, settings.base_rate
    if choice is not None and not choice.intercept:
        return (choice.rate if known is None else settings.middle) - settings.middle, OFF
    if choice is not None and choice.deviation > 0 and known is None:
        return choice.rate - settings.middle, choice.deviation**-2
    return 0.0, (INTERCEPT_DEVIATION if known is None else min(known, 1 - known) / 2) ** -2


def _plan(settings: NoiseAwareSettings) -> Record:
    """What a learner knows of its plan."""
    choice, exploring = settings.choice, settings.exploration
    first, then = _route(settings)
    mean, precision = _intercept(settings)
    unknown = settings.base_rate is None and settings.reward_variance is None
    return record(
        first=first,
        then=then,
        block=float(NEVER if choice is None else choice.block),
        growth=float(1.0 if choice is None else choice.growth),
        most_items=min(room_for_items(settings), NEVER if choice is None else choice.most_items),
        flip_noise=float(settings.outlook.flip_noise),
        item_noise=float(settings.outlook.item_noise),
        reward_variance=settings.variance,
        ridge=float(settings.prior_precision),
        centre=settings.middle,
        intercept_mean=float(mean),
        intercept_precision=float(precision),
        learns_rate=unknown and 0 < precision < OFF,
        adapts=settings.adapt_ridge and settings.memory is None,  # change over time is measured by the public ridge
        foresees=exploring.rule == OPTIMISTIC,
        rule=exploring.rule,
        exploration=float(exploring.width),
        fading=float(exploring.fading),
        climbs=exploring.climbs,
        widest=float(exploring.widest),
        sampled=float(exploring.sampled),
        horizon=int(settings.boundaries[0]),
        people=settings.unit == "user",
        dimension=settings.dimension,
        scouted=int(settings.scouted),
    )


def room_for_items(settings: NoiseAwareSettings) -> int:
    """How many items a learner can tell apart."""
    kept = "items" in (settings.channel, settings.choice and settings.choice.channel)
    return max(64, min(MOST_ITEMS, 2**20 // settings.dimension)) if kept else 0


def learner(settings: NoiseAwareSettings) -> NoiseAwareState:
    """The learner before the first round: public."""
    size, count = settings.size, len(settings.ends)
    plan = _plan(settings)
    personal, empty = settings.unit == "user", np.zeros((0, 0))
    tables = Tables(empty, empty, empty, np.zeros(0)) if settings.rows is None else settings.rows.tables
    if personal:  # every run makes its own, row by row; these stand for the rows to come
        tables = Tables(*(table.copy() for table in tables))
    room = places(count, size)
    items = room_for_items(settings)
    offers = MOST_OFFERS if settings.choice is None else 0
    prior = np.full(size, settings.prior_precision)
    mean = np.zeros(size)
    if settings.intercept:
        mean[-1], prior[-1] = _intercept(settings)
    return NoiseAwareState(
        root=np.diag(1 / np.sqrt(prior)),
        coordinates=np.sqrt(prior) * mean,
        mean=mean,
        parameter=np.zeros(size),
        rotated=np.zeros(size),
        event=np.zeros(size),
        direction=np.zeros(size),
        information=np.zeros((size, size)),
        weighted=np.zeros(size),
        designs=np.zeros((room, size * (size + 1) // 2)),
        crosses=np.zeros((room, size, size)),
        held=np.where(np.arange(room) == 0, 0, -1),
        gauges=np.zeros((count, 4)),
        sizes=np.diff(settings.ends, prepend=0 if settings.rows is None else settings.rows.first).astype(np.float64),
        rows=np.zeros((count, size)),
        **tables._asdict(),
        row_covariance=settings.batches.release_covariance,
        encoder=settings.batches.encoder() if personal else empty,
        factor=np.zeros((count, count) if personal else (0, 0)),
        whitener=empty if settings.catalogue is None else np.asarray(np.linalg.inv(settings.shape.root), np.float64),
        items=np.zeros((items, settings.dimension)),
        slots=np.zeros(2 * items, dtype=np.int64),
        waiting=np.zeros(items),
        told=np.zeros(items),
        offers=np.zeros((offers, settings.dimension)),
        offered_in=np.zeros(offers, dtype=np.int64),
        plan=plan,
        scalars=record(
            channel=FLIP,
            block=-1,
            closes=False,
            variance=settings.variance,
            width=float(settings.exploration.start),
            round=0,
            batch=0,
            place=0,
            releases=0,
            heard=0,
            refit=float(settings.first_batch),
            items=0,
            offers=0,
            offered=0,
            open=0,
        ),
    )


def noise_tables(settings: NoiseAwareSettings, seeds: Sequence[int]) -> Floats:
    """The start of each seed's stream of flips and whole numbers, then the noise of every row."""
    rows = settings.batches.noise_tables(seeds)
    table = np.zeros((len(seeds), 1 + len(settings.ends), max(settings.size, STREAM)))
    table[:, :1, :STREAM] = stream_tables(seeds, Purpose.FLIP_NOISE)
    table[:, 1:, : settings.size] = rows
    return table


def book(settings: NoiseAwareSettings, noise: Floats) -> SimulatedChannels:
    """The empty book, for simulation, with the noise of one seed."""
    items = room_for_items(settings)
    flips = settings.channels != ("gaussian",)  # else epsilon may be larger than a flip can keep
    return SimulatedChannels(
        sums=simulated_sums(settings.batches, np.ascontiguousarray(noise[1:, : settings.size])),
        blocks=np.zeros(items),
        counts=np.zeros(items),
        words=stream_of(noise[:1, :STREAM]),
        released=np.zeros(settings.size),
        scalars=record(
            keep=RandomisedResponse(settings.epsilon).keep if flips else 1.0,
            epsilon=float(settings.epsilon),
            centre=settings.middle,
        ),
    )


def carried(settings: NoiseAwareSettings, fresh: Any, state: Any) -> Any:
    """A state of shorter settings, or of the same before the choice, as one of these; ``fresh`` is theirs."""
    if isinstance(fresh, Peopled):
        return Peopled(carried(settings, fresh.learner, state.learner), people.carried(fresh.book, state.book))
    if isinstance(fresh, Clipped):
        return Clipped(carried(settings, fresh.learner, state.learner), clipped.carried(fresh.book, state.book))
    if isinstance(fresh, Channelled):
        public = carried(settings, fresh.learner, state.learner)
        private = grown(fresh.book, state.book)
        begins = max(int(public.plan["first"][0]), int(public.scalars["round"][0]))
        private.sums.scalars["round"] = begins  # rounds of sums are those of all
        return Channelled(public, private)
    found: NoiseAwareState = grown(fresh, state)
    if settings.choice is not None and state.offers.size:  # by a prior that was chosen just now
        settle_again(found)
        found.scalars["width"] = settings.exploration.start
    return found
