"""What a law of noise is."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import ClassVar

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.noise import Noise, Simulated
from adaprivate.privacy import Price


class Law(ABC):
    """How noise is distributed, and what it costs whoever it covers."""

    name: ClassVar[str]


class AdditiveLaw(Law):
    """Noise added to sums, of a scale that is a multiple of what one protected unit can move them by."""

    @abstractmethod
    def add(self, sums: Array, scale: float | Floats, source: Noise) -> Floats:
        """The sums with independent noise of this scale (one for all, or one per entry)."""

    @abstractmethod
    def price(self, noise_multiplier: float, slack: float = 0.0, attained: bool = True) -> Price:
        """What a unit pays whose reach is 1 / noise_multiplier of the scale; ``slack`` is that of exact draws."""

    @abstractmethod
    def slack(self, scale: float, draws: int, source: Noise) -> float:
        """Total variation distance of so many draws from ideal ones."""


class RewardLaw(Law):
    """Noise on every reward by itself, told at once: whoever keeps what was told never keeps a reward."""

    @abstractmethod
    def tell(self, reward: float, source: Noise) -> float:
        """What is told of this reward (0 to 1): its mean, over the noise, is the reward."""

    @abstractmethod
    def price(self, rewards: int = 1) -> Price:
        """What one reward pays, or so many together."""


class CountLaw(Law):
    """Noise on a whole-number sum that one protected unit moves by at most 1; the noisy sum is whole, too."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the noise."""

    @abstractmethod
    def add(self, total: int, source: Noise) -> int:
        """The sum with its noise."""

    @abstractmethod
    def price(self) -> Price:
        """What one unit pays."""


def rounded(reward: float, source: Noise) -> bool:
    """A reward (0 to 1) as a bit, 1 with its probability. No guarantee rests on this draw."""
    if source.exact:
        return secrets.randbits(53) < reward * 2.0**53
    check.kind("source", source, Simulated)
    return bool(source.generator.uniform() < reward)  # type: ignore[attr-defined]
