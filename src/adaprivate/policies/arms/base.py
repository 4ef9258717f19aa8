"""What the finite-arm policies share: their settings, small compiled functions, and rewards that wait in blocks.

Candidate i is the i-th unit vector, so the features that a policy learns from name the arm.

Where rewards wait in blocks, one is open for each arm. The learner is public: it counts pulls, says with every round
whether its reward enters the arm's block and whether that closes it, and reads what is then released. In simulation the
book is compiled, with noise drawn beforehand; with exact noise it is that of
:class:`~adaprivate.mechanisms.blocks.BlockPlan`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, Integers, option
from adaprivate.compiled import Record, Streams, kernel, normal, record, uniform
from adaprivate.mechanisms.blocks import BlockPlan
from adaprivate.mechanisms.channels import ITEMS, NOWHERE
from adaprivate.mechanisms.plan import Plan, SimulationPlan
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import counted, read, select, selects, updates
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.policies.core.tables import laplace_tables


@kernel
def arm_of(features: Floats) -> int:
    """The arm whose unit vector this is."""
    arm = 0
    for j in range(features.shape[0]):
        if features[j] > 0.5:
            arm = j
    return arm


@kernel
def gamma(rng: Streams, shape: float) -> float:
    """A gamma-distributed number of this shape, at least 1 (Marsaglia & Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(rng, 0)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log1p(-uniform(rng, 1)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v


@kernel
def beta(rng: Streams, a: float, b: float) -> float:
    """A beta-distributed number, both parameters at least 1."""
    x = gamma(rng, a)
    return x / (x + gamma(rng, b))


@kernel
def clipped(x: float) -> float:
    """x, or the nearer end of [0, 1]."""
    return min(1.0, max(0.0, x))


def arm_records(arms: int, **fields: float | int | bool) -> Record:
    """A record of these named numbers for each arm: ``a = state.arms[j]; a.mean``."""
    return np.repeat(record(**fields), arms)


@dataclass(frozen=True, kw_only=True)
class ArmSettings(PolicySettings):
    """Settings of a policy on ``dimension`` arms."""

    fixed_arms: ClassVar[bool] = True
    least_dimension: ClassVar[int] = 2

    @property
    def first_release(self) -> int:
        """How many first rounds choose without looking at any reward."""
        return min(self.dimension, self.rounds)


@dataclass(frozen=True, kw_only=True)
class PureArmSettings(ArmSettings):
    """Settings of a policy on arms that is private by Laplace noise, each reward in releases that cost epsilon in all."""

    epsilon: float = option(1.0, check.real, above=0)

    @property
    def releases(self) -> tuple[int, int]:
        """The shape of the table of noise."""
        return self.rounds.bit_length() + 1, self.dimension

    @property
    def noise_scale(self) -> float:
        """The scale of its Laplace noise; 1 where compiled code multiplies it by what each release needs."""
        return 1 / self.epsilon

    @property
    def true_epsilon(self) -> float:
        """What one reward pays in all."""
        return self.epsilon

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """Laplace noise for every release that may come."""
        return laplace_tables(seeds, self.releases, self.noise_scale)

    @cached_property
    def plan(self) -> Plan:
        """Pure differential privacy of the value of a reward."""
        nominal = None if math.isclose(self.true_epsilon, self.epsilon, rel_tol=1e-12) else self.epsilon
        paid = privacy.PurePrice(self.true_epsilon)
        return SimulationPlan(paid=paid, reach=privacy.arm_events(), delta=0.0, nominal_epsilon=nominal)


class SimulatedBlocks(NamedTuple):
    """The open block of each arm in simulation: private, all but what was released."""

    sums: Floats  # The sum of the rewards that wait.
    noise: Floats  # The noise of each release, on the sum (releases, N).
    done: Integers  # How many blocks of each arm were released.
    released: Floats  # The last release: public.
    scalars: Record  # Whether rewards are rounded to ``bits`` at random.


class Blocked(NamedTuple):
    """A learner and a simulated book, to which it says where every reward goes.

    The learner's ``scalars`` hold the ``block`` of the round counted last, an arm or -1 for none, whether it ``closes``,
    and how many ``releases`` were read; its ``arms`` the released ``mean`` of each.
    """

    learner: Any
    book: SimulatedBlocks


@selects.of(Blocked, offers=True)
def _select(state: Blocked, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@updates.of(Blocked)
def _update(state: Blocked, features: Floats, reward: float, rng: Streams) -> None:
    book = state.book
    if 0.0 < reward < 1.0 and book.scalars[0].bits:
        reward = 1.0 if uniform(rng, 1) < reward else 0.0
    counted(state.learner, features)
    s = state.learner.scalars[0]
    arm = s.block
    if arm < 0:  # never released, and so not kept
        return
    book.sums[arm] += reward
    if not s.closes:
        return
    book.released[0] = book.sums[arm] + book.noise[book.done[arm], arm]
    book.done[arm] += 1
    book.sums[arm] = 0.0
    read(state.learner, book.released)


@dataclass(frozen=True, kw_only=True)
class BlockedSettings(ArmSettings):
    """Settings of a policy with blocks; a policy sets its learner."""

    bits: ClassVar[bool] = False
    """Whether rewards are rounded to bits in simulation too."""

    def learner(self) -> Any:
        """The learner before the first round: public."""
        raise TypeError("a policy says how its learner starts")

    def route(self, learner: Any) -> dict[str, Any]:
        block = int(learner.scalars["block"][0])
        return {"channel": NOWHERE if block < 0 else ITEMS, "block": block, "closes": bool(learner.scalars["closes"][0])}

    def released(self, state: Blocked) -> Floats:
        """The newest mean of each arm."""
        return np.asarray(state.learner.arms["mean"])

    def start(self, noise: Floats) -> Blocked:
        arms = self.dimension
        book = SimulatedBlocks(
            np.zeros(arms), noise, np.zeros(arms, dtype=np.int64), np.zeros(1), record(bits=bool(self.bits))
        )
        return Blocked(self.learner(), book)


@dataclass(frozen=True, kw_only=True)
class PureBlockedSettings(BlockedSettings, PureArmSettings):
    """The same with Laplace noise: every reward in one release, at epsilon."""

    @cached_property
    def plan(self) -> BlockPlan:
        return BlockPlan(epsilon=self.epsilon)
