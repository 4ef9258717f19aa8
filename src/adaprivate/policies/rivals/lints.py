"""LinTS: linear Thompson sampling without privacy.

Paper: Agrawal & Goyal 2013, Algorithm 1.
Guarantee: none.
Deviates: the width v is a constant, as in the AdaPrivate-TS paper (v = 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.core.linear import LinearState, OnlineThompsonState
from adaprivate.policies.rivals.online import OnlineSettings


@dataclass(frozen=True, kw_only=True)
class LinTSSettings(OnlineSettings):
    """Thompson sampling from N(A^-1 b, v^2 A^-1), learning every reward at once."""

    name: ClassVar[str] = "lints"
    kind: ClassVar[type[LinearState]] = OnlineThompsonState
    v: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("v", self.v, at_least=0)

    @property
    def exploration(self) -> float:
        return self.v


EXAMPLES = (LinTSSettings(dimension=4, rounds=60),)
