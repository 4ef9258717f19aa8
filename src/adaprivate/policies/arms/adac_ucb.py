"""AdaC-UCB: an upper confidence bound on the mean of each arm's last episode, with Gaussian noise.

Paper: Azize & Basu, AdaC-UCB (Azize's thesis, Chapter 5).
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: nothing; rho comes from (epsilon, delta) by Eq. 2.8 of AdaPrivate-TS, or from the exact Gaussian curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.mechanisms.plan import SimulationPlan
from adaprivate.policies.arms.lazy import LazySettings, Rule
from adaprivate.policies.core.tables import gaussian_tables

CALIBRATIONS = ("zcdp", "exact")


@dataclass(frozen=True, kw_only=True)
class AdaCUCBSettings(LazySettings):
    """The largest mean + sqrt((1 / 2n + 1 / (rho n^2)) bonus log t), held until the arm's pulls have doubled."""

    name: ClassVar[str] = "adac-ucb"
    rule: ClassVar[Rule] = Rule.ADAC_UCB
    holds: ClassVar[bool] = True
    epsilon: float = 1.0
    delta: float = 1e-5
    bonus: float = 3.1
    calibration: str = "zcdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("epsilon", self.epsilon, above=0)
        check.probability("delta", self.delta)
        check.real("bonus", self.bonus, above=0)
        check.one_of("calibration", self.calibration, CALIBRATIONS)

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of the noise on a sum."""
        find = privacy.zcdp_sigma if self.calibration == "zcdp" else privacy.gaussian_sigma
        return find(self.epsilon, self.delta)

    @property
    def index_numbers(self) -> tuple[float, float]:
        return self.bonus, 1 / (2 * self.sigma**2)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Gaussian noise for every release that may come."""
        return gaussian_tables(seeds, (self.rounds.bit_length() + 1, self.dimension), self.sigma)

    @cached_property
    def plan(self) -> SimulationPlan:
        """The exact epsilon of the noise; the one asked for beside it."""
        nominal = self.epsilon if self.calibration == "zcdp" else None
        paid = privacy.GaussianPrice(1 / self.sigma)
        return SimulationPlan(paid=paid, reach=privacy.arm_events(), delta=self.delta, nominal_epsilon=nominal)


EXAMPLES = (AdaCUCBSettings(dimension=4, rounds=60), AdaCUCBSettings(dimension=3, rounds=60, calibration="exact"))
