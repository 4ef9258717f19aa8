"""Whether released numbers are among those that exact noise can make: the low bits of any other sampler's are not.

Exact Gaussian and Laplace noise lives on whole multiples of 2^-40. What is released are linear images of such numbers under
public matrices, which are undone here; rounding in these steps is allowed for, and a number for which it would blur the
grid is not judged. Of floating-point noise about one number in a thousand lies on the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adaprivate.check import Floats
from adaprivate.mechanisms.blocks import BlockPlan
from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.channels import FLIP, GAUSSIAN, ITEMS, ChannelPlan
from adaprivate.mechanisms.messages import MessagePlan
from adaprivate.mechanisms.noise import NOISE_BITS
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan
from adaprivate.mechanisms.tree import Tree

ROUNDING = 2.0**-49
"""What the steps from a row to its release and back may lose, relative to the numbers that enter."""
BLURRED = 0.2
"""Where more than this share of the grid's width may be lost, a number is not judged."""


class Looked(NamedTuple):
    """How many numbers were compared with what is possible, and how many of them are not."""

    at: int
    off: int

    def __add__(self, other: Looked) -> Looked:  # type: ignore[override]
        return Looked(self.at + other.at, self.off + other.off)


NOTHING = Looked(0, 0)


def looked(plan: Any, releases: Sequence[Release]) -> Looked:
    """Compare all releases of one run, in their order, with what this plan's exact noise can make."""
    if isinstance(plan, BatchPlan):
        return _sums(plan, [release.values for release in releases])
    if isinstance(plan, MessagePlan):
        return _judged(*(np.concatenate([np.zeros(0), *values]) for values in _with_sizes(releases)))
    if isinstance(plan, RewardPlan):
        return _told(plan.law, plan.centre, [*releases], untold=plan.unit.needs_user)
    if isinstance(plan, BlockPlan):
        return _whole(0.0, releases)
    if not isinstance(plan, ChannelPlan):
        return NOTHING
    by = {channel: [release for release in releases if release.channel == channel] for channel in plan.channels}
    found = _told(plan.flip_law, plan.centre, by[FLIP]) if by.get(FLIP) else NOTHING
    if by.get(ITEMS):
        found += _whole(plan.centre, by[ITEMS])
    if by.get(GAUSSIAN) and plan.sums is not None:
        found += _sums(plan.sums, [release.values for release in by[GAUSSIAN]])
    return found


def _with_sizes(releases: Sequence[Release]) -> tuple[list[Floats], list[Floats]]:
    return [release.values for release in releases], [np.abs(release.values) for release in releases]


def _judged(numbers: Floats, sizes: Floats) -> Looked:
    """Compare numbers with the grid; ``sizes``: of what they were computed from."""
    scaled = numbers * 2.0**NOISE_BITS
    room = np.maximum(sizes, np.abs(numbers)) * ROUNDING * 2.0**NOISE_BITS
    clear = room < BLURRED
    off = np.abs(scaled - np.round(scaled)) > room
    return Looked(int(clear.sum()), int((off & clear).sum()))


def _sums(plan: BatchPlan, values: Sequence[Floats]) -> Looked:
    """Take releases back to the rows that received noise; those of a tree stay, being sums of such rows.

    Other decoders of more rows than batches weigh them, and what they release cannot be taken back.
    """
    found = NOTHING
    back = None if plan.shape is None else np.linalg.inv(plan.shape.root).T
    for first, last, strategy in plan.epochs:
        own = np.array(values[first:last], dtype=np.float64)
        taken_back = not plan.decoded or strategy.rows == strategy.steps
        if not len(own) or not (taken_back or type(strategy) is Tree):
            continue
        sizes = np.abs(own)
        if back is not None:
            own, sizes = own @ back, sizes @ np.abs(back) * np.linalg.cond(back)
        if plan.decoded and taken_back:
            C = strategy.matrix()[: len(own), : len(own)]
            own = C @ np.diff(own, axis=0, prepend=0.0)
            sizes = np.abs(C) @ (sizes + np.concatenate([np.zeros_like(sizes[:1]), sizes[:-1]]))
        elif not plan.decoded:
            own, sizes = own * strategy.sensitivity(), sizes * strategy.sensitivity()
        found += _judged(own, sizes)
    return found


def _told(law: Any, centre: float, releases: Sequence[Release], *, untold: bool = False) -> Looked:
    """What is told of a reward is one of two numbers (or nothing, of someone who was told often enough)."""
    possible = [law.told(0.0) - centre, law.told(1.0) - centre, *([0.0] if untold else [])]
    numbers = np.array([release.values[0] for release in releases])
    return Looked(numbers.size, int((~np.isin(numbers, possible)).sum()))


def _whole(centre: float, releases: Sequence[Release]) -> Looked:
    """A block's sum is whole, less its count times the centre, which keeps it on halves where that is 1/2."""
    if centre * 2 != round(centre * 2):
        return NOTHING
    numbers = np.array([release.values[0] for release in releases]) * 2
    return Looked(numbers.size, int((numbers != np.round(numbers)).sum()))
