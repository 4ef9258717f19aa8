"""What the contextual policies of Mishra & Thakurta share: Laplace trees on every entry of A and b, and a fallback.

Theirs is one tree per entry; noise is independent from entry to entry, so one tree of vectors is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, kernel, normal, record
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import highest, most_hopeful
from adaprivate.policies.core.propensities import Propensities, certain, gaussian_best, propensities_of
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import stream_of, stream_tables
from adaprivate.policies.joint.trees import entries, grow_laplace
from adaprivate.purposes import Purpose

CALIBRATIONS = ("published", "tight")
FORMS = ("corrected", "as-printed")


class LaplaceState(NamedTuple):
    """Everything these policies remember."""

    root: Floats
    """S: S S' is the noisy A^-1 (as printed: A), or the identity where the noisy A is not positive definite."""
    gram: Floats
    """The true sum of x x': private."""
    total: Floats
    """The true b: private."""
    estimate: Floats
    """That of theta, from what was released."""
    parameter: Floats
    """The last sampled theta."""
    rotated: Floats
    """Scratch."""
    above: Floats
    """The noise of the tree: private. In row l that of all levels from l up, A's triangle then b; the last row is zero."""
    scratch: Floats
    """Room for a matrix."""
    scalars: Record
    """``alpha``, the exploration parameter; the ``scale`` of node noise; the ``ridge``; whether all is ``as_printed``;
    ``rounds`` to release; ``round``, ``releases`` and ``fallbacks``: rounds seen, releases, those without a positive
    definite A."""
    words: Streams
    """The stream of the trees' noise: private."""


class LaplaceOptimisticState(LaplaceState):
    """Chooses by an upper confidence bound."""


class LaplaceThompsonState(LaplaceState):
    """Chooses by a posterior sample."""


@kernel
def _publish(state: LaplaceState) -> None:
    """Find the estimate and S from the noisy A and b: lines 5 to 10 of Algorithms 3 and 4."""
    factor, root, noise, estimate, s = state.scratch, state.root, state.above, state.estimate, state.scalars[0]
    d = root.shape[0]
    positive = True
    place = 0
    for i in range(d):
        for j in range(i + 1):
            entry = state.gram[i, j] + noise[0, place]
            place += 1
            if j == i:
                entry += s.ridge
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
        for j in range(d):
            root[i, j] = 1.0 if i == j else 0.0
        estimate[i] = state.total[i] + noise[0, place + i]
    s.releases += 1
    if not positive:
        s.fallbacks += 1
        return
    for i in range(d):
        for j in range(i):
            estimate[i] -= factor[i, j] * estimate[j]
        estimate[i] /= factor[i, i]
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            estimate[i] -= factor[j, i] * estimate[j]
        estimate[i] /= factor[i, i]
    if s.as_printed:
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


@selects.of(LaplaceOptimisticState, offers=True)
def _optimistic(state: LaplaceState, candidates: Offered, rng: Streams) -> int:
    return most_hopeful(state.root, state.estimate, state.scalars[0].alpha, state.rotated, candidates)


propensities_of(LaplaceOptimisticState)(certain)


@selects.of(LaplaceThompsonState, offers=True)
def _thompson(state: LaplaceState, candidates: Offered, rng: Streams) -> int:
    root, z, s = state.root, state.rotated, state.scalars[0]
    d = root.shape[0]
    for j in range(d):
        z[j] = math.sqrt(s.alpha) * normal(rng, 0)
    for i in range(d):
        total = state.estimate[i]
        for j in range(d):
            total += root[i, j] * z[j]
        state.parameter[i] = total
    if s.as_printed:  # line 11 uses the estimate, not the sample
        return highest(candidates, state.estimate)
    return highest(candidates, state.parameter)


@propensities_of(LaplaceThompsonState)
def _thompson_propensities(state: LaplaceState, candidates: Floats, **how: Any) -> Propensities:
    s = state.scalars[0]
    width = 0.0 if s["as_printed"] else math.sqrt(s["alpha"])
    return gaussian_best(candidates @ state.estimate, width * (candidates @ state.root), **how)


@updates.of(LaplaceOptimisticState)
@updates.of(LaplaceThompsonState)
def _update(state: LaplaceState, features: Floats, reward: float, rng: Streams) -> None:
    s = state.scalars[0]
    for i in range(features.shape[0]):
        state.total[i] += reward * features[i]
        for j in range(i + 1):
            state.gram[i, j] += features[i] * features[j]
    s.round += 1
    if s.round <= s.rounds:
        if s.scale > 0.0:
            grow_laplace(state.above, s.round, s.scale, state.words)
        _publish(state)


@dataclass(frozen=True, kw_only=True)
class LaplaceTreeSettings(PolicySettings):
    """Settings of a policy that releases A and b every round with Laplace noise by a tree: pure joint privacy.

    calibration: "published", scale log2(T) / epsilon_0 with epsilon_0 = 2 epsilon / (d^2 + 3 d); or "tight", the scale that
    the l1 reach of a whole row asks for. form: "corrected", or "as-printed", with A where A^-1 is meant and, in the
    Thompson policy, the estimate where the sample is meant. alpha: the exploration parameter. delta: where the guarantee
    is read; the noise does not depend on it.
    """

    kind: ClassVar[type[LaplaceState]]
    first_release: ClassVar[int] = 1
    """The first round after which a release is made."""

    epsilon: float = 1.0
    delta: float = 0.0
    alpha: float = 1.0
    ridge: float = 1.0
    calibration: str = "published"
    form: str = "corrected"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        return stream_tables(seeds, Purpose.LAPLACE_TREE_NOISE)

    def released(self, state: LaplaceState) -> Floats:
        """The noisy b; of a reward, the noisy A tells nothing."""
        return state.total + state.above[0, -self.dimension :]

    def transcript(self, state: LaplaceState) -> Floats:
        """The noisy A and b."""
        rows, columns = np.tril_indices(self.dimension)
        return np.append(state.gram[rows, columns] + state.above[0, : len(rows)], self.released(state))

    def start(self, noise: Floats) -> LaplaceState:
        """The state before the first round, given the start of the noise stream."""
        d = self.dimension
        printed = self.form == "as-printed"
        return self.blank(
            self.kind,
            root=np.eye(d) * math.sqrt(self.ridge if printed else 1 / self.ridge),
            gram=np.zeros((d, d)),
            above=np.zeros((self.levels + 1, entries(d))),
            scratch=np.zeros((d + 1, d)),
            scalars=record(
                alpha=float(self.alpha),
                scale=self.scale,
                ridge=float(self.ridge),
                as_printed=printed,
                rounds=int(self.rounds),
                round=0,
                releases=0,
                fallbacks=0,
            ),
            words=stream_of(noise),
        )

    def price(self) -> privacy.Price:
        """What one round's context and reward pay over the whole run, at most."""
        return privacy.PurePrice(self.levels * self.row_reach / self.scale)

    @cached_property
    def plan(self) -> SimulationPlan:
        """An upper bound."""
        nominal = None if self.calibration == "tight" else self.epsilon
        reach = privacy.rows(1.0, "replace")
        return SimulationPlan(paid=self.price(), reach=reach, delta=self.delta, nominal_epsilon=nominal, bound=True)
