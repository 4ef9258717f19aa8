"""What linear policies share that release an estimate, or b, at moments of their own and choose by it until the next.

The design matrix A = ridge I + sum x x' is public and kept up to date every round, as a root S with S S' = A^-1.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, option
from adaprivate.compiled import kernel, routine
from adaprivate.mechanisms.plan import Plan, SimulationPlan
from adaprivate.policies.core.linear import widen
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.privacy import Participation

CALIBRATIONS = ("zcdp", "exact")


@kernel
def observe(root: Floats, total: Floats, phi: Floats, features: Floats, weight: float) -> float:
    """Count one event: x x' into A, weight x into the private sum; returns sqrt(det A before / det A after)."""
    for j in range(features.shape[0]):
        total[j] += weight * features[j]
    return 1.0 / math.sqrt(widen(root, phi, features))


@routine
def smallest_eigenvalue(root: Floats) -> float:
    """That of A = (S S')^-1."""
    d = root.shape[0]
    square = np.zeros((d, d))
    for m in range(d):
        for i in range(d):
            for j in range(d):
                square[i, j] += root[m, i] * root[m, j]
    return 1.0 / float(np.linalg.eigvalsh(square)[d - 1])


def event_conditions(*, own_schedule: bool = False, one_release: bool = True) -> Participation:
    """One replaced reward, when releases may come at moments that earlier releases decide, or hold it several times."""
    base = privacy.events()
    names = [name for name in base.conditions if one_release or name != "one-batch"]
    if own_schedule:
        names = ["released-schedule" if name == "public-schedule" else name for name in names]
    return dataclasses.replace(base, conditions=tuple(names))


@dataclass(frozen=True, kw_only=True)
class FrozenReleaseSettings(PolicySettings):
    """Settings that these policies share.

    calibration: "zcdp" is the papers' Eq. 2.8 (sound, loose), "exact" the least noise for (epsilon, delta).
    alpha: the width of the bonus. centre: a public constant taken off every reward.
    """

    statistics: ClassVar[str] = "b"

    epsilon: float = 1.0
    delta: float = option(1e-5, check.probability)
    ridge: float = 1.0
    alpha: float = option(1.0, check.real, at_least=0)
    centre: float = option(0.0, check.real, at_least=0, at_most=1)
    calibration: str = "zcdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.budget(self.epsilon)
        check.regulariser(self.ridge)
        check.one_of("calibration", self.calibration, self.calibrations())

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        """The calibrations this policy offers."""
        return CALIBRATIONS

    @property
    def unsound(self) -> bool:
        """Whether these settings spend more than the epsilon they are given, as published; the guarantee says how much."""
        return False

    @property
    def first_release(self) -> int:
        """The first round after which something may be released."""
        return 1

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one reward can move, were it released once."""
        if self.calibration == "exact":
            return privacy.gaussian_sigma(self.epsilon, self.delta)
        return privacy.zcdp_sigma(self.epsilon, self.delta)

    def price(self) -> privacy.Price:
        """What one reward pays over the whole run."""
        return privacy.GaussianPrice(1 / self.noise_multiplier)

    @property
    def participation(self) -> Participation:
        """Whom the noise protects, and what that rests on."""
        return event_conditions(own_schedule=True)

    @property
    def stated_epsilon(self) -> float | None:
        """What a published calibration aims at; None where that is what is spent."""
        return None if self.calibration == "exact" and not self.unsound else self.epsilon

    @cached_property
    def plan(self) -> Plan:
        nominal = self.stated_epsilon
        return SimulationPlan(paid=self.price(), reach=self.participation, delta=self.delta, nominal_epsilon=nominal)

    def released(self, state: Any) -> Floats:
        """The statistic, or where none is kept the estimate."""
        seen: Floats = state.statistic if hasattr(state, "statistic") else state.parameter
        return seen

    def first_root(self) -> Floats:
        """S before the first round."""
        return np.eye(self.dimension) / math.sqrt(self.ridge)
