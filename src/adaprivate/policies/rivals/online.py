"""What the non-private linear policies share: they learn every reward as it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.policies.core.books import clear_rewards
from adaprivate.policies.core.dispatch import Split
from adaprivate.policies.core.linear import LinearState, linear_state
from adaprivate.policies.core.settings import PolicySettings


@dataclass(frozen=True, kw_only=True)
class OnlineSettings(PolicySettings):
    """Settings of a linear policy without privacy.

    ridge: the prior precision of theta. centre: a constant taken off every reward.
    """

    kind: ClassVar[type[LinearState]]
    private: ClassVar[bool] = False

    ridge: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("ridge", self.ridge, above=0)
        check.real("centre", self.centre, at_least=0, at_most=1)

    @property
    def exploration(self) -> float:
        """The exploration width."""
        raise TypeError("a policy sets its exploration width")

    def learner(self) -> LinearState:
        """The learner before the first round."""
        return linear_state(self.kind, dimension=self.dimension, ridge=self.ridge, width=self.exploration)

    def start(self, noise: Floats) -> Split:
        return Split(self.learner(), clear_rewards(self.centre))
