"""Sums of contributions whose bounds are enforced here, so that a guarantee may rest on them.

An event contributes ``(reward - centre) * features``. Features longer than 1 are clipped (and counted), rewards outside
[0, 1] are refused. For exact noise everything is integer arithmetic on the grid of :mod:`adaprivate.mechanisms.noise`:
features are truncated towards zero to multiples of 2^-20, rewards to multiples of 2^-30, and products towards zero again.
The bounds survive each truncation exactly (docs/privacy.md, "Exact noise").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Protocol, Self

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.noise import EVENT_BITS, Noise
from adaprivate.privacy import Participation, UserLedger, users

_REWARD_BITS = 30


class Coordinates(Protocol):
    """A public change of coordinates under which every playable feature vector has norm at most 1."""

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""

    def whiten(self, features: Floats) -> Floats:
        """The features in the coordinates where the noise is round."""


class Collector(ABC):
    """A sum whose bounds are enforced as it grows; a mechanism checks that they are the ones its price rests on."""

    exact: bool
    coordinates: object = None

    @property
    @abstractmethod
    def enforces(self) -> tuple[str, ...]:
        """The conditions of a guarantee that this sum upholds."""

    @abstractmethod
    def reach(self, neighbours: str) -> Participation:
        """How one protected unit can touch what is taken from here."""

    @abstractmethod
    def take(self) -> Array:
        """The sum, ready for ``release``; the next one starts empty."""


class EventCollector(Collector):
    """A collector that a book can keep: it takes events, and can be copied and stored."""

    @abstractmethod
    def count(self, event: Any) -> bool:
        """Take in one event (:class:`adaprivate.mechanisms.units.Event`); False if the bounds let nothing of it in."""

    @abstractmethod
    def copy(self) -> Self:
        """One with the same contents that shares nothing with this one."""

    @abstractmethod
    def state(self) -> Any:
        """Everything that was collected, in plain values and arrays: private."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Continue from an earlier :meth:`state`."""


class Contribution:
    """What one event adds to a sum, its bounds enforced; in whole numbers of the grid for exact noise."""

    def __init__(self, dimension: int, noise: Noise, centre: float, shape: Coordinates | None) -> None:
        self.dimension = check.whole("dimension", dimension, at_least=1)
        check.kind("noise", noise, Noise)
        self.exact = noise.exact
        self.shape = shape
        if shape is not None:
            check.expect(shape.dimension == dimension, "shape.dimension", shape.dimension, f"== {dimension}")
        self.centre = check.real("centre", centre, at_least=0, at_most=1)
        self._grid_centre = round(self.centre * 2**_REWARD_BITS)
        self.clipped = 0

    @property
    def enforces(self) -> tuple[str, ...]:
        """The conditions that hold of every contribution."""
        return ("reward-range", "feature-norm", *(("catalogue",) if self.shape is not None else ()))

    def zero(self) -> Array:
        """The empty sum."""
        return np.full(self.dimension, 0, dtype=object) if self.exact else np.zeros(self.dimension)

    def __call__(self, features: object, reward: object) -> Array:
        x = check.floats("features", features, (self.dimension,))
        value = check.reward(reward)
        if self.shape is not None:
            x = self.shape.whiten(x)
        norm = float(np.linalg.norm(x))
        if norm > 1:
            self.clipped += norm > 1 + 1e-9  # rounding of a unit vector is not worth a report
            x = x / norm
        if not self.exact:
            return (value - self.centre) * x
        integers = [int(entry) for entry in np.trunc(x * 2.0**EVENT_BITS)]
        while sum(entry * entry for entry in integers) > 4**EVENT_BITS:
            integers = [entry - (entry > 0) + (entry < 0) for entry in integers]
        weight = math.floor(value * 2**_REWARD_BITS) - self._grid_centre
        return np.array([towards_zero(weight * entry, 2**_REWARD_BITS) for entry in integers], dtype=object)


def towards_zero(numerator: int, denominator: int) -> int:
    """The quotient, its fraction dropped."""
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)


class UserSum(EventCollector):
    """The sum over one batch of per-user contributions, each clipped to norm ``clip``, for user-level privacy.

    A user enters at most ``batches`` batches, ``separation`` apart; further events are dropped.
    """

    def __init__(
        self,
        dimension: int,
        *,
        noise: Noise,
        clip: float,
        batches: int,
        separation: int = 1,
        centre: float = 0.0,
        shape: Coordinates | None = None,
    ) -> None:
        self._contribution = Contribution(dimension, noise, centre, shape)
        self.exact, self.coordinates = noise.exact, shape
        self.clip = check.real("clip", clip, above=2.0**-EVENT_BITS)
        self.ledger = UserLedger(batches, separation)
        self.batch = 0
        self.dropped = 0
        self._users: dict[str, Array] = {}

    def add(self, user: str, features: object, reward: object) -> bool:
        """Count one event of this user; False when the user's batches are used up and the event was dropped."""
        contribution = self._contribution(features, reward)
        if not self.ledger.admit(user, self.batch):
            self.dropped += 1
            return False
        self._users[user] = self._users.get(user, self._contribution.zero()) + contribution
        return True

    def count(self, event: Any) -> bool:
        if event.user is None:
            raise check.InputError("Expected user to be given with every event: this plan protects people.")
        return self.add(event.user, event.features, event.reward)

    def copy(self) -> Self:
        twin = copy(self)
        twin._contribution, twin.ledger = copy(self._contribution), UserLedger(self.ledger.batches, self.ledger.separation)
        twin.restore(self.state())
        return twin

    def take(self) -> Array:
        """The batch's sum of clipped contributions, ready for ``release``; the next batch starts empty."""
        total = self._contribution.zero()
        for vector in self._users.values():
            total = total + self._clip(vector)
        self._users = {}
        self.batch += 1
        return total

    def _clip(self, vector: Array) -> Array:
        if not self._contribution.exact:
            norm = float(np.linalg.norm(vector))
            return vector if norm <= self.clip else vector * (self.clip / norm)
        bound = math.floor(self.clip * 2**EVENT_BITS)
        square = sum(entry * entry for entry in vector)
        if square <= bound * bound:
            return vector
        length = math.isqrt(square) + 1
        return np.array([towards_zero(entry * bound, length) for entry in vector], dtype=object)

    @property
    def clipped(self) -> int:
        """How many feature vectors were too long and were clipped."""
        return self._contribution.clipped

    @property
    def enforces(self) -> tuple[str, ...]:
        return (*self._contribution.enforces, "user-clip", "user-batches")

    def reach(self, neighbours: str) -> Participation:
        return users(self.clip, self.ledger.batches, neighbours, self.ledger.separation)

    def state(self) -> dict[str, object]:
        waiting = {user: [str(v) if self.exact else float(v) for v in vector] for user, vector in self._users.items()}
        return {"batch": self.batch, "dropped": self.dropped, "ledger": self.ledger.state(), "users": waiting}

    def restore(self, state: dict[str, Any]) -> None:
        check.expect(
            isinstance(state, dict) and "ledger" in state, "state", type(state).__name__, "to be what state() gave"
        )
        self.ledger.restore(state["ledger"])
        self.batch, self.dropped = int(state["batch"]), int(state["dropped"])
        kind, convert = (object, int) if self.exact else (np.float64, float)
        self._users = {user: np.array([convert(v) for v in vector], dtype=kind) for user, vector in state["users"].items()}
