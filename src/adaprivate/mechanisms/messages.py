"""Local messages: what one person's client sends of its context x and reward r, with Gaussian noise of its own.

A message is (reward - centre) x, then the upper triangle of x x', row by row. With exact noise x and the reward are
truncated to multiples of 2^-20 *before* they are multiplied, so that every number of a message is a whole multiple of
2^-40, the grid of the noise, and nothing is rounded afterwards: what is noised is the message of another context of norm at
most 1 and another reward in [0, 1], and its reach is theirs (docs/privacy.md, Lemma 4).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms import packing
from adaprivate.mechanisms.book import Book, Release
from adaprivate.mechanisms.contributions import whole_vector
from adaprivate.mechanisms.noise import EVENT_BITS, NOISE_BITS, Noise, Secure, expect_fine_grid, whole_numbers
from adaprivate.mechanisms.plan import Plan
from adaprivate.mechanisms.units import Event
from adaprivate.privacy import GaussianPrice, Participation, Price

_WIDEST = 2.0 ** (62 - 6 - NOISE_BITS)
"""Exact Gaussian noise is narrower than this."""


@dataclass(frozen=True, kw_only=True)
class MessagePlan(Plan):
    """A message of every one of ``rounds`` rounds, its noise ``noise_multiplier`` times what another person would move.

    ``centre``: taken off every reward. ``attained``: whether some two messages are that far apart.
    """

    dimension: int
    rounds: int
    noise_multiplier: float
    centre: float = 0.0
    attained: bool = False

    @property
    def participation(self) -> Participation:
        return privacy.messages()

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of every number's noise; products round up."""
        return self.noise_multiplier * self.participation.change * (1 + 2.0**-50)

    def price(self, *, exact_noise: bool = False) -> Price:
        slack = Secure().slack(self.sigma, self.size) if exact_noise else 0.0
        return GaussianPrice(1 / self.noise_multiplier, slack, self.attained)

    @property
    def retention(self) -> str:
        return "Of a reward only its noisy message is kept."

    def refuse_exact_noise(self, policy: str) -> None:
        expect_fine_grid(self.noise_multiplier, self.sigma, Secure())
        check.expect(self.sigma < _WIDEST, "sigma", self.sigma, f"< {_WIDEST:g} for exact noise")

    def end_of(self, batch: int) -> int | None:
        return batch + 1 if batch < self.rounds else None

    @property
    def size(self) -> int:
        """The length of a message."""
        return self.dimension * (self.dimension + 3) // 2

    def whole(self, features: object, reward: object) -> Array:
        """What receives noise, in whole numbers of the noise's grid: private."""
        x = check.floats("features", features, (self.dimension,))
        length = float(np.linalg.norm(x))
        integers = whole_vector(x / length if length > 1 else x)
        weight = math.floor(check.reward(reward) * 2**EVENT_BITS) - round(self.centre * 2**EVENT_BITS)
        first = [weight * entry for entry in integers]
        return np.array(first + [a * b for i, a in enumerate(integers) for b in integers[i:]], dtype=object)

    def message(self, features: object, reward: object, source: Secure) -> Floats:
        """What a client sends of this context and reward. Made and sent once, whatever the reward is."""
        check.expect(source.exact, "source", type(source).__name__, "to be exact: messages are for real people's data")
        self.refuse_exact_noise("messages")
        return self.noised(self.whole(features, reward), source)

    def noised(self, whole: Any, source: Noise) -> Floats:
        """What is sent of these whole numbers: the one place where their noise is drawn."""
        return source.gaussian(whole, self.sigma)

    def book(self, source: Noise) -> MessageBook:
        """An empty book with this source of noise."""
        self.refuse_exact_noise("messages")
        return MessageBook(self, source)

    def to_bytes(self) -> bytes:
        """The whole plan: public."""
        return packing.to_bytes({"kind": "messages", **dataclasses.asdict(self)})


def restored_plan(stored: dict[str, Any]) -> MessagePlan:
    """The plan of these stored fields."""
    known = {field.name for field in dataclasses.fields(MessagePlan)}
    check.expect(known == stored.keys(), "data", "something else", "to be a plan of messages")
    return MessagePlan(**stored)


class MessageBook(Book):
    """One message of every round; see :class:`MessagePlan`. It keeps a context and reward until their message is made."""

    plan: MessagePlan

    def __init__(self, plan: MessagePlan, source: Noise) -> None:
        check.expect(source.exact, "source", type(source).__name__, "to be exact")
        self.plan, self.source = plan, source
        self._whole: Array | None = None
        """The message of the round just counted, before its noise."""

    @property
    def due(self) -> bool:
        return self._whole is not None

    def _inspect(self, event: Event) -> None:
        check.floats("features", event.features, (self.plan.dimension,))
        super()._inspect(event)

    def _enter(self, event: Event) -> None:
        if event.round < self.plan.rounds:
            self._whole = self.plan.whole(event.features, event.reward)

    def close(self) -> tuple[Release, Self]:
        self._expect_due()
        after = type(self)(self.plan, self.source)
        after.round, after.batch = self.round, self.batch + 1
        return Release(self.batch, self.plan.noised(self._whole, self.source)), after

    def _parts(self) -> dict[str, Any]:
        return {"whole": self._whole}

    def _restore(self, stored: dict[str, Any]) -> None:
        if stored["whole"] is not None:
            self._whole = whole_numbers("whole", stored["whole"], (self.plan.size,))
