"""Linear UCB, jointly private: symmetric Gaussian noise on the Gram matrix and on b, by a tree over rounds or in batches.

Paper: Shariff & Sheffet 2018, Algorithm 1 with Section 4.2 (Prop. 4, 11).
Guarantee: (epsilon, delta) | joint, replace one round's context and reward, by docs/privacy.md "Jointly private UCB".
Deviates: a pivot of V that noise made negative is raised to rho_min; "tight" and batched releases go beyond the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats, Integers
from adaprivate.mechanisms import PrefixSum
from adaprivate.mechanisms.noise import Noise, Simulated
from adaprivate.policies.core.tables import released_tables, source_of
from adaprivate.policies.joint.confidence import ROW_SQUARE, ROWS, Bounds, JointSettings
from adaprivate.policies.joint.perturbed import Law
from adaprivate.privacy import Price
from adaprivate.purposes import Purpose

RELEASES = ("tree", "batched")


@dataclass(frozen=True, kw_only=True)
class JdpLinUCBGaussianSettings(JointSettings):
    """Linear UCB on a Gram matrix and b with symmetric Gaussian noise, H shifted by 2 Upsilon.

    release: "tree", every round; or "batched", every ``batch_size`` rounds with noise shared as ``noise`` says.
    """

    name: ClassVar[str] = "jdp-linucb-gaussian"
    law: ClassVar[Law] = Law.GAUSSIAN
    release: str = "tree"
    batch_size: int = 300
    noise: str = "sqrt"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("release", self.release, RELEASES)
        check.whole("batch_size", self.batch_size, at_least=1)
        check.one_of("noise", self.noise, sorted(mechanisms.strategies()))
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


EXAMPLES = (
    JdpLinUCBGaussianSettings(dimension=4, rounds=60),
    JdpLinUCBGaussianSettings(dimension=3, rounds=50, calibration="tight", release="batched", batch_size=7),
)
