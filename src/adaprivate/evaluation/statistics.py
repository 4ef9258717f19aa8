"""Means over seeds, how sure they are, and whether one policy beats another on the same seeds.

Intervals and tests are Student's: exact for normal values, good for means of a dozen runs or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from adaprivate import check
from adaprivate.check import Floats


@dataclass(frozen=True)
class Summary:
    """A mean, its standard error, and the interval that covers the true mean with probability ``confidence``."""

    mean: float
    sem: float
    low: float
    high: float
    confidence: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.6g} +- {self.sem:.2g} ({100 * self.confidence:g} % within {self.low:.6g} .. {self.high:.6g})"


@dataclass(frozen=True)
class Paired:
    """Ours minus theirs on the same seeds.

    ``p_value`` is two-sided; ``effect_size`` is Cohen's d_z, the mean difference in standard deviations of the differences.
    When every difference is the same there is no spread to judge by: t and d_z are infinite with p 0, or all of it is
    nothing (t 0, p 1) when that difference is zero.
    """

    difference: float
    sem: float
    t: float
    p_value: float
    effect_size: float
    low: float
    high: float
    confidence: float
    n: int

    def __str__(self) -> str:
        return (
            f"{self.difference:+.6g} ({100 * self.confidence:g} % within {self.low:+.6g} .. {self.high:+.6g}), "
            f"p = {self.p_value:.2g}, d_z = {self.effect_size:.2g}, n = {self.n}"
        )


def summary(values: object, confidence: float = 0.95) -> Summary:
    """The mean of at least two independent values, with Student's interval."""
    array = _sample("values", values)
    confidence = check.probability("confidence", confidence)
    n, mean, sem = len(array), float(array.mean()), _sem(array)
    reach = sem * float(stdtrit(n - 1, (1 + confidence) / 2))
    return Summary(mean, sem, mean - reach, mean + reach, confidence, n)


def paired(ours: object, theirs: object, confidence: float = 0.95) -> Paired:
    """Student's paired test of ours against theirs: value i of each must come from the same seed."""
    first, second = _sample("ours", ours), _sample("theirs", theirs)
    check.expect(len(first) == len(second), "len(ours)", len(first), f"== len(theirs)={len(second)}")
    found = summary(first - second, confidence)
    n = found.n
    without_spread = math.copysign(math.inf, found.mean) if found.mean else 0.0
    t = found.mean / found.sem if found.sem > 0 else without_spread
    p_value = 2 * float(stdtr(n - 1, -abs(t)))
    effect_size = t / math.sqrt(n)
    return Paired(found.mean, found.sem, t, p_value, effect_size, found.low, found.high, found.confidence, n)


def _sample(name: str, values: object) -> Floats:
    array = check.floats(name, values, (None,))
    check.expect(len(array) >= 2, f"len({name})", len(array), ">= 2")
    return array


def _sem(array: Floats) -> float:
    if np.ptp(array) == 0:
        return 0.0  # equal values have no spread, whatever rounding says of their mean
    return float(array.std(ddof=1)) / math.sqrt(len(array))
