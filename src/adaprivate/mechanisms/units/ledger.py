"""A person as the unit: all their rewards, each visit weighted by a public ledger so that together they reach 1."""

from __future__ import annotations

import dataclasses
import math
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Array, Floats, Integers
from adaprivate.grid import LARGEST
from adaprivate.mechanisms.contributions import Coordinates, EventCollector
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.units.base import Event, Unit, first, person_of
from adaprivate.people.shares import MOST_VISITS, VECTOR_BITS, WAYS
from adaprivate.privacy import Participation

if TYPE_CHECKING:
    from adaprivate.people.ledger import PeopleLedger

REWARD_BITS = VECTOR_BITS
"""With vectors on the same grid, contributions are whole numbers of 2^-20: nothing is rounded."""
_MOST = 2 ** (15 + REWARD_BITS)
"""What a visit adds to a number at most: vectors are kept in 16 bits."""


CLIP = "clip"


class LedgerSum(EventCollector):
    """The sum over one batch of (reward - centre) f, with f from the ledger; rewards and centre on the grid 2^-10."""

    def __init__(
        self, people: PeopleLedger, *, noise: Noise, centre: float = 0.0, shape: Coordinates | None = None
    ) -> None:
        check.kind("noise", noise, Noise)
        self.people, self.exact, self.coordinates = people, noise.exact, shape
        self.shape = shape
        self._centre = round(check.real("centre", centre, at_least=0, at_most=1) * 2**REWARD_BITS)
        self.batch = 0
        self._reached = 0
        """With exact noise a bound of every number of the sum."""
        self._total = self._zero()

    def _zero(self) -> Array:
        self._reached = 0
        return np.zeros(len(self.people.vector), dtype=np.int64 if self.exact else np.float64)

    def weigh(self, number: int, person: int, features: Floats) -> Integers:
        """f of a person's visit in round ``number``, in units of 2^-10: public. Asked again, the same."""
        if self.people.rounds == number + 1:
            return self.people.vector
        x = check.floats("features", features, (len(self.people.vector),))
        aim = x if self.shape is None else self.shape.whiten(x)
        norm = float(np.linalg.norm(aim))
        return self.people.charge(number, person, self.batch, np.ascontiguousarray(aim / norm if norm > 1 else aim))

    def weight(self, number: int, person: int, features: Floats) -> Floats:
        return np.asarray(self.weigh(number, person, features) * 2.0**-VECTOR_BITS, np.float64)

    def counts(self) -> dict[str, int]:
        return self.people.counts()

    def inspect(self, event: Event) -> None:
        super().inspect(event)
        check.whole("user", person_of(event), at_least=0)
        check.expect(self._reached < LARGEST - _MOST, "visits", "so many", "to fit exact noise")

    def count(self, event: Event) -> bool:
        person = person_of(event)
        reward = check.reward(event.reward)
        vector = self.weigh(event.round, check.whole("user", person, at_least=0), event.features)
        weight = math.floor(reward * 2**REWARD_BITS) - self._centre
        if self.exact:
            check.expect(self._reached < LARGEST - _MOST, "visits", "so many", "to fit exact noise")
            self._reached += _MOST
            self._total = self._total + weight * vector
        else:
            self._total = self._total + weight * 2.0**-REWARD_BITS * vector * 2.0**-VECTOR_BITS
        return bool(vector.any())

    def copy(self) -> Self:
        twin = copy(self)
        twin._total = self._total.copy()
        return twin

    def take(self) -> Array:
        """The batch's sum, ready for ``release``; the next batch starts empty."""
        total, self._total = self._held(), self._zero()
        self.batch += 1
        return total

    def _held(self) -> Array:
        return np.array(self._total.tolist(), dtype=object) if self.exact else self._total.copy()

    @property
    def enforces(self) -> tuple[str, ...]:
        return ("reward-range", "user-ledger", *(("catalogue",) if self.shape is not None else ()))

    def reach(self, neighbours: str) -> Participation:
        return privacy.people()

    def state(self) -> dict[str, Any]:
        return {"total": self._held(), "batch": self.batch, "people": self.people.state()}

    def restore(self, state: Any) -> None:
        whole = isinstance(state, dict) and state.keys() == {"total", "batch", "people"}
        check.expect(whole, "state", type(state).__name__, "to be what state() gave")
        total = state["total"]
        wanted = np.dtype(object if self.exact else np.float64)
        fits = isinstance(total, np.ndarray) and (total.shape, total.dtype) == (self._total.shape, wanted)
        check.expect(fits, "state.total", type(total).__name__, f"to be {wanted}{self._total.shape}")
        reached = int(max(map(abs, total.tolist()), default=0))
        if reached >= LARGEST:
            raise check.InputError("Expected state.total to be below 2^62 in size; it is private and not repeated here.")
        self.people.restore(state["people"])
        self._total, self.batch = total.astype(self._total.dtype), check.whole("batch", state["batch"], at_least=0)
        self._reached = reached

    def go_on(self, earlier: EventCollector) -> None:
        check.kind("collector", earlier, LedgerSum)
        assert isinstance(earlier, LedgerSum)
        self.people = earlier.people.follow(self.people.gram, earlier.batch + 1)
        self._total, self.batch, self._reached = earlier._total.copy(), earlier.batch, earlier._reached


def followed(encoder: Floats) -> Floats:
    """C with one more batch, of a mechanism to follow: whatever that will be, its noise is its own."""
    size = len(encoder)
    longer = np.eye(size + 1)
    longer[:size, :size] = encoder
    return longer


@dataclass(frozen=True)
class UserLedgerUnit(Unit):
    """All rewards of any one person, for any number of batches and visits: the first ``visits`` of each person count.

    ``way``: "directions" (each visit along what is new in it), "scalar" (along itself), "equal" (1 / visits of each, which
    is what group privacy pays). "clip": a person's first ``visits`` batches count, what they add to each clipped to what
    their share allows; in simulation only. Events must say whose they are.
    """

    name: ClassVar[str] = "user-ledger"
    needs_user: ClassVar[bool] = True
    visits: int = 10
    way: str = "directions"

    def __post_init__(self) -> None:
        check.whole("visits", self.visits, at_least=1, at_most=MOST_VISITS)
        check.one_of("way", self.way, (*WAYS, CLIP))

    @property
    def participation(self) -> Participation:
        found = privacy.people()
        return dataclasses.replace(found, conditions=("user-clip", *found.conditions)) if self.way == CLIP else found

    @property
    def counted(self) -> str:
        return first(self.visits, "batch" if self.way == CLIP else "visit")

    @property
    def attained(self) -> bool:
        return False

    def collector(self, dimension: int, *, noise: Noise, centre: float, shape: Coordinates | None) -> LedgerSum:
        """For a single batch."""
        return LedgerSum(self._ledger(dimension, np.eye(1)), noise=noise, centre=centre, shape=shape)

    def collector_for(self, plan: Any, source: Noise) -> LedgerSum:
        check.expect(self.way != CLIP, "way", self.way, f"in {{{', '.join(WAYS)}}} with exact noise")
        people = self._ledger(plan.size, followed(plan.encoder()))
        return LedgerSum(people, noise=source, centre=plan.centre, shape=plan.shape)

    def _ledger(self, size: int, encoder: Floats) -> PeopleLedger:
        from adaprivate.people.ledger import PeopleLedger  # here, for it compiles: accounting does without

        return PeopleLedger(size, encoder, self.way, self.visits)


UNIT = UserLedgerUnit
