"""Blocks of arms: rewards of one arm wait in a sum that is released once, with Laplace noise, when its block is full.

In simulation that is the published mechanism: Laplace noise of scale 1 / epsilon on a sum of rewards. With exact noise
rewards are rounded to bits at random, and their whole-number sum gets discrete Laplace noise: the "items" channel of
:mod:`adaprivate.mechanisms.channels`, one block for each arm. Either way a reward is in one release and pays epsilon once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from adaprivate import check, privacy
from adaprivate.mechanisms import packing
from adaprivate.mechanisms.channels import ITEMS, ChannelBook, ChannelPlan
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.plan import Plan
from adaprivate.privacy import Participation, Price, PurePrice


@dataclass(frozen=True, kw_only=True)
class BlockPlan(Plan):
    """Every reward in one block of its arm, or in none; when a block is full, the learner says, from what is public.

    ``epsilon``: what a reward pays, with no delta.
    """

    routed: ClassVar[bool] = True
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check.real("epsilon", self.epsilon, above=0)
        check.expect(self.delta == 0, "delta", self.delta, "== 0: blocks cost epsilon alone")

    @property
    def participation(self) -> Participation:
        return privacy.arm_events()

    def price(self, *, exact_noise: bool = False) -> Price:
        return PurePrice(self.epsilon)

    @property
    def retention(self) -> str:
        return self.channels.retention

    def refuse_exact_noise(self, policy: str) -> None:
        DiscreteLaplace(self.epsilon)  # refuses what it cannot keep

    @property
    def size(self) -> int:
        """The length of a release."""
        return 1

    @cached_property
    def channels(self) -> ChannelPlan:
        """The same as a plan of channels: blocks alone."""
        return ChannelPlan(epsilon=self.epsilon, delta=0.0, channels=(ITEMS,))

    def book(self, source: Noise) -> ChannelBook:
        """An empty book with this source of noise."""
        return self.channels.book(source)

    def to_bytes(self) -> bytes:
        """The whole plan: public."""
        return packing.to_bytes({"kind": "blocks", "epsilon": self.epsilon, "nominal_epsilon": self.nominal_epsilon})


def restored_plan(stored: dict[str, Any]) -> BlockPlan:
    """The plan of these stored fields."""
    check.expect(stored.keys() == {"epsilon", "nominal_epsilon"}, "data", "something else", "to be a plan of blocks")
    return BlockPlan(**stored)
