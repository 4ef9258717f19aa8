"""Linear UCB, jointly private: Wishart noise on the Gram matrix and b by a tree over rounds, shifted back towards zero.

Paper: Shariff & Sheffet 2018, Algorithm 1 with Section 4.1 (Prop. 4, 9, Eq. 4).
Guarantee: (epsilon, delta) | joint, replace one round's context and reward, by docs/privacy.md "Jointly private UCB".
Deviates: every release adds up m nodes' noise, as Prop. 9 needs; a pivot made negative is raised to rho_min.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.joint.confidence import Bounds, WishartSettings


@dataclass(frozen=True, kw_only=True)
class JdpLinUCBWishartSettings(WishartSettings):
    """Linear UCB on a Gram matrix and b with Wishart noise, H shifted by Eq. 4."""

    name: ClassVar[str] = "jdp-linucb-wishart"

    def bounds(self) -> Bounds:
        return self.shifted()


EXAMPLES = (JdpLinUCBWishartSettings(dimension=3, rounds=50, calibration="tight"),)
