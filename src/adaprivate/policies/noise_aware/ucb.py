"""noise-aware-ucb: an upper bound of the posterior given all releases, foreseeing what the batch under way will tell.

Paper: ours; docs/noise-aware.md.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Correlated releases".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.noise_aware.posterior import PosteriorOptimisticState, PosteriorState
from adaprivate.policies.noise_aware.settings import NoiseAwareSettings


@dataclass(frozen=True, kw_only=True)
class NoiseAwareUCBSettings(NoiseAwareSettings):
    """The largest posterior mean plus alpha posterior standard deviations, which shrink as the batch is played."""

    __doc__ = f"{__doc__}\n\n{NoiseAwareSettings.__doc__}"
    name: ClassVar[str] = "noise-aware-ucb"
    kind: ClassVar[type[PosteriorState]] = PosteriorOptimisticState
    foresees: ClassVar[bool] = True
    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("alpha", self.alpha, at_least=0)

    @property
    def exploration(self) -> float:
        return self.alpha


EXAMPLES = (
    NoiseAwareUCBSettings(dimension=4, rounds=60, noise="sqrt"),
    NoiseAwareUCBSettings(dimension=2, rounds=40, catalogue=((0.9, 0.1), (-0.5, 0.2), (0.3, -0.1))),
)
