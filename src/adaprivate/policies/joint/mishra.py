"""The contextual policies of Mishra & Thakurta: Laplace noise on every entry of A and b, by trees over rounds.

Theirs is one tree per entry; noise is independent from entry to entry, so one tree of vectors is the same. On the noisy
A and b

    UCB        the largest  x' A^-1 b + alpha sqrt(x' A^-1 x)
    Thompson   the largest  x' theta,  theta ~ N(A^-1 b, alpha A^-1)

Where the noisy A is not positive definite, they fall back on A = I.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, option
from adaprivate.compiled import Record, Streams, kernel, normal, record
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import factorise, highest, inverse_root, most_hopeful, solve
from adaprivate.policies.core.propensities import Propensities, certain, gaussian_best, propensities_of
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import stream_of, stream_tables
from adaprivate.policies.joint.perturbed import entries, grow_laplace, perturb
from adaprivate.purposes import Purpose

CALIBRATIONS = ("published", "tight")
FORMS = ("corrected", "as-printed")


class LaplaceState(NamedTuple):
    """Everything these policies remember."""

    root: Floats  # S: S S' is the noisy A^-1 (as printed: A), or the identity where the noisy A is not positive definite.
    gram: Floats  # The true sum of x x': private.
    total: Floats  # The true b: private.
    estimate: Floats  # That of theta, from what was released.
    parameter: Floats  # The last sampled theta.
    rotated: Floats  # Scratch.
    above: Floats
    """The noise of the tree: private. In row l that of all levels from l up, A's triangle then b; the last row is zero."""
    scratch: Floats  # Room for a matrix.
    scalars: Record
    """``alpha``, the exploration parameter; the ``scale`` of node noise; the ``ridge``; whether all is ``as_printed``;
    ``rounds`` to release; ``round``, ``releases`` and ``fallbacks``: rounds seen, releases, those without a positive
    definite A."""
    words: Streams  # The stream of the trees' noise: private.


class LaplaceOptimisticState(LaplaceState):
    """Chooses by an upper confidence bound."""


class LaplaceThompsonState(LaplaceState):
    """Chooses by a posterior sample."""


@kernel
def _publish(state: LaplaceState) -> None:
    """Find the estimate and S from the noisy A and b: lines 5 to 10 of Algorithms 3 and 4."""
    factor, estimate, s = state.scratch, state.estimate, state.scalars[0]
    d = state.root.shape[0]
    perturb(state.gram, state.total, state.above[0], s.ridge, factor, estimate)
    s.releases += 1
    if factorise(factor, 1e-12, 1.0) > 0:  # not positive definite
        s.fallbacks += 1
        for i in range(d):
            for j in range(d):
                state.root[i, j] = 1.0 if i == j else 0.0
        return
    inverse_root(factor, state.root)
    solve(state.root, estimate, state.rotated, estimate)
    if s.as_printed:  # A where its inverse is meant
        for i in range(d):
            for j in range(d):
                state.root[i, j] = factor[i, j] if j < i else 0.0
            state.root[i, i] = 1.0 / factor[i, i]


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
    delta: float = option(0.0, check.real, at_least=0, below=1)
    alpha: float = option(1.0, check.real, at_least=0)
    ridge: float = 1.0
    calibration: str = option("published", check.one_of, options=CALIBRATIONS)
    form: str = option("corrected", check.one_of, options=FORMS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("rounds", self.rounds, at_least=2, at_most=2**52)
        check.budget(self.epsilon)
        check.regulariser(self.ridge)

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
            scratch=np.zeros((d, d)),
            scalars=record(
                alpha=float(self.alpha),
                ridge=float(self.ridge),
                scale=self.scale,
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


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaLinUCBSettings(LaplaceTreeSettings):
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), A and b released with Laplace tree noise.

    Paper: Mishra & Thakurta 2015, appendix Algorithm 3.
    Guarantee: (epsilon, 0) | joint, replace one round's context and reward, by docs/privacy.md "Laplace trees on A and b".
    Deviates: the bonus uses A^-1 where A is printed (form="as-printed" keeps A).
    """

    name: ClassVar[str] = "mishra-thakurta-linucb"
    kind: ClassVar[type[LaplaceState]] = LaplaceOptimisticState


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaLinTSSettings(LaplaceTreeSettings):
    """Thompson sampling from N(A^-1 b, alpha A^-1), A and b released with Laplace tree noise.

    Paper: Mishra & Thakurta 2015, appendix Algorithm 4.
    Guarantee: (epsilon, 0) | joint, replace one round's context and reward, by docs/privacy.md "Laplace trees on A and b".
    Deviates: samples with covariance alpha A^-1 where alpha A is printed, and uses the sample (form="as-printed" does
        neither).
    """

    name: ClassVar[str] = "mishra-thakurta-lints"
    kind: ClassVar[type[LaplaceState]] = LaplaceThompsonState


EXAMPLES = (
    MishraThakurtaLinUCBSettings(dimension=4, rounds=60),
    MishraThakurtaLinUCBSettings(dimension=3, rounds=50, epsilon=50.0, calibration="tight", form="as-printed"),
    MishraThakurtaLinTSSettings(dimension=4, rounds=60),
    MishraThakurtaLinTSSettings(dimension=3, rounds=50, epsilon=50.0, calibration="tight", form="as-printed"),
)
