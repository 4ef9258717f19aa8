"""What the contextual policies of Mishra & Thakurta share: Laplace trees on every entry of A and b, and a fallback.

Theirs is one tree per entry; noise is independent from entry to entry, so one tree of vectors is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams, kernel, normal, streams
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import Integers, dot, highest, rotate
from adaprivate.policies.core.releasing import refuse_exact_noise
from adaprivate.policies.joint.perturbed import KIND, LAPLACE, ROUND, ROUNDS, SCALE, grow_tree, stream_of, stream_table
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose

CALIBRATIONS = ("published", "tight")
FORMS = ("corrected", "as-printed")
# rows of LaplaceState.vectors
TOTAL, STATISTIC, ESTIMATE, PARAMETER, ROTATED = range(5)
# positions in LaplaceState.numbers (the second is SCALE) and counts (the first, fourth and fifth are joint's)
EXPLORATION, RIDGE = 0, 2
RELEASED, FALLBACKS, PRINTED = 1, 2, 5


class LaplaceState(NamedTuple):
    """Everything these policies remember."""

    root: Floats
    """S: S S' is the noisy A^-1 (as printed: A), or the identity where the noisy A is not positive definite."""
    vectors: Floats
    """The true b, which is private; b as released; the estimate of theta; its last sample; scratch."""
    gram: Floats
    """The true sum of x x', which is private."""
    above: Floats
    """In row l the noise of all tree levels from l up: A's lower triangle, then b; the last row is zero."""
    resting: Floats
    """Zeros."""
    scratch: Floats
    """Room for a matrix."""
    numbers: Floats
    """alpha, the noise's scale, the ridge."""
    counts: Integers
    """Rounds seen, releases, those without a positive definite A, rounds to release, kind of noise, whether as printed."""
    words: Streams
    """The stream of the trees' noise."""


class LaplaceOptimisticState(LaplaceState):
    """Chooses by an upper confidence bound."""


class LaplaceThompsonState(LaplaceState):
    """Chooses by a posterior sample."""


@kernel
def _publish(state: LaplaceState) -> None:
    """Find the estimate and S from the noisy A and b: lines 5 to 10 of Algorithms 3 and 4."""
    factor, root, vectors, noise = state.scratch, state.root, state.vectors, state.above
    estimate = vectors[ESTIMATE]
    d = root.shape[0]
    positive = True
    place = 0
    for i in range(d):
        for j in range(i + 1):
            entry = state.gram[i, j] + noise[0, place]
            place += 1
            if j == i:
                entry += state.numbers[RIDGE]
            for m in range(j):
                entry -= factor[i, m] * factor[j, m]
            if j < i:
                factor[i, j] = entry / factor[j, j]
            else:
                if not entry > 1e-12:
                    positive = False
                    entry = 1.0
                factor[i, i] = math.sqrt(entry)
    for i in range(d):
        vectors[STATISTIC, i] = vectors[TOTAL, i] + noise[0, place + i]
    for i in range(d):
        for j in range(d):
            root[i, j] = 1.0 if i == j else 0.0
        estimate[i] = vectors[STATISTIC, i]
    state.counts[RELEASED] += 1
    if not positive:
        state.counts[FALLBACKS] += 1
        return
    for i in range(d):
        for j in range(i):
            estimate[i] -= factor[i, j] * estimate[j]
        estimate[i] /= factor[i, i]
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            estimate[i] -= factor[j, i] * estimate[j]
        estimate[i] /= factor[i, i]
    if state.counts[PRINTED] == 1:
        for i in range(d):
            for j in range(i + 1):
                root[i, j] = factor[i, j]
        return
    for j in range(d):  # S = L'^-1: row j of S is column j of L^-1
        root[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, d):
            total = 0.0
            for m in range(j, i):
                total += factor[i, m] * root[j, m]
            root[j, i] = -total / factor[i, i]


@selects.of(LaplaceOptimisticState)
def _optimistic(state: LaplaceState, candidates: Floats, rng: Streams) -> int:
    estimate, phi = state.vectors[ESTIMATE], state.vectors[ROTATED]
    best = 0
    top = 0.0
    for a in range(candidates.shape[0]):
        rotate(state.root, candidates[a], phi)
        score = dot(estimate, candidates[a]) + state.numbers[EXPLORATION] * math.sqrt(dot(phi, phi))
        if a == 0 or score > top + 1e-12 * (1.0 + abs(top)):
            top = score
            best = a
    return best


@selects.of(LaplaceThompsonState)
def _thompson(state: LaplaceState, candidates: Floats, rng: Streams) -> int:
    root, vectors = state.root, state.vectors
    d = root.shape[0]
    for j in range(d):
        vectors[ROTATED, j] = math.sqrt(state.numbers[EXPLORATION]) * normal(rng, 0)
    for i in range(d):
        total = vectors[ESTIMATE, i]
        for j in range(d):
            total += root[i, j] * vectors[ROTATED, j]
        vectors[PARAMETER, i] = total
    if state.counts[PRINTED] == 1:  # line 11 uses the estimate, not the sample
        return highest(candidates, vectors[ESTIMATE])
    return highest(candidates, vectors[PARAMETER])


@updates.of(LaplaceOptimisticState)
@updates.of(LaplaceThompsonState)
def _update(state: LaplaceState, features: Floats, reward: float, rng: Streams) -> None:
    for i in range(features.shape[0]):
        state.vectors[TOTAL, i] += reward * features[i]
        for j in range(i + 1):
            state.gram[i, j] += features[i] * features[j]
    state.counts[ROUND] += 1
    if state.counts[ROUND] <= state.counts[ROUNDS]:
        if state.numbers[SCALE] > 0.0:
            grow_tree(state, state.counts[ROUND])
        _publish(state)


@dataclass(frozen=True, kw_only=True)
class LaplaceTreeSettings:
    """Settings of a policy that releases A and b every round with Laplace noise by a tree: pure joint privacy.

    calibration: "published", scale log2(T) / epsilon_0 with epsilon_0 = 2 epsilon / (d^2 + 3 d); or "tight", the scale that
    the l1 reach of a whole row asks for. form: "corrected", or "as-printed", with A where A^-1 is meant and, in the
    Thompson policy, the estimate where the sample is meant. alpha: the exploration parameter. delta: where the guarantee
    is read; the noise does not depend on it.
    """

    name: ClassVar[str]
    kind: ClassVar[type[LaplaceState]]
    private: ClassVar[bool] = True
    first_release: ClassVar[int] = 1
    """The first round after which a release is made."""

    dimension: int
    rounds: int
    epsilon: float = 1.0
    delta: float = 0.0
    alpha: float = 1.0
    ridge: float = 1.0
    calibration: str = "published"
    form: str = "corrected"

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("rounds", self.rounds, at_least=2, at_most=2**52)
        check.budget(self.epsilon)
        check.real("delta", self.delta, at_least=0, below=1)
        check.real("alpha", self.alpha, at_least=0)
        check.regulariser(self.ridge)
        check.one_of("calibration", self.calibration, CALIBRATIONS)
        check.one_of("form", self.form, FORMS)

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        """The calibrations this policy offers."""
        return CALIBRATIONS

    @property
    def levels(self) -> int:
        """How many nodes of the tree hold one round at most."""
        return int(self.rounds).bit_length()

    @property
    def row_reach(self) -> float:
        """A bound on the l1 change of (the triangle of x x', r x) when a row is replaced, |x| <= 1 and 0 <= r <= 1."""
        d = self.dimension
        return min(d + 1 + 2 * math.sqrt(d), d * (d + 1) / 2 + 2 * d)

    @property
    def scale(self) -> float:
        """The scale of a node's Laplace noise in each entry."""
        if self.calibration == "tight":
            return self.levels * self.row_reach / self.epsilon
        d = self.dimension
        return math.log2(self.rounds) * (d * d + 3 * d) / (2 * self.epsilon)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The start of each seed's noise stream: node noise is drawn as rounds go by."""
        return np.array([stream_table(streams(seed, Purpose.LAPLACE_TREE_NOISE)) for seed in seeds])

    def start(self, noise: Floats) -> LaplaceState:
        """The state before the first round, given the start of the noise stream."""
        d = self.dimension
        entries = d * (d + 1) // 2 + d
        printed = self.form == "as-printed"
        counts = np.zeros(6, dtype=np.int64)
        counts[ROUNDS], counts[KIND], counts[PRINTED] = self.rounds, LAPLACE, printed
        return self.kind(
            root=np.eye(d) * math.sqrt(self.ridge if printed else 1 / self.ridge),
            vectors=np.zeros((5, d)),
            gram=np.zeros((d, d)),
            above=np.zeros((self.levels + 1, entries)),
            resting=np.zeros((self.levels, entries)),
            scratch=np.zeros((d + 1, d)),
            numbers=np.array([self.alpha, self.scale, self.ridge]),
            counts=counts,
            words=stream_of(noise) if noise.size else np.zeros((1, 16), dtype=np.uint64),
        )

    def price(self) -> privacy.Price:
        """What one round's context and reward pay over the whole run, at most."""
        return privacy.PurePrice(self.levels * self.row_reach / self.scale)

    def guarantee(self, *, exact_noise: bool = False) -> Guarantee:
        """What the policy promises: an upper bound."""
        refuse_exact_noise(self.name, exact_noise)
        statement = privacy.guarantee(
            self.price(),
            privacy.rows(1.0, "replace"),
            self.delta,
            enforced=("reward-range", "feature-norm", "one-batch", "public-schedule"),
            conditions=("exact-noise",),
            nominal_epsilon=None if self.calibration == "tight" else self.epsilon,
            simulated=True,
        )
        return replace(statement, exact=False)
