"""LDP-LinUCB: every person adds noise to their own message, so that not even the server learns their context or reward.

Paper: Zheng et al. 2020, locally differentially private contextual linear bandits.
Guarantee: (epsilon, delta), local, replace a message's context and reward, by docs/privacy.md "Local messages".
Deviates: near-exact, from the authors' code and a derivation of its constants: sigma = 4 sqrt(2 log(2.5 / delta)) / epsilon
    (the code drops the 2 under the root and has 1.25), the bonus uses |x| in the norm of V^-1, not its square.
    Eigenvalues of the shifted matrix below the shift, improbable by the paper's bound, are raised to it.
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
from adaprivate.compiled import Streams, kernel
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import PARAMETER, ROTATED, TOTAL
from adaprivate.policies.rivals.frozen_release import (
    CENTRE,
    OWN,
    ROUND,
    WIDTH,
    FrozenReleaseSettings,
    SnapshotState,
    independent_noise,
    most_hopeful,
    solve,
)

SIGMA, SPREAD, SCALE, LOG_ROUNDS = OWN, OWN + 1, OWN + 2, OWN + 3


class LocalState(SnapshotState):
    """Adds up noisy messages: ``memory`` is the noisy sum x x', TOTAL the noisy sum of reward x; ``root`` is scratch."""


@selects.of(LocalState)
def _select(state: SnapshotState, candidates: Floats, rng: Streams) -> int:
    vectors = state.vectors
    return most_hopeful(candidates, vectors[PARAMETER], state.frozen, state.numbers[WIDTH], vectors[ROTATED])


@kernel
def inverse_root(matrix: Floats, shift: float, lower: Floats, out: Floats) -> bool:
    """Upper triangular S with S S' = (matrix + shift I)^-1, by Cholesky; False if that is not positive definite."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(i + 1):
            entry = matrix[i, j] + (shift if i == j else 0.0)
            for m in range(j):
                entry -= lower[i, m] * lower[j, m]
            if i > j:
                lower[i, j] = entry / lower[j, j]
            elif entry > 0.0:
                lower[i, i] = math.sqrt(entry)
            else:
                return False
    for i in range(d):  # S = the transposed inverse of the factor
        for j in range(i + 1):
            entry = 1.0 if i == j else 0.0
            for m in range(j, i):
                entry -= lower[i, m] * out[j, m]
            out[j, i] = entry / lower[i, i]
            if i > j:
                out[i, j] = 0.0
    return True


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def raised_root(matrix: Floats, shift: float, out: Floats) -> None:
    """A root of (matrix + 2 shift I)^-1, eigenvalues below the shift raised to it."""
    values, basis = np.linalg.eigh(matrix.copy())
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            out[i, j] = basis[i, j] / math.sqrt(max(values[j] + 2.0 * shift, shift))


@updates.of(LocalState)
def _update(state: SnapshotState, features: Floats, reward: float, rng: Streams) -> None:
    numbers, vectors = state.numbers, state.vectors
    t, d = state.counts[ROUND], features.shape[0]
    if t >= state.noise.shape[0]:
        return
    weight = reward - numbers[CENTRE]
    place = d
    for i in range(d):  # what the person sends
        vectors[TOTAL, i] += weight * features[i] + state.noise[t, i]
        for j in range(i, d):
            entry = features[i] * features[j] + state.noise[t, place]
            state.memory[i, j] += entry
            if j > i:
                state.memory[j, i] += entry
            place += 1
    state.counts[ROUND] += 1
    sigma, n = numbers[SIGMA], t + 1.0
    shift = sigma * math.sqrt(n) * numbers[SPREAD]
    covered = inverse_root(state.memory, shift, state.root, state.frozen)  # no eigenvalue below -shift
    if not covered or not inverse_root(state.memory, 2.0 * shift, state.root, state.frozen):
        raised_root(state.memory, shift, state.frozen)
    solve(state.frozen, vectors[TOTAL], vectors[ROTATED], vectors[PARAMETER])
    log_rounds = numbers[LOG_ROUNDS]
    theory = 2.0 * sigma * math.sqrt(d * log_rounds)
    theory += (math.sqrt(3.0 * shift) + sigma * math.sqrt(d * n / shift)) * d * log_rounds
    numbers[WIDTH] = numbers[SCALE] * theory


@dataclass(frozen=True, kw_only=True)
class LDPLinUCBSettings(FrozenReleaseSettings):
    """LinUCB on noisy messages (x x', reward x), its matrix shifted by what the noise may take off.

    calibration: "published", or "exact", the least noise for the message as a whole. alpha: factor on the paper's width.
    confidence: the paper's failure probability. In simulation the noise of all messages is drawn beforehand:
    rounds x d (d + 3) / 2 numbers.
    """

    name: ClassVar[str] = "ldp-linucb"
    statistics: ClassVar[str] = "message"
    calibration: str = "published"
    confidence: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check.probability("confidence", self.confidence)
        check.expect(self.ridge == 1, "ridge", self.ridge, "== 1: the noise decides the shift")

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("published", "exact")

    @cached_property
    def noise_multiplier(self) -> float:
        if self.calibration == "exact":
            return privacy.gaussian_sigma(self.epsilon, self.delta)
        published = 4 * math.sqrt(2 * math.log(2.5 / self.delta)) / self.epsilon
        return published / self.participation.change

    @property
    def sigma(self) -> float:
        """The standard deviation of every number in a message."""
        return self.noise_multiplier * self.participation.change

    @property
    def unsound(self) -> bool:
        return self.price().epsilon(self.delta) > self.epsilon

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every message (seeds, rounds, d + d (d + 1) / 2)."""
        width = self.dimension * (self.dimension + 3) // 2
        return independent_noise(seeds, self.rounds, width, self.sigma)

    def start(self, noise: Floats) -> SnapshotState:
        """The state before the first round."""
        spread = 4 * math.sqrt(self.dimension) + 2 * math.log(2 * self.rounds / self.confidence)
        own = (self.sigma, spread, self.alpha, math.log(self.rounds))
        return self.fresh(LocalState, noise, memory=np.zeros((self.dimension, self.dimension)), own=own)

    def price(self) -> privacy.Price:
        return privacy.GaussianPrice(1 / self.noise_multiplier, exact=self.dimension > 1 and self.centre in (0, 1))

    @property
    def participation(self) -> privacy.Participation:
        return privacy.Participation(
            "local",
            "replace",
            privacy.joint_sensitivity(1.0, "replace"),
            protects="the context and the reward behind any one message, from the server too",
            conditions=(
                "reward-range",
                "feature-norm",
                "one-message",
                "independent-rounds",
                "own-action-hidden",
                "secret-noise",
                "no-replay",
            ),
        )


EXAMPLES = (
    LDPLinUCBSettings(dimension=4, rounds=60),
    LDPLinUCBSettings(dimension=3, rounds=50, calibration="exact", centre=0.5),
)
