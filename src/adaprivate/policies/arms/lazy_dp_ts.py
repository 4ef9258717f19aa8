"""Lazy-DP-TS: Thompson sampling with beta posteriors on means released when an arm's samples have doubled.

Paper: Hu & Hegde 2022, Lazy-DP-TS.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: natural logarithm (the text says base 2, the curves do not); rewards inside (0, 1) are rounded at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.arms.base import PureArmPolicy
from adaprivate.policies.arms.lazy import LAZY_TS, LazyPolicy


@dataclass(frozen=True, kw_only=True)
class LazyDPTS(LazyPolicy, PureArmPolicy):
    """A beta sample around the released mean raised by bonus log t / (epsilon n), newest buffer of 1, 2, 4 ... only."""

    name: ClassVar[str] = "lazy-dp-ts"
    rule: ClassVar[int] = LAZY_TS
    holds: ClassVar[bool] = False
    bonus: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("bonus", self.bonus, above=0)

    @property
    def index_numbers(self) -> tuple[float, float]:
        return self.bonus, self.epsilon


EXAMPLES = (LazyDPTS(dimension=4, rounds=60),)
