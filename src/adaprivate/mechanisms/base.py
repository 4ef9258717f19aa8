"""What every mechanism is: a release that prices itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.contributions import Collector
from adaprivate.mechanisms.noise import Noise, Secure
from adaprivate.privacy import Guarantee, Participation, Price


class Mechanism(ABC):
    """Draws the noise that protects people, and knows what one participation costs.

    A subclass sets ``noise`` (who draws) and ``participation`` (whom it protects) and writes ``price`` and ``_release``.
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

    def release(self, value: Array | Collector) -> Floats:
        """The noisy answer. What it returns may be published; ``value`` may not.

        ``value`` is a collector (EventSum, UserSum, GramSum), which is checked against this mechanism and emptied only if
        the release goes ahead, or the plain sum: floats, or for exact noise whole numbers of 2^-20 (dtype object).
        """
        self._ready()
        if not isinstance(value, Collector):
            return self._release(value)
        self._match(value)
        return self._release(value.take())

    @abstractmethod
    def _release(self, value: Array) -> Floats:
        """Check the value, draw the noise, remember what was done, and return the answer."""

    def _ready(self) -> None:
        """Raise if nothing more may be released."""
        return

    coordinates: object = None
    """The change of coordinates that collectors must share; None for none."""

    def _match(self, collector: Collector) -> None:
        """Raise unless what the collector enforces is what this mechanism's price rests on."""
        source = "exact" if collector.exact else "simulated"
        check.expect(collector.exact == self.noise.exact, "collector's noise", source, "to be the mechanism's")
        check.expect(
            collector.coordinates is self.coordinates, "collector's shape", collector.coordinates, "the mechanism's"
        )
        reach = collector.reach(self.participation.neighbours)
        check.expect(
            self.participation.allows(reach),
            "collector's reach",
            reach.summary,
            f"to lie within the mechanism's participation: {self.participation.summary}",
        )

    def guarantee(self, delta: float, collector: Collector | None = None, *, conditions: Collection[str] = ()) -> Guarantee:
        """What the mechanism promises at this delta, with what ``collector`` enforces; it must fit the mechanism.

        ``conditions``: what it rests on besides, by names of ``privacy.CONDITIONS``.
        With simulated noise the statement says that it speaks of exact noise in its place.
        """
        secure = type(self.noise) is Secure  # a subclass may draw anything
        own = {"exact-noise", "secret-noise"} if secure else set()
        if collector is not None:
            check.kind("collector", collector, Collector)
            self._match(collector)
            own |= set(collector.enforces)
        return privacy.guarantee(
            self.price,
            self.participation,
            delta,
            enforced=own,
            conditions=("secret-noise", "exact-noise", *conditions),
            simulated=not secure,
        )
