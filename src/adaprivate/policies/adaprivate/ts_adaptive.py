"""AdaPrivate-TS-Adaptive: AdaPrivate-TS whose exploration shrinks from batch to batch.

Paper: Riyazat & Ukwatta, AdaPrivate-TS, Sec 3.3 (fixed) and 4.2 (tuned).
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
Deviates: the tuned width takes lambda_0 = 1 / dimension, that of features spread evenly over the sphere; the paper leaves
    it open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.adaprivate.ts import AdaPrivateTSSettings


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTSAdaptiveSettings(AdaPrivateTSSettings):
    """Width v_k = v0 gamma^(k-1); ``tuned`` sets v0 = 1 + sigma / (d sqrt(lambda_0))."""

    name: ClassVar[str] = "adaprivate-ts-adaptive"
    v: float = 1.5
    gamma: float = 0.95
    tuned: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("gamma", self.gamma, above=0, at_most=1)

    @property
    def exploration(self) -> float:
        sigma = self.noise_multiplier / self.inclusion
        return 1 + sigma / math.sqrt(self.dimension) if self.tuned else self.v

    @property
    def exploration_decay(self) -> float:
        return self.gamma


EXAMPLES = (
    AdaPrivateTSAdaptiveSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateTSAdaptiveSettings(dimension=4, rounds=60, batch_size=10, tuned=True),
)
