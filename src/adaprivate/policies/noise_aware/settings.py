"""What the noise-aware policies share: everything chosen by public rules, one mechanism for each epoch, and the guarantee.

docs/noise-aware.md derives the rules and says what each was measured to be worth.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from adaprivate import check, mechanisms, privacy
from adaprivate.check import Floats, Integers
from adaprivate.compiled import record
from adaprivate.mechanisms import Shape, Strategy
from adaprivate.mechanisms.informative import LARGEST, Informative, Reader
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.policies.core.books import simulated_sums
from adaprivate.policies.core.dispatch import Split
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.noise_aware.posterior import PosteriorState

MOST_BATCHES = 2048
WIDEST = 0.5
"""Exploration fades from at most this share of the posterior's spread."""
INTERCEPT_DEVIATION = 0.1
"""The prior standard deviation of the intercept: the mean reward's distance from the centre."""


class Tables(NamedTuple):
    """How rows are read, for all batches; see PosteriorState."""

    decoder: Floats
    influence: Floats
    relevance: Floats
    drift: Floats


@dataclass(frozen=True, kw_only=True)
class NoiseAwareSettings(PolicySettings):
    """Settings of a policy that acts on the posterior given all releases. Only the first four matter to most users.

    batch_size: rounds of the first batch; by default 2 dimension + 10, at most a twentieth of all. growth: each batch
    is this much longer than the one before (after the horizon, 1.1 or more). noise: "informative" (fitted to what the
    posterior earns), or a strategy that releases one row per batch. centre: the public base rate of rewards, taken off.
    intercept: the share (a norm) of an event's weight spent on learning the mean reward; 0 trusts the centre.
    ridge: the prior precision of theta, by default 4 dimension (a norm of 1/2); adapt_ridge: whether what was released may
    move it. reward_variance: of a reward around its mean, at most 1/4.
    horizon: the rounds to plan for where ``rounds`` is not known to be the end; then twice as many, and so on.
    memory: rounds after which the parameter's correlation with today's has fallen to 1/e; None: it does not change.
    catalogue: the public items (rows) that can be played; noise is shaped to them, features outside are clipped.
    """

    kind: ClassVar[type[PosteriorState]]
    foresees: ClassVar[bool] = False

    epsilon: float = 1.0
    delta: float = 1e-5
    batch_size: int | None = None
    growth: float = 1.1
    noise: str = "informative"
    centre: float = 0.5
    intercept: float = 0.3
    ridge: float | None = None
    adapt_ridge: bool = True
    reward_variance: float = 0.25
    horizon: int | None = None
    memory: float | None = None
    catalogue: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("epsilon", self.epsilon, above=0)
        check.probability("delta", self.delta)
        if self.horizon is not None:
            check.whole("horizon", self.horizon, at_least=1)
        if self.batch_size is not None:
            check.whole("batch_size", self.batch_size, at_least=1)
            first = self.boundaries[0]
            check.expect(self.batch_size <= first, "batch_size", self.batch_size, f"<= {first}, the rounds planned for")
        check.real("growth", self.growth, at_least=1, at_most=100)
        check.one_of("noise", self.noise, square_strategies())
        check.real("centre", self.centre, at_least=0, at_most=1)
        check.real("intercept", self.intercept, at_least=0)
        fits = self.intercept == 0 or 1e-3 <= self.intercept < 1
        check.expect(fits, "intercept", self.intercept, "== 0, or >= 0.001 and < 1")
        if self.ridge is not None:
            check.real("ridge", self.ridge, at_least=1e-9, at_most=1e9)
        check.kind("adapt_ridge", self.adapt_ridge, bool)
        check.real("reward_variance", self.reward_variance, above=0, at_most=0.25)
        if self.memory is not None:
            check.real("memory", self.memory, above=0)
        if self.catalogue is not None:
            items = check.floats("catalogue", self.catalogue, (None, self.dimension))
            check.expect(bool(np.any(items != 0)), "catalogue", items.tolist(), "to hold an item other than 0")
            object.__setattr__(self, "catalogue", tuple(map(tuple, items.tolist())))
        count = int((self.ends <= self.boundaries[0]).sum())
        check.expect(count <= MOST_BATCHES, "batches", count, f"<= {MOST_BATCHES} (a larger batch_size or growth)")

    @property
    def exploration(self) -> float:
        """How wide choices explore, relative to the posterior's spread, at the end of an epoch."""
        return 0.0

    @property
    def fade(self) -> float:
        """Exploration at round t of T is wider by (T/t)^fade, up to half the posterior's own spread."""
        return 0.0

    # --- the public plan ----------------------------------------------------------------------------------------------

    @cached_property
    def boundaries(self) -> list[int]:
        """The rounds after which a new epoch starts: the horizon, twice it, four times it, ..."""
        found = [self.horizon or self.rounds]
        while found[-1] < self.rounds:
            found.append(2 * found[-1])
        return found

    @cached_property
    def ends(self) -> Integers:
        """The round after which each batch is released; planned to the end of the last epoch."""
        size = float(self.batch_size or max(1, min(2 * self.dimension + 10, self.boundaries[0] // 20)))
        ends = [0]
        for boundary in self.boundaries:
            growth = self.growth if boundary == self.boundaries[0] else max(self.growth, 1.1)
            while ends[-1] + math.floor(size) <= boundary and len(ends) <= MOST_BATCHES + 1000:
                ends.append(ends[-1] + math.floor(size))
                size *= growth
        return np.array(ends[1:], dtype=np.int64)

    @cached_property
    def prior_precision(self) -> float:
        """The prior precision of every coordinate of theta."""
        return 4.0 * self.dimension if self.ridge is None else self.ridge

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

    def _reader(self, first: int, last: int, prior_precision: float) -> Reader:
        """What the batches of an epoch are for: each direction gets an equal share of every batch's rounds."""
        ends = self.ends[first:last]
        sizes = np.diff(self.ends, prepend=0)[first:last]
        boundary = self.boundaries[int(np.searchsorted(self.boundaries, ends[-1]))]
        return Reader(
            information=tuple((sizes / self.dimension).tolist()),
            served=tuple(np.diff(ends, append=boundary).astype(float).tolist()),
            prior_precision=prior_precision,
            noise_variance=self.reward_variance,
            times=tuple(ends.astype(float).tolist()),
            memory=math.inf if self.memory is None else self.memory,
        )

    @cached_property
    def epochs(self) -> list[Epoch]:
        """The mechanisms, one after the other, each fitted to what is known by then."""
        edges = np.searchsorted(self.ends, self.boundaries, side="right").tolist()
        found: list[Epoch] = []
        precision = self.prior_precision
        for first, last in zip([0, *edges], edges, strict=False):
            if last == first:
                continue
            reader = self._reader(first, last, precision)
            found.append(Epoch(first, last, self._strategy(reader)))
            if self.memory is None:
                built = found[-1].strategy
                encoder = np.asarray(built.matrix() / built.sensitivity())
                precision = 1 / float(reader.variances(encoder, self.noise_multiplier)[-1])
        return found

    def _strategy(self, reader: Reader) -> Strategy:
        if self.noise != "informative":
            return mechanisms.strategy(self.noise, reader.steps)
        if reader.steps > LARGEST:
            return mechanisms.strategy("sqrt", reader.steps)
        return Informative(reader.steps, reader, self.noise_multiplier)

    @cached_property
    def tables(self) -> Tables:
        """How rows are read: public, and the same for every run."""
        count, encoder = len(self.ends), self.plan.encoder()
        reader = self._reader(0, count, self.prior_precision)
        decoder = reader.weights(encoder, self.noise_multiplier)
        influence = decoder @ encoder
        relevance = influence * reader.correlation
        drift = np.zeros(count)
        if self.memory is not None:
            g, R = np.array(reader.information), reader.correlation
            for k in range(count):  # Var(sum a_j g_j (theta_j - R_jk theta_k)) / (sum a_j R_jk g_j)^2
                weights = influence[k] * g
                change = weights @ (R - np.outer(R[k], R[k])) @ weights / self.prior_precision
                drift[k] = max(float(change), 0.0) / float(relevance[k] @ g) ** 2
        return Tables(decoder, influence, relevance, drift)

    # --- the release --------------------------------------------------------------------------------------------------

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one reward can move."""
        return privacy.gaussian_sigma(self.epsilon, self.delta)

    @cached_property
    def plan(self) -> BatchPlan:
        return BatchPlan(
            delta=self.delta,
            dimension=self.dimension,
            ends=tuple(self.ends.tolist()),
            noise_multiplier=self.noise_multiplier,
            epochs=tuple(self.epochs),
            centre=self.centre,
            decoded=False,
            intercept=self.intercept > 0,
            shape=self.shape,
            catalogue=self.catalogue is not None,
            continues=True,
        )

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        return self.plan.noise_tables(seeds)

    def learner(self) -> PosteriorState:
        """The learner before the first round: public."""
        size, count = self.plan.size, len(self.ends)
        intercept = INTERCEPT_DEVIATION**-2 if self.intercept else 0.0
        prior = np.append(np.full(self.dimension, self.prior_precision), [intercept] if self.intercept else [])
        epoch_ends = np.array(self.boundaries)[np.searchsorted(self.boundaries, self.ends)]
        widths = self.exploration * (epoch_ends / self.ends) ** self.fade
        return self.kind(
            root=np.diag(1 / np.sqrt(prior)),
            coordinates=np.zeros(size),
            mean=np.zeros(size),
            parameter=np.zeros(size),
            rotated=np.zeros(size),
            designs=np.zeros((count + 1, size, size)),
            crosses=np.zeros((count + 1 if self.catalogue else 0, size, size)),
            rows=np.zeros((count, size)),
            **self.tables._asdict(),
            row_covariance=self.plan.release_covariance,
            whitener=np.zeros((0, 0)) if self.catalogue is None else np.asarray(np.linalg.inv(self.shape.root), np.float64),
            widths=np.minimum(widths, max(WIDEST, self.exploration)),
            scalars=record(
                width=float(max(WIDEST, self.exploration)) if self.exploration else 0.0,
                reward_variance=float(self.reward_variance),
                ridge=float(self.prior_precision),
                intercept_precision=intercept,
                adapts=self.adapt_ridge and self.memory is None,  # change over time is measured by the public ridge
                foresees=self.foresees,
                round=0,
                batch=0,
            ),
        )

    def start(self, noise: Floats) -> Split:
        return Split(self.learner(), simulated_sums(self.plan, noise))

    # --- going on after the last batch ----------------------------------------------------------------------------------

    @property
    def planned(self) -> int:
        """The round after which the policy must be extended to go on."""
        return self.boundaries[-1]

    def extended(self) -> Self:
        """Planned for twice as many rounds: one more epoch, and everything before it as it was."""
        longer = dataclasses.replace(self, rounds=2 * self.boundaries[-1], horizon=self.boundaries[0])
        # what was released stays as it was encoded, whatever a fit would find today; a book holds on to the very shape
        longer.__dict__["shape"] = self.plan.shape
        longer.__dict__["epochs"] = [*self.plan.epochs, *longer.epochs[len(self.plan.epochs) :]]
        return longer


def square_strategies() -> list[str]:
    """The strategies that release one row per batch."""
    return sorted(name for name in mechanisms.strategies() if (built := mechanisms.strategy(name, 3)).rows == built.steps)
