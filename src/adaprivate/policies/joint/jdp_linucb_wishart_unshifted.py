"""Linear UCB, jointly private: Wishart noise on the Gram matrix and b by a tree over rounds, kept as it is.

Paper: Shariff & Sheffet 2018, Algorithm 1 with Section 4.1 (Prop. 4, 9), the WishartUnshifted variant of Section D.
Guarantee: (epsilon, delta) | joint, replace one round's context and reward, by docs/privacy.md "Jointly private UCB".
Deviates: every release adds up m nodes' noise, as Prop. 9 needs; "tight" goes beyond the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.joint.confidence import Bounds, WishartSettings


@dataclass(frozen=True, kw_only=True)
class JdpLinUCBWishartUnshiftedSettings(WishartSettings):
    """Linear UCB on a Gram matrix and b with Wishart noise, not shifted."""

    name: ClassVar[str] = "jdp-linucb-wishart-unshifted"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.expect(self.rho_min is None, "rho_min", self.rho_min, "to be None: nothing is shifted")
        check.expect(
            self.unshifted().rho_min > 0, "epsilon", self.epsilon, "to need more noise: Prop. 9 bounds none so small"
        )

    def bounds(self) -> Bounds:
        return self.unshifted()


EXAMPLES = (JdpLinUCBWishartUnshiftedSettings(dimension=3, rounds=50),)
