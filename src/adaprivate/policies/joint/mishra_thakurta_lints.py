"""Contextual Thompson sampling by Mishra & Thakurta: Laplace noise on every entry of A and b, by trees over rounds.

Paper: Mishra & Thakurta 2015, appendix Algorithm 4.
Guarantee: (epsilon, 0) | joint, replace one round's context and reward, by docs/privacy.md "Laplace trees on A and b".
Deviates: samples with covariance alpha A^-1 where alpha A is printed, and uses the sample (form="as-printed" does neither).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.joint.laplace_trees import LaplaceState, LaplaceThompsonState, LaplaceTreeSettings


@dataclass(frozen=True, kw_only=True)
class MishraThakurtaLinTSSettings(LaplaceTreeSettings):
    """Thompson sampling from N(A^-1 b, alpha A^-1), A and b released with Laplace tree noise."""

    name: ClassVar[str] = "mishra-thakurta-lints"
    kind: ClassVar[type[LaplaceState]] = LaplaceThompsonState


EXAMPLES = (
    MishraThakurtaLinTSSettings(dimension=4, rounds=60),
    MishraThakurtaLinTSSettings(dimension=3, rounds=50, epsilon=50.0, calibration="tight", form="as-printed"),
)
