"""CoreSet-Elimination: phases that explore the arms still in play, then drop those that a noisy estimate rules out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Array, Floats, Integers, option
from adaprivate.compiled import Record, Streams, kernel, record
from adaprivate.offered import Offered, how_many, row
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import dot, highest, rotate, solve
from adaprivate.policies.core.tables import gaussian_tables
from adaprivate.policies.linear.frozen import FrozenReleaseSettings, event_conditions, observe


class CoreSetState(NamedTuple):
    """The arms met so far, which of them are in play, and the sums of this phase."""

    root: Floats  # S, with S S' = V^-1, V = ridge I + sum x x' of this phase.
    total: Floats  # The true sum of reward x in this phase: private.
    statistic: Floats  # The last phase's sum as released.
    parameter: Floats  # The estimate from the last phase.
    rotated: Floats  # Scratch.
    arms: Floats  # Their features (catalogue, d), in the order of their first offer.
    in_play: Array  # Whether each arm is still in play.
    noise: Floats  # The simulated noise of each phase (phases, d).
    ends: Integers  # The round after which each phase ends.
    scalars: Record
    """``alpha``, ``kappa``, ``sigma`` (the standard deviation of the noise), ``centre``, ``ridge``; ``round``, rounds seen;
    ``phase``, phases ended; ``known``, arms known."""


@kernel
def arm_of(state: CoreSetState, features: Floats) -> int:
    """The number of the arm with these features, new if need be; -1 when the catalogue is full (it then stays in play)."""
    known = state.scalars[0].known
    d = features.shape[0]
    for arm in range(known):
        j = 0
        while j < d and state.arms[arm, j] == features[j]:
            j += 1
        if j == d:
            return arm
    if known == state.arms.shape[0]:
        return -1
    for j in range(d):
        state.arms[known, j] = features[j]
    state.scalars[0].known += 1
    return int(known)


@selects.of(CoreSetState, offers=True)
def _select(state: CoreSetState, candidates: Offered, rng: Streams) -> int:
    phi = state.rotated
    best = -1
    top = 0.0
    for a in range(how_many(candidates)):
        arm = arm_of(state, row(candidates, a))
        if arm >= 0 and not state.in_play[arm]:
            continue
        rotate(state.root, row(candidates, a), phi)
        unexplored = dot(phi, phi)
        if best < 0 or unexplored > top + 1e-12 * (1.0 + top):
            top = unexplored
            best = a
    if best < 0:
        best = highest(candidates, state.parameter)
    return best


@kernel
def bounds(state: CoreSetState, arm: int) -> tuple[float, float]:
    """The estimate of an arm's reward, and its width: alpha |x|_{V^-1} + kappa sigma |V^-1 x|."""
    features, phi, s = state.arms[arm], state.rotated, state.scalars[0]
    rotate(state.root, features, phi)
    noise = 0.0
    for i in range(features.shape[0]):
        pull = dot(state.root[i], phi)
        noise += pull * pull
    width = s.alpha * math.sqrt(dot(phi, phi)) + s.kappa * s.sigma * math.sqrt(noise)
    return dot(state.parameter, features), width


@updates.of(CoreSetState)
def _update(state: CoreSetState, features: Floats, reward: float, rng: Streams) -> None:
    s = state.scalars[0]
    observe(state.root, state.total, state.rotated, features, reward - s.centre)
    s.round += 1
    d, phase = features.shape[0], s.phase
    if phase >= state.ends.shape[0] or s.round != state.ends[phase]:
        return
    for j in range(d):
        state.statistic[j] = state.total[j] + state.noise[phase, j]
        state.total[j] = 0.0
    solve(state.root, state.statistic, state.rotated, state.parameter)
    floor = -np.inf
    for arm in range(s.known):
        if state.in_play[arm]:
            score, width = bounds(state, arm)
            floor = max(floor, score - width)
    for arm in range(s.known):
        if state.in_play[arm]:
            score, width = bounds(state, arm)
            if score + width < floor:
                state.in_play[arm] = False
    start = 1.0 / math.sqrt(s.ridge)
    for i in range(d):
        for j in range(d):
            state.root[i, j] = start if i == j else 0.0
    s.phase += 1


@dataclass(frozen=True, kw_only=True)
class CoreSetEliminationSettings(FrozenReleaseSettings):
    """Phases of doubling length: explore the arms in play, estimate with noise, drop arms whose bound is too low.

    Paper: a central-model baseline of Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.8, Table 6, after Hanna et al., Li et al.
        (2022).
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
    Deviates: reconstructed for candidates that change from round to round: an arm is a feature vector, known once it was
        offered; the core set is chosen greedily (the least explored arm on offer). calibration="split-zcdp" (default) gives
        every phase rho / K, as described; a reward enters one phase, so that is more noise than needed, and the guarantee
        prints the smaller epsilon that holds. "zcdp" gives rho to every phase.

    alpha, kappa: widths for the rewards' noise and for the privacy noise. first_phase: rounds of the first phase.
    catalogue: how many different arms are remembered; those met later are never dropped.
    """

    name: ClassVar[str] = "coreset-elimination"
    calibration: str = "split-zcdp"
    kappa: float = option(1.0, check.real, at_least=0)
    first_phase: int = option(256, check.whole, at_least=1)
    catalogue: int = option(1000, check.whole, at_least=1)

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("split-zcdp", "zcdp", "exact")

    @cached_property
    def ends(self) -> Integers:
        """The round after which each phase ends: each is twice as long as the one before. The rest is not released."""
        count = (self.rounds // self.first_phase + 1).bit_length() - 1
        return np.array([self.first_phase * (2**k - 1) for k in range(1, count + 1)], dtype=np.int64)

    @cached_property
    def noise_multiplier(self) -> float:
        if self.calibration == "exact":
            return privacy.gaussian_sigma(self.epsilon, self.delta)
        phases = max(1, len(self.ends)) if self.calibration == "split-zcdp" else 1
        return math.sqrt(phases) * privacy.zcdp_sigma(self.epsilon, self.delta)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every phase (seeds, phases, d)."""
        return gaussian_tables(seeds, (len(self.ends), self.dimension), self.noise_multiplier)

    def start(self, noise: Floats) -> CoreSetState:
        return self.blank(
            CoreSetState,
            root=self.first_root(),
            arms=np.zeros((self.catalogue, self.dimension)),
            in_play=np.ones(self.catalogue, dtype=np.bool_),
            noise=noise,
            ends=self.ends,
            scalars=record(
                alpha=float(self.alpha),
                kappa=float(self.kappa),
                centre=float(self.centre),
                ridge=float(self.ridge),
                sigma=self.noise_multiplier,
                round=0,
                phase=0,
                known=0,
            ),
        )

    def price(self) -> privacy.Price:
        return privacy.GaussianPrice(1 / self.noise_multiplier, exact=len(self.ends) > 0)

    @property
    def participation(self) -> privacy.Participation:
        return event_conditions()


EXAMPLES = (
    CoreSetEliminationSettings(dimension=4, rounds=60, first_phase=8),
    CoreSetEliminationSettings(dimension=3, rounds=50, first_phase=4, catalogue=5, calibration="zcdp", epsilon=5.0),
)
