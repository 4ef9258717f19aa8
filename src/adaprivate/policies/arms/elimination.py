"""DP-SE: successive elimination on fresh, noisy means, each epoch twice as sharp as the one before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, kernel, record
from adaprivate.offered import Offered
from adaprivate.policies.arms.base import PureBlockedSettings, arm_of, arm_records
from adaprivate.policies.core.dispatch import counts, reads, selects


class EliminationState(NamedTuple):
    """The arms that are left, and what was released of them: public."""

    order: Integers  # The arms left, in order; what is beyond their number means nothing.
    arms: Record  # Of each arm: its ``mean`` as last released, its ``pulls`` in this epoch, and whether it is ``left``.
    scalars: Record
    """``epsilon``; ``beta``, the failure probability; ``left``, arms left; the ``epoch``, its ``quota`` of pulls of each
    (``share``, 1 over it), the rounds of it that are ``done`` and the arms whose mean was ``told``; the ``block`` of the
    last round, whether it ``closes``, and all ``releases``."""


@kernel
def quota(left: float, epoch: float, epsilon: float, beta: float) -> float:
    """How often each arm is pulled in this epoch."""
    gap = 2.0**-epoch
    sampling = 32.0 * math.log(8.0 * left * epoch * epoch / beta) / (gap * gap)
    noise = 8.0 * math.log(4.0 * left * epoch * epoch / beta) / (epsilon * gap)
    return float(math.ceil(max(sampling, noise) + 1.0))


@selects.of(EliminationState, offers=True)
def _select(state: EliminationState, candidates: Offered, rng: Streams) -> int:
    s = state.scalars[0]
    return int(state.order[s.done % s.left])


@counts.of(EliminationState)
def _counted(state: EliminationState, features: Floats) -> None:
    s, arm = state.scalars[0], arm_of(features)
    a = state.arms[arm]
    s.block = -1
    s.closes = False
    if s.left == 1 or not a.left or a.pulls == s.quota:  # nothing more is asked of this arm
        return
    a.pulls += 1
    s.done += 1
    s.block = arm
    s.closes = a.pulls == s.quota


@reads.of(EliminationState)
def _read(state: EliminationState, released: Floats) -> None:
    s, arms, order = state.scalars[0], state.arms, state.order
    left, size = s.left, s.quota
    arms[s.block].mean = released[0] * s.share
    s.releases += 1
    s.told += 1
    if s.told < left:
        return
    epoch = float(s.epoch)
    top = -np.inf
    for place in range(left):
        top = max(top, arms[order[place]].mean)
    width = math.sqrt(math.log(8.0 * left * epoch * epoch / s.beta) / (2.0 * size))
    width += math.log(4.0 * left * epoch * epoch / s.beta) / (size * s.epsilon)
    kept = 0
    for place in range(left):
        arm = order[place]
        arms[arm].pulls = 0
        arms[arm].left = top - arms[arm].mean <= 2.0 * width
        if arms[arm].left:
            order[kept] = arm
            kept += 1
    s.left = kept
    s.epoch += 1
    s.done = 0
    s.told = 0
    s.quota = int(min(quota(float(kept), epoch + 1.0, s.epsilon, s.beta), 1e15))
    s.share = 1.0 / s.quota


@dataclass(frozen=True, kw_only=True)
class DPSESettings(PureBlockedSettings):
    """Pulls all arms left equally often, releases their means once, drops those that are clearly worse.

    Paper: Sajed & Sheffet 2019, Algorithm 2 (DP-SE).
    Guarantee: epsilon | event, replace one reward, by docs/privacy.md "Finite arms".
    Deviates: arms take turns within an epoch, and the last epoch ends with the run; beta is 1 / T. An arm's mean
        is released at its last pull of the epoch, and used when all are. With exact noise rewards are rounded to bits at
        random, and their sums get discrete Laplace noise, P(z) ~ e^(-epsilon |z|), in place of Laplace noise.
    """

    name: ClassVar[str] = "dp-se"

    @property
    def first_release(self) -> int:
        """The first epoch."""
        return int(min(self.rounds, self.dimension * quota(self.dimension, 1.0, self.epsilon, 1 / self.rounds)))

    def learner(self) -> EliminationState:
        first = int(min(quota(float(self.dimension), 1.0, self.epsilon, 1 / self.rounds), 1e15))
        return EliminationState(
            order=np.arange(self.dimension, dtype=np.int64),
            arms=arm_records(self.dimension, mean=0.0, pulls=0, left=True),
            scalars=record(
                epsilon=float(self.epsilon),
                beta=1 / self.rounds,
                left=int(self.dimension),
                epoch=1,
                quota=first,
                share=1 / first,
                done=0,
                told=0,
                block=-1,
                closes=False,
                releases=0,
            ),
        )


EXAMPLES = (DPSESettings(dimension=4, rounds=60),)
