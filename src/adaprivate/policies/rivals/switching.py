"""What the rarely switching policies share: a release whenever the public design matrix has grown enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adaprivate import check, mechanisms
from adaprivate.check import Floats
from adaprivate.compiled import Streams
from adaprivate.mechanisms import PrefixSum
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import PARAMETER, ROTATED, STATISTIC, TOTAL
from adaprivate.policies.rivals.frozen_release import (
    LOG_DET,
    OWN,
    RELEASED_LOG_DET,
    RELEASES,
    TRIGGER,
    WIDTH,
    FrozenReleaseSettings,
    SnapshotState,
    most_hopeful,
    observe,
    smallest_eigenvalue,
    solve,
)
from adaprivate.privacy import GaussianPrice, Price
from adaprivate.purposes import Purpose

BASE, CONFIDENCE, VOLUME, INFLATION = OWN, OWN + 1, OWN + 2, OWN + 3
"""The width is base + sqrt(confidence + volume x log det(A / ridge)) + inflation x noise std / sqrt(least eigenvalue)."""


class SwitchingState(SnapshotState):
    """Releases b when det A has grown by a factor; chooses by the bound of that moment."""


@selects.of(SwitchingState)
def _select(state: SnapshotState, candidates: Floats, rng: Streams) -> int:
    vectors = state.vectors
    return most_hopeful(candidates, vectors[PARAMETER], state.frozen, state.numbers[WIDTH], vectors[ROTATED])


@updates.of(SwitchingState)
def _update(state: SnapshotState, features: Floats, reward: float, rng: Streams) -> None:
    observe(state, features, reward)
    numbers, vectors, release = state.numbers, state.vectors, state.counts[RELEASES]
    grown = numbers[LOG_DET] > numbers[RELEASED_LOG_DET] + numbers[TRIGGER]
    if not grown or release >= state.noise.shape[0]:
        return
    d = features.shape[0]
    for i in range(d):
        vectors[STATISTIC, i] = vectors[TOTAL, i] + state.noise[release, i]
        for j in range(d):
            state.frozen[i, j] = state.root[i, j]
    solve(state.root, vectors[STATISTIC], vectors[ROTATED], vectors[PARAMETER])
    width = numbers[BASE] + math.sqrt(numbers[CONFIDENCE] + numbers[VOLUME] * numbers[LOG_DET])
    if numbers[INFLATION] > 0.0:
        width += numbers[INFLATION] * state.scales[release] / math.sqrt(smallest_eigenvalue(state.root))
    numbers[WIDTH] = width
    numbers[RELEASED_LOG_DET] = numbers[LOG_DET]
    state.counts[RELEASES] += 1


@dataclass(frozen=True, kw_only=True)
class SwitchingSettings(FrozenReleaseSettings):
    """Settings of a policy that releases b when det A exceeds 1 + ``growth`` times that at the last release.

    noise: how the releases share noise, any strategy of ``adaprivate list mechanisms``.
    """

    growth: float = 1.0
    noise: str = "independent"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("growth", self.growth, at_least=0, at_most=1e6)
        check.expect(self.growth == 0 or self.growth >= 1e-6, "growth", self.growth, "== 0 or >= 1e-06")
        check.one_of("noise", self.noise, sorted(mechanisms.strategies()))

    @cached_property
    def releases(self) -> int:
        """No run makes more: log det(A / ridge) <= d log(1 + T / (ridge d)) for features of norm at most 1."""
        if self.growth == 0:
            return self.rounds
        largest = self.dimension * math.log1p(self.rounds / (self.ridge * self.dimension))
        return max(1, min(self.rounds, math.floor(largest / math.log1p(self.growth))))

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every running sum (seeds, releases, d)."""
        release = PrefixSum(
            mechanisms.strategy(self.noise, self.releases),
            dimension=self.dimension * len(seeds),
            noise_multiplier=self.noise_multiplier,
            noise=SimulatedReplicas([(seed, Purpose.NOISE) for seed in seeds]),
        )
        table = np.array([release.release(np.zeros(release.dimension)) for _ in range(self.releases)])
        return np.ascontiguousarray(table.reshape(self.releases, len(seeds), self.dimension).swapaxes(0, 1))

    @property
    def bonus(self) -> tuple[float, float, float, float]:
        """Base, confidence, volume, inflation: see above."""
        return self.alpha, 0.0, 0.0, 0.0

    def start(self, noise: Floats) -> SnapshotState:
        """The state before the first round."""
        strategy = mechanisms.strategy(self.noise, self.releases)
        scales = self.noise_multiplier * strategy.sensitivity() * strategy.prefix_std()
        base, confidence, *_ = bonus = self.bonus
        return self.fresh(
            SwitchingState,
            noise,
            scales=scales,
            width=base + math.sqrt(confidence),
            trigger=math.log1p(self.growth),
            own=bonus,
        )

    def price(self) -> Price:
        return GaussianPrice(1 / self.noise_multiplier, exact=mechanisms.strategy(self.noise, self.releases).attained(1))
