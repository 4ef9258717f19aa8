"""Several runs of one policy on one log as one estimate, whose interval holds the policy's own randomness too.

A policy draws exploration and privacy noise, so that one log gives another value in every run. The mean over S runs errs by

    the rows of the log        at most the mean square of the runs' own standard errors: all runs share the log
    the draws of the policy    B / S, with B the variance of the runs' values

A run's own interval, whatever its method, gives the reach of the first part on each side; Student's with S - 1 degrees of
freedom gives that of the second. Reaches of two independent errors add up in squares (Zou and Donner 2008).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from adaprivate import check
from adaprivate.evaluation.estimators import Estimate
from adaprivate.evaluation.statistics import summary
from adaprivate.purposes import Purpose

DEFAULT_SEEDS = 5
"""Number of runs where none is asked for: with fewer, Student's quantile makes intervals far longer."""

Run = TypeVar("Run")


def run_seeds(seed: int, count: int) -> list[int]:
    """Return a seed for each run. The first is ``seed`` itself."""
    check.whole("seed", seed, at_least=0)
    check.whole("seeds", count, at_least=1)
    return [seed, *np.random.SeedSequence([seed, Purpose.RUN]).generate_state(count - 1, np.uint64).tolist()]


def played(play: Callable[[int], Run], estimate: Callable[[Run], Estimate], seeds: Sequence[int]) -> list[Run]:
    """Play one run for each seed. A policy whose second run repeats the first is deterministic: the first is enough."""
    runs: list[Run] = []
    for seed in seeds:
        runs.append(play(seed))
        if len(runs) == 2 and estimate(runs[0]) == estimate(runs[1]):
            return runs[:1]
    return runs


def over_runs(found: Sequence[Estimate]) -> Estimate:
    """Return the mean over runs, with an interval for the policy's expected reward over runs and logs."""
    if len(found) == 1:
        return found[0]
    values = np.array([one.value for one in found])
    between = summary(values, found[0].confidence)
    value, luck = between.mean, between.high - between.mean
    below = math.sqrt(_mean([(one.value - one.low) ** 2 for one in found]) + luck**2)
    above = math.sqrt(_mean([(one.high - one.value) ** 2 for one in found]) + luck**2)
    methods = {one.method for one in found}
    weights = [one.mean_weight for one in found if one.mean_weight is not None]
    rewarded = [one.rewarded for one in found if one.rewarded is not None]
    return dataclasses.replace(
        found[0],
        value=value,
        sem=math.sqrt(_mean([one.sem**2 for one in found]) + between.sem**2),
        # a mean reward is within 0 and 1, so an interval of runs that end there may end there too
        low=max(value - below, min(0.0, *(one.low for one in found))),
        high=min(value + above, max(1.0, *(one.high for one in found))),
        effective_sample_size=_mean([one.effective_sample_size for one in found]),
        rows=round(_mean([one.rows for one in found])),
        rewarded=_mean(rewarded) if rewarded else None,
        few=any(one.few for one in found),
        mean_weight=_mean(weights) if weights else None,
        odd_weights=any(one.odd_weights for one in found),
        method=methods.pop() if len(methods) == 1 else "few-rewards",
        seeds=len(found),
        run_sd=between.sem * math.sqrt(len(found)),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
