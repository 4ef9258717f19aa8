"""noise-aware-ts: Thompson sampling from the posterior given all releases, its noise fading.

Paper: ours; docs/noise-aware.md.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Channels".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check
from adaprivate.policies.noise_aware.settings import NoiseAwareSettings
from adaprivate.policies.noise_aware.state import THOMPSON, Exploration


@dataclass(frozen=True, kw_only=True)
class NoiseAwareTSSettings(NoiseAwareSettings):
    """Samples theta from the posterior given all releases, its spread scaled by v (T/t)^fading.

    v, fading: by default 0.12 and 0.4, at most 1/2 in all; 1 and 0 where the same candidates come again and again.
    """

    name: ClassVar[str] = "noise-aware-ts"
    v: float | None = None
    fading: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("v", "fading"):
            if getattr(self, name) is not None:
                check.real(name, getattr(self, name), at_least=0)

    @property
    def exploration(self) -> Exploration:
        v, fading = (0.12, 0.4) if self.choice is None or self.choice.changing else (1.0, 0.0)
        return Exploration(THOMPSON, v if self.v is None else self.v, fading if self.fading is None else self.fading)


EXAMPLES = (
    NoiseAwareTSSettings(dimension=4, rounds=60),
    NoiseAwareTSSettings(dimension=3, rounds=50, horizon=20, batch_size=5, memory=30.0),
    NoiseAwareTSSettings(dimension=3, rounds=50, channel="items"),
)
