"""Epsilon-greedy ridge regression on running sums that are released after every batch, with Gaussian noise.

Paper: none; the rule is that of Sutton & Barto 2018, Sec 2.2, on released sums.
Guarantee: (epsilon, delta) | event, replace one reward: it enters one batch, whose noise is calibrated to what it moves.
Deviates: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, below, record, uniform
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.policies.core.books import simulated_sums
from adaprivate.policies.core.dispatch import Split, counts, reads, selects
from adaprivate.policies.core.linear import highest, solve, widen
from adaprivate.policies.core.propensities import Propensities, propensities_of
from adaprivate.policies.core.settings import PolicySettings


class BatchGreedyState(NamedTuple):
    """What the policy knows: public, for it sees rewards through releases alone."""

    root: Floats
    """S, with S S' = A^-1, A the ridge plus the sum of x x'."""
    theta: Floats
    """The estimate, A^-1 times the released sum."""
    scratch: Floats
    scalars: Record
    """The probability to ``explore``, and the number of batches read."""


@selects.of(BatchGreedyState)
def _select(state: BatchGreedyState, candidates: Floats, rng: Streams) -> int:
    if uniform(rng, 1) < state.scalars[0].explore:
        return below(rng, 1, candidates.shape[0])
    return highest(candidates, state.theta)


@counts.of(BatchGreedyState)
def _counted(state: BatchGreedyState, features: Floats) -> None:
    widen(state.root, state.scratch, features)


@reads.of(BatchGreedyState)
def _read(state: BatchGreedyState, released: Floats) -> None:
    solve(state.root, released, state.scratch, state.theta)
    state.scalars[0].batch += 1


@propensities_of(BatchGreedyState)
def _propensities(state: BatchGreedyState, candidates: Floats, **how: Any) -> Propensities:
    rows, count, _ = candidates.shape
    explore = float(state.scalars[0]["explore"])
    found = np.full((rows, count), explore / count)
    found[np.arange(rows), np.argmax(candidates @ state.theta, axis=1)] += 1 - explore
    return Propensities(found, np.zeros_like(found))


@dataclass(frozen=True, kw_only=True)
class BatchGreedySettings(PolicySettings):
    """The best candidate by the released sums, or with probability ``explore`` any of them."""

    name: ClassVar[str] = "batch-greedy"
    epsilon: float = 1.0
    delta: float = 1e-5
    batch_size: int = 100
    explore: float = 0.05
    centre: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("epsilon", self.epsilon, above=0)
        check.probability("delta", self.delta)
        check.whole("batch_size", self.batch_size, at_least=1, at_most=self.rounds)
        check.real("explore", self.explore, at_least=0, at_most=1)
        check.real("centre", self.centre, at_least=0, at_most=1)

    @cached_property
    def plan(self) -> BatchPlan:
        ends = tuple(range(self.batch_size, self.rounds + 1, self.batch_size))
        return BatchPlan(
            delta=self.delta,
            dimension=self.dimension,
            ends=ends,
            noise_multiplier=privacy.gaussian_sigma(self.epsilon, self.delta),
            epochs=(Epoch(0, len(ends), mechanisms.strategy("sqrt", len(ends))),),
            centre=self.centre,
        )

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        return self.plan.noise_tables(seeds)

    def learner(self) -> BatchGreedyState:
        """What is known before the first round."""
        d = self.dimension
        return BatchGreedyState(np.eye(d), np.zeros(d), np.zeros(d), record(explore=float(self.explore), batch=0))

    def start(self, noise: Floats) -> Split:
        return Split(self.learner(), simulated_sums(self.plan, noise))


EXAMPLES = (BatchGreedySettings(dimension=3, rounds=60, batch_size=12),)
