"""AdaP-UCB: an upper confidence bound on the mean of each arm's last episode, episodes of doubling length.

Paper: Azize & Basu 2022, AdaP-UCB.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: with exact noise rewards are rounded to bits at random, and sums get discrete Laplace noise, not Laplace noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.arms.lazy import PureLazySettings, Rule


@dataclass(frozen=True, kw_only=True)
class AdaPUCBSettings(PureLazySettings):
    """The largest mean + sqrt(bonus log t / 2n) + bonus log t / (epsilon n), held until the arm's pulls have doubled."""

    name: ClassVar[str] = "adap-ucb"
    rule: ClassVar[Rule] = Rule.ADAP_UCB
    holds: ClassVar[bool] = True
    bonus: float = 3.1


EXAMPLES = (AdaPUCBSettings(dimension=4, rounds=60),)
