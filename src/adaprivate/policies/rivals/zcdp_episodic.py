"""zCDP-Episodic: LinUCB whose estimate is released with noise once an episode, episodes growing in length.

Paper: a baseline of Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.1, named after Azize & Basu, who have no such algorithm.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Estimates released again".
Deviates: reconstructed from that description (noise on the estimate, episodes closed by the determinant, geometric growth).
    As described every estimate holds all rewards and spends the whole budget, which costs the number of episodes times
    the budget: only as mode="published-unsound", whose guarantee prints what it really gives. "split" divides the budget
    by the number of episodes that can end, 6 in 10^4 rounds (the description's ceil(log2(T / L1)) + 1 would be 8);
    "forget" (default) estimates from the last episode alone, and needs no division.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numba
import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import PARAMETER, ROTATED, TOTAL
from adaprivate.policies.rivals.frozen_release import (
    LOG_DET,
    OWN,
    RELEASED_LOG_DET,
    RELEASES,
    ROUND,
    STARTED,
    TRIGGER,
    WIDTH,
    FrozenReleaseSettings,
    SnapshotState,
    event_conditions,
    independent_noise,
    most_hopeful,
    observe,
    smallest_eigenvalue,
    solve,
)

MODES = ("forget", "split", "published-unsound")
LENGTH, GROWTH, RIDGE, FORGETS = OWN, OWN + 1, OWN + 2, OWN + 3


class EpisodicState(SnapshotState):
    """Releases the estimate once an episode; ``memory`` is sum x x' of this episode if the mode forgets."""


@selects.of(EpisodicState)
def _select(state: SnapshotState, candidates: Floats, rng: Streams) -> int:
    vectors, width = state.vectors, state.numbers[WIDTH]
    if state.numbers[FORGETS] > 0.0:
        return most_hopeful(candidates, vectors[PARAMETER], state.root, width, vectors[ROTATED])
    return most_hopeful(candidates, vectors[PARAMETER], state.frozen, width, vectors[ROTATED])


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def episode_estimate(gram: Floats, ridge: float, vectors: Floats) -> float:
    """The estimate from one episode alone, in its row; returns the least eigenvalue of ridge I + gram and empties sums."""
    d = gram.shape[0]
    values, basis = np.linalg.eigh(gram.copy())
    vectors[PARAMETER] = 0.0
    for m in range(d):
        along = 0.0
        for i in range(d):
            along += basis[i, m] * vectors[TOTAL, i]
        for i in range(d):
            vectors[PARAMETER, i] += basis[i, m] * along / (values[m] + ridge)
    vectors[TOTAL] = 0.0
    gram[:] = 0.0
    return float(values[0] + ridge)


@updates.of(EpisodicState)
def _update(state: SnapshotState, features: Floats, reward: float, rng: Streams) -> None:
    observe(state, features, reward)
    numbers, counts, vectors = state.numbers, state.counts, state.vectors
    d = features.shape[0]
    forgets = numbers[FORGETS] > 0.0
    if forgets:
        for i in range(d):
            for j in range(d):
                state.memory[i, j] += features[i] * features[j]
    release = counts[RELEASES]
    long_enough = counts[ROUND] - counts[STARTED] >= numbers[LENGTH]
    grown = numbers[LOG_DET] >= numbers[RELEASED_LOG_DET] + numbers[TRIGGER]
    if not long_enough or not grown or release >= state.noise.shape[0]:
        return
    if forgets:
        least = episode_estimate(state.memory, numbers[RIDGE], vectors)
    else:
        solve(state.root, vectors[TOTAL], vectors[ROTATED], vectors[PARAMETER])
        least = smallest_eigenvalue(state.root)
    for i in range(d):
        vectors[PARAMETER, i] += state.noise[release, i] / least
        for j in range(d):
            state.frozen[i, j] = state.root[i, j]
    numbers[RELEASED_LOG_DET] = numbers[LOG_DET]
    numbers[LENGTH] *= numbers[GROWTH]
    counts[STARTED] = counts[ROUND]
    counts[RELEASES] += 1


@dataclass(frozen=True, kw_only=True)
class ZCDPEpisodicSettings(FrozenReleaseSettings):
    """LinUCB on an estimate released once an episode, with noise that covers its worst direction.

    An episode ends when it has lasted ``first_episode`` rounds (each next one ``growth`` times as many) and det A has grown
    by ``trigger``. mode: which rewards an estimate uses, and what it may spend; see the file.
    """

    name: ClassVar[str] = "zcdp-episodic"
    mode: str = "forget"
    trigger: float = 2.0
    first_episode: int = 100
    growth: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("mode", self.mode, MODES)
        check.real("trigger", self.trigger, at_least=1, at_most=1e6)
        check.whole("first_episode", self.first_episode, at_least=1)
        check.real("growth", self.growth, at_least=1, at_most=1e6)

    @property
    def unsound(self) -> bool:
        return self.mode == "published-unsound" and self.releases > 1

    @property
    def first_release(self) -> int:
        return min(self.first_episode, self.rounds)

    @cached_property
    def releases(self) -> int:
        """How many episodes can end in so many rounds."""
        count, end, length = 0, 0, float(self.first_episode)
        while end + math.ceil(length) <= self.rounds:
            count, end, length = count + 1, end + math.ceil(length), length * self.growth
        return count

    @property
    def shares(self) -> int:
        """Into how many parts the budget (rho, or mu^2) is divided."""
        return max(1, self.releases) if self.mode == "split" else 1

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every release (seeds, releases, d), to be divided by the least eigenvalue of its design matrix."""
        return independent_noise(seeds, self.releases, self.dimension, math.sqrt(self.shares) * self.noise_multiplier)

    def start(self, noise: Floats) -> SnapshotState:
        """The state before the first round."""
        forgets = self.mode == "forget"
        return self.fresh(
            EpisodicState,
            noise,
            memory=np.zeros((self.dimension, self.dimension)) if forgets else None,
            trigger=math.log(self.trigger),
            own=(float(self.first_episode), self.growth, self.ridge, float(forgets)),
        )

    def price(self) -> privacy.Price:
        repeats = 1 if self.mode == "forget" else max(1, self.releases)
        return privacy.GaussianPrice(math.sqrt(repeats / self.shares) / self.noise_multiplier, exact=False)

    @property
    def participation(self) -> privacy.Participation:
        return event_conditions(own_schedule=True, one_release=self.mode == "forget")


EXAMPLES = (
    ZCDPEpisodicSettings(dimension=4, rounds=60, first_episode=5),
    ZCDPEpisodicSettings(dimension=3, rounds=50, first_episode=4, growth=1.5, mode="split", calibration="exact"),
    ZCDPEpisodicSettings(dimension=3, rounds=50, first_episode=4, mode="published-unsound"),
)
