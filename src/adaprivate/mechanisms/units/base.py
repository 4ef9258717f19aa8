"""What a unit of privacy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.mechanisms.contributions import Coordinates, EventCollector
from adaprivate.mechanisms.noise import Noise
from adaprivate.privacy import Participation


class Event(NamedTuple):
    """One round as a book takes it: private, for it holds a reward.

    Where rewards take one of several channels, ``channel`` says which, ``block`` which block of it, and ``closes`` whether
    this is its last event. These are settled without looking at rewards.
    """

    round: int
    features: Floats
    reward: float
    user: str | int | None = None
    channel: str = ""
    block: int = -1
    closes: bool = False


def person_of(event: Event) -> str | int:
    """Whose event it is, where that must be told."""
    if event.user is None:
        raise check.InputError("Expected user to be given with every event: this plan protects people.")
    return event.user


def first(count: int, what: str) -> str:
    """The first visit, the first 10 visits."""
    return f"the first {what}" if count == 1 else f"the first {count} {what}{'es' if what.endswith('ch') else 's'}"


class Unit(ABC):
    """Whom a plan protects."""

    name: ClassVar[str]
    needs_user: ClassVar[bool] = False
    """Whether every event must say whose it is."""

    @property
    def counted(self) -> str:
        """Which visits of a person ever count; empty where nobody's are left out."""
        return ""

    def remarks(self, seen: Mapping[str, int] | None) -> list[str]:
        """Which visits never count, and of those ``seen`` how many did not. Counts of visits are public: no reward."""
        if not self.counted:
            return []
        found = [f"Only {self.counted} of each user ever count{'' if self.counted.endswith('s') else 's'}."]
        if seen is not None and seen["beyond"]:
            found.append(
                f"{seen['beyond']:,} of {seen['counted'] + seen['beyond']:,} visits came later and taught nothing."
            )
        return found

    @property
    @abstractmethod
    def participation(self) -> Participation:
        """How far one unit reaches."""

    def collector_for(self, plan: Any, source: Noise) -> EventCollector:
        """The collector of a plan's sums (:class:`~adaprivate.mechanisms.plan.BatchPlan`)."""
        return self.collector(plan.dimension + plan.intercept, noise=source, centre=plan.centre, shape=plan.shape)

    @property
    def attained(self) -> bool:
        """Whether some unit moves a sum as far as the participation says."""
        return True

    @property
    def also(self) -> tuple[Participation, ...]:
        """Other units that the same releases protect at the same price, and how far those reach."""
        return ()

    def size(self, dimension: int) -> int:
        """How many numbers are summed up of an event of this length."""
        return dimension

    def scales(self, dimension: int) -> Floats | None:
        """The noise of each of these numbers, relative to the others'; None where it is the same."""
        return None

    @abstractmethod
    def collector(self, dimension: int, *, noise: Noise, centre: float, shape: Coordinates | None) -> EventCollector:
        """A sum of events that keeps every unit within this reach."""
