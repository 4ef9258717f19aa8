"""What callers get: answers as pydantic models, for the OpenAPI document. Answers are written without them, and tests hold
them to it.

All of it is public but :class:`Arrivals`, which only the scope admin may read.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from adaprivate.service.deciding import Decided


class _Document(BaseModel):
    """Further members may come in later versions."""

    model_config = ConfigDict(extra="allow")


class Decision(_Document):
    """What to show."""

    decision_id: str = Field(description="Send it back with the reward.", examples=["1p2a-0f1e2d3c4b5a69788796"])
    item: str = Field(description="The candidate to show.", examples=["sports"])
    version: int = Field(description="How many batches the policy had learned from.", examples=[12])
    propensity: float | None = Field(description="How likely this item was; null if it was not asked for.", examples=[0.41])
    round: int = Field(description="The number of the decision, from 0.", examples=[3801])
    holdback: bool = Field(description="Whether it was chosen at random, for measurement.", examples=[False])
    keep: float | None = Field(
        default=None,
        description="Only where clients flip rewards: with this probability they tell the truth.",
        examples=[0.73],
    )


def shown(decided: Decided) -> dict[str, object]:
    """A decision as callers get it."""
    found: dict[str, object] = {
        "decision_id": decided.decision_id,
        "item": decided.item,
        "version": decided.version,
        "propensity": decided.propensity,
        "round": decided.round,
        "holdback": decided.holdback,
    }
    if decided.keep is not None:
        found["keep"] = decided.keep
    return found


class Decisions(_Document):
    """What to show, in the order of the request."""

    decisions: list[Decision]


class RewardStored(_Document):
    """What became of a reward."""

    status: Literal["recorded", "duplicate"] = Field(description="duplicate: the same reward had come before.")


class RewardStatuses(_Document):
    """What became of each reward, in the order of the request."""

    statuses: list[Literal["recorded", "duplicate", "different", "late", "lost", "unknown"]] = Field(
        description="different: another reward had come before, which stands. late: its batch is closed. "
        "lost: the decision was lost with the database it was in. unknown: no such decision."
    )


class ItemsStored(_Document):
    """How many items are offered now."""

    items: int = Field(examples=[2])
    clipped: int = Field(description="How many had features longer than norm 1, and were scaled down.", examples=[0])
    warning: str | None = Field(description="What that means; null where none was.", examples=[None])


class Item(_Document):
    """An item of the catalogue."""

    id: str
    features: list[float] | None


class Items(_Document):
    """The catalogue."""

    items: list[Item]


class AtMost(_Document):
    """What is paid at most where batches may be released again."""

    epsilon: float
    delta: float


class BanditSummary(_Document):
    """A bandit in a few words."""

    name: str
    policy: str
    epsilon: float | None = Field(description="The privacy loss that is promised; null where the guarantee is void.")
    delta: float | None = Field(description="The probability of exceeding it; null where the guarantee is void.")
    at_most: AtMost | None = Field(description="Where it is void, what is paid at most; null: not void, or not known.")
    unit: str
    void: list[str] = Field(description="Conditions that no longer hold. With any, epsilon and delta are null.")
    holdback: float
    decided: int
    version: int
    state: str
    created_at: float


class Bandits(_Document):
    """All bandits that the key may see."""

    bandits: list[BanditSummary]


class GuaranteeStated(_Document):
    """What is promised, and what that rests on."""

    epsilon: float | None = Field(description="The privacy loss that is promised; null where the guarantee is void.")
    delta: float | None = Field(description="The probability of exceeding it; null where the guarantee is void.")
    at_most: AtMost | None = Field(description="Where it is void, what is paid at most; null: not void, or not known.")
    sentence: str
    enforced: list[str] = Field(description="Conditions that this service sees to.")
    assumptions: list[str] = Field(description="Conditions that are yours to keep.")
    void: list[str] = Field(description="Conditions that no longer hold.")


class Rounds(_Document):
    """How many decisions there were: by the policy, at random for measurement, and in closed batches."""

    decided: int
    policy: int
    holdback: int
    counted: int


class NextBatch(_Document):
    """The batch that closes next; null: it is not known yet, or none closes any more."""

    start: int | None
    end: int | None
    assigned: int
    closes_at: float | None


class Batch(_Document):
    """A closed batch."""

    batch: int
    start: int
    end: int
    due_at: float
    released_at: float
    releases: int


class Budget(_Document):
    """What is spent of the budget."""

    epsilon: float | None = Field(description="The privacy loss that is promised; null where the guarantee is void.")
    delta: float | None = Field(description="The probability of exceeding it; null where the guarantee is void.")
    at_most: AtMost | None = Field(description="Where it is void, what is paid at most; null: not void, or not known.")
    void: list[str] = Field(description="Conditions that no longer hold. With any, epsilon and delta are null.")
    explanation: str


class Status(_Document):
    """A bandit: how it was made, what it promises, where it stands. Public."""

    name: str
    policy: str
    state: Literal["open", "paused", "halted", "moved"]
    reason: str | None
    created_at: float
    unit: str
    dimension: int
    rounds_planned: int
    reward_window: float
    base_rate: float | None = Field(description="The mean reward that the policy was told; null: none.")
    missing: float = Field(description="What a reward that never comes counts as.")
    holdback: float = Field(description="The share of rounds that choose at random; where unit is user, of people.")
    keep_rewards: bool
    retention: str = Field(description="What sums keep of rewards once they are released, and until when.")
    local: bool
    default_item: str | None
    featuriser: dict[str, Any] | None
    options: dict[str, Any]
    items: int
    guarantee: GuaranteeStated
    rounds: Rounds
    version: int
    next_batch: NextBatch
    batches: list[Batch] = Field(description="The last 20 that closed.")
    budget: Budget
    dropped: dict[str, int | None] = Field(
        description="clipped: features that were too long. visits_beyond: visits of closed batches, the holdback's too, "
        "that taught nothing because earlier ones of the same person had counted; null where no people are protected."
    )
    notes: list[str]


class Interval(_Document):
    """An estimate, and an interval around it."""

    mean: float | None
    low: float | None
    high: float | None


class Learned(Interval):
    """The mean reward of a batch, as far as its noisy release tells."""

    batch: int
    rounds: list[int] = Field(min_length=2, max_length=2)
    at: float
    cumulative: Interval | None


class Shown(_Document):
    """How often an item was chosen, and what the released state makes of it."""

    id: str
    shown: int
    share: float
    score: float | None


class Series(_Document):
    """What the dashboard draws: released statistics and public counts."""

    name: str
    version: int
    guarantee: GuaranteeStated
    rounds: Rounds
    budget: Budget
    next_batch: NextBatch
    learned: list[Learned]
    holdback: list[Learned]
    lift: Interval | None
    items: list[Shown]
    estimate: str


class Arrivals(_Document):
    """PRIVATE: how many rewards wait, and how many came late."""


class Health(_Document):
    """The process lives."""

    status: Literal["ok"]


class Ready(_Document):
    """The process can decide."""

    status: Literal["ready"]
    checks: dict[str, Any] = Field(description="What was looked at.")
