"""AdaC-OFUL: optimism with rare, noisy updates, its confidence width enlarged for the privacy noise.

Paper: Azize & Basu, concentrated DP in bandits (Azize's thesis, ch. 5), AdaC-OFUL; the private rarely switching OFUL.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Releases that choose their moment".
Deviates: the algorithm is exact; rewards in [0, 1] need noise for a range of 1, not 2, and the least eigenvalue of the
    design matrix is computed where the paper bounds it from below. bonus_rule="practical" replaces the theoretical width by
    alpha + kappa sigma_l sqrt(d / least eigenvalue), the form that other papers tune.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.rivals.switching import Bonus, SwitchingSettings

BONUSES = ("theory", "practical")


@dataclass(frozen=True, kw_only=True)
class AdaCOFULSettings(SwitchingSettings):
    """Rarely switching OFUL on noisy sums, width enlarged for the noise: bonus_rule "theory" (the paper's) or "practical".

    confidence: the paper's failure probability. parameter_norm: the public bound on |theta|.
    """

    name: ClassVar[str] = "adac-oful"
    ridge: float = 0.1
    bonus_rule: str = "theory"
    kappa: float = 0.3
    confidence: float = 1e-3
    parameter_norm: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("bonus_rule", self.bonus_rule, BONUSES)
        check.real("kappa", self.kappa, at_least=0)
        check.probability("confidence", self.confidence)
        check.real("parameter_norm", self.parameter_norm, at_least=0)

    @property
    def bonus(self) -> Bonus:
        d = self.dimension
        if self.bonus_rule == "practical":
            return Bonus(float(self.alpha), inflation=self.kappa * math.sqrt(d))
        rare = math.log(self.rounds / self.confidence)
        longest = math.sqrt(d + 2 * math.sqrt(d * rare) + 2 * rare)  # |N(0, I)| with probability 1 - confidence / T
        return Bonus(math.sqrt(self.ridge) * self.parameter_norm, 2 * math.log(1 / self.confidence), 1.0, longest)


EXAMPLES = (
    AdaCOFULSettings(dimension=4, rounds=60),
    AdaCOFULSettings(dimension=3, rounds=50, growth=3.0, bonus_rule="practical", noise="sqrt", centre=0.5),
)
