"""noise-aware-ucb: an upper bound of the posterior given all releases, foreseeing what the batch under way will tell.

Paper: ours; docs/noise-aware.md.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Channels".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.noise_aware.settings import NoiseAwareSettings
from adaprivate.policies.noise_aware.state import OPTIMISTIC, Exploration


@dataclass(frozen=True, kw_only=True)
class NoiseAwareUCBSettings(NoiseAwareSettings):
    """The largest posterior mean plus alpha posterior standard deviations, by default more and more of them."""

    name: ClassVar[str] = "noise-aware-ucb"
    alpha: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha is not None:
            check.real("alpha", self.alpha, at_least=0)

    @property
    def exploration(self) -> Exploration:
        return super().exploration if self.alpha is None else Exploration(OPTIMISTIC, self.alpha)


EXAMPLES = (
    NoiseAwareUCBSettings(dimension=4, rounds=60, channel="gaussian", noise="sqrt"),
    NoiseAwareUCBSettings(dimension=2, rounds=40, channel="gaussian", catalogue=((0.9, 0.1), (-0.5, 0.2), (0.3, -0.1))),
    NoiseAwareUCBSettings(dimension=3, rounds=40, channel="flip", alpha=1.0),
)
