"""What a policy would have earned, from decisions that another one made: estimators with their intervals.

A row of the log has the features x of what was chosen, its reward r, the weight w = (probability that the evaluated policy
chooses it) / (probability with which it was logged), and the mean features f of what the evaluated policy would choose:

    ips     mean(w r)                                       unbiased if the propensities are right
    snips   sum(w r) / sum(w)                               the same up to 1/n, steadier
    dm      mean(q(f)), q fitted by least squares           right if the mean reward is linear in the features
    dr      mean(q(f) + w (r - q(x))), q cross-fitted       right if either is

Each is asymptotically a mean of one influence value per row, whose spread gives its standard error (for dm that includes
the fit, by the sandwich formula). The bootstrap draws rows again instead and takes percentiles. Where rows say whose they
are, a person's are not taken for independent: their influence values are added up first, and people are drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from adaprivate import check
from adaprivate.check import Floats, Integers

ESTIMATORS = ("replay", "ips", "snips", "dm", "dr")
INTERVALS = ("asymptotic", "bootstrap")
FOLDS = 2
_CELLS = 2_000_000
"""About so many bootstrap weights are drawn at a time."""


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, an interval that covers the truth with probability ``confidence``, and its weight.

    ``effective_sample_size``: (sum c)^2 / sum c^2 over the weights c that the rows' rewards have in the value.
    """

    estimator: str
    value: float
    sem: float
    low: float
    high: float
    confidence: float
    effective_sample_size: float
    rows: int
    rewarded: float | None = None
    """The same over what each row adds to the value: when only a few rows do, the interval is too short to be believed."""

    def __str__(self) -> str:
        return (
            f"{self.estimator} {self.value:.6g} +- {self.sem:.2g} ({100 * self.confidence:g} % within {self.low:.6g} .. "
            f"{self.high:.6g}), effective sample size {self.effective_sample_size:.0f} of {self.rows}"
        )


@dataclass(frozen=True)
class Sample:
    """What estimators need of each row; ``weights`` and the features are needed by some of them only.

    ``people``: whose each row is, as a number; None where rows stand alone.
    """

    rewards: Floats
    weights: Floats | None = None
    chosen: Floats | None = None
    expected: Floats | None = None
    people: Integers | None = None

    def __post_init__(self) -> None:
        rewards = check.floats("rewards", self.rewards, (None,))
        check.expect(len(rewards) >= 2, "len(rewards)", len(rewards), ">= 2")
        if self.weights is not None:
            weights = check.floats("weights", self.weights, (len(rewards),))
            check.expect(bool((weights >= 0).all()), "min(weights)", float(weights.min()), ">= 0")
        if self.chosen is not None:
            chosen = check.floats("chosen", self.chosen, (len(rewards), None))
            check.floats("expected", self.expected, chosen.shape)
        if self.people is not None:
            check.expect(len(self.people) == len(rewards), "len(people)", len(self.people), f"== {len(rewards)}")


def effective_sample_size(weights: Floats) -> float:
    """How many rows of equal weight would do as well."""
    square = float(weights @ weights)
    return float(weights.sum()) ** 2 / square if square > 0 else 0.0


def estimate(
    estimator: str,
    sample: Sample,
    *,
    confidence: float = 0.95,
    interval: str = "asymptotic",
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """The estimate by name; "replay" is the mean reward of rows that replay accepted."""
    check.one_of("estimator", estimator, ESTIMATORS)
    check.one_of("interval", interval, INTERVALS)
    check.probability("confidence", confidence)
    r, w = np.asarray(sample.rewards), sample.weights
    if estimator in ("ips", "snips", "dr"):
        check.expect(w is not None, "weights", None, f"to be given for {estimator}: the log needs propensities")
    if estimator in ("dm", "dr"):
        check.expect(sample.chosen is not None, "chosen", None, f"to be given for {estimator}: features of each row")
    w = np.ones(len(r)) if w is None or estimator == "replay" else np.asarray(w)
    again: Callable[[Floats], Floats]
    if estimator in ("replay", "ips"):
        influence, shares = w * r, w
        again = _means(influence)
    elif estimator == "snips":
        check.expect(float(w.sum()) > 0, "sum(weights)", 0.0, "> 0: the policy never chooses what was logged")
        value = float(w @ r / w.sum())
        influence, shares = value + w * (r - value) / w.mean(), w
        again = _ratios(w * r, w)
    else:
        X, F = _with_one(sample.chosen), _with_one(sample.expected)
        if estimator == "dm":
            influence, shares = _direct(r, X, F)
            again = _refits(r, X, F)
        else:
            influence, shares = _doubly_robust(r, w, X, F), w
            again = _means(influence)
    value = float(influence.mean())
    n = len(r)
    lost = np.linalg.matrix_rank(X) if estimator == "dm" else 1
    unit, count = _units(sample.people, n)
    spread = np.bincount(unit, influence - value)
    scale = count / (count - 1) * (n - 1) / max(n - lost, 1)
    sem = float(np.sqrt(scale * (spread @ spread)) / n) if np.ptp(influence) > 0 else 0.0
    if interval == "asymptotic":
        reach = float(stdtrit(count - 1, (1 + confidence) / 2)) * sem
        low, high = value - reach, value + reach
    else:
        drawn = _resampled(again, unit, count, check.whole("resamples", resamples, at_least=20), seed)
        low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    rewarded = effective_sample_size(np.abs(shares * r))
    return Estimate(estimator, value, sem, low, high, confidence, effective_sample_size(shares), n, rewarded)


def _units(people: Integers | None, rows: int) -> tuple[Integers, int]:
    """What is taken for independent: people, or rows where they are nobody's, or all of one; numbered, and how many."""
    if people is not None:
        known, numbers = np.unique(people, return_inverse=True)
        if len(known) > 1:
            return numbers, len(known)
    return np.arange(rows), rows


def _with_one(features: Floats | None) -> Floats:
    array = np.asarray(features)
    return np.hstack([array, np.ones((len(array), 1))])


def _fitted(X: Floats, r: Floats) -> Floats:
    """Least squares; the shortest solution where there are several."""
    return np.linalg.pinv(X.T @ X, hermitian=True, rcond=1e-10) @ (X.T @ r)


def _direct(r: Floats, X: Floats, F: Floats) -> tuple[Floats, Floats]:
    """The influence values of dm, and the weights of the rewards in it."""
    inverse = np.linalg.pinv(X.T @ X, hermitian=True, rcond=1e-10)
    theta = inverse @ (X.T @ r)
    shares = X @ (inverse @ F.mean(axis=0))
    return F @ theta + len(r) * shares * (r - X @ theta), shares


def _doubly_robust(r: Floats, w: Floats, X: Floats, F: Floats) -> Floats:
    values = np.empty(len(r))
    fold = np.arange(len(r)) % FOLDS
    for k in range(FOLDS):
        here = fold == k
        theta = _fitted(X[~here], r[~here])
        values[here] = F[here] @ theta + w[here] * (r[here] - X[here] @ theta)
    return values


def _means(values: Floats) -> Callable[[Floats], Floats]:
    return lambda counts: counts @ values / counts.sum(axis=1)


def _ratios(top: Floats, bottom: Floats) -> Callable[[Floats], Floats]:
    return lambda counts: counts @ top / np.maximum(counts @ bottom, 1e-300)


def _refits(r: Floats, X: Floats, F: Floats) -> Callable[[Floats], Floats]:
    def values(counts: Floats) -> Floats:
        return np.array([(c @ F) @ _fitted(X * np.sqrt(c)[:, None], r * np.sqrt(c)) / c.sum() for c in counts])

    return values


def _resampled(again: Callable[[Floats], Floats], unit: Integers, count: int, resamples: int, seed: int) -> Floats:
    """The estimate on rows, or people, drawn again: each counts a Poisson number of times."""
    rng = np.random.default_rng(seed)
    size = max(1, _CELLS // len(unit))
    sizes = [min(size, resamples - start) for start in range(0, resamples, size)]
    return np.concatenate([again(rng.poisson(1.0, size=(k, count))[:, unit].astype(np.float64)) for k in sizes])
