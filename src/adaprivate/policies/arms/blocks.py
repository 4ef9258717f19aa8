"""What policies on arms share whose rewards wait in blocks, one open for each arm, released when the learner says.

The learner is public: it counts pulls, says with every round whether its reward enters the arm's block and whether that
closes it, and reads what is then released. In simulation the book is compiled, with noise drawn beforehand; with exact
noise it is that of :class:`~adaprivate.mechanisms.blocks.BlockPlan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, record, uniform
from adaprivate.mechanisms.blocks import BlockPlan
from adaprivate.mechanisms.channels import ITEMS, NOWHERE
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import ArmSettings, PureArmSettings
from adaprivate.policies.core.dispatch import counted, read, select, selects, updates


class SimulatedBlocks(NamedTuple):
    """The open block of each arm in simulation: private, all but what was released."""

    sums: Floats
    """The sum of the rewards that wait."""
    noise: Floats
    """The noise of each release, on the sum (releases, N)."""
    done: Integers
    """How many blocks of each arm were released."""
    released: Floats
    """The last release: public."""
    scalars: Record
    """Whether rewards are rounded to ``bits`` at random."""


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
        """The state before the first round."""
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
