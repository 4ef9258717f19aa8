"""What the noise-aware policies share: everything chosen by public rules, the plan of its channels, and the guarantee.

docs/noise-aware.md derives the rules and says what each was measured to be worth.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Self, cast

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats, Integers
from adaprivate.mechanisms import Shape
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.ledger import WAYS
from adaprivate.mechanisms.people import MOST_VISITS
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.mechanisms.units import EventUnit, Unit
from adaprivate.mechanisms.units.ledger import CLIP, UserLedgerUnit
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.noise_aware import starting
from adaprivate.policies.noise_aware.clipped import Clipped, clipped_sums
from adaprivate.policies.noise_aware.outlook import LITTLE, Choice, Design, Outlook, choose, design, little_to_learn
from adaprivate.policies.noise_aware.people import Peopled, people_sums
from adaprivate.policies.noise_aware.rows import MOST_BATCHES, Rows
from adaprivate.policies.noise_aware.simulated import Channelled
from adaprivate.policies.noise_aware.state import CHANNELS, OPTIMISTIC, Exploration, NoiseAwareState

UNITS = ("event", "user")
CLIPPED = ("clip", "clip-shares")
"""How people may be clipped, instead of being weighted."""
LEAST_SCOUTED = 7
"""So many rounds are looked at, however short the first batch is, where they are flipped meanwhile."""


@dataclass(frozen=True, kw_only=True)
class NoiseAwareSettings(PolicySettings):
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
    counted_visits: of each person so many visits count at most: about as many as people make, 3 to 30 where that is not
    known well. weights: "directions" (each visit along what is new in it), "scalar" (along itself) or "equal" (all alike,
    as group privacy pays); or, as rivals of these, "clip" (what a person adds to a batch is clipped, in ``counted_batches``
    batches at most, with more noise) and "clip-shares" (the same, clipped the more the more batches; simulated noise only).
    Clipping is biased, and the posterior knows only what it leaves on average. It takes the centre 1/2 and "sqrt" noise.
    """

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
        check.probability("delta", self.delta)
        check.one_of("channel", self.channel, ("auto", *CHANNELS))
        check.one_of("unit", self.unit, UNITS)
        check.whole("counted_visits", self.counted_visits, at_least=1, at_most=MOST_VISITS)
        check.one_of("weights", self.weights, (*WAYS, *CLIPPED))
        check.whole("counted_batches", self.counted_batches, at_least=1, at_most=MOST_VISITS)
        if self.clips:
            self._take_to_clip()
        if self.unit == "user":
            check.expect(self.channel in ("auto", "gaussian"), "channel", self.channel, "== 'gaussian' for unit=user")
            check.expect(self.memory is None, "memory", self.memory, "== None for unit=user")
        if self.base_rate is not None:
            check.real("base_rate", self.base_rate, at_least=1e-4, at_most=1 - 1e-4)
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
        check.one_of("noise", self.noise, square_strategies())
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
        if "gaussian" in self.channels:
            ends = self._rows(0, "independent").ends
            count = int((ends <= self.boundaries[0]).sum())
            check.expect(count <= MOST_BATCHES, "batches", count, f"<= {MOST_BATCHES} (a larger batch_size or growth)")

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
    def variance(self) -> float:
        """Of a reward around its mean, before anything was learned of it."""
        if self.reward_variance is not None:
            return float(self.reward_variance)
        return 0.25 if self.base_rate is None else self.base_rate * (1 - self.base_rate)

    # --- what is chosen -----------------------------------------------------------------------------------------------

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that may be chosen."""
        if self.channel != "auto":
            return (self.channel,)
        plain = 1e-6 <= self.epsilon <= 30 and self.unit == "event"  # what flips and whole numbers are made for
        return CHANNELS if self.memory is None and plain else ("gaussian",)

    @cached_property
    def choice(self) -> Choice | None:
        """What was chosen by the first offers; None before."""
        return None

    @cached_property
    def scouted(self) -> int:
        """The rounds after which channel, prior and exploration are chosen: before anything but flips is released."""
        least = min(LEAST_SCOUTED, self.boundaries[0] // 2) if len(self.channels) > 1 else 0
        return max(self.first_batch - 1, least)

    @property
    def exploration(self) -> Exploration:
        """How choices explore: by default an upper bound, wider where the same candidates come again and again."""
        return Exploration(OPTIMISTIC, 0.3 if self.choice is None else self.choice.width, climbs=True)

    @cached_property
    def outlook(self) -> Outlook:
        """The public numbers of a forecast."""
        return Outlook(
            rounds=self.boundaries[0],
            epsilon=self.epsilon,
            noise_variance=self._gaussian_variance(self.epsilon),
            reward_variance=self.variance,
            first_batch=self.first_batch,
        )

    def _gaussian_variance(self, epsilon: float) -> float:
        """Of the noise in one direction of what the Gaussian channel releases once."""
        sigma = privacy.gaussian_sigma(epsilon, self.delta) / self.expected_weight
        return sigma**2 / (1 - self.intercept**2)

    # --- the public plan ----------------------------------------------------------------------------------------------

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

    @cached_property
    def prior_precision(self) -> float:
        """The prior precision of every coordinate of theta."""
        if self.ridge is not None:
            return self.ridge
        return 4.0 * self.dimension if self.choice is None else self.choice.ridge

    def _rows(self, first: int, noise: str) -> Rows:
        score = 4.0 * self.dimension if self.choice is None else self.choice.precision
        score = score if self.ridge is None else self.ridge
        told = first * self.outlook.flip_information / self.dimension if self.channel == "auto" else 0.0
        return Rows(
            first=first,
            boundaries=tuple(self.boundaries),
            batch_size=self.first_batch,
            growth=self.growth,
            dimension=self.dimension,
            noise=noise,
            noise_multiplier=self.noise_multiplier,
            prior_precision=score,
            known=score + told,
            reward_variance=self.variance,
            memory=self.memory,
            weight=self.expected_weight,
        )

    @cached_property
    def rows(self) -> Rows | None:
        """The Gaussian channel, where it is used; before the choice only when its batches end is certain."""
        if self.choice is None:
            return self._rows(0, "independent") if self.channels == ("gaussian",) else None
        return self._rows(self.choice.first, self.noise) if self.choice.channel == "gaussian" else None

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
    def ends(self) -> Integers:
        """The round after which each batch of the Gaussian channel is released."""
        return np.zeros(0, dtype=np.int64) if self.rows is None else self.rows.ends

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The mechanisms of the Gaussian channel."""
        return () if self.rows is None else self.rows.epochs

    @cached_property
    def shape(self) -> Shape:
        """The coordinates of an event (features, then 1 for the intercept) in which the noise is round."""
        features = 1 / math.sqrt(1 - self.intercept**2)
        if self.catalogue is None:
            return Shape(np.diag([features] * self.dimension + ([1 / self.intercept] if self.intercept else [])))
        rows = np.array(self.catalogue)
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)  # as decisions clip them
        items = np.array([np.append(row, 1.0) if self.intercept else row for row in rows])
        return Shape.for_catalogue(items)

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one reward can move."""
        return privacy.gaussian_sigma(self.epsilon, self.delta)

    @cached_property
    def sums(self) -> BatchPlan | None:
        """The plan of the Gaussian channel's sums, where it is used."""
        return None if self.rows is None else self.batches

    @cached_property
    def batches(self) -> BatchPlan:
        """Sums of centred rewards times directions; none where the Gaussian channel is not used."""
        return BatchPlan(
            delta=self.delta,
            dimension=self.dimension,
            ends=tuple(self.ends.tolist()),
            noise_multiplier=self.noise_multiplier,
            unit=self.protected,
            epochs=self.epochs,
            centre=self.middle,
            decoded=False,
            intercept=self.intercept > 0,
            shape=self.shape,
            catalogue=self.catalogue is not None,
            direction=True,
            continues=self._goes_on,
            refusal=self._refusal,
        )

    @property
    def _goes_on(self) -> bool:
        """Whether what follows the rounds planned is planned too: not where people enter a fixed number of batches."""
        return not (self.clips and self.weights == "clip")

    @property
    def _refusal(self) -> tuple[str, object, str] | None:
        if not self.clips or self.weights == "clip":
            return None
        return "source", "Secure()", f"for a policy with exact noise, not {self.name} with weights={self.weights}"

    @cached_property
    def plan(self) -> ChannelPlan:
        return ChannelPlan(
            epsilon=self.epsilon,
            delta=self.delta if "gaussian" in self.channels else 0.0,
            centre=self.middle,
            channels=("flip", "items") if self.channels == ("items",) else self.channels,  # flips where there is no room
            sums=self.sums,
            first=0 if self.rows is None else self.rows.first,
            noise_multiplier=self.noise_multiplier,
            local=self.local,
            unit=self.protected,
            choice=None if self.choice is None else dataclasses.asdict(self.choice),
        )

    # --- what is played -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The length of an event."""
        return self.dimension + (self.intercept > 0)

    def learner(self) -> NoiseAwareState:
        """The learner before the first round: public."""
        return starting.learner(self)

    def route(self, learner: NoiseAwareState) -> dict[str, Any]:
        s = learner.scalars[0]
        return {"channel": CHANNELS[s["channel"]], "block": int(s["block"]), "closes": bool(s["closes"])}

    def weighed(self, learner: NoiseAwareState, weights: Floats) -> bool:
        learner.direction[:] = weights
        return True

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The start of each seed's stream of flips, then the noise of every row."""
        return starting.noise_tables(self, seeds)

    def start(self, noise: Floats) -> Channelled | Peopled | Clipped:
        if self.clips:
            return Clipped(self.learner(), clipped_sums(self, np.ascontiguousarray(noise[1:, : self.size])))
        if self.unit == "user":
            return Peopled(self.learner(), people_sums(self, np.ascontiguousarray(noise[1:, : self.size])))
        return Channelled(self.learner(), starting.book(self, noise))

    # --- going on -----------------------------------------------------------------------------------------------------

    @property
    def planned(self) -> int:
        """The round after which the policy must be extended to go on."""
        if self.choice is None:
            return self.scouted
        return self.boundaries[-1] if self._goes_on else starting.NEVER

    def extended(self, learner: NoiseAwareState) -> Self:
        """What goes on after the rounds planned: with a choice by the first offers, or for twice as many rounds."""
        if self.choice is None:
            return cast(Self, _with(self, self._choose(learner)))
        longer = dataclasses.replace(self, rounds=2 * self.boundaries[-1], horizon=self.boundaries[0])
        # what was released stays as it was encoded, whatever a fit would find today
        longer.__dict__.update(choice=self.choice, shape=self.shape)
        if self.rows is not None:
            rows = longer._rows(self.rows.first, self.noise)
            longer.__dict__["rows"] = dataclasses.replace(rows, released=self.rows.epochs)
        return longer

    def _design(self, learner: NoiseAwareState) -> Design:
        count = int(learner.scalars["offers"][0])
        items = None if self.catalogue is None else len(self.catalogue)
        return design(learner.offers[:count], learner.offered_in[:count], items)

    def worry(self, learner: NoiseAwareState) -> str | None:
        if self.choice is None or not learner.offers.size or self.choice.forecast >= LITTLE:
            return None
        seen = self._design(learner)
        return little_to_learn(seen, self.outlook, self.channels, self.choice.forecast, self._gaussian_variance)

    def _choose(self, learner: NoiseAwareState) -> Choice:
        seen = self._design(learner)
        found = choose(seen, self.outlook, self.channels, self.ridge)
        if len(self.channels) == 1:
            return dataclasses.replace(found, first=0)
        if max(self.scouted, found.first) + self.first_batch > self.boundaries[0]:  # no batch would end in time
            found = choose(seen, self.outlook, ("flip", "items"), self.ridge)
        return dataclasses.replace(found, first=max(self.scouted, found.first))

    def carried(self, fresh: Any, state: Any) -> Any:
        return starting.carried(self, fresh, state)

    def under(self, plan: ChannelPlan) -> Self:
        found = dataclasses.replace(self)
        if plan.choice is not None:
            found.__dict__["choice"] = Choice(**plan.choice)
        if plan.sums is not None:
            found.__dict__["shape"] = plan.sums.shape
            rows = found._rows(plan.first, "independent" if plan.choice is None else self.noise)
            found.__dict__.update(sums=plan.sums, rows=dataclasses.replace(rows, released=tuple(plan.sums.epochs)))
        found.__dict__["plan"] = plan
        return found


@lru_cache(maxsize=128)
def _with(settings: NoiseAwareSettings, choice: Choice) -> NoiseAwareSettings:
    """The settings with this choice: seeds that see alike share its tables."""
    found = dataclasses.replace(settings)
    found.__dict__["choice"] = choice
    return found


def square_strategies() -> list[str]:
    """The strategies that release one row per batch."""
    return sorted(name for name in mechanisms.strategies() if (built := mechanisms.strategy(name, 3)).rows == built.steps)
