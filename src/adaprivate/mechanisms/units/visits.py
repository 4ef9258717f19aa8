"""A person as the unit where rewards are told one by one: the first few of each, at a part of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check, privacy
from adaprivate.mechanisms.contributions import Coordinates, EventCollector
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.units.base import Unit, first
from adaprivate.people.shares import MOST_VISITS
from adaprivate.privacy import Participation


@dataclass(frozen=True)
class UserVisitsUnit(Unit):
    """All rewards of any one person, of which the first ``visits`` are told; of the others nothing is. For reward plans.

    Events must say whose they are.
    """

    name: ClassVar[str] = "user-visits"
    needs_user: ClassVar[bool] = True
    visits: int = 1

    def __post_init__(self) -> None:
        check.whole("visits", self.visits, at_least=1, at_most=MOST_VISITS)

    @property
    def participation(self) -> Participation:
        return privacy.told_people()

    @property
    def counted(self) -> str:
        return first(self.visits, "visit")

    def collector(self, dimension: int, *, noise: Noise, centre: float, shape: Coordinates | None) -> EventCollector:
        raise check.InputError("Expected unit='user-visits' for rewards that are told one by one, not for sums.")


UNIT = UserVisitsUnit
