"""The guarantee as a statement: what is protected, how strongly, and on which conditions it rests."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from adaprivate import check
from adaprivate.notebook import facts_html, lines_html
from adaprivate.privacy.participation import NEIGHBOURS, UNITS, Participation
from adaprivate.privacy.price import Price

CONDITIONS: dict[str, str] = {
    "reward-range": "every reward lies in its stated range",
    "feature-norm": "every feature vector has norm at most 1 (or lies in the catalogue's ellipsoid)",
    "own-reward": "every reward that is told is what that very round earned, and made of no other's (on-policy learning)",
    "one-batch": "every event is counted once, in one batch",
    "public-schedule": "batch boundaries depend on the round index alone, never on rewards or on how many arrived",
    "one-arm": "every reward is counted once, for the arm that earned it",
    "one-channel": "every reward is counted once, through one channel, which is settled without looking at rewards",
    "client-flip": "every reward is flipped where it is born, once and with at least this noise, and always reported",
    "client-message": "contexts, candidates and rewards are seen by the person's own client alone, where this code chooses "
    "and makes the message; one is sent whatever the reward is",
    "released-schedule": "which rewards enter which release depends on rounds, public features and earlier releases alone",
    "public-features": "candidate sets and their features are public and do not depend on the protected rewards",
    "secret-noise": "the noise is drawn afresh, from no seed, and never revealed",
    "no-replay": "no batch is released twice, for instance from a restored copy of the mechanism",
    "exact-noise": "the noise is drawn exactly, on an integer grid, not in floating point",
    "user-clip": "each person's contribution to a batch is clipped to its stated norm",
    "user-batches": "each person enters at most the stated number of batches, at the stated distance; the rest is dropped",
    "user-ledger": "a public ledger weights each person's visits so that all their rewards reach no further than one may",
    "user-visits": "of each person a public number of rewards is told, each at its part of the budget; of others, nothing",
    "public-visits": "that and when a person comes back does not depend on their rewards, or may be known",
    "user-identity": "each person is known by one identifier",
    "public-preparation": "whatever filtered, centred or scaled the rows beforehand is public",
    "independent-rounds": "no other round's context, candidates or rewards depend on the protected round",
    "own-action-hidden": "the action of the protected round, and how likely it was, are seen by that person alone",
    "one-message": "every person sends one message; with m of them mu is sqrt(m) times as large for that person",
    "catalogue": "every feature vector that can be played is in the public catalogue or is clipped into its ellipsoid",
    "secret-sample": "which rewards were sampled is never revealed",
    "one-entry": "one protected unit moves a single entry, by at most that entry's stated amount",
    "l1-change": "one protected unit moves the released vector by at most the stated amount in the l1 norm",
}
"""Every condition a guarantee may rest on. Code that enforces one says so; the others are the caller's to keep."""


LARGE_EPSILON = 20.0
"""Above it the factor exp(epsilon) is beyond all odds that matter."""
ENFORCED, ASSUMED = "The software enforces:", "It holds only if you keep to:"


def remarks(epsilon: float, delta: float, people: int | None = None) -> list[str]:
    """What makes such a promise weak, if anything does. ``people``: how many units it protects, where that is known."""
    found = []
    if epsilon > LARGE_EPSILON:
        found.append(
            f"Remark: epsilon = {epsilon:.4g} is above {LARGE_EPSILON:g}; the factor it allows rules out next to nothing. "
            "Do not rely on it alone."
        )
    if people is not None and delta * people > 1:
        found.append(
            f"Remark: delta = {delta:g} is above 1 / {people:,}; publishing one of them at random, whole, would meet it. "
            "Choose it well below that."
        )
    return found


@dataclass(frozen=True, repr=False)
class Guarantee:
    """A differential-privacy statement with the conditions it rests on.

    ``exact``: no smaller epsilon holds at this delta. ``nominal_epsilon``: what a published calibration aimed at, where
    that differs. ``mu``: the Gaussian-DP parameter, ``None`` where the mechanism has none. ``simulated``: the noise came
    from a seed, so nobody is protected; the statement is that of the same release with exact, secret noise. ``also``: what
    the same releases promise besides, for another unit.
    """

    unit: str
    neighbours: str
    protects: str
    epsilon: float
    delta: float
    mu: float | None
    assumptions: tuple[str, ...] = ()
    enforced: tuple[str, ...] = ()
    exact: bool = True
    nominal_epsilon: float | None = None
    simulated: bool = False
    also: tuple[Guarantee, ...] = ()

    def __post_init__(self) -> None:
        check.one_of("unit", self.unit, UNITS)
        check.one_of("neighbours", self.neighbours, NEIGHBOURS)
        check.real("epsilon", self.epsilon, at_least=0)
        check.real("delta", self.delta, at_least=0, below=1)
        if self.mu is not None:
            check.real("mu", self.mu, at_least=0)
        if self.nominal_epsilon is not None:
            check.real("nominal_epsilon", self.nominal_epsilon, at_least=0)
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        object.__setattr__(self, "enforced", tuple(self.enforced))
        object.__setattr__(self, "also", tuple(self.also))
        for other in self.also:
            check.kind("also", other, Guarantee)

    @property
    def sentence(self) -> str:
        """The statement in plain English, and what else the same releases promise."""
        opening = (
            "SIMULATED NOISE, NOBODY IS PROTECTED. With exact, secret noise this would protect" if self.simulated else ""
        )
        return " ".join(
            [
                self._stated(opening or "This protects"),
                *(other._stated("The same releases also protect") for other in self.also),
            ]
        )

    def _stated(self, opening: str) -> str:
        """The statement, beginning like this."""
        neighbour = "different" if self.neighbours == "replace" else "left out or added"
        odds = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
        bound = (
            f"no observer can become more than {odds:.4g} times as likely to reach any conclusion"
            if self.epsilon > 0
            else "no observer's chance of reaching any conclusion changes"
        )
        rest = f", except with an additional probability of at most {self.delta:g}" if self.delta > 0 else ""
        text = (
            f"{opening} {self.protects}: were that information {neighbour}, {bound} from everything released{rest} "
            f"(epsilon = {self.epsilon:.4g}, delta = {self.delta:g}, {self.unit}-level)."
        )
        if self.nominal_epsilon is not None:
            text += f" The published calibration states epsilon = {self.nominal_epsilon:g}."
        return text

    def remarks(self, people: int | None = None) -> list[str]:
        """What makes it weak, if anything does. ``people``: how many units it protects, where that is known."""
        return remarks(self.epsilon, self.delta, people)

    def __repr__(self) -> str:
        noise = ", simulated noise: nobody is protected" if self.simulated else ""
        return f"<Guarantee: {self.unit}-level, epsilon = {self.epsilon:.4g}, delta = {self.delta:g}{noise}>"

    def _repr_html_(self) -> str:
        facts = {
            "protects": self.protects,
            "unit": self.unit,
            "epsilon": f"{self.epsilon:.4g}",
            "delta": f"{self.delta:g}",
            "noise": "simulated: nobody is protected" if self.simulated else "exact, secret",
        }
        conditions = lines_html(ENFORCED, self.enforced) + lines_html(ASSUMED, self.assumptions)
        others = "".join(other._repr_html_() for other in self.also)
        return facts_html(self.sentence, facts, lines_html("", self.remarks()), conditions, others)

    def __str__(self) -> str:
        return self.text()

    def text(self, people: int | None = None) -> str:
        """All of it, line by line. ``people``: how many units it protects, where that is known."""
        alone = dataclasses.replace(self, also=())
        lines = [alone.sentence, *self.remarks(people), *self._conditions()]
        for other in self.also:
            lines += [other._stated("The same releases also protect"), *other._conditions()]
        return "\n".join(lines)

    def _conditions(self) -> list[str]:
        """What it rests on, line by line."""
        lines = []
        if self.enforced:
            lines += [ENFORCED, *(f"  - {text}" for text in self.enforced)]
        if self.assumptions:
            lines += [ASSUMED, *(f"  - {text}" for text in self.assumptions)]
        return lines

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON, the sentence included."""
        fields: dict[str, object] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        own = {"assumptions": [*self.assumptions], "enforced": [*self.enforced], "also": [g.to_dict() for g in self.also]}
        return {**fields, **own, "sentence": self.sentence}

    def to_json(self) -> str:
        """The guarantee as one JSON object."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """The guarantee that :meth:`to_json` wrote."""
        try:
            fields = json.loads(text)
        except ValueError:
            raise check.InputError(f"Expected text={text!r:.60} to be a JSON object.") from None
        check.expect(isinstance(fields, dict), "text", text, "to be a JSON object")
        return cls._of(fields)

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Guarantee:
        """The guarantee of these plain values."""
        sentence = fields.pop("sentence", None)
        known = {field.name for field in dataclasses.fields(cls)}
        check.expect(set(fields) <= known, "fields", sorted(set(fields) - known), "to be none but those of a guarantee")
        required = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
        check.expect(
            required <= set(fields), "fields", sorted(fields), "to include " + ", ".join(sorted(required - set(fields)))
        )
        others = fields.get("also", [])
        several = isinstance(others, list) and all(isinstance(other, dict) for other in others)
        check.expect(several, "also", others, "to be a list of guarantees")
        guarantee = cls(**{**fields, "also": tuple(cls._of(dict(other)) for other in others)})
        check.expect(sentence in (None, guarantee.sentence), "sentence", sentence, "to say what the fields say")
        return guarantee


def stated(guarantee: Guarantee | None, people: int | None = None) -> dict[str, object]:
    """A guarantee as rows and documents print it: the sentence, what makes it weak, and what it rests on.

    ``people``: how many units it protects, where that is known.
    """
    if guarantee is None:
        return {"guarantee": "none: this policy protects nobody", "remarks": [], "enforced": [], "assumptions": []}
    return {
        "guarantee": guarantee.sentence,
        "remarks": guarantee.remarks(people),
        "enforced": [*guarantee.enforced],
        "assumptions": [*guarantee.assumptions],
    }


def guarantee(
    price: Price,
    participation: Participation,
    delta: float,
    *,
    enforced: Collection[str] = (),
    conditions: Collection[str] = (),
    nominal_epsilon: float | None = None,
    simulated: bool = False,
) -> Guarantee:
    """State what this price buys one participating unit at ``delta``.

    ``enforced`` names the conditions that code upholds; every other one, of the participation or of ``conditions``, is
    printed as the caller's to keep.
    """
    check.kind("price", price, Price)
    check.kind("participation", participation, Participation)
    check.expect(not isinstance(enforced, str), "enforced", enforced, "to be several names")
    names = [*dict.fromkeys([*participation.conditions, *conditions])]
    for name in [*names, *enforced]:
        check.one_of("condition", name, CONDITIONS)
    return Guarantee(
        unit=participation.unit,
        neighbours=participation.neighbours,
        protects=participation.protects,
        epsilon=price.epsilon(delta),
        delta=delta,
        mu=price.mu if math.isfinite(price.mu) else None,
        assumptions=tuple(CONDITIONS[name] for name in names if name not in enforced),
        enforced=tuple(CONDITIONS[name] for name in CONDITIONS if name in enforced),
        exact=price.exact_at(delta),
        nominal_epsilon=nominal_epsilon,
        simulated=simulated,
    )
