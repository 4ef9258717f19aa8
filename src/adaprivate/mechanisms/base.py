"""What every mechanism is: a release that prices itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

from adaprivate import privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.noise import Noise
from adaprivate.privacy import Guarantee, Participation, Price


class Mechanism(ABC):
    """Draws the noise that protects people, and knows what one participation costs.

    A subclass sets ``noise`` (who draws) and ``participation`` (whom it protects) and writes ``price`` and ``release``.
    """

    name: ClassVar[str]
    noise: Noise
    participation: Participation
    dimension: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what :meth:`release` takes."""
        return (self.dimension,)

    @property
    @abstractmethod
    def price(self) -> Price:
        """What one participating unit pays over the mechanism's whole life."""

    @abstractmethod
    def release(self, value: Array) -> Floats:
        """The noisy answer. What it returns may be published; ``value`` may not."""

    def guarantee(self, delta: float, enforced: Collection[str] = ()) -> Guarantee:
        """What the mechanism promises at this delta; ``enforced`` names conditions that the code around it upholds.

        With simulated noise, that the noise be exact and secret is printed as a condition which does not hold by itself.
        """
        own = ("exact-noise", "secret-noise") if self.noise.exact else ()
        return privacy.guarantee(
            self.price, self.participation, delta, enforced={*enforced, *own}, conditions=("secret-noise", "exact-noise")
        )
