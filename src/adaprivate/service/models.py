"""What callers send: requests as pydantic models, strict about types, sizes and names, with the examples that /docs shows.

Numbers are numbers (no texts that read like one, no NaN, no Infinity), and unknown fields are refused. A reward passes
through :class:`RewardRequest` and :class:`RewardEntry`; what is wrong with one is said without repeating it
(:mod:`~adaprivate.service.problems`).
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Tag

from adaprivate.service.bandit import LARGEST_DIMENSION
from adaprivate.service.deciding import Ask
from adaprivate.service.faults import Fault
from adaprivate.service.problems import path

MOST_DECISIONS = 10_000
"""In one call; as many rewards."""
MOST_CANDIDATES = 10_000
MOST_FEATURES = 2_000
MOST_ITEMS = 100_000
DEEPEST = 10
"""So many lists and objects may lie within each other in what only a policy or a featuriser can read."""
LONGEST_TEXT = 10_000
LONGEST_NAME = 200
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]+$"
"""No control characters: not every database can hold them."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_NAME)]
ItemId = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_NAME, pattern=TEXT_PATTERN)]
Features = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=MOST_FEATURES)]
"""Of lists only the first wrong entry is noted: of a hundred thousand, telling them apart would take a minute."""
Scalar = Annotated[
    Annotated[str, Field(max_length=LONGEST_TEXT), Tag("|text")]
    | Annotated[bool, Tag("|bool")]
    | Annotated[Whole, Tag("|whole")]
    | Annotated[Number, Tag("|number")]
    | Annotated[None, Tag("|null")],
    Field(union_mode="left_to_right"),
]


class Request(BaseModel):
    """A body. ``names`` is how many names of fields it held, if none came twice; None: that is not counted here."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @property
    def names(self) -> int | None:
        return None


class Candidate(Request):
    """A candidate that brings its features along."""

    id: ItemId = Field(description="What the decision calls it.", examples=["article-17"])
    features: Features = Field(
        description="As many numbers as the bandit has dimensions (or its featuriser's items). Beyond norm 1: scaled down.",
        examples=[[0.1, 0.9, 0.0]],
    )


Candidates = Annotated[
    Annotated[list[Name], Field(fail_fast=True, min_length=1, max_length=MOST_CANDIDATES), Tag("|ids")]
    | Annotated[list[Candidate], Field(fail_fast=True, min_length=1, max_length=MOST_CANDIDATES), Tag("|features")]
    | Annotated[None, Tag("|none")],
    Field(union_mode="left_to_right"),
]
Context = Annotated[
    dict[
        Name,
        Annotated[
            Annotated[Scalar, Tag("|one")]
            | Annotated[list[Scalar], Field(fail_fast=True, max_length=MOST_FEATURES), Tag("|list")],
            Field(union_mode="left_to_right"),
        ],
    ],
    Field(max_length=1_000),
]
User = Annotated[
    Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_NAME), Tag("|text")]
    | Annotated[Whole, Tag("|whole")]
    | Annotated[None, Tag("|none")],
    Field(union_mode="left_to_right"),
]


class DecisionRequest(Request):
    """Which candidate should be shown? All fields may be left out: then all items of the catalogue are candidates."""

    candidates: Candidates = Field(
        default=None,
        description="Ids of items of the catalogue, or candidates with features of their own. Left out: all items.",
        examples=[["front", "sports", "weather"]],
    )
    context: Context | None = Field(
        default=None,
        description="What the bandit's featuriser reads: values by field name. Public, like candidates: it is stored.",
        examples=[{"hour": 9, "device": "phone"}],
    )
    user: User = Field(
        default=None,
        description="Whose decision it is; needed where people are protected (unit user). Kept as a keyed number.",
        examples=["u-17"],
    )
    propensity: bool = Field(default=True, description="Whether to say how likely the item was to be chosen.")

    @property
    def names(self) -> int:
        described = bool(self.candidates) and type(self.candidates[0]) is Candidate  # type: ignore[index]
        own = 2 * len(self.candidates) if described else 0  # type: ignore[arg-type]
        return len(self.model_fields_set) + len(self.context or ()) + own

    def ask(self) -> Ask:
        """As the service takes it."""
        offered = self.candidates
        if offered and type(offered[0]) is Candidate:
            pairs = [(one.id, one.features) for one in offered if isinstance(one, Candidate)]
            return Ask(pairs, self.context, self.user, self.propensity)
        return Ask(offered, self.context, self.user, self.propensity)  # type: ignore[arg-type]


class DecisionsRequest(Request):
    """Many decisions at once: all are stored, or none."""

    decisions: list[DecisionRequest] = Field(
        fail_fast=True, min_length=1, max_length=MOST_DECISIONS, description="One entry a decision."
    )

    @property
    def names(self) -> int:
        return 1 + sum(one.names for one in self.decisions)


Reward = Annotated[
    Annotated[bool, Tag("|bool")] | Annotated[Number, Field(ge=0, le=1), Tag("|number")],
    Field(union_mode="left_to_right"),
]


class RewardRequest(Request):
    """What came of a decision. Private: others see it in noisy sums or flips alone.

    It is deleted within seconds after its batch closes. The bandit's `retention` says what exact sums keep of it.
    """

    reward: Reward = Field(description="From 0 to 1, or a truth value.", examples=[1])

    @property
    def names(self) -> int:
        return 1


class RewardEntry(Request):
    """What came of one decision."""

    decision_id: Name = Field(description="As the decision said.", examples=["1p2a-0f1e2d3c4b5a69788796"])
    reward: Reward = Field(description="From 0 to 1, or a truth value.", examples=[1])


class RewardsRequest(Request):
    """What came of many decisions; each is answered for itself."""

    rewards: list[RewardEntry] = Field(
        fail_fast=True, min_length=1, max_length=MOST_DECISIONS, description="One entry a decision."
    )

    @property
    def names(self) -> int:
        return 1 + 2 * len(self.rewards)


class ItemsRequest(Request):
    """The catalogue, whole: items that are not named are offered no more. Features of an item never change."""

    items: dict[ItemId, Features | None] = Field(
        min_length=1,
        max_length=MOST_ITEMS,
        description="Features by item id; null for one-hot features (as many items as the bandit has dimensions, at most).",
        examples=[{"front": [0.1, 0.9, 0.0], "sports": [0.7, 0.1, 0.2]}],
        json_schema_extra={"additionalProperties": False},  # none but those that fit the pattern
    )

    @property
    def names(self) -> int:
        return 1 + len(self.items)


class BanditRequest(Request):
    """A new bandit. It is public, and never changes."""

    name: str = Field(pattern=NAME_PATTERN, description="Its name in addresses.", examples=["front-page"])
    policy: Name = Field(
        default="noise-aware", description="What decides: `adaprivate list policies` names all.", examples=["noise-aware"]
    )
    dimension: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_DIMENSION,
        description="How many features a candidate has. May be left out with a featuriser, whose dimension it then is.",
        examples=[3],
    )
    rounds: int = Field(
        default=100_000, ge=1, le=10**9, description="About how many decisions there will be: noise is planned for them."
    )
    epsilon: Number = Field(default=1.0, ge=1e-6, le=1e4, description="The privacy loss to allow.")
    delta: Number = Field(default=1e-5, ge=0, le=0.5, description="The probability of exceeding it.")
    batch_size: int | None = Field(
        default=None, ge=1, le=10**9, description="Decisions that are released together. Left out: the policy's own choice."
    )
    reward_window: Number = Field(
        default=3600.0,
        ge=0,
        le=366 * 86_400,
        description="Seconds for which a batch waits for rewards after its last decision.",
    )
    unit: Literal["event", "user"] = Field(
        default="event",
        description="Whom to protect: single rewards, or all rewards of any one person. Decisions then need a user, and of "
        "each person only the first visits ever count (10 of noise-aware, by the option counted_visits).",
    )
    holdback: Number = Field(
        default=0.0,
        ge=0,
        le=0.5,
        description="The share of decisions that choose at random, for honest measurement. With unit=user it is a share of "
        "people: all decisions for such a person are random, and only the first visit counts.",
    )
    default_item: ItemId | None = Field(
        default=None, description="What callers show while nothing can be decided; answers 503 name it."
    )
    keep_rewards: bool = Field(
        default=False,
        description="Whether raw rewards stay in the database. Otherwise they are deleted when their batch closes.",
    )
    local: bool = Field(default=False, description="Rewards are flipped by clients: the service never holds a true one.")
    base_rate: Number | None = Field(
        default=None, ge=1e-4, le=1 - 1e-4, description="About how often a reward is 1, where that is known."
    )
    missing: Number | None = Field(default=None, ge=0, le=1, description="What a reward that never comes counts as.")
    featuriser: dict[Name, Any] | None = Field(
        default=None,
        description="How features are made of contexts and items, by public constants.",
        examples=[None],
    )
    options: dict[Name, Any] = Field(
        default_factory=dict, max_length=100, description="Further options of the policy, by name.", examples=[{}]
    )

    def expect_plain(self) -> None:
        """Raise unless what is inside of options and featuriser is JSON of a reasonable depth: no NaN, no Infinity."""
        waiting: list[tuple[tuple[str | int, ...], Any]] = [
            (("options",), self.options),
            (("featuriser",), self.featuriser),
        ]
        while waiting:
            place, value = waiting.pop()
            if isinstance(value, dict | list):
                if len(place) > DEEPEST:
                    raise Fault("invalid", f"Expected at most {DEEPEST} levels.", field=path(place[:DEEPEST]))
                inside = value.items() if isinstance(value, dict) else enumerate(value)
                waiting.extend(((*place, part), one) for part, one in inside if type(one) is not bool and one is not None)
            elif isinstance(value, str):
                if len(value) > LONGEST_TEXT:
                    raise Fault("invalid", f"Expected at most {LONGEST_TEXT} characters.", field=path(place))
            elif isinstance(value, int | float) and not abs(value) < (2**63 if isinstance(value, int) else math.inf):
                raise Fault("invalid", "Expected a finite number, of 64 bits if it is whole.", field=path(place))

    def place_of(self, field: str | None) -> str:
        """Where in the request that stands which a policy did not take: an option, or what the policy itself cannot do."""
        first = re.split(r"[.\[]", field or "policy")[0]
        if first == "options" and not self.options:
            return "policy"
        if first == "dimension" and self.dimension is None and self.featuriser is not None:
            return "featuriser"
        if first in BanditRequest.model_fields:
            return field or first
        if first in self.options:
            return f"options.{field}"
        return {"option": "options", "batches": "batch_size"}.get(first, "policy")
