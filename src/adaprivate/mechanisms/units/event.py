"""One reward as the unit: it enters one batch, and moves its sum by at most 1."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.contributions import Contribution, Coordinates, EventCollector
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.units.base import Event, Unit
from adaprivate.privacy import Participation

if TYPE_CHECKING:
    from adaprivate.whole import WholeSum


class EventSum(EventCollector):
    """The sum over one batch of events, for event-level privacy."""

    def __init__(self, dimension: int, *, noise: Noise, centre: float = 0.0, shape: Coordinates | None = None) -> None:
        self._contribution = Contribution(dimension, noise, centre, shape)
        self.exact, self.coordinates = noise.exact, shape
        self._total = self._contribution.zero()

    @cached_property
    def _whole(self) -> WholeSum:
        """The sum where noise is exact; made when it is first asked for: accounting does without."""
        return self._contribution.sums()

    def add(self, features: object, reward: object) -> None:
        """Count one event."""
        if self.exact:
            self._whole.enter(self._contribution.entered(features), check.reward(reward))
        else:
            self._total = self._total + self._contribution(features, reward)

    def add_many(self, features: Floats, rewards: Floats) -> None:
        """Count these events (rows), as one by one; with exact noise alone."""
        check.expect(self.exact, "noise", "simulated", "to be exact")
        rows, values = self._contribution.entered_rows(features), np.asarray(rewards, dtype=np.float64)
        self._whole.enter_rows(rows, values.reshape(len(rows)))

    @property
    def direct(self) -> bool:
        """Whether features may enter as they are: with exact noise that is round or only scaled."""
        return self.exact and (self.coordinates is None or self._contribution.axes is not None)

    def enter(self, features: Floats, reward: float, way: int) -> None:
        """Count the event that is made of these features (contiguous) in this way, where they enter as they are."""
        self._whole.enter(features, reward, way)

    def count(self, event: Event) -> bool:
        self.add(event.features, event.reward)
        return True

    def copy(self) -> Self:
        twin = copy(self)
        twin._total, twin._contribution = self._total.copy(), copy(self._contribution)
        if self.exact:
            twin.__dict__["_whole"] = self._whole.copy()
        return twin

    def take(self) -> Array:
        """The batch's sum, ready for ``release``; the next batch starts empty."""
        if self.exact:
            return self._whole.take()
        total, self._total = self._total, self._contribution.zero()
        return total

    def state(self) -> Array:
        return self._whole.values() if self.exact else self._total.copy()

    def restore(self, state: Array) -> None:
        check.expect(np.shape(state) == self._total.shape, "state.shape", np.shape(state), f"== {self._total.shape}")
        if self.exact:
            self._whole.restore(state)
        else:
            self._total = np.array(state, dtype=self._total.dtype)

    @property
    def enforces(self) -> tuple[str, ...]:
        return self._contribution.enforces

    def reach(self, neighbours: str) -> Participation:
        return privacy.events()

    @property
    def clipped(self) -> int:
        """How many feature vectors were too long and were clipped."""
        return self._whole.clipped if self.exact else self._contribution.clipped


@dataclass(frozen=True)
class EventUnit(Unit):
    """The value of any one reward."""

    name: ClassVar[str] = "event"

    @property
    def participation(self) -> Participation:
        return privacy.events()

    def collector(self, dimension: int, *, noise: Noise, centre: float, shape: Coordinates | None) -> EventSum:
        return EventSum(dimension, noise=noise, centre=centre, shape=shape)


UNIT = EventUnit
