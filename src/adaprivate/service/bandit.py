"""A bandit of the service: how it was made, its keys, and what its plan says of batches. Nothing here reads a reward."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa

from adaprivate import check, policies
from adaprivate.features import Featuriser
from adaprivate.mechanisms.channels import GAUSSIAN, ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan
from adaprivate.mechanisms.units.joint import JointUnit
from adaprivate.policies.core.settings import exact_guarantee
from adaprivate.privacy import CONDITIONS, Guarantee
from adaprivate.runtime.inputs import needs_user
from adaprivate.service.faults import Fault
from adaprivate.service.schema import HOLDBACK, POLICY

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
LARGEST_DIMENSION = 256
"""A learner is stored whole with every batch: its size grows with the square."""
MOST_BATCHES = 100_000
LONGEST_WINDOW = 366 * 86_400.0
MOST_HELD_BACK = 0.5
LONGEST_DIFFERENCE = 120
"""So many characters, at most, say how two bandits differ in one setting."""
_OWN = ("name", "policy", "reward_window", "holdback", "default_item", "keep_rewards", "featuriser", "options")
"""Fields of a description that are no option of the policy."""
_TOKEN = re.compile(r"([0-9a-f]{12})([phPH])([0-9a-f]{1,15})-([0-9a-f]{20})")


@dataclass(frozen=True, kw_only=True)
class BanditSpec:
    """How a bandit is made: public, and never changed.

    reward_window: seconds for which a batch waits for rewards after its last decision. holdback: the share of rounds that
    choose at random, for honest measurement; with unit=user of people. keep_rewards: whether raw rewards stay in the
    database after their release. local: rewards are flipped by the client. options: further options of the policy.
    """

    name: str
    policy: str = "noise-aware"
    dimension: int | None = None
    rounds: int = 100_000
    epsilon: float = 1.0
    delta: float = 1e-5
    batch_size: int | None = None
    reward_window: float = 3600.0
    unit: str = "event"
    holdback: float = 0.0
    default_item: str | None = None
    keep_rewards: bool = False
    local: bool = False
    base_rate: float | None = None
    missing: float | None = None
    featuriser: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check.kind("name", self.name, str)
        fits = NAME.fullmatch(self.name) is not None
        check.expect(fits, "name", self.name, "to be 1 to 64 of a-z, 0-9, _ and -, the first a letter or digit")
        check.real("reward_window", self.reward_window, at_least=0, at_most=LONGEST_WINDOW)
        check.real("holdback", self.holdback, at_least=0, at_most=MOST_HELD_BACK)
        check.whole("rounds", self.rounds, at_least=1, at_most=10**9)
        check.kind("keep_rewards", self.keep_rewards, bool)
        check.kind("local", self.local, bool)
        if self.dimension is not None:
            check.whole("dimension", self.dimension, at_least=1, at_most=LARGEST_DIMENSION)
        check.kind("options", self.options, dict)

    def to_json(self) -> str:
        """As text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BanditSpec:
        """What :meth:`to_json` wrote; fields that did not exist then have their defaults."""
        return cls(**json.loads(text))

    def differing(self, there: BanditSpec) -> dict[str, tuple[Any, Any]]:
        """By name what another description has otherwise: its value and ours. `noise` counts only if this names it."""
        mine, theirs = (json.loads(one.to_json()) for one in (self, there))
        if mine["featuriser"] is not None and None in (mine["dimension"], theirs["dimension"]):
            mine["dimension"] = theirs["dimension"]  # the featuriser says it
        options, other = mine.pop("options"), theirs.pop("options")
        pairs = {name: (theirs[name], mine[name]) for name in mine}
        known = sorted(options.keys() | other.keys() - {"noise"})
        pairs |= {f"options.{one}": (other.get(one), options.get(one)) for one in known}
        return {name: (its, own) for name, (its, own) in pairs.items() if its != own}


def differing_in_words(differs: dict[str, tuple[Any, Any]]) -> str:
    """As "epsilon 1 there, 2 asked"; of values that are long the name alone. All settings are public."""

    def told(value: Any) -> str:
        return "not set" if value is None else f"{value:.10g}" if isinstance(value, float) else json.dumps(value)

    words = {name: f"{name} {told(its)} there, {told(own)} asked" for name, (its, own) in differs.items()}
    return "; ".join(name if len(text) > LONGEST_DIFFERENCE else text for name, text in words.items())


def settings_of(spec: BanditSpec, dimension: int) -> Any:
    """The settings of the bandit's policy; refused, with the reason, where the service cannot run it."""
    accepted = policies.options(spec.policy)
    asked: dict[str, Any] = {"dimension": dimension}
    plain = {f.name: f.default for f in dataclasses.fields(BanditSpec) if f.name not in (*_OWN, "dimension")}
    for name, default in plain.items():
        value = getattr(spec, name)
        if name in accepted:
            if value is not None:
                asked[name] = value
        elif name == "batch_size":
            continue  # how many rounds are released together, where the policy has no batches of its own
        else:
            check.expect(value == default, name, value, f"not to be set: {spec.policy} has no such option")
    doubled = sorted(asked.keys() & spec.options.keys())
    check.expect(not doubled, "options", doubled, "not to repeat what is set already")
    if spec.local:
        asked["channel"] = "flip"
    values = {**asked, **spec.options}
    if "schedule" in accepted:  # batches of a fixed length: all of them are planned at once
        size = values.get("batch_size", 300)
        many = isinstance(size, int) and size > 0 and spec.rounds // size > MOST_BATCHES
        check.expect(not many, "batch_size", size, f"to make at most {MOST_BATCHES} batches of {spec.rounds} rounds")
    try:
        settings = policies.settings(spec.policy, values)
        _expect_servable(settings)
    except check.InputError:
        raise
    except Exception as error:  # whatever values of a wrong kind provoke
        raise check.InputError(
            f"Expected options to be values that {spec.policy} takes ({type(error).__name__})."
        ) from None
    return settings


def _expect_servable(settings: Any) -> None:
    """Raise unless the policy promises something with exact noise, and workers can decide without its book."""
    name = settings.name
    check.expect(not settings.fixed_arms, "policy", name, "to take candidates: for fixed arms use noise-aware, one-hot")
    exact_guarantee(settings)
    plan = settings.plan
    kinds = isinstance(plan, BatchPlan | RewardPlan | ChannelPlan)
    check.expect(kinds, "policy", name, "to release sums or told rewards: workers of the service know releases alone")
    private = isinstance(getattr(plan, "unit", None), JointUnit)
    check.expect(not private, "policy", name, "to have public contexts: the service stores and shows what was chosen")


LARGEST_LOSS = 0.01
"""Independent noise is chosen where it is foreseen to cost at most so much of what can be learned."""


def with_noise(bandit: Bandit) -> BanditSpec:
    """The bandit's description, with independent noise where nobody chose the noise and that costs little.

    A book with independent noise keeps nothing of released batches.
    """
    spec, settings = bandit.spec, bandit.settings
    foreseen = getattr(settings, "foreseen_share", None)
    if foreseen is None or "noise" in spec.options or GAUSSIAN not in settings.channels or settings.clips:
        return spec
    if foreseen(settings.noise) - foreseen("independent") > LARGEST_LOSS:
        return spec
    return dataclasses.replace(spec, options={**spec.options, "noise": "independent"})


def retention_of(bandit: Bandit, plan: Any) -> str:
    """What is kept of released rewards under this plan; before a channel is chosen, what each would keep."""
    undecided = isinstance(plan, ChannelPlan) and plan.choice is None
    return str(bandit.settings.retention if undecided else plan.retention)


class Keys:
    """The three keys of a bandit, from its secret: of decision ids, of people, of exploration."""

    def __init__(self, secret: bytes) -> None:
        check.expect(len(secret) == 96, "secret", f"{len(secret)} bytes", "to have 96")
        self.decisions, self.people, self.exploration = secret[:32], secret[32:64], secret[64:]

    def request(self, key: str) -> str:
        """What a request is remembered by: nobody can try out requests on it who has not got these keys."""
        return hashlib.blake2b(key.encode(), key=self.people, digest_size=32, person=b"request").hexdigest()

    def words(self, purpose: str) -> tuple[np.uint64, np.uint64]:
        """Two words for random numbers of exploration: not for privacy."""
        digest = hashlib.blake2b(purpose.encode(), key=self.exploration, digest_size=16).digest()
        one, other = struct.unpack("<QQ", digest)
        return np.uint64(one), np.uint64(other)


@dataclass(frozen=True)
class Bandit:
    """A bandit as workers know it: everything here is public but the keys."""

    id: int
    uid: str
    spec: BanditSpec
    keys: Keys
    dimension: int
    featuriser: Featuriser | None
    settings: Any
    """As it was made, before the plan went on."""

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Bandit:
        """The bandit of a row of its table."""
        return cls.made(row.id, row.uid, BanditSpec.from_json(row.description), row.secret)

    @classmethod
    def made(cls, number: int, uid: str, spec: BanditSpec, secret: bytes) -> Bandit:
        """The bandit of this description."""
        featuriser = None if spec.featuriser is None else Featuriser.from_dict(spec.featuriser)
        dimension = spec.dimension if featuriser is None else featuriser.dimension
        if dimension is None:
            raise check.InputError("Expected dimension to be given, or a featuriser, whose dimension it then is.")
        fits = spec.dimension in (None, dimension)
        check.expect(fits, "dimension", spec.dimension, f"== {dimension}, as the featuriser makes it")
        check.whole("dimension", dimension, at_least=1, at_most=LARGEST_DIMENSION)
        return cls(number, uid, spec, Keys(secret), dimension, featuriser, settings_of(spec, dimension))

    @property
    def tag(self) -> str:
        """What names it in the ids of its decisions, wherever it is moved."""
        return self.uid[:12]

    @property
    def needs_user(self) -> bool:
        """Whether it protects people, and so must be told whose decisions are."""
        return needs_user(self.settings)

    @property
    def group(self) -> int:
        """How many rounds are released together at first, where the policy would release each by itself."""
        return self.spec.batch_size or max(1, min(2 * self.dimension + 10, self.spec.rounds // 20))

    @property
    def missing(self) -> float:
        """What a reward that never came counts as."""
        return float(self.settings.missing)

    def token(self, stream: int, number: int) -> str:
        """The id of a decision: its bandit, stream and round, and a mark that nobody can make up.

        A capital letter says that the client must flip the reward before it leaves.
        """
        text = f"{self.tag}{('PH' if self.spec.local else 'ph')[stream]}{number:x}"
        return f"{text}-{hashlib.blake2b(text.encode(), key=self.keys.decisions, digest_size=10).hexdigest()}"

    def streams_of(self, rounds: Any, people: Any) -> Any:
        """Which stream each of these rounds belongs to, by a public coin: of people where they are protected."""
        share = self.spec.holdback
        if share == 0:
            return np.zeros(len(rounds), dtype=np.int8)
        numbers = people if self.needs_user else rounds
        coin = uniforms(self.keys.words("holdback"), np.asarray(numbers, dtype=np.uint64))
        return (coin < share).astype(np.int8) * HOLDBACK


def decision_of(token: str) -> tuple[str, int, int] | None:
    """The bandit's tag, stream and round that an id names, if it has the form of one: real or not."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    return found[1], POLICY if found[2] in "pP" else HOLDBACK, int(found[3], 16)


def mixed(words: tuple[np.uint64, np.uint64], numbers: Any) -> Any:
    """64 bits for each of these numbers, by the finaliser of splitmix64, twice."""
    with np.errstate(over="ignore"):
        value = numbers * np.uint64(0x9E3779B97F4A7C15) + words[0]
        for word in (words[1], words[0]):
            value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            value = (value ^ (value >> np.uint64(31))) + word
    return value


def uniforms(words: tuple[np.uint64, np.uint64], numbers: Any) -> Any:
    """A number in [0, 1) for each of these."""
    return (mixed(words, numbers) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def lengthened(settings: Any, plan: Any) -> Any:
    """The settings as they were extended, step by step, when this plan was made: each step doubles the rounds."""
    sums = getattr(plan, "sums", None)
    while sums is not None and sums.ends[-1] > settings.boundaries[-1]:
        last, first = settings.boundaries[-1], settings.boundaries[0]
        settings = dataclasses.replace(settings, rounds=2 * last, horizon=first)
    return settings


def batch_end(bandit: Bandit, settings: Any, closed: int) -> int | None:
    """The round after which the batch that begins at ``closed`` ends, by the plan alone. None: it is never released."""
    plan = settings.plan
    grouped = closed + max(bandit.group, closed // 20)
    if isinstance(plan, BatchPlan):
        return next((end for end in plan.ends if end > closed), None)
    if isinstance(plan, RewardPlan):
        return grouped
    ends: list[int] = [settings.planned] if settings.planned > closed else []
    if plan.sums is not None:
        ends += [end for end in plan.sums.ends if end > closed][:1]
        ends += [min(grouped, plan.first)] if closed < plan.first else []
    elif plan.channels != (GAUSSIAN,):
        ends.append(grouped)
    return min(ends, default=None)


JOURNAL_KEPT = (
    "the journal of published batches is neither copied nor rolled back along with the database: as long as it is not, the "
    "service refuses to release a batch twice"
)


def void_text(entry: Any) -> str:
    """The sentence of an entry of the column void; the entry may have the price that is paid at most beside it."""
    return str(entry["text"] if isinstance(entry, dict) else entry)


def guarantee_of(bandit: Bandit, plan: Any, *, replay_refused: bool, void: list[Any]) -> dict[str, Any]:
    """The guarantee as the service states it: what it enforces beyond the policy, and which conditions no longer hold.

    ``void``: entries of the column. With any, epsilon and delta are None, and ``at_most`` is the price that was worked out.
    """
    stated: Guarantee = plan.guarantee(bandit.spec.policy, exact_noise=True)
    rounded = round(stated.epsilon, 9)  # never down
    once = CONDITIONS["no-replay"]
    enforced, assumptions = [*stated.enforced], [*stated.assumptions]
    texts = [void_text(entry) for entry in void]
    broken = any(text.startswith("no-replay") for text in texts)
    priced = len(void) == 1 and isinstance(void[0], dict)  # of several conditions together nobody has worked it out
    if replay_refused and not broken and once in assumptions:
        assumptions[assumptions.index(once)] = JOURNAL_KEPT
    return {
        "epsilon": None if void else rounded if rounded >= stated.epsilon else stated.epsilon,
        "delta": None if void else stated.delta,
        "at_most": {name: void[0][name] for name in ("epsilon", "delta")} if priced else None,
        "unit": stated.unit,
        "sentence": f"VOID: {' '.join(texts)} What follows no longer holds. {stated.sentence}" if void else stated.sentence,
        "enforced": enforced,
        "assumptions": assumptions,
        "void": texts,
    }


def expect_open(state: str, reason: str | None, name: str, item: str | None) -> None:
    """Raise where a bandit does not decide just now."""
    if state != "open":
        why = f": {reason}" if reason else "."
        raise Fault(state if state in ("paused", "halted", "moved") else "halted", f"{name} is {state}{why}", item=item)
