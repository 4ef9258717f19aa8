"""Mistakes to be caught: a small sound policy in compiled code and what can go wrong in it, and books kept wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.audit.scripts import Pair, Script
from adaprivate.audit.targets import Claim, Target, Transcripts
from adaprivate.check import Array, Floats, Integers
from adaprivate.compiled import Record, Streams, record
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.plan import BatchPlan, SimulationPlan
from adaprivate.mechanisms.units import Event
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import highest
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import gaussian_tables


class Fault(IntEnum):
    """What goes wrong."""

    NONE = 0
    COUNTS_REWARDS = 1
    """A batch closes after so many rewards, not rounds."""
    ON_ARRIVAL = 2
    """A release waits for the reward of its last round."""
    WIDE_RANGE = 3
    """Rewards enter as numbers from -1 to 1, with noise for 0 to 1."""
    SAME_NOISE = 4
    """Every batch gets the noise of the first."""
    NEVER_RESET = 5
    """A batch's sum goes on into the next batch."""
    HALF_NOISE = 6
    """Noise of half the size."""


class FaultyState(NamedTuple):
    """The sum of this batch, which is private, and all that was released, added up."""

    sums: Floats
    released: Floats
    parameter: Floats
    noise: Floats
    scalars: Record


@selects.of(FaultyState, offers=True)
def _select(state: FaultyState, candidates: Offered, rng: Streams) -> int:
    return highest(candidates, state.parameter)


@updates.of(FaultyState)
def _update(state: FaultyState, features: Floats, reward: float, rng: Streams) -> None:
    s = state.scalars[0]
    came = reward == reward  # NaN: no reward came
    weight = reward if came else 0.0
    if s.fault == Fault.WIDE_RANGE and came:
        weight = 2.0 * reward - 1.0
    for j in range(features.shape[0]):
        state.sums[j] += weight * features[j]
    if came or s.fault != Fault.COUNTS_REWARDS:
        s.round += 1
    if s.batch >= state.noise.shape[0] or s.round < (s.batch + 1) * s.batch_size:
        return
    if s.fault == Fault.ON_ARRIVAL and not came:
        return
    row = 0 if s.fault == Fault.SAME_NOISE else s.batch
    scale = 0.5 if s.fault == Fault.HALF_NOISE else 1.0
    for j in range(features.shape[0]):
        state.released[j] = state.sums[j] + scale * state.noise[row, j]
        state.parameter[j] += state.released[j]
        if s.fault != Fault.NEVER_RESET:
            state.sums[j] = 0.0
    s.batch += 1


@dataclass(frozen=True, kw_only=True)
class FaultySettings(PolicySettings):
    """The candidate with the largest product with the sum of all releases; ``fault`` says what is wrong with it."""

    name: ClassVar[str] = "faulty"
    fault: Fault = Fault.NONE
    epsilon: float = 5.0
    delta: float = 1e-5
    batch_size: int = 3

    @property
    def missing(self) -> float:
        """Nothing stands in for a reward that never came: it counts as 0 in sums."""
        return math.nan

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise."""
        return privacy.gaussian_sigma(self.epsilon, self.delta)

    @cached_property
    def plan(self) -> SimulationPlan:
        return SimulationPlan(paid=privacy.GaussianPrice(1 / self.sigma), reach=privacy.events(), delta=self.delta)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        return gaussian_tables(seeds, (self.rounds // self.batch_size, self.dimension), self.sigma)

    def start(self, noise: Floats) -> FaultyState:
        scalars = record(fault=int(self.fault), batch_size=self.batch_size, round=0, batch=0)
        return self.blank(FaultyState, noise=noise, scalars=scalars)

    def released(self, state: FaultyState) -> Floats:
        return state.released


class Silent(Noise):
    """No noise at all: what an attacker works out by himself."""

    exact = False

    def gaussian(self, values: Array, scale: float | Floats) -> Floats:
        return np.asarray(values, dtype=np.float64)

    def laplace(self, values: Array, scale: float | Floats) -> Floats:
        return np.asarray(values, dtype=np.float64)

    def slack(self, scale: float, draws: int) -> float:
        return 0.0


class BookTarget(Target):
    """The book of a plan, driven by itself.

    ``source``: makes a run's source of noise from its seed. ``lives``: how often each batch is released: more than once
    where a stored copy is taken up again. ``low_bits``: whether those of numbers are to be looked at. ``spoil``: done to
    every fresh book.
    """

    def __init__(
        self,
        name: str,
        plan: BatchPlan,
        claim: Claim,
        pair: Pair,
        source: Any,
        *,
        lives: int = 1,
        low_bits: bool = False,
        spoil: Callable[[Any], None] | None = None,
    ) -> None:
        self.name, self.plan, self.claim, self.pair, self.source, self.lives = name, plan, claim, pair, source, lives
        self.spoil = spoil
        check.expect(pair.one.rounds >= plan.ends[-1], "rounds", pair.one.rounds, f">= {plan.ends[-1]}")
        if low_bits:
            mechanism = plan.mechanism(plan.epochs[0], Silent())
            self.scales = np.full(plan.size * len(plan.ends) * lives, mechanism.row_std)

    def pairs(self) -> list[Pair]:
        return [self.pair]

    def _released(self, script: Script, source: Noise) -> Floats:
        book: Any = self.plan.book(source)
        if self.spoil is not None:
            self.spoil(book)
        shown: list[Floats] = []
        for t in range(script.rounds):
            whose = script.visitors[t] if self.plan.unit.needs_user else None
            book.add(Event(t, script.candidates[t, 0], float(script.rewards[t]), whose))
            if book.due:
                stored = book.to_bytes()
                shown += [type(book).from_bytes(stored, self.plan, source).close()[0].values for _ in range(self.lives - 1)]
                release, book = book.close()
                shown.append(release.values)
        return np.concatenate(shown)

    def play(self, script: Script, seeds: Iterable[int]) -> Transcripts:
        rows = [self._released(script, self.source(seed)) for seed in seeds]
        return Transcripts(np.array(rows), np.zeros((len(rows), script.rounds), dtype=np.int64))

    def expected(self, script: Script, actions: Integers) -> Floats | None:
        return np.tile(self._released(script, Silent()), (len(actions), 1))
