"""What to know of a policy before choosing one: asked of its settings, so that it cannot differ from what they do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adaprivate import check
from adaprivate.policies.core.settings import exact_guarantee
from adaprivate.privacy import Guarantee, stated

START_HERE = {
    "noise-aware": "the one to use where items have features, unit=user where people come back (then only the first ten "
    "visits of each ever count), and on fixed arms: channel=items, one-hot candidates, pure epsilon",
    "noise-aware-joint": "the same where contexts are private too",
    "lazy-dp-ts": "a rival on fixed arms, pure epsilon: more regret than channel=items on average, a lighter tail",
    "filtered-thompson": "fixed arms with (epsilon, delta)",
    "rr-linucb": "every reward flipped by itself, pure epsilon, no batches",
    "ldp-linucb": "nobody but the person's own client sees context or reward",
    "tuned-linucb": "a yardstick: what no privacy would earn",
    "random": "a yardstick: what no learning would earn",
}
"""Where to start, the first first: the best of each notion, and what to compare with. Names that are not there are
skipped."""


@dataclass(frozen=True)
class Case:
    """One example of a policy: its options, whom these protect, how, and whether they can have production noise.

    ``unit``: event, user, joint, local or none. ``pure``: whether delta is 0; None without a guarantee. ``refusal``: what
    ``source=Secure()`` is answered where ``production_noise`` is False. ``statement``: the guarantee, with production noise
    if it has that.
    """

    options: dict[str, Any]
    unit: str
    pure: bool | None
    production_noise: bool
    refusal: str | None
    statement: Guarantee | None


@dataclass(frozen=True)
class Overview:
    """A policy's examples, and what they have in common."""

    name: str
    fixed_arms: bool
    cases: tuple[Case, ...]

    @property
    def units(self) -> tuple[str, ...]:
        """Whom it protects, the first example's first."""
        return tuple(dict.fromkeys(case.unit for case in self.cases))

    @property
    def promises(self) -> str:
        """What its guarantees are made of."""
        words = {True: "epsilon", False: "epsilon, delta", None: "nothing"}
        return " or ".join(dict.fromkeys(words[case.pure] for case in self.cases))

    @property
    def production_noise(self) -> str:
        """Whether it can be used on real people's data: "yes", "no" or "some options"."""
        found = {case.production_noise for case in self.cases}
        return "some options" if len(found) > 1 else "yes" if True in found else "no"

    @property
    def place(self) -> int | None:
        """Its place among those to start with, from 1; None for all others."""
        return [*START_HERE].index(self.name) + 1 if self.name in START_HERE else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        first = self.cases[0].statement
        return {
            "start_here": self.place,
            "recommended_for": START_HERE.get(self.name),
            "chooses": "arms" if self.fixed_arms else "contextual",
            "units": [*self.units],
            "promises": self.promises,
            "production_noise": self.production_noise,
            **stated(first),
            "examples": [
                {
                    "options": {key: _plain(value) for key, value in case.options.items()},
                    "unit": case.unit,
                    "pure": case.pure,
                    "production_noise": case.production_noise,
                    "refusal": case.refusal,
                    **stated(case.statement),
                }
                for case in self.cases
            ],
        }


def overview(name: str, examples: Sequence[Any]) -> Overview:
    """What these examples of a policy's settings say of it."""
    check.expect(len(examples) > 0, "examples", len(examples), f"to show what {name} does")
    others = [dataclasses.replace(examples[0], unit=unit) for unit in getattr(examples[0], "units", ())[1:]]
    return Overview(name, bool(getattr(examples[0], "fixed_arms", False)), tuple(map(_case, [*examples, *others])))


def _case(settings: Any) -> Case:
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    given = {key: getattr(settings, key) for key in defaults}
    options = {key: value for key, value in given.items() if value is not defaults[key] and value != defaults[key]}
    statement: Guarantee | None = None
    refusal = None
    try:
        statement = exact_guarantee(settings)
    except check.InputError as error:
        refusal = str(error)
    exact = statement is not None
    if statement is None:
        try:
            statement = settings.guarantee()
        except check.InputError as error:
            refusal = str(error)
    if statement is None:
        return Case(options, "none", None, False, refusal, None)
    return Case(options, statement.unit, statement.delta == 0, exact, refusal, statement)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
