"""Binary trees: sums over dyadic blocks of batches, each with noise of its own."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.prefix import PrefixSum, Strategy, one, zeros


class TreeState(NamedTuple):
    """Per level, the last complete block that still waits for its right neighbour: its sum, and its noisy estimate."""

    sums: Array
    estimates: Floats


class Tree(Strategy):
    """The rows are the sums over complete blocks of 1, 2, 4, ... batches; a running sum adds the few that tile it."""

    name = "tree"

    def __init__(self, steps: int) -> None:
        self.steps = check.whole("steps", steps, at_least=1)
        self.levels = self.steps.bit_length()

    @property
    def rows(self) -> int:
        return sum(self.steps >> level for level in range(self.levels))

    def start(self, dimension: int, exact: bool) -> TreeState:
        return TreeState(zeros((self.levels, dimension), exact), np.zeros((self.levels, dimension)))

    def encode(self, state: TreeState, step: int, increment: Array) -> tuple[Array, TreeState]:
        top = _height(step + 1)
        blocks = np.cumsum(np.concatenate([increment[None, :], state.sums[:top]]), axis=0)
        return blocks * one(increment), state._replace(sums=_replace_up_to(top, state.sums, blocks[top]))

    def decode(self, state: TreeState, step: int, rows: Floats) -> tuple[Floats, TreeState]:
        top = _height(step + 1)
        estimates = _replace_up_to(top, state.estimates, self._block(rows, state.estimates))
        return estimates.sum(axis=0), TreeState(state.sums, estimates)

    def _block(self, rows: Floats, left: Floats) -> Floats:
        """The estimate of the largest block completed at this step."""
        return rows[-1, :]

    def _variances(self) -> Floats:
        """The variance of a block's estimate, per level."""
        return np.ones(self.levels)

    def sensitivity(self, batches: int = 1, separation: int = 1) -> float:
        # Batch 1 lies in a block of every level, so one batch is exactly sqrt(levels). In general a unit moves a block by
        # at most the number n_i of its batches there, so the square is at most the sum over levels of sum_i n_i^2. On a
        # level n_i <= each, the most batches that fit in one block, and sum_i n_i <= most, those that fit in all complete
        # blocks; a convex sum is largest when as many n_i as possible equal ``each``.
        square = 0
        for level in range(self.levels):
            size = 1 << level
            most = min(batches, -(-(self.steps - self.steps % size) // separation))
            each = min(most, -(-size // separation))
            full, rest = divmod(most, each)
            square += full * each**2 + rest**2
        return math.sqrt(square)

    def prefix_std(self) -> Floats:
        step = np.arange(1, self.steps + 1)
        variance = np.zeros(self.steps)
        for level, block in enumerate(self._variances()):
            variance += block * (step >> level & 1)
        return np.sqrt(variance)

    def matrix(self) -> Floats:
        rows = []
        for step in range(1, self.steps + 1):
            for level in range(_height(step) + 1):
                block = np.zeros(self.steps)
                block[step - (1 << level) : step] = 1
                rows.append(block)
        return np.array(rows)


class Honaker(Tree):
    """The same rows; each block is estimated from its own noisy sum and the estimates of its two halves (Honaker 2015).

    The weights c_l = 1 / (2 - 2^-l) minimise the variance, which is c_l; no other unbiased estimate from the rows released
    so far has less.
    """

    name = "honaker"

    def _block(self, rows: Floats, left: Floats) -> Floats:
        estimate: Floats = rows[0]
        for own, half, weight in zip(rows[1:], left, self._variances()[1:], strict=False):
            estimate = weight * own + (1 - weight) * (half + estimate)
        return estimate

    def _variances(self) -> Floats:
        return 1 / (2 - 0.5 ** np.arange(self.levels))


def _height(step: int) -> int:
    """How often 2 divides the step (1-based): the level of the largest block it completes."""
    return (step & -step).bit_length() - 1


def _replace_up_to(top: int, levels: Array, block: Array) -> Array:
    """The waiting blocks after one of level ``top`` is complete: it waits, and what it contains no longer does."""
    after = levels.copy()
    after[:top] = 0
    after[top] = block
    return after


def _tree_example(noise: Noise) -> PrefixSum:
    return PrefixSum(Tree(steps=6), dimension=3, noise_multiplier=1.5, noise=noise)


def _honaker_example(noise: Noise) -> PrefixSum:
    return PrefixSum(Honaker(steps=7), dimension=2, noise_multiplier=1.5, noise=noise)


EXAMPLES = (_tree_example, _honaker_example)
