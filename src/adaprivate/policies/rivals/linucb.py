"""LinUCB: the linear upper confidence bound without privacy, the yardstick of the papers.

Paper: Li, Chu, Langford & Schapire 2010, Algorithm 1 (one shared parameter).
Guarantee: none.
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.core.linear import LinearState, OnlineOptimisticState
from adaprivate.policies.rivals.online import OnlineSettings


@dataclass(frozen=True, kw_only=True)
class LinUCBSettings(OnlineSettings):
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), learning every reward at once."""

    name: ClassVar[str] = "linucb"
    kind: ClassVar[type[LinearState]] = OnlineOptimisticState
    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("alpha", self.alpha, at_least=0)

    @property
    def exploration(self) -> float:
        return self.alpha


EXAMPLES = (LinUCBSettings(dimension=4, rounds=60),)
