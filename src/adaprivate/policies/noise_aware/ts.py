"""noise-aware-ts: Thompson sampling from the posterior given all releases, its noise fading; the default choice.

Paper: ours; docs/noise-aware.md.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Correlated releases".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.noise_aware.posterior import PosteriorState, PosteriorThompsonState
from adaprivate.policies.noise_aware.settings import NoiseAwareSettings


@dataclass(frozen=True, kw_only=True)
class NoiseAwareTSSettings(NoiseAwareSettings):
    """Samples theta from the posterior given all releases, its spread scaled by v (T/t)^fading, at most 1/2."""

    __doc__ = f"{__doc__}\n\n{NoiseAwareSettings.__doc__}"
    name: ClassVar[str] = "noise-aware-ts"
    kind: ClassVar[type[PosteriorState]] = PosteriorThompsonState
    v: float = 0.12
    fading: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("v", self.v, at_least=0)
        check.real("fading", self.fading, at_least=0)

    @property
    def exploration(self) -> float:
        return self.v

    @property
    def fade(self) -> float:
        return self.fading


EXAMPLES = (
    NoiseAwareTSSettings(dimension=4, rounds=60),
    NoiseAwareTSSettings(dimension=3, rounds=50, horizon=20, batch_size=5, memory=30.0),
)
