"""The holdback: rounds that choose at random, so that what learning earns can be measured honestly.

A public coin says which rounds; where people are protected it is tossed once for each of them, so all rewards of a person
enter one book. A reward enters the policy's book or this one, never both: whoever is protected pays the larger of two
prices, and this one is pure epsilon, no larger than the policy's (docs/privacy.md, Theorem 8).
"""

from __future__ import annotations

from typing import Any

from adaprivate.mechanisms.channels import FLIP, ITEMS, ChannelPlan
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.plan import Plan, RewardPlan
from adaprivate.mechanisms.units.visits import UserVisitsUnit
from adaprivate.service.bandit import Bandit

LARGEST_EPSILON = 30.0
"""Flips and whole-number noise are made for no more."""


def holdback_plan(bandit: Bandit) -> Plan:
    """How the holdback's rewards are released: in whole-number sums; flipped, where the policy's are, or of people."""
    epsilon = min(bandit.settings.guarantee(exact_noise=True).epsilon, LARGEST_EPSILON)
    if bandit.needs_user:
        return RewardPlan(delta=0.0, law=RandomisedResponse(epsilon), unit=UserVisitsUnit(1))
    channels = (FLIP,) if tells(bandit.settings.plan) else (FLIP, ITEMS)
    return ChannelPlan(epsilon=epsilon, delta=0.0, channels=channels, local=bandit.spec.local)


def tells(plan: Any) -> bool:
    """Whether rewards under this plan are told one by one, with noise of their own."""
    return isinstance(plan, RewardPlan) or (isinstance(plan, ChannelPlan) and plan.channels == (FLIP,))


def route(plan: Any, last: bool) -> dict[str, Any]:
    """Where an event of the holdback goes; ``last``: whether it is the last of its batch."""
    if isinstance(plan, RewardPlan):
        return {}
    if plan.channels == (FLIP,):
        return {"channel": FLIP}
    return {"channel": ITEMS, "block": 0, "closes": last}
