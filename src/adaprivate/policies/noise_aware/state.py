"""The learner of the noise-aware policies: it chooses, routes every event into a channel, and reads what was released.

It is public: it says which channel an event takes, which block, and whether that closes the block, from features and counts
alone. A book (mechanisms/channels.py; ``SimulatedChannels`` in simulation) does with the reward as it says.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, entry, kernel
from adaprivate.offered import Offered, how_many, row
from adaprivate.policies.core.books import fill_direction
from adaprivate.policies.core.dispatch import counts, reads, selects
from adaprivate.policies.core.lanes import LANES, small_products
from adaprivate.policies.core.linear import dot, highest, most_optimistic, sample_parameter
from adaprivate.policies.core.propensities import Propensities, certain, gaussian_best, propensities_of
from adaprivate.policies.noise_aware.folding import fold
from adaprivate.policies.noise_aware.posterior import add_rows, foresee, gauge, settle, tell, variance_by, weigh_rows

FLIP, GAUSSIAN, ITEMS = 0, 1, 2
CHANNELS = ("flip", "gaussian", "items")
GREEDY, THOMPSON, OPTIMISTIC = 0, 1, 2
REFIT = 1.5
"""The prior is fitted again whenever this many times as much was told."""


WIDEST = 0.5
"""Exploration fades from at most this share of the posterior's spread."""


class Exploration(NamedTuple):
    """The rule of choice, and how wide it explores relative to the posterior's spread.

    At round t of T that is width (T/t)^fading, at most half the spread; or width sqrt(log(1 + t)) if it ``climbs``.
    """

    rule: int
    width: float = 0.0
    fading: float = 0.0
    climbs: bool = False
    sampled: float = 0.0
    """Where decisions are open, whose rewards are still to come, choose by a sample of this width; 0: do not."""

    @property
    def widest(self) -> float:
        """The width at most."""
        return max(WIDEST, self.width)

    @property
    def start(self) -> float:
        """The width before anything was released."""
        return self.widest if self.fading and self.width else self.width


class NoiseAwareState(NamedTuple):
    """Everything a noise-aware policy knows: public. D is the dimension, and one more with an intercept."""

    root: Floats
    """S, with S S' the covariance of theta that choices explore by."""
    coordinates: Floats
    """w, with S w the mean."""
    mean: Floats
    parameter: Floats
    """The last sampled theta."""
    rotated: Floats
    """Scratch."""
    event: Floats
    """e of the round counted last: its features, then 1."""
    direction: Floats
    """f of that round: what enters sums of e, scaled to the length at which the noise is priced."""
    information: Floats
    """What flips and items have told (D, D): the precision they add."""
    weighted: Floats
    """And what they add to precision x mean."""
    designs: Floats
    """The sum of f f' of each batch that is held (places, D (D + 1) / 2): its rows up to the diagonal."""
    crosses: Floats
    """And its sum of f e' (places, D, D)."""
    held: Integers
    """The batch in each place, -1 for none; others were folded into these (folding.py)."""
    gauges: Floats
    """Of each batch that was released: what :func:`~adaprivate.policies.noise_aware.posterior.gauge` says."""
    sizes: Floats
    """How many rounds each batch has."""
    rows: Floats
    """The noisy rows as released (batches, D)."""
    decoder: Floats
    """Row k: the weights w of the rows in the statistic after batch k."""
    influence: Floats
    """Row k: a = C'w, the weight of each batch's sum in that statistic."""
    relevance: Floats
    """Row k: the part of a that speaks of theta as it is now; a itself when nothing changes over time."""
    drift: Floats
    """What change over time adds to M: this times H H'."""
    row_covariance: Floats
    """N (D, D)."""
    encoder: Floats
    """C, where weights follow from who came: for people; else empty."""
    factor: Floats
    """And the lower triangular root of what the rows so far covary as, in any one direction."""
    whitener: Floats
    """Maps e to coordinates where the noise is round, for a catalogue; else empty."""
    items: Floats
    """The feature vectors met as items (most, d)."""
    slots: Integers
    """A hash table of them: 1 + their place, 0 for none."""
    waiting: Floats
    """How many rewards of each item wait for their release."""
    told: Floats
    """And how many were released."""
    offers: Floats
    """The candidates of the first rounds."""
    offered_in: Integers
    """And the decision in which each was offered."""
    plan: Record
    """What was chosen (:class:`~adaprivate.policies.noise_aware.outlook.Choice`), and what follows from it."""
    scalars: Record
    """Where the last event went, exploration now, rounds, batches and releases seen, where this batch's
    sums are, items and offers met, decisions that are not yet counted."""


@kernel
def place_of(items: Floats, slots: Integers, known: int, most: int, features: Floats) -> int:
    """The place of these features among the items, of which so many are ``known``; a new one is kept, -1 without room."""
    d = features.shape[0]
    words = features.view(np.uint64)
    key = np.uint64(0xCBF29CE484222325)
    for j in range(d):
        if features[j] != 0.0:  # whatever the sign of a zero
            key ^= words[j]
        key *= np.uint64(0x100000001B3)
        key ^= key >> np.uint64(29)
    size = np.uint64(slots.shape[0])
    slot = np.int64(key % size)
    while slots[slot] > 0:
        place = slots[slot] - 1
        same = True
        for j in range(d):
            if items[place, j] != features[j]:
                same = False
                break
        if same:
            return int(place)
        slot = np.int64(0) if slot + 1 == slots.shape[0] else slot + 1
    if known >= most:
        return -1
    slots[slot] = known + 1
    for j in range(d):
        items[known, j] = features[j]
    return known


@kernel
def remember(state: NoiseAwareState, candidates: Floats | Offered) -> None:
    """Keep the candidates of the first decisions, those that are scouted, as far as there is room."""
    s = state.scalars[0]
    count = min(how_many(candidates), state.offers.shape[0] // 4)  # of several rounds: who comes again is seen between them
    if s.offers + count > state.offers.shape[0] or s.offered >= state.plan[0].scouted:
        return
    for a in range(count):
        features = row(candidates, a)
        for j in range(features.shape[0]):
            state.offers[s.offers, j] = features[j]
        state.offered_in[s.offers] = s.offered
        s.offers += 1
    s.offered += 1


@selects.of(NoiseAwareState, offers=True)
def _select(state: NoiseAwareState, candidates: Offered, rng: Streams) -> int:
    s = state.scalars[0]
    rule = state.plan[0].rule
    if state.offers.shape[0] > 0:
        remember(state, candidates)
    is_open = s.open > 0
    s.open += 1
    if rule == THOMPSON or (is_open and state.plan[0].sampled > 0.0):
        theta = state.parameter[: row(candidates, 0).shape[0]]
        width = s.width if rule == THOMPSON else state.plan[0].sampled
        sample_parameter(state.root, state.coordinates, width, state.rotated, theta, rng)
        return highest(candidates, theta)
    if rule == GREEDY:
        return highest(candidates, state.mean)
    return most_optimistic(state.root, state.coordinates, s.width, state.rotated, candidates)


@kernel
def faded(plan: Any, rounds: int) -> float:
    """How wide choices explore after so many rounds."""
    if plan.climbs:
        return plan.exploration * math.sqrt(math.log(1.0 + rounds))  # type: ignore[no-any-return]
    if plan.fading == 0.0:
        return plan.exploration  # type: ignore[no-any-return]
    end = plan.horizon
    while end < rounds:
        end *= 2
    return min(plan.exploration * (end / rounds) ** plan.fading, plan.widest)  # type: ignore[no-any-return]


@kernel
def add_products(design: Floats, cross: Floats, f: Floats, e: Floats) -> None:
    """Add f f' to ``design``, its lower triangle row after row, and f e' to ``cross``."""
    size, place = e.shape[0], 0
    if size <= LANES:
        small_products(design, cross, f, e)
        return
    for i in range(size):
        if f[i] != 0.0:
            for j in range(i + 1):
                design[place + j] += f[i] * f[j]
            for j in range(size):
                cross[i, j] += f[i] * e[j]
        place += i + 1


@counts.of(NoiseAwareState)
def _counted(state: NoiseAwareState, features: Floats) -> None:
    s, p = state.scalars[0], state.plan[0]
    e, f = state.event, state.direction
    size = e.shape[0]
    if state.offers.shape[0] > 0 and s.offered <= s.round:  # a round that others decided
        remember(state, features.reshape((1, features.shape[0])))
    if p.people:  # f is what the ledger made of the visit
        for j in range(features.shape[0]):
            e[j] = features[j]
        if size > features.shape[0]:
            e[size - 1] = 1.0
    else:
        fill_direction(features, state.whitener, e, f)
    s.channel, s.block, s.closes = FLIP if s.round < p.first else p.then, -1, False
    if s.channel == ITEMS:
        place = place_of(state.items, state.slots, s.items, p.most_items, features)
        if place < 0:  # no room for another item
            s.channel = FLIP
        else:
            if place == s.items:
                s.items += 1
            state.waiting[place] += 1.0
            s.block = place
            s.closes = state.waiting[place] >= max(p.block, (p.growth - 1.0) * state.told[place])
    elif s.channel == GAUSSIAN:
        add_products(state.designs[s.place], state.crosses[s.place], f, e)
        if p.foresees and (not p.people or dot(f, e) > 0.0):
            foresee(state.root, state.coordinates, state.rotated, e, 1.0 / s.variance)
    s.round += 1
    s.open = max(s.open - 1, 0)


@kernel
def read_told(state: NoiseAwareState, strength: float, value: float) -> None:
    """Take in that theta'e of the event counted last is ``value``, with this precision."""
    s, p, e = state.scalars[0], state.plan[0], state.event
    size = e.shape[0]
    for i in range(size):
        if e[i] != 0.0:
            state.weighted[i] += strength * value * e[i]
            for j in range(size):
                state.information[i, j] += strength * e[i] * e[j]
    s.heard += 1
    if p.adapts and s.heard >= s.refit:
        s.refit = REFIT * s.heard
        resettle(state)
    else:
        tell(state.root, state.coordinates, state.mean, state.rotated, e, strength, value)


@kernel
def settled(state: Any, information: Floats, weighted: Floats) -> None:
    """The posterior given this information, the mean reward and the prior fitted to it; both are overwritten.

    Of any learner with these fields: where contexts are private too.
    """
    s, p = state.scalars[0], state.plan[0]
    last = weighted.shape[0] - 1
    if p.learns_rate and information[last, last] > 0.0:
        told = information[last, last]
        s.variance = variance_by(p.centre + weighted[last] / told, 1.0 / math.sqrt(told))
    settle(
        information,
        weighted,
        p.ridge * (p.reward_variance / s.variance) ** 2,
        p.intercept_mean,
        p.intercept_precision,
        p.adapts,
        state.root,
        state.coordinates,
        state.mean,
    )


@kernel
def resettle(state: NoiseAwareState) -> None:
    """The posterior from what flips and items told."""
    settled(state, state.information.copy(), state.weighted.copy())


@entry
def settle_again(state: Any) -> None:
    """The posterior from what flips and items told, after the plan has changed."""
    resettle(state)


@kernel
def make_room(state: NoiseAwareState) -> None:
    """A place for the sums of the next batch."""
    s, place = state.scalars[0], 0
    while place < state.held.shape[0] and state.held[place] >= 0:
        place += 1
    if place == state.held.shape[0]:
        place = fold(s.batch - 1, state.held, state.sizes, state.influence, state.relevance, state.designs, state.crosses)
    state.held[place] = s.batch
    s.place = place


@reads.of(NoiseAwareState)
def _read(state: NoiseAwareState, released: Floats) -> None:
    s, p = state.scalars[0], state.plan[0]
    if s.channel == FLIP:
        read_told(state, 1.0 / (s.variance + p.flip_noise), released[0])
    elif s.channel == ITEMS:
        n = state.waiting[s.block]
        read_told(state, n * n / (s.variance * n + p.item_noise), released[0] / n)
        state.told[s.block] += n
        state.waiting[s.block] = 0.0
    elif s.batch < state.rows.shape[0]:
        k = s.batch
        for i in range(released.shape[0]):
            state.rows[k, i] = released[i]
        information, weighted = state.information.copy(), state.weighted.copy()
        gauge(p.dimension, state.designs[s.place], state.crosses[s.place], state.gauges[k])
        if p.people:
            weigh_rows(
                k,
                p.dimension,
                state.encoder,
                state.gauges,
                p.ridge,
                p.reward_variance,
                state.row_covariance,
                state.factor,
                state.decoder,
                state.influence,
                state.relevance,
            )
        add_rows(
            k,
            p.dimension,
            state.rows,
            state.held,
            state.designs,
            state.crosses,
            state.gauges,
            state.decoder,
            state.influence,
            state.relevance,
            state.drift[k],
            state.row_covariance,
            s.variance,
            information,
            weighted,
        )
        settled(state, information, weighted)
        s.batch += 1
        make_room(state)
    s.releases += 1
    s.width = faded(p, s.round)


@propensities_of(NoiseAwareState)
def _propensities(state: NoiseAwareState, candidates: Floats, **how: Any) -> Propensities:
    plan, s = state.plan[0], state.scalars[0]
    if plan["rule"] == THOMPSON:
        return _sampled(state, candidates, s["width"], **how)
    if not plan["sampled"]:
        return certain(state, candidates)
    alone = 1 if s["open"] == 0 else 0  # the first of several is chosen while no other is open
    first = certain(state, candidates[:alone])
    others = _sampled(state, candidates[alone:], plan["sampled"], **how)
    return Propensities(
        np.concatenate([first.probability, others.probability]), np.concatenate([first.error, others.error])
    )


def _sampled(state: NoiseAwareState, candidates: Floats, width: float, **how: Any) -> Propensities:
    if not len(candidates):
        return Propensities(np.zeros(candidates.shape[:2]), np.zeros(candidates.shape[:2]))
    rotated = candidates @ state.root[: candidates.shape[2]]
    return gaussian_best(rotated @ state.coordinates, width * rotated, **how)
