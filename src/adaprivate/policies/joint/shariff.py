"""Linear UCB with changing perturbations by Shariff & Sheffet: settings, bounds on the noise, calibration and guarantee.

Every round releases V = G + H and u + h, G = sum x x' and u = sum (2 reward - 1) x; the largest x' V^-1 (u + h) + beta
sqrt(x' V^-1 x) is chosen, beta by Prop. 4. The policies differ in H and h: Gaussian noise, Wishart noise, or none
(OFUL).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats, Integers, option
from adaprivate.compiled import record
from adaprivate.mechanisms import PrefixSum
from adaprivate.mechanisms.noise import Noise, Simulated
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.policies.core.settings import PolicySettings, known_strategy
from adaprivate.policies.core.tables import released_tables, source_of, stream_of, stream_tables
from adaprivate.policies.joint.perturbed import JointState, Law, begin, entries
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
    subgaussian: float = option(1.0, check.real, at_least=0)
    parameter_bound: float = option(1.0, check.real, at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("rounds", self.rounds, at_most=2**52)
        if self.failure_probability is not None:
            check.probability("failure_probability", self.failure_probability)

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
        """V, of which S is a root of the inverse, and u + h."""
        matrix = np.linalg.inv(state.root @ state.root.T)
        return np.append(matrix[np.tril_indices(self.dimension)], state.statistic)

    def start(self, noise: Floats) -> JointState:
        """The state before the first round, given the start of the noise stream, or the noise of batched releases."""
        d, width, ends, bounds = self.dimension, entries(self.dimension), self.batch_ends, self.bounds()
        batched = len(ends) > 0
        levels = 0 if batched else self.summands
        state = self.blank(
            JointState,
            root=np.zeros((d, d)),
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
    delta: float = option(1e-5, check.probability)
    calibration: str = option("published", check.one_of, options=CALIBRATIONS)
    rho_min: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check.budget(self.epsilon)
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


RELEASES = ("tree", "batched")


@dataclass(frozen=True, kw_only=True)
class JdpLinUCBGaussianSettings(JointSettings):
    """Linear UCB on a Gram matrix and b with symmetric Gaussian noise, H shifted by 2 Upsilon.

    Paper: Shariff & Sheffet 2018, Algorithm 1 with Section 4.2 (Prop. 4, 11).
    Guarantee: (epsilon, delta) | joint, replace one round's context and reward, by docs/privacy.md "Jointly private UCB".
    Deviates: a pivot of V that noise made negative is raised to rho_min; "tight" and batched releases go beyond the paper.

    release: "tree", every round; or "batched", every ``batch_size`` rounds with noise shared as ``noise`` says.
    """

    name: ClassVar[str] = "jdp-linucb-gaussian"
    law: ClassVar[Law] = Law.GAUSSIAN
    release: str = option("tree", check.one_of, options=RELEASES)
    batch_size: int = option(300, check.whole, at_least=1)
    noise: str = option("sqrt", known_strategy)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batched:
            check.expect(self.batch_size <= self.rounds, "batch_size", self.batch_size, f"<= rounds={self.rounds}")

    @property
    def batched(self) -> bool:
        """Whether releases come in batches."""
        return self.release == "batched"

    @property
    def first_release(self) -> int:
        return self.batch_size if self.batched else 1

    @property
    def batch_ends(self) -> Integers:
        last = self.rounds if self.batched else 0
        return np.arange(self.batch_size, last + 1, self.batch_size, dtype=np.int64)

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one row can move."""
        if self.tight:
            return privacy.gaussian_sigma(self.epsilon, self.delta)
        return 4 * math.log(4 / self.delta) / self.epsilon

    @property
    def scale(self) -> float:
        """sigma_noise: the standard deviation of a node's noise in an entry of b, or off the diagonal."""
        return ROW_SQUARE * math.sqrt(self.nodes) * self.noise_multiplier

    def mechanism(self, noise: Noise, replicas: int = 1) -> PrefixSum:
        """The batched release of the lower triangle of G, then u (of several replicas side by side, for simulation)."""
        rows, columns = np.tril_indices(self.dimension)
        scales = np.concatenate([np.where(rows == columns, 1.0, math.sqrt(0.5)), np.full(self.dimension, math.sqrt(0.5))])
        return PrefixSum(
            mechanisms.strategy(self.noise, self.rounds // self.batch_size),
            dimension=len(scales) * replicas,
            noise_multiplier=self.noise_multiplier,
            noise=noise,
            participation=ROWS,
            scales=np.tile(scales, replicas),
        )

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        if not self.batched:
            return super().noise_tables(seeds)
        return released_tables(self.mechanism(source_of(seeds, Purpose.TREE_NOISE), len(seeds)), len(seeds))

    @cached_property
    def largest_std(self) -> float:
        """The largest standard deviation of a release's noise in an entry of b, or off the diagonal."""
        if not self.batched:
            return math.sqrt(self.nodes) * self.scale
        return float(self.mechanism(Simulated(0)).prefix_std().max()) * math.sqrt(0.5)

    def bounds(self) -> Bounds:
        """Prop. 11; "tight": the operator norm of symmetric Gaussian noise exceeds 2 sqrt(d) + s with odds 2 e^(-s^2/4)."""
        root = math.sqrt(self.dimension)
        if self.tight:
            norm = self.largest_std * (2 * root + 2 * math.sqrt(self.union(8)))
        else:
            norm = self.largest_std * math.sqrt(2) * (4 * root + 2 * self.union(2))  # Upsilon
        least = norm if self.rho_min is None else self.rho_min
        length = self.largest_std * (root + math.sqrt(2 * self.union(4 if self.tight else 2)))
        return Bounds(least, 2 * norm + least, length / math.sqrt(least), norm + least)

    def price(self) -> Price:
        if self.batched:
            exact = mechanisms.strategy(self.noise, self.rounds // self.batch_size).attained(1)
            return privacy.GaussianPrice(1 / self.noise_multiplier, exact=exact)
        return privacy.GaussianPrice(math.sqrt(self.levels / self.nodes) / self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class JdpLinUCBWishartSettings(WishartSettings):
    """Linear UCB on a Gram matrix and b with Wishart noise, H shifted by Eq. 4.

    Paper: Shariff & Sheffet 2018, Algorithm 1 with Section 4.1 (Prop. 4, 9, Eq. 4).
    Guarantee: (epsilon, delta) | joint, replace one round's context and reward, by docs/privacy.md "Jointly private UCB".
    Deviates: every release adds up m nodes' noise, as Prop. 9 needs; a pivot made negative is raised to rho_min.
    """

    name: ClassVar[str] = "jdp-linucb-wishart"

    def bounds(self) -> Bounds:
        return self.shifted()


@dataclass(frozen=True, kw_only=True)
class JdpLinUCBWishartUnshiftedSettings(WishartSettings):
    """Linear UCB on a Gram matrix and b with Wishart noise, not shifted.

    Paper: Shariff & Sheffet 2018, Algorithm 1 with Section 4.1 (Prop. 4, 9), the WishartUnshifted variant of Section D.
    Guarantee: (epsilon, delta) | joint, replace one round's context and reward, by docs/privacy.md "Jointly private UCB".
    Deviates: every release adds up m nodes' noise, as Prop. 9 needs; "tight" goes beyond the paper.
    """

    name: ClassVar[str] = "jdp-linucb-wishart-unshifted"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.expect(self.rho_min is None, "rho_min", self.rho_min, "to be None: nothing is shifted")
        check.expect(
            self.unshifted().rho_min > 0, "epsilon", self.epsilon, "to need more noise: Prop. 9 bounds none so small"
        )

    def bounds(self) -> Bounds:
        return self.unshifted()


@dataclass(frozen=True, kw_only=True)
class OFULSettings(ConfidenceSettings):
    """The candidate with the largest x' V^-1 u + beta sqrt(x' V^-1 x), beta from the determinant of V; not private.

    Paper: Abbasi-Yadkori, Pal & Szepesvari 2011, Theorem 2; as NonPrivate in Shariff & Sheffet 2018, Section D.
    Guarantee: none.
    Deviates: nothing.
    """

    name: ClassVar[str] = "oful"
    private: ClassVar[bool] = False
    ridge: float = option(1.0, check.real, above=0)

    def bounds(self) -> Bounds:
        return Bounds(self.ridge, self.ridge, 0.0, self.ridge)


EXAMPLES = (
    JdpLinUCBGaussianSettings(dimension=4, rounds=60),
    JdpLinUCBGaussianSettings(dimension=3, rounds=50, calibration="tight", release="batched", batch_size=7),
    JdpLinUCBWishartSettings(dimension=3, rounds=50, calibration="tight"),
    JdpLinUCBWishartUnshiftedSettings(dimension=3, rounds=50),
    OFULSettings(dimension=4, rounds=60),
)
