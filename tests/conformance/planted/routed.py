"""The largest released score, by three channels in turn: flips at first, then blocks and Gaussian batches side by side.

Paper: none; a small policy that is right, for tests to break.
Guarantee: (epsilon, delta) | event, replace one reward, by docs/privacy.md "Channels".
Deviates: nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, kernel, record, uniform
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.policies.core.dispatch import counted, counts, read, reads, select, selects, updates
from adaprivate.policies.core.linear import highest
from adaprivate.policies.core.propensities import certain, choice_probabilities, propensities_of
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import gaussian_tables, stream_of, stream_tables
from adaprivate.purposes import Purpose

FIRST, SPAN, HELD = 6, 8, 3
"""Flips before round 6; batches of sums end every 8 rounds after; a block is released when it holds 3."""
WORDS = 8


class PlantedStateLearner(NamedTuple):
    """Public: what was released, added up along the features it belongs to."""

    parameter: Floats
    event: Floats
    waiting: Floats
    scalars: Record


class PlantedStateBook(NamedTuple):
    """Private, all but what was released."""

    sums: Floats
    noise: Floats
    blocks: Floats
    words: Streams
    released: Floats
    scalars: Record


class PlantedState(NamedTuple):
    """A learner, and the book to which it says where every event goes."""

    learner: PlantedStateLearner
    book: PlantedStateBook


@selects.of(PlantedStateLearner)
def _select(state: PlantedStateLearner, candidates: Floats, rng: Streams) -> int:
    return highest(candidates, state.parameter)


@counts.of(PlantedStateLearner)
def _counted(state: PlantedStateLearner, features: Floats) -> None:
    s = state.scalars[0]
    for j in range(features.shape[0]):
        state.event[j] = features[j]
    s.channel, s.block, s.closes = 0, -1, False
    if s.round >= FIRST:
        s.channel = 1 if (s.round - FIRST) % 2 == 1 else 2
    if s.channel == 2:
        s.block = (s.round // 2) % 2
        state.waiting[s.block] += 1.0
        s.closes = state.waiting[s.block] >= HELD
        if s.closes:
            state.waiting[s.block] = 0.0
    s.round += 1


@reads.of(PlantedStateLearner)
def _read(state: PlantedStateLearner, released: Floats) -> None:
    s = state.scalars[0]
    for j in range(state.parameter.shape[0]):
        state.parameter[j] += released[j] if s.channel == 1 else released[0] * state.event[j]
    s.releases += 1


@kernel
def _geometric(words: Streams, epsilon: float) -> float:
    return math.floor(-math.log1p(-uniform(words, 0)) / epsilon)


@kernel
def _enter(book: PlantedStateBook, channel: int, block: int, closes: bool, features: Floats, reward: float) -> bool:
    b = book.scalars[0]
    d = features.shape[0]
    b.round += 1
    if channel == 0:
        bit = uniform(book.words, 0) < reward
        truly = uniform(book.words, 0) < b.keep
        told = 1.0 if bit == truly else 0.0
        book.released[0] = (told - (1.0 - b.keep)) / (2.0 * b.keep - 1.0) - b.centre
        return True
    if channel == 2:
        book.blocks[block, 0] += 1.0 if uniform(book.words, 0) < reward else 0.0
        book.blocks[block, 1] += 1.0
        if not closes:
            return False
        noise = _geometric(book.words, b.epsilon) - _geometric(book.words, b.epsilon)
        book.released[0] = book.blocks[block, 0] + noise - b.centre * book.blocks[block, 1]
        book.blocks[block, 0] = 0.0
        book.blocks[block, 1] = 0.0
        return True
    for j in range(d):
        book.sums[j] += (reward - b.centre) * features[j]
    if (b.round - FIRST) % SPAN != 0:
        return False
    if b.batch >= book.noise.shape[0]:
        return False
    for j in range(d):
        book.released[j] = book.sums[j] + book.noise[b.batch, j]
        book.sums[j] = 0.0
    b.batch += 1
    return True


@selects.of(PlantedState)
def _choose(state: PlantedState, candidates: Floats, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@updates.of(PlantedState)
def _update(state: PlantedState, features: Floats, reward: float, rng: Streams) -> None:
    counted(state.learner, features)
    s = state.learner.scalars[0]
    if _enter(state.book, s.channel, s.block, s.closes, features, reward):
        read(state.learner, state.book.released)


propensities_of(PlantedStateLearner)(certain)


@propensities_of(PlantedState)
def _of_learner(state: PlantedState, candidates: Floats, **how: Any) -> Any:
    return choice_probabilities(state.learner, candidates, **how)


@dataclass(frozen=True, kw_only=True)
class PlantedSettings(PolicySettings):
    """The candidate with the largest product with the sum of all releases."""

    name: ClassVar[str] = "planted"
    epsilon: float = 1.0
    delta: float = 1e-5
    centre: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("epsilon", self.epsilon, above=0)
        check.probability("delta", self.delta)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise of sums."""
        return privacy.gaussian_sigma(self.epsilon, self.delta)

    @cached_property
    def plan(self) -> ChannelPlan:
        ends = tuple(range(FIRST + SPAN, self.rounds + 1, SPAN))
        sums = BatchPlan(
            delta=self.delta,
            dimension=self.dimension,
            ends=ends,
            noise_multiplier=self.sigma,
            epochs=(Epoch(0, len(ends), mechanisms.strategy("independent", len(ends))),),
            centre=self.centre,
            decoded=False,
        )
        return ChannelPlan(
            epsilon=self.epsilon,
            delta=self.delta,
            channels=("flip", "gaussian", "items"),
            centre=self.centre,
            noise_multiplier=self.sigma,
            sums=sums,
            first=FIRST,
        )

    def learner(self) -> PlantedStateLearner:
        """The learner before the first round."""
        numbers = record(channel=0, block=-1, closes=False, round=0, releases=0)
        return self.blank(PlantedStateLearner, waiting=np.zeros(2), scalars=numbers)

    def route(self, learner: PlantedStateLearner) -> dict[str, Any]:
        s = learner.scalars[0]
        names = ("flip", "gaussian", "items")
        return {"channel": names[s["channel"]], "block": int(s["block"]), "closes": bool(s["closes"])}

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        count = len(self.plan.sums.ends)
        table = np.zeros((len(seeds), 1 + count, max(WORDS, self.dimension)))
        table[:, :1, :WORDS] = stream_tables(seeds, Purpose.FLIP_NOISE)
        table[:, 1:, : self.dimension] = gaussian_tables(seeds, (count, self.dimension), self.sigma)
        return table

    def start(self, noise: Floats) -> PlantedState:
        keep = RandomisedResponse(self.epsilon).keep
        book = self.blank(
            PlantedStateBook,
            noise=np.ascontiguousarray(noise[1:, : self.dimension]),
            blocks=np.zeros((2, 2)),
            words=stream_of(noise[:1, :WORDS]),
            scalars=record(keep=keep, epsilon=float(self.epsilon), centre=float(self.centre), round=0, batch=0),
        )
        return PlantedState(self.learner(), book)


EXAMPLES = (PlantedSettings(dimension=3, rounds=70),)
