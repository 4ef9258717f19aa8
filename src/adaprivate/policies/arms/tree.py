"""Running sums of each arm's rewards, with noise from a binary tree.

After n rewards the sum carries one noise for each one-bit of n: that of the nodes that cover the first n. Each reward
completes one node that is read, so one fresh draw for each round is enough.
"""

from __future__ import annotations

from adaprivate.check import Floats
from adaprivate.compiled import kernel


@kernel
def insert(values: Floats, first: int, arm: int, position: int, fresh: float) -> float:
    """Add the noise of the node completed by the reward at ``position`` (from 1); returns the change of the sum's noise.

    ``values[first + level, arm]`` holds the noise of the node of each level that is read now.
    """
    change = fresh
    level = 0
    while position % 2 == 0:
        change -= values[first + level, arm]
        values[first + level, arm] = 0.0
        position //= 2
        level += 1
    values[first + level, arm] = fresh
    return change
