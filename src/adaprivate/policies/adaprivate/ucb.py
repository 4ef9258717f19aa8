"""AdaPrivate-UCB: the same release as AdaPrivate-TS, choosing by an upper confidence bound.

Paper: Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.1 (the twin of Algorithm 1).
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
Deviates: nothing by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.adaprivate.batched import BatchedSettings
from adaprivate.policies.core.linear import LinearState, OptimisticState


@dataclass(frozen=True, kw_only=True)
class AdaPrivateUCBSettings(BatchedSettings):
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), b released in batches."""

    name: ClassVar[str] = "adaprivate-ucb"
    kind: ClassVar[type[LinearState]] = OptimisticState
    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("alpha", self.alpha, at_least=0)

    @property
    def exploration(self) -> float:
        return self.alpha


EXAMPLES = (
    AdaPrivateUCBSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateUCBSettings(dimension=3, rounds=50, batch_size=7, noise="sqrt"),
)
