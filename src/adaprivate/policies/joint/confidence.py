"""What the policies of Shariff & Sheffet share: settings, bounds on their noise, calibration, guarantee."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, Integers
from adaprivate.compiled import record
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import stream_of, stream_tables
from adaprivate.policies.joint.perturbed import JointState, Law, begin
from adaprivate.policies.joint.trees import entries
from adaprivate.privacy import Participation, Price
from adaprivate.privacy.price import LOSS_GRID
from adaprivate.privacy.wishart import least_degrees
from adaprivate.purposes import Purpose

CALIBRATIONS = ("published", "tight")
ROW_SQUARE = 2.0
"""L~^2: a row (x, y) has |x| <= 1 and |y| <= 1."""


class Bounds(NamedTuple):
    """What holds for H and h at any one round with probability 1 - alpha / (2 n) (Def. 3), and the shift it rests on."""

    rho_min: float
    rho_max: float
    gamma: float
    shift: float


@dataclass(frozen=True, kw_only=True)
class ConfidenceSettings(PolicySettings):
    """Settings of linear UCB with the confidence width of Shariff & Sheffet, Prop. 4.

    failure_probability: alpha, that a confidence set fails (None: 1 / rounds). subgaussian: sigma of the reward noise;
    parameter_bound: S, a bound on |theta|; both on the scale of y = 2 r - 1.
    """

    centre: ClassVar[float] = 0.5
    """A missing reward counts as y = 0."""
    law: ClassVar[Law] = Law.NONE

    failure_probability: float | None = None
    subgaussian: float = 1.0
    parameter_bound: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("rounds", self.rounds, at_most=2**52)
        if self.failure_probability is not None:
            check.probability("failure_probability", self.failure_probability)
        check.real("subgaussian", self.subgaussian, at_least=0)
        check.real("parameter_bound", self.parameter_bound, at_least=0)

    @property
    def alpha(self) -> float:
        """The probability that a confidence set fails."""
        return 1 / max(self.rounds, 2) if self.failure_probability is None else self.failure_probability

    def union(self, share: float) -> float:
        """log(share n / alpha)."""
        return math.log(share * self.rounds / self.alpha)

    @property
    def first_release(self) -> int:
        """The first round after which a release is made."""
        return 1

    def bounds(self) -> Bounds:
        """The accurate bounds on the noise."""
        raise TypeError("a policy bounds its noise")

    @property
    def levels(self) -> int:
        """How many nodes of the tree hold one round at most, when sums after 1 .. rounds are released."""
        return int(self.rounds).bit_length()

    @property
    def scale(self) -> float:
        """The scale of node noise."""
        return 0.0

    @property
    def degrees(self) -> int:
        """Degrees of freedom of node noise."""
        return 0

    @property
    def summands(self) -> int:
        """How many levels of the tree add noise to a release, some at rest."""
        return self.levels if self.law else 0

    @property
    def batch_ends(self) -> Integers:
        """The rounds after which batched releases are made; none if every round is released."""
        return np.zeros(0, dtype=np.int64)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The start of each seed's noise stream: node noise is drawn as rounds go by."""
        return stream_tables(seeds, Purpose.TREE_NOISE) if self.law else super().noise_tables(seeds)

    def released(self, state: JointState) -> Floats:
        """u + h; of a reward, G + H tells nothing."""
        return state.statistic

    def transcript(self, state: JointState) -> Floats:
        """V, of which W is a root of the inverse, and u + h."""
        whitener = np.tril(state.whitener)
        matrix = np.linalg.inv(whitener.T @ whitener)
        return np.append(matrix[np.tril_indices(self.dimension)], state.statistic)

    def start(self, noise: Floats) -> JointState:
        """The state before the first round, given the start of the noise stream, or the noise of batched releases."""
        d, width, ends, bounds = self.dimension, entries(self.dimension), self.batch_ends, self.bounds()
        batched = len(ends) > 0
        levels = 0 if batched else self.summands
        state = self.blank(
            JointState,
            whitener=np.zeros((d, d)),
            gram=np.zeros((d, d)),
            above=np.zeros((levels + 1, width)),
            resting=np.zeros((levels if self.law == Law.WISHART else 0, width)),
            noise=noise if batched else np.zeros((0, 0)),
            ends=ends,
            scratch=np.zeros((d + 1, d)),
            scalars=record(
                width=0.0,
                law=int(self.law),
                scale=self.scale,
                degrees=int(self.degrees),
                shift=float(bounds.shift),
                rho_min=float(bounds.rho_min),
                confidence=2 * math.log(2 / self.alpha),
                constant=self.parameter_bound * math.sqrt(bounds.rho_max) + bounds.gamma,
                subgaussian=float(self.subgaussian),
                rounds=int(self.rounds),
                round=0,
                batch=0,
                repaired=0,
            ),
            words=stream_of(noise[:0] if batched else noise),
        )
        begin(state)
        return state


ROWS: Participation = dataclasses.replace(privacy.rows(1.0, "replace"), change=math.sqrt(2) * ROW_SQUARE)
"""One row (x, y) replaced: (svec(x x'), sqrt(2) y x) moves by at most sqrt(2) L~^2, attained by x -> -x with |y| = 1."""


@dataclass(frozen=True, kw_only=True)
class JointSettings(ConfidenceSettings):
    """Settings of a policy that is jointly private: G and u are both released with noise, every round, by a tree.

    calibration: "published" (sound, loose), or "tight": the least noise for (epsilon, delta) with the published number of
    nodes, and sharper bounds on it. rho_min: a bound of one's own on the smallest eigenvalue of H, which sets its shift.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    calibration: str = "published"
    rho_min: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check.budget(self.epsilon)
        check.probability("delta", self.delta)
        check.one_of("calibration", self.calibration, CALIBRATIONS)
        if self.rho_min is not None:
            check.real("rho_min", self.rho_min, above=0)

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        """The calibrations this policy offers."""
        return CALIBRATIONS

    @property
    def tight(self) -> bool:
        """Whether noise and bounds are the sharper ones."""
        return self.calibration == "tight"

    @property
    def nodes(self) -> int:
        """m: the nodes that the published calibration counts for one round, 1 + ceil(log2 n)."""
        return 1 + (int(self.rounds) - 1).bit_length()

    def price(self) -> Price:
        """What one round's context and reward pay over the whole run."""
        raise TypeError("a private policy prices its noise")

    @cached_property
    def plan(self) -> SimulationPlan:
        nominal = None if self.tight else self.epsilon
        return SimulationPlan(paid=self.price(), reach=ROWS, delta=self.delta, nominal_epsilon=nominal)


@dataclass(frozen=True, kw_only=True)
class WishartSettings(JointSettings):
    """Node noise from a Wishart distribution; every release adds up that of m nodes, so that Prop. 9 holds each round."""

    law: ClassVar[Law] = Law.WISHART

    def __post_init__(self) -> None:
        super().__post_init__()
        grid = self.nodes * LOSS_GRID
        check.expect(self.epsilon >= grid, "epsilon", self.epsilon, f">= {grid:g}: smaller losses are not resolved")
        if self.tight:
            return
        most = self.degrees - self.dimension - 1
        need = least_degrees(self.dimension + 1, "replace") - self.dimension - 1
        priced = most > 500 or (most >= need and math.isfinite(self.price().epsilon(self.delta)))
        check.expect(priced, "epsilon", self.epsilon, "to need more noise: so few degrees of freedom give no guarantee")

    @cached_property
    def degrees(self) -> int:
        """k: degrees of freedom of a node's noise."""
        if self.tight:
            return privacy.wishart_degrees(self.epsilon, self.delta, self.dimension + 1, self.nodes, neighbours="replace")
        return privacy.published_wishart_degrees(self.epsilon, self.delta, self.dimension + 1, self.nodes)

    @property
    def scale(self) -> float:
        return ROW_SQUARE

    @property
    def summands(self) -> int:
        return self.nodes

    def price(self) -> Price:
        return privacy.wishart_price(self.degrees, self.dimension + 1, self.levels, neighbours="replace")

    def unshifted(self) -> Bounds:
        """Prop. 9 without shift; rho_min is 0 where the noise is too small for a bound."""
        size = math.sqrt(self.nodes * self.degrees)
        reach = math.sqrt(self.dimension) + math.sqrt(2 * self.union(8))
        low, high = ROW_SQUARE * max(size - reach, 0.0) ** 2, ROW_SQUARE * (size + reach) ** 2
        return Bounds(low, high, math.sqrt(ROW_SQUARE) * self._projection(), 0.0)

    def shifted(self) -> Bounds:
        """Prop. 9 with the shift of Eq. 4, or with the one that makes rho_min what was asked for."""
        low, high, gamma, _ = self.unshifted()
        least = high - low if self.rho_min is None else self.rho_min
        # |h| in the norm of (H - c I)^-1 over that of H^-1: at most sqrt(l / (l - c)), l an eigenvalue of H
        ratio = low / least if low >= least else high / (high - low + least)
        gamma *= math.sqrt(ratio)
        if self.rho_min is None and not self.tight:  # as printed
            gamma = math.sqrt(ROW_SQUARE * math.sqrt(self.nodes * self.degrees) * self._projection())
        return Bounds(least, high - low + least, gamma, least - low)

    def _projection(self) -> float:
        """A bound on the norm of d standard normal numbers."""
        return math.sqrt(self.dimension) + math.sqrt(2 * self.union(4 if self.tight else 2))
