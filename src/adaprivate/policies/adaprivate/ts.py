"""AdaPrivate-TS: Thompson sampling whose reward statistic is released with noise after every batch.

Paper: Riyazat & Ukwatta, AdaPrivate-TS, Algorithm 1.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
Deviates: nothing by default (Eq. 2.8, ridge 1, v 1, batches of 300); options go beyond the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.adaprivate.batched import BatchedSettings
from adaprivate.policies.core.linear import LinearState, ThompsonState


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTSSettings(BatchedSettings):
    """Thompson sampling from N(A^-1 b, v^2 A^-1), b released in batches."""

    name: ClassVar[str] = "adaprivate-ts"
    kind: ClassVar[type[LinearState]] = ThompsonState
    v: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("v", self.v, at_least=0)

    @property
    def exploration(self) -> float:
        return self.v


EXAMPLES = (
    AdaPrivateTSSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateTSSettings(dimension=3, rounds=50, batch_size=7, noise="tree"),
)
