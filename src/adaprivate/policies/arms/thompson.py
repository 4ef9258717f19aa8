"""Thompson sampling with Gaussian priors, unchanged: it is private by its own sampling, at an epsilon that T sets.

Paper: Ou, Avella Medina & Cummings 2024, Algorithm 1.
Guarantee: sqrt(T / 2)-GDP, event, replace one reward, by docs/privacy.md "Finite arms" (Lemma 3 of the paper).
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from adaprivate import check, privacy
from adaprivate.mechanisms.plan import SamplingPlan
from adaprivate.policies.arms.sampling import SamplingSettings


@dataclass(frozen=True, kw_only=True)
class ThompsonSettings(SamplingSettings):
    """The arm with the largest sample of N(sum / (n + 1), 1 / (n + 1)); private, with an epsilon in the thousands."""

    name: ClassVar[str] = "thompson"
    delta: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check.probability("delta", self.delta)

    @property
    def pair(self) -> tuple[int, float]:
        return 0, 1.0

    @cached_property
    def plan(self) -> SamplingPlan:
        return self.sampling_plan(privacy.thompson_mu(self.rounds, self.dimension), self.delta)  # nothing can be asked for


EXAMPLES = (ThompsonSettings(dimension=4, rounds=60),)
