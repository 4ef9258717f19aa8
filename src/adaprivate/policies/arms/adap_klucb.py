"""AdaP-KLUCB: a Kullback-Leibler upper confidence bound on the mean of each arm's last episode.

Paper: Azize & Basu 2022, AdaP-KLUCB.
Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
Deviates: with exact noise rewards are rounded to bits at random, and sums get discrete Laplace noise, not Laplace noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.arms.lazy import PureLazySettings, Rule


@dataclass(frozen=True, kw_only=True)
class AdaPKLUCBSettings(PureLazySettings):
    """The largest q with kl(mean + bonus log t / (epsilon n), q) <= bonus log t / n, held until pulls have doubled."""

    name: ClassVar[str] = "adap-klucb"
    rule: ClassVar[Rule] = Rule.ADAP_KLUCB
    holds: ClassVar[bool] = True
    bonus: float = 3.1


EXAMPLES = (AdaPKLUCBSettings(dimension=4, rounds=60),)
