"""noise-aware: the private policy to use; channel, prior and exploration chosen by public rules.

Paper: ours; docs/noise-aware.md.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Channels".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.noise_aware.settings import NoiseAwareSettings
from adaprivate.policies.noise_aware.state import Exploration


@dataclass(frozen=True, kw_only=True)
class NoiseAwareDefaultSettings(NoiseAwareSettings):
    """The largest upper bound of the posterior given all releases, wider where the same candidates come again.

    Among the same candidates, while other decisions are open (a reward window, several threads, ``decide_many``), a sample
    of the posterior instead: an upper bound would choose the same for all of them.
    """

    name: ClassVar[str] = "noise-aware"

    @property
    def exploration(self) -> Exploration:
        changing = self.choice is not None and self.choice.changing
        return super().exploration._replace(sampled=0.0 if changing else 1.0)


EXAMPLES = (
    NoiseAwareDefaultSettings(dimension=4, rounds=60),
    NoiseAwareDefaultSettings(dimension=3, rounds=80, base_rate=0.2, missing=0.0, epsilon=5.0),
    NoiseAwareDefaultSettings(dimension=3, rounds=60, unit="user", batch_size=6),
)
