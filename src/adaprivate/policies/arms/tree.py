"""Running sums of each arm's rewards, with noise from a binary tree.

After n rewards the sum carries one noise for each one-bit of n: that of the nodes that cover the first n. Each reward
completes one node that is read, so one fresh draw for each round is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import kernel
from adaprivate.policies.arms.base import PureArmSettings


@kernel
def insert(nodes: Floats, arm: int, position: int, fresh: float) -> float:
    """Add the noise of the node completed by the reward at ``position`` (from 1); returns the change of the sum's noise.

    ``nodes[level, arm]`` holds the noise of the node of each level that is read now.
    """
    change = fresh
    level = 0
    while position % 2 == 0:
        change -= nodes[level, arm]
        nodes[level, arm] = 0.0
        position //= 2
        level += 1
    nodes[level, arm] = fresh
    return change


@dataclass(frozen=True, kw_only=True)
class TreeArmSettings(PureArmSettings):
    """Settings of a policy with a tree for each arm."""

    @property
    def releases(self) -> tuple[int, int]:
        """A draw for each round, then one for each arm in each release beside the trees, their lengths doubling."""
        return self.rounds + (self.rounds.bit_length() + 1) * self.dimension, 1

    @property
    def noise_scale(self) -> float:
        return 1.0

    def nodes(self) -> Floats:
        """The noise of each level of each arm's tree before the first reward."""
        return np.zeros((self.rounds.bit_length() + 1, self.dimension))
