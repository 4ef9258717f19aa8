"""Thompson sampling with pre-pulls and a larger variance, calibrated to a budget.

Paper: Ou, Avella Medina & Cummings 2024, Algorithm 2.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: the paper searches (b, c) by hand; here the pair of least predicted regret on public means is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from adaprivate import check, privacy
from adaprivate.mechanisms.plan import SamplingPlan
from adaprivate.policies.arms.sampling import BudgetedSamplingSettings

CALIBRATIONS = ("published", "tight")


@dataclass(frozen=True, kw_only=True)
class ModifiedThompsonSettings(BudgetedSamplingSettings):
    """Every arm ``prepulls`` times, then the largest sample of N(sum / (n + 1), ``variance`` / (n + 1)).

    calibration: "published" is Lemma 4 (sound, loose), "tight" the same without what Lemma 4 gives away.
    """

    name: ClassVar[str] = "modified-thompson"
    calibration: str = "published"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("calibration", self.calibration, CALIBRATIONS)
        few = self.prepulls is not None or self.dimension <= privacy.MOST_ARMS_TO_CALIBRATE
        check.expect(few, "prepulls", self.prepulls, f"to be given beyond {privacy.MOST_ARMS_TO_CALIBRATE} arms")
        if self.prepulls is not None and self.variance is not None:
            least = self._variance(self.prepulls)
            check.expect(
                self.variance >= least * (1 - 1e-9), "variance", self.variance, f">= {least:.6g} for eta={self.budget:.6g}"
            )
        check.expect(self.variance is None or self.prepulls is not None, "prepulls", self.prepulls, "given with variance")

    def _variance(self, prepulls: int) -> float:
        published = self.calibration == "published"
        return privacy.thompson_variance(self.budget, self.rounds, self.dimension, prepulls, published=published)

    @cached_property
    def pair(self) -> tuple[int, float]:
        if self.prepulls is not None:
            return self.prepulls, self.variance if self.variance is not None else self._variance(self.prepulls)
        found = privacy.calibrate_thompson(
            rounds=self.rounds, arms=self.dimension, eta=self.budget, published=self.calibration == "published"
        )
        return found.best.prepulls, found.best.variance

    @cached_property
    def plan(self) -> SamplingPlan:
        """That of the true epsilon; the one asked for beside it."""
        prepulls, variance = self.pair
        mu = privacy.thompson_mu(self.rounds, self.dimension, prepulls=prepulls, variance=variance)
        nominal = self.asked_epsilon if self.calibration == "published" else None
        return self.sampling_plan(mu, self.delta, nominal)


EXAMPLES = (
    ModifiedThompsonSettings(dimension=3, rounds=60, epsilon=4.0, prepulls=5),
    ModifiedThompsonSettings(dimension=4, rounds=80, eta=2.0, delta=1e-6, calibration="tight"),
)
