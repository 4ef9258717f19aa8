"""AdaP-UCB: an upper confidence bound on the mean of each arm's last episode, episodes of doubling length.

Paper: Azize & Basu 2022, AdaP-UCB.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.arms.base import PureArmPolicy
from adaprivate.policies.arms.lazy import ADAP_UCB, LazyPolicy


@dataclass(frozen=True, kw_only=True)
class AdaPUCB(LazyPolicy, PureArmPolicy):
    """The largest mean + sqrt(bonus log t / 2n) + bonus log t / (epsilon n), held until the arm's pulls have doubled."""

    name: ClassVar[str] = "adap-ucb"
    rule: ClassVar[int] = ADAP_UCB
    holds: ClassVar[bool] = True
    bonus: float = 3.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("bonus", self.bonus, above=0)

    @property
    def index_numbers(self) -> tuple[float, float]:
        return self.bonus, self.epsilon


EXAMPLES = (AdaPUCB(dimension=4, rounds=60),)
