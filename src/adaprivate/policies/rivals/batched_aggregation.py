"""Batched-Aggregation: batched LinUCB whose budget is divided between batches.

Paper: a central-model baseline of Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.8, Table 6.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "One event, one batch".
Deviates: reconstructed from that description. calibration="split-zcdp" (default) gives every batch rho / K, as described; a
    reward enters one batch, so that is far more noise than needed, and the guarantee prints the smaller epsilon that
    holds. With "zcdp" (rho for every batch) it is AdaPrivate-UCB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from adaprivate import privacy
from adaprivate.policies.adaprivate.ucb import AdaPrivateUCBSettings


@dataclass(frozen=True, kw_only=True)
class BatchedAggregationSettings(AdaPrivateUCBSettings):
    """LinUCB on batch sums with noise, each batch with its share of the budget ("split-zcdp") or all of it."""

    name: ClassVar[str] = "batched-aggregation"
    calibration: str = "split-zcdp"

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("split-zcdp", "zcdp", "exact")

    @cached_property
    def noise_multiplier(self) -> float:
        statistics = math.sqrt(len(self.statistics))
        if self.calibration == "exact":
            return statistics * privacy.gaussian_sigma(self.epsilon, self.delta)
        batches = len(self.ends) if self.calibration == "split-zcdp" else 1
        return statistics * math.sqrt(batches) * privacy.zcdp_sigma(self.epsilon, self.delta)


EXAMPLES = (
    BatchedAggregationSettings(dimension=4, rounds=60, batch_size=10),
    BatchedAggregationSettings(dimension=3, rounds=50, batch_size=7, calibration="zcdp"),
)
