"""What releases say of mean rewards: post-processing of what is public, for the dashboard. No reward is in reach.

Told bits, sums of items and the intercept's coordinate of Gaussian sums are each the sum of (reward - centre), or of those
rewards times public weights, plus noise of a known variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.channels import FLIP, GAUSSIAN, ITEMS, ChannelPlan
from adaprivate.mechanisms.plan import RewardPlan

WIDTH = 1.959963984540054
"""Of a 95 % interval, in standard deviations."""


@dataclass
class Tally:
    """A noisy sum of (reward - centre) times weights, the weights' sum, and the variance of its noise."""

    total: float = 0.0
    weight: float = 0.0
    squares: float = 0.0
    """The sum of squared weights."""
    noise: float = 0.0

    def add(self, total: float, weight: float, squares: float, noise: float) -> None:
        """Another one, of other rounds, whose noise is independent."""
        self.total += total
        self.weight += weight
        self.squares += squares
        self.noise += noise

    def to_list(self) -> list[float]:
        """As plain numbers."""
        return [self.total, self.weight, self.squares, self.noise]


def interval(tally: Sequence[float], centre: float) -> dict[str, float] | None:
    """The mean reward and a 95 % interval of what it is in the long run; None before anything was released."""
    total, weight, squares, noise = tally
    if weight <= 0:
        return None
    mean = centre + total / weight
    inside = min(max(mean, 0.02), 0.98)
    width = WIDTH * math.sqrt(noise + squares * inside * (1 - inside)) / weight
    return {"mean": mean, "low": mean - width, "high": mean + width}


def difference(one: dict[str, float] | None, other: dict[str, float] | None) -> dict[str, float] | None:
    """One mean less another, and its interval."""
    if one is None or other is None:
        return None
    mean = one["mean"] - other["mean"]
    width = math.hypot((one["high"] - one["low"]) / 2, (other["high"] - other["low"]) / 2)
    return {"mean": mean, "low": mean - width, "high": mean + width}


def _told(plan: Any, releases: Sequence[Release], counts: Sequence[int]) -> Tally:
    """What told bits and sums of items say; ``counts``: how many rewards each release holds."""
    found = Tally()
    for release, count in zip(releases, counts, strict=True):
        if count == 0:  # of a visit that does not count: a constant stands for it
            continue
        if isinstance(plan, RewardPlan):
            law = plan.law
            noise = (1 / (2 * law.keep - 1) ** 2 - 1) / 4  # type: ignore[attr-defined]
        elif release.channel == FLIP:
            noise = (1 / (2 * plan.flip_law.keep - 1) ** 2 - 1) / 4
        elif release.channel == ITEMS:
            noise = plan.items_law.variance
        else:
            continue
        found.add(float(release.values[0]), count, count, noise)
    return found


def _summed(settings: Any, state: Any) -> tuple[Tally, Tally] | None:
    """What Gaussian rows say of all their batches so far, and of the last one; None where they have no intercept."""
    batches = int(state.scalars["batch"][0])
    if batches == 0 or settings.intercept == 0:
        return None
    rows = np.asarray(state.rows[:batches, -1])
    encoder = settings.sums.encoder()[:batches, :batches]
    decoder = np.linalg.inv(encoder)
    variance = float(settings.sums.release_covariance[-1, -1])
    weights, squares = np.asarray(state.gauges[:batches, 2]), np.asarray(state.gauges[:batches, 3])
    every = decoder.sum(axis=0)
    whole = Tally(float(every @ rows), float(weights.sum()), float(squares.sum()), variance * float(every @ every))
    one = decoder[-1]
    last = Tally(float(one @ rows), float(weights[-1]), float(squares[-1]), variance * float(one @ one))
    return whole, last


def policy_estimate(
    settings: Any, state: Any, releases: Sequence[Release], counts: Sequence[int], before: dict[str, Any], features: Any
) -> dict[str, Any]:
    """The summary of a policy's batch; ``before``: that of the one before; ``features``: of what was chosen in it."""
    plan = settings.plan
    centre = float(getattr(plan, "centre", 0.0))
    if not isinstance(plan, RewardPlan | ChannelPlan):
        theta = state.root @ state.coordinates
        model = float(np.mean(features @ theta)) + centre if len(features) else None
        return {"kind": "model", "mean": model}
    told = _told(plan, releases, counts)
    told_before = Tally(*before.get("told", [0.0] * 4))
    told_before.add(*told.to_list())
    found = {"kind": "released", "centre": centre, "told": told_before.to_list(), "batch": told.to_list()}
    whole = Tally(*told_before.to_list())
    if any(release.channel == GAUSSIAN for release in releases):
        summed = _summed(settings, state)
        if summed is not None:
            found["sums"] = summed[0].to_list()
            found["batch"] = summed[1].to_list()
    elif "sums" in before:
        found["sums"] = before["sums"]
    if "sums" in found:
        whole.add(*found["sums"])  # type: ignore[misc]
    found["whole"] = whole.to_list()
    return found


def holdback_estimate(
    plan: Any, releases: Sequence[Release], counts: Sequence[int], before: dict[str, Any]
) -> dict[str, Any]:
    """The summary of a batch of the holdback."""
    told = _told(plan, releases, counts)
    whole = Tally(*before.get("whole", [0.0] * 4))
    whole.add(*told.to_list())
    return {"kind": "released", "centre": float(plan.centre), "batch": told.to_list(), "whole": whole.to_list()}
