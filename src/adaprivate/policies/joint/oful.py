"""OFUL: linear UCB with a proved confidence width, without privacy; what the jdp-linucb policies are without noise.

Paper: Abbasi-Yadkori, Pal & Szepesvari 2011, Theorem 2; as NonPrivate in Shariff & Sheffet 2018, Section D.
Guarantee: none.
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.joint.confidence import Bounds, ConfidenceSettings


@dataclass(frozen=True, kw_only=True)
class OFULSettings(ConfidenceSettings):
    """The candidate with the largest x' V^-1 u + beta sqrt(x' V^-1 x), beta from the determinant of V; not private."""

    name: ClassVar[str] = "oful"
    private: ClassVar[bool] = False
    ridge: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("ridge", self.ridge, above=0)

    def bounds(self) -> Bounds:
        return Bounds(self.ridge, self.ridge, 0.0, self.ridge)


EXAMPLES = (OFULSettings(dimension=4, rounds=60),)
