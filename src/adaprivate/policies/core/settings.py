"""What every policy's settings share."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, TypeVar

import numpy as np

from adaprivate import check, mechanisms
from adaprivate.check import Floats
from adaprivate.mechanisms.plan import Plan
from adaprivate.privacy import Guarantee

State = TypeVar("State", bound=tuple[Any, ...])


PLANNED = (
    *("noise", "ends", "encoder", "gram", "decoder", "influence", "relevance", "drift", "row_covariance", "plan"),
    *("offers", "offered_in"),
)
"""The fields of states that are a plan's own: what it fills in for all its batches, and what it still looks at."""


def grown(longer: Any, state: Any) -> Any:
    """The state of a shorter plan with room for the batches of this one, and what it plans for them."""
    kept = {}
    for field in longer._fields:
        new, old = getattr(longer, field), getattr(state, field)
        if hasattr(new, "_fields"):
            new = grown(new, old)
        elif field not in PLANNED:
            new[tuple(slice(length) for length in old.shape)] = old
        kept[field] = new
    return type(longer)(**kept)


def exact_guarantee(settings: Any) -> Guarantee:
    """What these settings promise with exact noise; refused, with the reason, where they have none."""
    plan = getattr(settings, "plan", None)
    check.expect(plan is not None, "source", "Secure()", f"for a policy with exact noise, not {settings.name}")
    statement: Guarantee = settings.guarantee(exact_noise=True)  # raises where the grid of exact noise would show
    return statement


def known_strategy(name: str, value: object) -> str:
    """The name of a way in which releases share noise: those of ``adaprivate list mechanisms`` that are strategies."""
    return check.one_of(name, value, sorted(mechanisms.strategies()))


def about(settings: type, module: ModuleType) -> str:
    """Where a policy comes from, what it promises and how it deviates: said by its settings class, or by its module."""
    own = inspect.getdoc(settings) or ""
    return own if "\nPaper:" in own else inspect.getdoc(module) or ""


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """How a policy is described: public, frozen, checked when it is made.

    A subclass says how its compiled state starts and, if it is private, what its plan is. Its docstring, or that of its
    module, has a paragraph of three fields: ``Paper:``, ``Guarantee:`` and ``Deviates:``.
    """

    name: ClassVar[str]
    private: ClassVar[bool] = True
    """Whether the policy has a guarantee."""
    fixed_arms: ClassVar[bool] = False
    """Whether the candidates of every round are the unit vectors, one for each arm."""
    least_dimension: ClassVar[int] = 1
    instead_of_epsilon: ClassVar[tuple[str, ...]] = ()
    """Options that state its budget in another way than epsilon does; one of them is given, not both."""
    units: ClassVar[tuple[str, ...]] = ()
    """What its option ``unit`` may be, the default first; none where it has no such option."""

    dimension: int
    rounds: int

    def __init_subclass__(cls, **options: Any) -> None:
        """Have ``help`` say of every option what the class that brought it says."""
        super().__init_subclass__(**options)
        parts = [inspect.cleandoc(cls.__dict__.get("__doc__") or "")]
        for base in cls.__bases__:
            paragraphs = (base.__doc__ or "").split("\n\n")[1:]
            more = "\n\n".join(part for part in paragraphs if not part.startswith("Paper:"))
            if base is not PolicySettings and more not in "\n\n".join(parts):
                parts.append(inspect.cleandoc(more))
        cls.__doc__ = "\n\n".join(parts)

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=self.least_dimension)
        check.whole("rounds", self.rounds, at_least=1)
        check.options(self)

    @property
    def missing(self) -> float:
        """What a reward that never came counts as: public."""
        return float(getattr(self, "centre", 0.0))

    @cached_property
    def plan(self) -> Plan | None:
        """Whom the policy protects, and how; None for one without privacy."""
        return None

    @property
    def retention(self) -> str:
        """What a book of the policy keeps of rewards once they are released, as far as that is settled: public."""
        return "" if self.plan is None else self.plan.retention

    def guarantee(self, *, exact_noise: bool = False) -> Guarantee | None:
        """What the policy promises; None for a policy without privacy."""
        return None if self.plan is None else self.plan.guarantee(self.name, exact_noise=exact_noise)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The privacy noise of every release in simulation, for each seed; by default there is none."""
        return np.zeros((len(seeds), 0, self.dimension))

    def released(self, state: Any) -> Floats:
        """All that a compiled state has let anyone see of rewards, as of its last release; of old ones what it remembers.

        :mod:`adaprivate.testing` watches it: whatever choices use of rewards must be a function of this.
        """
        if not hasattr(state, "book"):
            raise TypeError(f"{type(self).__name__} does not say what its state has released")
        released: Floats = state.book.released
        return released

    def transcript(self, state: Any) -> Floats:
        """All numbers that a compiled state has let anyone see, of contexts too where those are protected.

        :mod:`adaprivate.audit` attacks it.
        """
        return self.released(state)

    def people_seen(self, state: Any) -> dict[str, int] | None:
        """People who came to a compiled state, and how many of their visits counted or did not; None: it does not tell."""
        ledger: Any = getattr(getattr(state, "book", None), "ledger", None)
        table: Any = getattr(state, "visits", None) if ledger is None else ledger
        if table is None:
            return None
        s = table.scalars[0]
        counted = int(s["counted"] if ledger is None else s["visits"])
        return {"people": int(s["people"]), "counted": counted, "beyond": int(s["round"]) - counted}

    def worry(self, learner: Any) -> str | None:
        """What to warn of, the learner having planned on to these settings from this state: public."""
        return None

    def route(self, learner: Any) -> dict[str, Any]:
        """Where the event counted last goes, of those that a book tells apart: public."""
        return {}

    def weighed(self, learner: Any, weights: Floats) -> bool:
        """Take in what a person's visit is weighted with (public), before it is counted; False if it is not to be."""
        return bool(weights.any())

    def under(self, plan: Any) -> Any:
        """These settings under a plan that was stored, whatever they would plan today."""
        self.__dict__["plan"] = plan
        return self

    def carried(self, fresh: Any, state: Any) -> Any:
        """A state of shorter settings as one of these: ``fresh`` is theirs before the first round."""
        return grown(fresh, state)

    def blank(self, kind: type[State], **parts: Any) -> State:
        """A compiled state of these parts, and of a vector of zeros for every other."""
        return kind(**{name: np.zeros(self.dimension) for name in kind._fields} | parts)  # type: ignore[attr-defined]

    def start(self, noise: Floats) -> Any:
        """The compiled state before the first round, given the noise of one seed."""
        raise TypeError(f"{type(self).__name__} does not say how it starts")
