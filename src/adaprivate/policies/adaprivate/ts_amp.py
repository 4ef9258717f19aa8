"""AdaPrivate-TS-Amp: AdaPrivate-TS on a Poisson sample of the rewards of each batch.

Paper: Riyazat & Ukwatta, AdaPrivate-TS, Sec 3.2, with the decay of Sec 3.3 for the last row of Table 4.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Poisson sampling".
Deviates: the noise is exact for the sampled release; the published Eq. 3.6 understates the privacy loss and is reachable
    only as calibration="published-unsound", whose guarantee prints the epsilon it really gives.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from adaprivate import check, privacy
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.policies.adaprivate.ts_adaptive import AdaPrivateTSAdaptiveSettings


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTSAmpSettings(AdaPrivateTSAdaptiveSettings):
    """Each reward enters its batch with probability ``sampling_rate``; sums are divided by it. Does not pay: see docs."""

    name: ClassVar[str] = "adaprivate-ts-amp"
    v: float = 1.0
    gamma: float = 1.0
    sampling_rate: float = 0.5
    calibration: str = "exact"

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("exact", "published-unsound")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("sampling_rate", self.sampling_rate, above=self.delta, at_most=1)
        check.expect(self.noise == "independent", "noise", self.noise, "== independent with sampling")
        check.expect(self.statistics == "b", "statistics", self.statistics, "== b with sampling")

    @property
    def inclusion(self) -> float:
        return self.sampling_rate

    @cached_property
    def noise_multiplier(self) -> float:
        if self.calibration == "exact":
            return privacy.sampled_gaussian_sigma(self.epsilon, self.delta, self.sampling_rate)
        return privacy.published_sampled_gaussian_sigma(self.epsilon, self.delta, self.sampling_rate)

    @cached_property
    def plan(self) -> BatchPlan:
        # centred contributions do not reach the worst case
        return dataclasses.replace(super().plan, sampling_exact=self.centre in (0, 1))


EXAMPLES = (
    AdaPrivateTSAmpSettings(dimension=4, rounds=60, batch_size=10),
    AdaPrivateTSAmpSettings(dimension=3, rounds=50, batch_size=10, sampling_rate=1.0),
)
