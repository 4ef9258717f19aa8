"""noise-aware-greedy: the largest posterior mean given all releases; best where the candidates vary enough by themselves.

Paper: ours; docs/noise-aware.md.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Channels".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.noise_aware.settings import NoiseAwareSettings
from adaprivate.policies.noise_aware.state import GREEDY, Exploration


@dataclass(frozen=True, kw_only=True)
class NoiseAwareGreedySettings(NoiseAwareSettings):
    """The largest posterior mean given all releases, no exploration."""

    name: ClassVar[str] = "noise-aware-greedy"

    @property
    def exploration(self) -> Exploration:
        return Exploration(GREEDY)


EXAMPLES = (
    NoiseAwareGreedySettings(dimension=4, rounds=60, intercept=0.0),
    NoiseAwareGreedySettings(dimension=3, rounds=50, channel="gaussian", noise="independent", batch_size=7, growth=1.0),
    NoiseAwareGreedySettings(dimension=3, rounds=60, unit="user", weights="clip", counted_batches=2, batch_size=6),
    NoiseAwareGreedySettings(dimension=3, rounds=60, unit="user", weights="clip-shares", batch_size=6),
)
