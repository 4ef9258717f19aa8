"""What every plan states: whom it protects, at which price, on which conditions."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from adaprivate import check, privacy
from adaprivate.mechanisms.units import Unit
from adaprivate.privacy import Guarantee, Participation, Price

KEPT = (
    "reward-range",
    "feature-norm",
    "one-batch",
    "one-arm",
    "one-channel",
    "public-schedule",
    "released-schedule",
    "catalogue",
    "user-clip",
    "user-batches",
    "user-ledger",
    "user-visits",
)
"""The conditions that policies see to themselves, where a guarantee rests on them; the others are the caller's."""

NOTHING_KEPT = "Nothing is kept of a released batch."
SUMS_KEPT = "Later releases share their noise. With the stored features such sums can reveal single rewards."


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """What every plan states.

    ``delta``: where the guarantee is read. ``nominal_epsilon``: what a published calibration aims at, where that differs.
    """

    routed: ClassVar[bool] = False
    """Whether the learner says of every event where it goes, and what is then released."""
    delta: float
    nominal_epsilon: float | None = None

    @property
    @abstractmethod
    def participation(self) -> Participation:
        """How far one protected unit reaches, and what that rests on."""

    @abstractmethod
    def price(self, *, exact_noise: bool = False) -> Price:
        """What one protected unit pays over the whole run; with exact noise, for its discretisation too."""

    @property
    @abstractmethod
    def retention(self) -> str:
        """What a book keeps of rewards once they are released, and until when: public.

        A plan that goes on may keep more; policies whose plan is not settled say so (``settings.retention``).
        """

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the guarantee rests on beside the participation's conditions."""
        return ()

    @property
    def also(self) -> tuple[Participation, ...]:
        """Other units that the same releases protect at the same price."""
        return ()

    def refuse_exact_noise(self, policy: str) -> None:
        """Raise if this plan has no exact noise."""
        return

    def end_of(self, batch: int) -> int | None:
        """The round after which this batch is released; None if it is not, or at moments of the policy's own."""
        return None

    def guarantee(self, policy: str, *, exact_noise: bool = False) -> Guarantee:
        """What the policy of this name promises; with simulated noise, what it would promise with exact, secret noise."""
        if exact_noise:
            self.refuse_exact_noise(policy)
        own = ("exact-noise", "secret-noise") if exact_noise else ()
        price = self.price(exact_noise=exact_noise)
        first, *others = (
            privacy.guarantee(
                price,
                reach,
                self.delta,
                enforced=[name for name in (*KEPT, *own) if name in (*reach.conditions, *own)],
                conditions=("exact-noise", *self.conditions),
                nominal_epsilon=self.nominal_epsilon,
                simulated=not exact_noise,
            )
            for reach in (self.participation, *self.also)
        )
        return dataclasses.replace(first, also=tuple(others)) if others else first


@dataclass(frozen=True, kw_only=True)
class SimulationPlan(Plan):
    """The plan of a policy with releases of a kind of its own, whose noise can only be simulated.

    ``paid``: its price. ``reach``: its participation. ``bound``: whether the price is only an upper bound. ``refusal``: the
    setting that rules exact noise out (name, value, condition), where another value of it would not. ``unit``: whom it
    protects, where events must say whose they are.
    """

    paid: Price
    reach: Participation
    bound: bool = False
    refusal: tuple[str, object, str] | None = None
    unit: Unit | None = None

    @property
    def participation(self) -> Participation:
        return self.reach

    def price(self, *, exact_noise: bool = False) -> Price:
        return self.paid

    @property
    def retention(self) -> str:
        return "Noise is simulated: nothing is promised about what is kept."

    def refuse_exact_noise(self, policy: str) -> None:
        check.expect(False, *(self.refusal or ("source", "Secure()", f"for a policy with exact noise, not {policy}")))

    def guarantee(self, policy: str, *, exact_noise: bool = False) -> Guarantee:
        statement = super().guarantee(policy, exact_noise=exact_noise)
        return dataclasses.replace(statement, exact=False) if self.bound else statement
