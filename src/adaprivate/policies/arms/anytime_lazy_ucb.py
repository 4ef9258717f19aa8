"""Anytime-Lazy-UCB: an upper confidence bound on means released when an arm's samples have doubled.

Paper: Hu, Huang & Mehta 2021, Anytime-Lazy-UCB.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: reconstructed from Hu & Hegde 2022; the constant 4 (natural logarithm) is the one whose regrets match their plots.
    With exact noise rewards are rounded to bits at random, and sums get discrete Laplace noise instead of Laplace noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.arms.lazy import PureLazySettings, Rule


@dataclass(frozen=True, kw_only=True)
class AnytimeLazyUCBSettings(PureLazySettings):
    """The largest mean + sqrt(bonus log t / n) + bonus log t / (epsilon n), means from the newest buffer of 1, 2, 4 ..."""

    name: ClassVar[str] = "anytime-lazy-ucb"
    rule: ClassVar[Rule] = Rule.LAZY_UCB
    bonus: float = 4.0


EXAMPLES = (AnytimeLazyUCBSettings(dimension=4, rounds=60),)
