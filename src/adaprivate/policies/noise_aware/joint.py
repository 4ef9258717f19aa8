"""noise-aware-joint: contexts are private too, at the price of private rewards alone; the posterior given all releases.

Paper: ours; docs/noise-aware.md.
Guarantee: (epsilon, delta), joint, replace one round's context and reward, by docs/privacy.md "Contexts at no cost".
Deviates: nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import record
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.mechanisms.units.joint import GRID, JointUnit
from adaprivate.policies.core.dispatch import Split
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.noise_aware.options import Scheduled, square_strategy
from adaprivate.policies.noise_aware.outlook import INTERCEPT_DEVIATION
from adaprivate.policies.noise_aware.private_contexts import PrivateContextsState, simulated_rows
from adaprivate.policies.noise_aware.rows import MOST_BATCHES, Rows


@dataclass(frozen=True, kw_only=True)
class NoiseAwareJointSettings(Scheduled, PolicySettings):
    """Samples theta from the posterior given all releases, where contexts are private as rewards are.

    Candidates, features and actions are seen by their own person alone, and all that others meet is computed from noisy
    sums: of rewards times features, and of products of features. A missing reward counts as 1/2, or as the base rate.
    base_rate: the public mean reward, where one is known: it is taken off rewards, for a little more noise. v: the
    posterior's spread is scaled by it; up to 1 where the same candidates come again and again. batch_size: rounds of the
    first batch; each is ``growth`` times the one before. noise: how releases share it. intercept: b, the share of rows that
    learns the mean reward; 0: it is taken to be the centre. ridge: the prior precision of theta, by default 4 x dimension,
    which suits features of length 1: scale them to that. adapt_ridge: whether what was released may lower it.
    reward_variance: of a reward around its mean, at most 1/4.
    horizon: the rounds to plan for where ``rounds`` is not known to be the end; then twice as many, and so on.
    """

    name: ClassVar[str] = "noise-aware-joint"
    epsilon: float = 1.0
    delta: float = 1e-5
    base_rate: float | None = None
    v: float = 0.15
    batch_size: int | None = None
    growth: float = 1.1
    noise: str = "informative"
    intercept: float = 0.3
    ridge: float | None = None
    adapt_ridge: bool = True
    reward_variance: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check.budget(self.epsilon)
        check.probability("delta", self.delta)
        if self.base_rate is not None:
            check.mean_reward("base_rate", self.base_rate)
        check.real("v", self.v, at_least=0)
        if self.horizon is not None:
            check.whole("horizon", self.horizon, at_least=1)
        if self.batch_size is not None:
            check.whole("batch_size", self.batch_size, at_least=1)
            first = self.boundaries[0]
            check.expect(self.batch_size <= first, "batch_size", self.batch_size, f"<= {first}, the rounds planned for")
        check.real("growth", self.growth, at_least=1, at_most=100)
        square_strategy("noise", self.noise)
        JointUnit(check.real("intercept", self.intercept, at_least=0))
        if self.ridge is not None:
            check.real("ridge", self.ridge, at_least=1e-9, at_most=1e9)
        check.kind("adapt_ridge", self.adapt_ridge, bool)
        if self.reward_variance is not None:
            check.real("reward_variance", self.reward_variance, at_least=1e-4, at_most=0.25)
        count = int((self._rows("independent").ends <= self.boundaries[0]).sum())
        check.expect(count <= MOST_BATCHES, "batches", count, f"<= {MOST_BATCHES} (a larger batch_size or growth)")

    # --- the public plan ----------------------------------------------------------------------------------------------

    @property
    def prior_precision(self) -> float:
        """The prior precision of every coordinate of theta."""
        return 4.0 * self.dimension / (4 * self.variance) ** 2 if self.ridge is None else self.ridge

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one round can move."""
        return privacy.gaussian_sigma(self.epsilon, self.delta)

    def _rows(self, noise: str) -> Rows:
        return Rows(
            first=0,
            boundaries=tuple(self.boundaries),
            batch_size=self.first_batch,
            growth=self.growth,
            dimension=self.dimension,
            noise=noise,
            noise_multiplier=self.unit.louder * self.noise_multiplier,
            prior_precision=self.prior_precision,
            known=self.prior_precision,
            reward_variance=self.variance,
            memory=None,
        )

    @cached_property
    def rows(self) -> Rows:
        """When batches end, which rows of C are released of them, and how they are read."""
        return self._rows(self.noise)

    @property
    def centre(self) -> float:
        """Public, taken off every reward."""
        return 0.5 if self.base_rate is None else float(self.base_rate)

    @property
    def unit(self) -> JointUnit:
        """Whom it protects."""
        return JointUnit(self.intercept, self.centre)

    @cached_property
    def plan(self) -> BatchPlan:
        return BatchPlan(
            delta=self.delta,
            dimension=self.dimension,
            ends=tuple(self.rows.ends.tolist()),
            noise_multiplier=self.noise_multiplier,
            epochs=self.rows.epochs,
            unit=self.unit,
            centre=self.centre,
            decoded=False,
            continues=True,
        )

    # --- what is played -----------------------------------------------------------------------------------------------

    def learner(self) -> PrivateContextsState:
        """The learner before the first round: public."""
        size, ends = self.unit.width(self.dimension), self.rows.ends
        constant = self.unit.constant / GRID
        prior, scale = np.full(size, self.prior_precision), np.full(size, self.unit.stretch)
        if constant:
            known = self.base_rate
            prior[-1] = (INTERCEPT_DEVIATION if known is None else min(known, 1 - known) / 2) ** -2
            scale[-1] = constant
        tables = self.rows.tables
        return PrivateContextsState(
            root=np.diag(1 / np.sqrt(prior)),
            coordinates=np.zeros(size),
            mean=np.zeros(size),
            parameter=np.zeros(self.dimension),
            rotated=np.zeros(size),
            rows=np.zeros((len(ends), self.plan.size)),
            ends=np.array(ends, dtype=np.int64),
            decoder=tables.decoder,
            influence=tables.influence,
            plan=record(
                sigma=float(self.noise_multiplier),
                louder=float(self.unit.louder),
                centre=float(self.unit.middle / GRID),
                constant=float(constant),
                stretch=float(self.unit.stretch),
                ridge=float(self.prior_precision),
                intercept_mean=0.0,
                intercept_precision=float(prior[-1]) if constant else 0.0,
                reward_variance=self.variance,
                learns_rate=bool(constant) and self.base_rate is None and self.reward_variance is None,
                adapts=self.adapt_ridge,
                v=float(self.v),
            ),
            scalars=record(
                variance=self.variance,
                moment=float((1 / prior / scale**2).sum()),
                round=0,
                batch=0,
            ),
        )

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every release (seeds, batches, size), each seed's as if it were drawn alone."""
        return self.plan.noise_tables(seeds)

    def start(self, noise: Floats) -> Split:
        return Split(self.learner(), simulated_rows(self.plan, noise))

    # --- going on -----------------------------------------------------------------------------------------------------

    @property
    def planned(self) -> int:
        """The round after which the policy must be extended to go on."""
        return self.boundaries[-1]

    def extended(self, learner: PrivateContextsState) -> Self:
        """What goes on after the rounds planned, for twice as many."""
        longer = dataclasses.replace(self, rounds=2 * self.boundaries[-1], horizon=self.boundaries[0])
        longer.__dict__["rows"] = dataclasses.replace(longer._rows(self.noise), released=self.rows.epochs)
        return longer

    def under(self, plan: BatchPlan) -> Any:
        found = dataclasses.replace(self)
        rows = dataclasses.replace(found._rows(self.noise), released=tuple(plan.epochs))
        found.__dict__.update(plan=plan, rows=rows)
        return found


EXAMPLES = (
    NoiseAwareJointSettings(dimension=4, rounds=60),
    NoiseAwareJointSettings(dimension=3, rounds=50, intercept=0.0, noise="sqrt", batch_size=7, growth=1.0, v=0.0),
    NoiseAwareJointSettings(dimension=3, rounds=50, horizon=20, batch_size=5, base_rate=0.2, epsilon=5.0),
)
