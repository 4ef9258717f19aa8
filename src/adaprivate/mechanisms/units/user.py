"""A person as the unit: all their rewards, each batch's share of them clipped, in a bounded number of batches."""

from __future__ import annotations

import dataclasses
import math
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.contributions import Contribution, Coordinates, EventCollector, towards_zero
from adaprivate.mechanisms.noise import EVENT_BITS, Noise
from adaprivate.mechanisms.units.base import Event, Unit, first, person_of
from adaprivate.people.identity import user_text
from adaprivate.privacy import Participation, UserLedger, users


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
        self.counted = 0
        self._users: dict[str, Array] = {}
        self._visits: dict[str, int] = {}
        """How many events each has in this batch."""

    def add(self, user: str, features: object, reward: object) -> bool:
        """Count one event of this user; False when the user's batches are used up and the event was dropped."""
        contribution = self._contribution(features, reward)
        if not self.ledger.admit(user, self.batch):
            self.dropped += 1
            return False
        self._users[user] = self._users.get(user, self._contribution.zero()) + contribution
        self._visits[user] = self._visits.get(user, 0) + 1
        self.counted += 1
        return True

    def weight(self, number: int, person: int, features: Floats) -> Floats:
        """What the event is expected to add to what clipping leaves: of n it is taken to leave sqrt(n). Changes nothing.

        That is right on average where rewards are even chances around a centre of 1/2, and visits are not alike.
        """
        x = self._contribution.bounded(features)
        if not self.ledger.admits(str(person), self.batch):
            return np.zeros(len(x))
        n = self._visits.get(str(person), 0) + 1
        return x * (math.sqrt(n) - math.sqrt(n - 1))

    def counts(self) -> dict[str, int]:
        return {"people": self.ledger.people, "counted": self.counted, "beyond": self.dropped}

    def inspect(self, event: Event) -> None:
        super().inspect(event)
        person_of(event)

    def count(self, event: Event) -> bool:
        return self.add(user_text(person_of(event)), event.features, event.reward)

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
        self._users, self._visits = {}, {}
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
        numbers = {"batch": self.batch, "dropped": self.dropped, "counted": self.counted}
        return {**numbers, "ledger": self.ledger.state(), "users": waiting, "visits": dict(self._visits)}

    def restore(self, state: dict[str, Any]) -> None:
        check.expect(
            isinstance(state, dict) and "ledger" in state, "state", type(state).__name__, "to be what state() gave"
        )
        self.ledger.restore(state["ledger"])
        self.batch, self.dropped = int(state["batch"]), int(state["dropped"])
        self.counted = int(state["counted"])
        self._visits = {user: int(count) for user, count in state["visits"].items()}
        kind, convert = (object, int) if self.exact else (np.float64, float)
        self._users = {user: np.array([convert(v) for v in vector], dtype=kind) for user, vector in state["users"].items()}


@dataclass(frozen=True)
class UserUnit(Unit):
    """All rewards of any one person, who enters at most ``batches`` batches, ``separation`` apart; the rest is dropped.

    ``clip``: the largest norm of a person's contribution to a batch. Events must say whose they are.
    """

    name: ClassVar[str] = "user"
    needs_user: ClassVar[bool] = True
    batches: int
    clip: float = 1.0
    separation: int = 1
    neighbours: str = "replace"

    @property
    def participation(self) -> Participation:
        found = users(self.clip, self.batches, self.neighbours, self.separation)
        return dataclasses.replace(found, conditions=(*found.conditions, "public-visits"))

    @property
    def counted(self) -> str:
        return first(self.batches, "batch")

    def collector(self, dimension: int, *, noise: Noise, centre: float, shape: Coordinates | None) -> UserSum:
        return UserSum(
            dimension,
            noise=noise,
            clip=self.clip,
            batches=self.batches,
            separation=self.separation,
            centre=centre,
            shape=shape,
        )


UNIT = UserUnit
