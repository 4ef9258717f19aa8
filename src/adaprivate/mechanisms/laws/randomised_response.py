"""Randomised response: every reward is a bit that is told truly with probability e^epsilon / (1 + e^epsilon), else flipped.

A reward r between 0 and 1 is first rounded to 1 with probability r. Whatever r is, the bit told is 1 with a probability
between 1 - p and p, so the odds of any two rewards differ by a factor of p / (1 - p) at most: pure epsilon-DP of the
reward, with no delta, and local, since the flip needs nothing but the reward (docs/privacy.md, Lemma 5).
Rounding need not be exact for that, the flip must be. With exact noise it is one comparison of whole numbers: p, a float
between 1/2 and 1, is a whole multiple of 2^-53, and of the 2^53 numbers that 53 bits of the operating system's randomness
make, all alike probable, exactly p 2^53 are smaller than p 2^53.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

from adaprivate import check
from adaprivate.mechanisms.laws.base import RewardLaw, rounded
from adaprivate.mechanisms.noise import Noise, Secure
from adaprivate.privacy import Price, PurePrice


@dataclass(frozen=True)
class RandomisedResponse(RewardLaw):
    """One flipped bit for every reward; what is told of it is (bit - (1 - p)) / (2 p - 1), whose mean is the reward."""

    name: ClassVar[str] = "randomised-response"
    epsilon: float

    def __post_init__(self) -> None:
        check.real("epsilon", self.epsilon, at_least=1e-6, at_most=30)

    @cached_property
    def keep(self) -> float:
        """p: the probability that the bit is told truly, rounded so that its odds are at most e^epsilon."""
        p = 1 / (1 + math.exp(-self.epsilon))
        with localcontext(prec=60):  # the logarithms of floats would round by more than there is room
            most = Decimal(self.epsilon).exp() * (1 - Decimal(10) ** -40)
            while Decimal(p) > most * (1 - Decimal(p)):
                p = math.nextafter(p, 0.5)
        return p

    def told(self, bit: float) -> float:
        """The unbiased number that stands for a bit told."""
        return (bit - (1 - self.keep)) / (2 * self.keep - 1)

    def tell(self, reward: float, source: Noise) -> float:
        bit = rounded(reward, source)
        if source.exact:
            return self.told(float(_flipper(self.keep)(bit)))
        truly = bool(source.generator.uniform() < self.keep)  # type: ignore[attr-defined]
        return self.told(float(bit == truly))

    def price(self, rewards: int = 1) -> Price:
        total = Fraction(self.epsilon) * rewards
        rounded_total = float(total)
        return PurePrice(rounded_total if rounded_total >= total else math.nextafter(rounded_total, math.inf))


def split(epsilon: float, rewards: int) -> float:
    """The largest epsilon that so many rewards can each have of this one."""
    part = epsilon / rewards
    while Fraction(part) * rewards > Fraction(epsilon):
        part = math.nextafter(part, 0.0)
    return part


def flip(reward: float | bool, epsilon: float) -> int:
    """The bit that a client reports in place of a reward (0 to 1): epsilon-DP by itself, drawn from the operating system.

    For policies with ``local=True`` and this epsilon. Report for every decision, with what an absent reward counts as.
    """
    law = RandomisedResponse(check.real("epsilon", epsilon))
    return int(_flipper(law.keep)(rounded(check.reward(reward), Secure())))


@lru_cache(maxsize=64)
def _flipper(keep: float) -> Callable[[bool], bool]:
    """Tells a bit truly with exactly this probability, which is at least 1/2, else flips it."""
    most = int(keep * 2.0**53)  # whole as it is
    check.expect(0.5 <= keep <= 1 and most == Fraction(keep) * 2**53, "keep", keep, "to be a multiple of 2^-53, >= 1/2")
    return lambda bit: bool(bit) == (secrets.randbits(53) < most)


LAW = RandomisedResponse
