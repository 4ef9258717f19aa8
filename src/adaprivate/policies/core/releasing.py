"""What every policy offers that releases batches, so that one object can run it with exact noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.mechanisms import EventSum, Mechanism, Noise
from adaprivate.policies.core.linear import Integers


def refuse_exact_noise(name: str, exact_noise: bool) -> None:
    """Raise if exact noise is asked for: what a policy says that draws its noise in floating point only."""
    check.expect(not exact_noise, "source", "Secure()", f"for a policy with exact noise, not {name}")


class ReleasingSettings(ABC):
    """Settings of a policy whose choices depend on rewards only through what its mechanism released."""

    dimension: int
    centre: float

    @property
    @abstractmethod
    def ends(self) -> Integers:
        """The round after which each batch is released: a function of the round index alone. The rest is not released."""

    @property
    def exact_noise_refusal(self) -> tuple[str, object, str] | None:
        """The argument, its value and the condition it breaks if the policy cannot run with exact noise; else None."""
        return None

    @abstractmethod
    def mechanism_for(self, batch: int, source: Noise) -> Mechanism | None:
        """The mechanism that takes over with this batch; None where the last one goes on."""

    @abstractmethod
    def collector(self, source: Noise) -> EventSum:
        """The sum of a batch, bounds enforced."""

    def event(self, features: Floats) -> Floats:
        """What the collector takes of a round's features."""
        return features

    @abstractmethod
    def publish(self, state: Any, released: Floats) -> None:
        """Take in what the mechanism released, as the compiled update does with simulated noise."""

    @property
    def planned(self) -> int | None:
        """The round after which the policy must be extended to go on; None if it ends with its last batch."""
        return None

    def extended(self) -> Self:
        """The same policy for more rounds, its first rounds unchanged."""
        raise TypeError("a policy that plans ahead says how it goes on")

    def resumed(self, state: Any, noise: Floats) -> Any:
        """The state of a shorter plan, taken over."""
        raise TypeError("a policy that plans ahead says how its state grows")
