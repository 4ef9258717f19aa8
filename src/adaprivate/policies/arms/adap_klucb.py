"""AdaP-KLUCB: a Kullback-Leibler upper confidence bound on the mean of each arm's last episode.

Paper: Azize & Basu 2022, AdaP-KLUCB.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.arms.base import PureArmPolicy
from adaprivate.policies.arms.lazy import ADAP_KLUCB, LazyPolicy


@dataclass(frozen=True, kw_only=True)
class AdaPKLUCB(LazyPolicy, PureArmPolicy):
    """The largest q with kl(mean + bonus log t / (epsilon n), q) <= bonus log t / n, held until pulls have doubled."""

    name: ClassVar[str] = "adap-klucb"
    rule: ClassVar[int] = ADAP_KLUCB
    holds: ClassVar[bool] = True
    bonus: float = 3.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("bonus", self.bonus, above=0)

    @property
    def index_numbers(self) -> tuple[float, float]:
        return self.bonus, self.epsilon


EXAMPLES = (AdaPKLUCB(dimension=4, rounds=60),)
