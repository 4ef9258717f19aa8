"""The options of the noise-aware policies: what each means, what it may be, and what follows from it at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from adaprivate import check, mechanisms
from adaprivate.mechanisms.units import EventUnit, Unit
from adaprivate.mechanisms.units.ledger import CLIP, UserLedgerUnit
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.people.shares import MOST_VISITS, WAYS
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.noise_aware.state import CHANNELS

CLIPPED = ("clip", "clip-shares")
"""How people may be clipped, instead of being weighted."""


def square_strategy(name: str, value: object) -> str:
    """The name of a strategy that releases one row per batch."""
    known = mechanisms.strategies()
    if isinstance(value, str) and value in known and _is_square(value):
        return value
    return check.one_of(name, value, sorted(filter(_is_square, known)))


def _is_square(strategy: str) -> bool:
    built = mechanisms.strategy(strategy, 3)
    return built.rows == built.steps


class Scheduled:
    """What follows from options that the noise-aware policies share: when batches may end, and how rewards vary."""

    dimension: int
    rounds: int
    horizon: int | None
    batch_size: int | None
    base_rate: float | None
    reward_variance: float | None

    @property
    def variance(self) -> float:
        """Of a reward around its mean, before anything was learned of it."""
        if self.reward_variance is not None:
            return float(self.reward_variance)
        return 0.25 if self.base_rate is None else self.base_rate * (1 - self.base_rate)

    @cached_property
    def boundaries(self) -> list[int]:
        """The rounds after which a new epoch starts: the horizon, twice it, four times it, ..."""
        found = [self.horizon or self.rounds]
        while found[-1] < self.rounds:
            found.append(2 * found[-1])
        return found

    @cached_property
    def first_batch(self) -> int:
        """The rounds of the first batch."""
        return self.batch_size or max(1, min(2 * self.dimension + 10, self.boundaries[0] // 20))


@dataclass(frozen=True, kw_only=True)
class NoiseAwareOptions(Scheduled, PolicySettings):
    """Settings of a policy that acts on the posterior given all releases. Only the first few matter to most users.

    channel: how rewards are released: "flip" (every reward a flipped bit, told at once), "items" (sums of rewards of the
    same features), "gaussian" (sums of rewards times features over batches), or "auto", which chooses by public rules.
    base_rate: the public mean reward, where one is known. missing: what a reward that never comes counts as, by default
    the base rate, or 1/2. local: what arrives has been flipped where it was born (channel "flip").
    batch_size: rounds of the first batch; by default 2 dimension + 10, at most a twentieth of all. growth: each batch
    is this much longer than the one before (after the horizon, 1.1 or more). noise: "informative" (fitted to what the
    posterior earns), or a strategy that releases one row per batch. centre: a public constant taken off rewards.
    intercept: the share (a norm) of an event's weight spent on learning the mean reward; 0 trusts the centre.
    ridge: the prior precision of theta, by default from the spread of the first candidates; adapt_ridge: whether what was
    released may lower it. reward_variance: of a reward around its mean, at most 1/4.
    horizon: the rounds to plan for where ``rounds`` is not known to be the end; then twice as many, and so on.
    memory: rounds after which the parameter's correlation with today's has fallen to 1/e; None: it does not change.
    catalogue: the public items (rows) that can be played; Gaussian noise is shaped to them.
    unit: whom it protects: "event", any one reward; or "user", all rewards of any one person: then decisions say whose
    they are, ``decide(candidates, user=...)``, and rewards are released in Gaussian sums alone.
    counted_visits: only the first so many visits of each person ever count, however long the policy runs; later rewards
    teach nothing. Take about as many as people make, 3 to 30 where that is not known well.
    weights: "directions" (each visit along what is new in it), "scalar" (along itself) or "equal" (all alike, as group
    privacy pays); or, as rivals of these, "clip" (what a person adds to a batch is clipped, in ``counted_batches`` batches
    at most, with more noise) and "clip-shares" (the same, clipped the more the more batches; simulated noise only).
    Clipping is biased, and the posterior knows only what it leaves on average. It takes the centre 1/2 and "sqrt" noise.
    """

    units: ClassVar[tuple[str, ...]] = ("event", "user")

    epsilon: float = 1.0
    delta: float = 1e-5
    channel: str = "auto"
    base_rate: float | None = None
    missing: float | None = None  # type: ignore[assignment]
    local: bool = False
    batch_size: int | None = None
    growth: float = 1.1
    noise: str = "informative"
    centre: float | None = None
    intercept: float = 0.3
    ridge: float | None = None
    adapt_ridge: bool = True
    reward_variance: float | None = None
    horizon: int | None = None
    memory: float | None = None
    catalogue: tuple[tuple[float, ...], ...] | None = None
    unit: str = "event"
    counted_visits: int = 10
    weights: str = "directions"
    counted_batches: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check.budget(self.epsilon)
        check.one_of("channel", self.channel, ("auto", *CHANNELS))
        pure = self.channel not in ("auto", "gaussian")
        check.expect(not (pure and self.delta == 0), "delta", self.delta, "to be left out: the guarantee states 0 there")
        check.probability("delta", self.delta)
        check.one_of("unit", self.unit, self.units)
        check.whole("counted_visits", self.counted_visits, at_least=1, at_most=MOST_VISITS)
        check.one_of("weights", self.weights, (*WAYS, *CLIPPED))
        check.whole("counted_batches", self.counted_batches, at_least=1, at_most=MOST_VISITS)
        if self.clips:
            self._take_to_clip()
        if self.unit == "user":
            check.expect(self.channel in ("auto", "gaussian"), "channel", self.channel, "== 'gaussian' for unit=user")
            check.expect(self.memory is None, "memory", self.memory, "== None for unit=user")
            check.expect(self.noise != "blt", "noise", self.noise, "!= 'blt' for unit=user: it rounds sums")
        if self.base_rate is not None:
            check.mean_reward("base_rate", self.base_rate)
        for name in ("centre", "missing"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, 0.5 if self.base_rate is None else float(self.base_rate))
        check.kind("local", self.local, bool)
        check.expect(not self.local or self.channel == "flip", "channel", self.channel, "== 'flip' where local")
        if self.horizon is not None:
            check.whole("horizon", self.horizon, at_least=1)
        if self.batch_size is not None:
            check.whole("batch_size", self.batch_size, at_least=1)
            first = self.boundaries[0]
            check.expect(self.batch_size <= first, "batch_size", self.batch_size, f"<= {first}, the rounds planned for")
        check.real("growth", self.growth, at_least=1, at_most=100)
        square_strategy("noise", self.noise)
        check.real("centre", self.centre, at_least=0, at_most=1)
        check.real("missing", self.missing, at_least=0, at_most=1)
        check.real("intercept", self.intercept, at_least=0)
        fits = self.intercept == 0 or 1e-3 <= self.intercept < 1
        check.expect(fits, "intercept", self.intercept, "== 0, or >= 0.001 and < 1")
        if self.ridge is not None:
            check.real("ridge", self.ridge, at_least=1e-9, at_most=1e9)
        check.kind("adapt_ridge", self.adapt_ridge, bool)
        if self.reward_variance is not None:
            check.real("reward_variance", self.reward_variance, at_least=1e-4, at_most=0.25)
        if self.memory is not None:
            check.real("memory", self.memory, above=0)
            fits = self.channel in ("auto", "gaussian")
            check.expect(fits, "channel", self.channel, "== 'gaussian' where there is a memory")
        if self.catalogue is not None:
            items = check.floats("catalogue", self.catalogue, (None, self.dimension))
            check.expect(bool(np.any(items != 0)), "catalogue", items.tolist(), "to hold an item other than 0")
            object.__setattr__(self, "catalogue", tuple(map(tuple, items.tolist())))

    def _take_to_clip(self) -> None:
        check.expect(self.base_rate is None, "base_rate", self.base_rate, f"== None for weights={self.weights}")
        check.expect(self.centre in (None, 0.5), "centre", self.centre, f"== 0.5 for weights={self.weights}")
        if self.weights == "clip":
            check.expect(self.horizon is None, "horizon", self.horizon, "== None for weights=clip")
            if self.noise == "informative":  # which is fitted to those who enter one batch
                object.__setattr__(self, "noise", "sqrt")

    @property
    def clips(self) -> bool:
        """Whether people are clipped, not weighted."""
        return self.unit == "user" and self.weights in CLIPPED

    @property
    def middle(self) -> float:
        """The public constant taken off rewards."""
        return float(self.centre or 0.0)

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that may be chosen."""
        if self.channel != "auto":
            return (self.channel,)
        plain = 1e-6 <= self.epsilon <= 30 and self.unit == "event"  # what flips and whole numbers are made for
        return CHANNELS if self.memory is None and plain else ("gaussian",)

    @property
    def expected_weight(self) -> float:
        """What an event is expected to be weighted with: people's early visits, of which each is worth most, with less."""
        return 0.5 if self.unit == "user" else 1.0

    @property
    def protected(self) -> Unit:
        """Whom it protects."""
        if self.unit == "event":
            return EventUnit()
        if not self.clips:
            return UserLedgerUnit(self.counted_visits, self.weights)
        # at 1/2, a person who is replaced moves a batch by 1, as one event does
        fixed = self.weights == "clip"
        return UserUnit(self.counted_batches, clip=0.5) if fixed else UserLedgerUnit(self.counted_batches, CLIP)

    @property
    def size(self) -> int:
        """The length of an event."""
        return self.dimension + (self.intercept > 0)
