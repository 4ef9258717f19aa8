"""Contextual UCB by Mishra & Thakurta: Laplace noise on every entry of A and b, by trees over rounds.

Paper: Mishra & Thakurta 2015, appendix Algorithm 3.
Guarantee: (epsilon, 0) | joint, replace one round's context and reward, by docs/privacy.md "Laplace trees on A and b".
Deviates: the bonus uses A^-1 where A is printed (form="as-printed" keeps A).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.joint.laplace_trees import LaplaceOptimisticState, LaplaceState, LaplaceTreeSettings


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaLinUCBSettings(LaplaceTreeSettings):
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), A and b released with Laplace tree noise."""

    name: ClassVar[str] = "mishra-thakurta-linucb"
    kind: ClassVar[type[LaplaceState]] = LaplaceOptimisticState


EXAMPLES = (
    MishraThakurtaLinUCBSettings(dimension=4, rounds=60),
    MishraThakurtaLinUCBSettings(dimension=3, rounds=50, epsilon=50.0, calibration="tight", form="as-printed"),
)
