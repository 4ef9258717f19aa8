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
from adaprivate.mechanisms.channels import KEPT_BY, ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.mechanisms.plan_base import NOTHING_KEPT, SUMS_KEPT
from adaprivate.policies.noise_aware import starting
from adaprivate.policies.noise_aware.clipped import Clipped, clipped_sums
from adaprivate.policies.noise_aware.options import NoiseAwareOptions
from adaprivate.policies.noise_aware.outlook import (
    LITTLE,
    Choice,
    Design,
    Outlook,
    choose,
    design,
    little_to_learn,
    one_right,
    right_by_rate,
)
from adaprivate.policies.noise_aware.people import Peopled, people_sums
from adaprivate.policies.noise_aware.rows import MOST_BATCHES, Rows
from adaprivate.policies.noise_aware.simulated import Channelled
from adaprivate.policies.noise_aware.state import CHANNELS, OPTIMISTIC, Exploration, NoiseAwareState

LEAST_SCOUTED = 7
"""So many rounds are looked at, however short the first batch is, where they are flipped meanwhile."""


@dataclass(frozen=True, kw_only=True)
class NoiseAwareSettings(NoiseAwareOptions):
    """A policy that acts on the posterior given all releases."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if "gaussian" in self.channels:
            ends = self._rows(0, "independent").ends
            count = int((ends <= self.boundaries[0]).sum())
            check.expect(count <= MOST_BATCHES, "batches", count, f"<= {MOST_BATCHES} (a larger batch_size or growth)")

    # --- what is chosen -----------------------------------------------------------------------------------------------

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

    def foreseen_share(self, noise: str) -> float:
        """The learned share that Gaussian sums with this noise are foreseen to reach: from public settings alone."""
        return self._rows(0, noise).learned_share

    @cached_property
    def rows(self) -> Rows | None:
        """The Gaussian channel, where it is used; before the choice only when its batches end is certain."""
        if self.choice is None:
            return self._rows(0, "independent") if self.channels == ("gaussian",) else None
        return self._rows(self.choice.first, self.noise) if self.choice.channel == "gaussian" else None

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

    @property
    def retention(self) -> str:
        if self.choice is not None or "gaussian" not in self.channels:
            return super().retention
        memory = mechanisms.strategy(self.noise, 3).kept > 0
        until = f"The exact sums of released batches are kept until round {self.boundaries[0]}. {SUMS_KEPT}"
        kept = {**KEPT_BY, "gaussian": until if memory else NOTHING_KEPT}
        if len(self.channels) == 1:
            return kept["gaussian"]
        each = " ".join(f"{name.capitalize()}: {kept[name]}" for name in self.channels)
        return f"After the first {self.scouted} rounds the policy chooses a channel by what it was offered. {each}"

    # --- what is played -----------------------------------------------------------------------------------------------

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
        return little_to_learn(seen, self.outlook, self.channels, self.choice, self._gaussian_variance)

    def _choose(self, learner: NoiseAwareState) -> Choice:
        seen = self._design(learner)
        right = self._one_right(seen, learner)
        found = choose(seen, self.outlook, self.channels, self.ridge, right)
        if len(self.channels) == 1:
            return dataclasses.replace(found, first=0)
        if max(self.scouted, found.first) + self.first_batch > self.boundaries[0]:  # no batch would end in time
            found = choose(seen, self.outlook, ("flip", "items"), self.ridge, right)
        return dataclasses.replace(found, first=max(self.scouted, found.first))

    def _one_right(self, seen: Design, learner: NoiseAwareState) -> float:
        """How likely it is that one class of a round is right: by releases alone, or by the base rate that was told."""
        if not seen.blocks:
            return 0.0
        if self.base_rate is not None:
            return right_by_rate(seen, self.base_rate)
        if not self.intercept:
            return 1.0
        count = int(learner.scalars["offers"][0])
        offers, rounds = learner.offers[:count], learner.offered_in[:count]
        return one_right(seen, offers, rounds, learner.information, learner.weighted, self.middle)

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
