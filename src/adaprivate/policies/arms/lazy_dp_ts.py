"""Lazy-DP-TS: Thompson sampling with beta posteriors on means released when an arm's samples have doubled.

Paper: Hu & Hegde 2022, Lazy-DP-TS.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: natural logarithm (the text says base 2, the curves do not); rewards inside (0, 1) are rounded at random.
    With exact noise sums of these bits get discrete Laplace noise, P(z) ~ e^(-epsilon |z|), in place of Laplace noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.arms.lazy import PureLazySettings, Rule


@dataclass(frozen=True, kw_only=True)
class LazyDPTSSettings(PureLazySettings):
    """A beta sample around the released mean raised by bonus log t / (epsilon n), newest buffer of 1, 2, 4 ... only."""

    name: ClassVar[str] = "lazy-dp-ts"
    rule: ClassVar[Rule] = Rule.LAZY_TS
    bits: ClassVar[bool] = True
    bonus: float = 3.0


EXAMPLES = (LazyDPTSSettings(dimension=4, rounds=60),)
