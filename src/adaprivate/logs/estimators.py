"""What a policy would have earned, from decisions that another one made: estimators with their intervals.

A row of the log has the features x of what was chosen, its reward r, the weight w = (probability that the evaluated policy
chooses it) / (probability with which it was logged), and the mean features f of what the evaluated policy would choose:

    ips     mean(w r)                                       unbiased if the propensities are right
    snips   sum(w r) / sum(w)                               the same up to 1/n, steadier
    dm      mean(q(f)), q fitted by least squares           right if the mean reward is linear in the features
    dr      mean(q(f) + w (r - q(x))), q cross-fitted       right if either is

Each is asymptotically a mean of one influence value per row, whose spread gives its standard error (for dm that includes
the fit, by the sandwich formula). The bootstrap draws influence values again instead and takes percentiles. Where rows say
whose they are, a person's are not taken for independent: their influence values are added up first, and people are drawn
again.

Where few rewards carry an estimate neither can be believed: it is marked, and has the interval that Fay and Feuer gave for
weighted sums of rare events (:class:`adaprivate.logs.intervals.Carried`), which is never empty. So it is where one more
reward, of the largest weight, would change much: a rare action that was never rewarded looks as if it were surely worth
nothing. That weight is the largest seen, or one that is known to be possible. Of a choice that was never logged, and whose
share is lacking in the sum of weights, the interval holds all that this share may have earned.

Rows come in parts, gone through once to three times; nothing that grows with their number is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.logs.intervals import CHANCE, FEW_REWARDED, UNLOGGED, Units, UnitSums

ESTIMATORS = ("replay", "ips", "snips", "dm", "dr")
INTERVALS = ("asymptotic", "bootstrap", "wilson", "few-rewards")
FOLDS = 2


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
    """The same over what each row, or each person, adds to the value."""
    few: bool = False
    """Whether so few rewards (or, of replay and snips, rows without one) carry it, or one more would change it so much,
    that the interval is that for few."""
    mean_weight: float | None = None
    """Of ips, snips and dr: about 1 if propensities are right and nothing was left out that the policy chooses."""
    odd_weights: bool = False
    """Whether it is far from 1."""
    method: str = "asymptotic"
    """How the interval was made: asymptotic, bootstrap, wilson, few-rewards, or noise (of a published estimate)."""
    seeds: int = 1
    """Number of runs of the policy that the value is the mean of (:mod:`adaprivate.logs.judge`)."""
    run_sd: float | None = None
    """Standard deviation of the value between these runs; None for one run."""

    def __str__(self) -> str:
        few = f", few: {self.rewarded:.1f} rewards carry it" if self.few and self.rewarded is not None else ""
        return (
            f"{self.estimator} {self.value:.6g} +- {self.sem:.2g} ({100 * self.confidence:g} % within {self.low:.6g} .. "
            f"{self.high:.6g}), effective sample size {self.effective_sample_size:.0f} of {self.rows}{few}"
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
        if self.weights is not None:
            weights = check.floats("weights", self.weights, (len(rewards),))
            check.expect(bool((weights >= 0).all()), "min(weights)", float(weights.min(initial=0.0)), ">= 0")
        if self.expected is not None:
            check.expect(self.chosen is not None, "chosen", None, "to be given with expected")
            chosen = check.floats("chosen", self.chosen, (len(rewards), None))
            check.floats("expected", self.expected, chosen.shape)
        if self.people is not None:
            check.expect(len(self.people) == len(rewards), "len(people)", len(self.people), f"== {len(rewards)}")


Samples = Callable[[], Iterable[Sample]]
"""Samples of the same rows in the same order, whenever it is called."""


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
    if estimator in ("ips", "snips", "dr"):
        check.expect(
            sample.weights is not None, "weights", None, f"to be given for {estimator}: the log needs propensities"
        )
    if estimator in ("dm", "dr"):
        check.expect(sample.chosen is not None, "chosen", None, f"to be given for {estimator}: features of each row")
    people = None if sample.people is None else len(np.unique(sample.people))
    units = Units(len(sample.rewards), people)
    how = {"confidence": confidence, "interval": interval, "resamples": resamples, "seed": seed}
    return estimate_in_parts(estimator, lambda: [sample], lambda: [sample], units, **how)  # type: ignore[arg-type]


def estimate_in_parts(
    estimator: str,
    samples: Samples,
    choices: Samples,
    units: Units,
    *,
    confidence: float = 0.95,
    interval: str = "asymptotic",
    resamples: int = 1000,
    seed: int = 0,
    largest: Callable[[], float] | None = None,
    whole: bool = True,
) -> Estimate:
    """The same of rows in parts. ``choices``: samples of rewards and chosen features alone, where no more is needed.

    ``largest``: a weight that is known to be possible, once all samples were seen. ``whole``: weights were not capped.
    """
    check.one_of("estimator", estimator, ESTIMATORS)
    check.one_of("interval", interval, INTERVALS)
    check.probability("confidence", confidence)
    check.whole("resamples", resamples, at_least=20)
    lost = 1
    if estimator == "dm":
        tally, lost = _direct(samples, choices, units)
    elif estimator == "dr":
        tally = _doubly_robust(samples, choices, units)
    else:
        tally = UnitSums(units)
        for part in samples():
            w = np.ones(len(part.rewards)) if estimator == "replay" else np.asarray(part.weights)
            tally.add(part.people, part.rewards, w, w * part.rewards)
    check.expect(tally.rows >= 2, "len(rewards)", tally.rows, ">= 2")
    ratio, weighed = estimator == "snips", estimator in ("ips", "snips", "dr")
    most = largest() if weighed and largest is not None else 0.0
    if estimator in ("ips", "snips"):
        check.expect(tally.weight > 0, "sum(weights)", 0.0, "> 0: the policy never chooses what was logged")
    value = tally.total / (tally.weight if ratio else tally.rows)
    sem = tally.sem(tally.spread(value, ratio), lost)
    reach = tally.student(confidence) * sem
    low, high = value - reach, value + reach
    lacking = tally.unlogged if weighed and whole else 0.0
    carried = min(tally.rewarded, tally.hits.worth(most))
    if estimator in ("replay", "snips"):
        carried = min(carried, tally.misses.worth(most))
    few = carried < FEW_REWARDED or lacking > 0
    if few and interval != "wilson":
        interval = "few-rewards"
    if interval == "wilson":
        check.expect(estimator in ("replay", "ips", "snips"), "interval", interval, "to be of replay, ips or snips")
        low, high = tally.wilson(value, confidence)
    elif interval == "few-rewards":
        low, high = _of_few(estimator, tally, value, (low, high), confidence, most, lacking)
    elif interval == "bootstrap":
        low, high = np.quantile(tally.drawn(resamples, seed, ratio), [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    mean = tally.weight / tally.rows if weighed else None
    odd = mean is not None and whole and _odd(mean, tally.weight_error / tally.rows)
    size, own = tally.effective, tally.rewarded
    return Estimate(estimator, value, sem, low, high, confidence, size, tally.rows, own, few, mean, odd, interval)


def _odd(mean: float, error: float) -> bool:
    """Whether a mean weight is far from 1, or further than chance explains."""
    return abs(mean - 1) > 0.5 or abs(mean - 1) > max(2 * UNLOGGED, CHANCE * error)


def _of_few(
    estimator: str,
    tally: UnitSums,
    value: float,
    asymptotic: tuple[float, float],
    confidence: float,
    largest: float,
    lacking: float,
) -> tuple[float, float]:
    """An interval for an estimate that few rewards carry, or that few rows without a reward keep from 1.

    ``lacking``: the weight of rows that are not there. They may have earned nothing, or all they could.
    """
    if estimator in ("replay", "snips"):
        weight = tally.weight
        due = weight + lacking
        if tally.misses.worth(largest) < tally.hits.worth(largest):
            low, high = tally.misses.within(confidence, largest)
            return max(1 - (high + lacking) / weight, 0.0), 1 - low / due
        low, high = tally.hits.within(confidence, largest)
        return low / due, min((high + lacking) / weight, 1.0)
    n = 1 if estimator == "dm" else tally.rows
    (low, high), (under, over) = tally.hits.within(confidence, largest), tally.below.within(confidence)
    low, high = (low - over) / n, (high + lacking - under) / n
    if estimator == "dr":  # as far around its own value as ips is uncertain, whose model is no model
        own = tally.hits.sums[0] / n
        low, high = min(asymptotic[0], value - (own - low) - lacking / n), max(asymptotic[1], value + (high - own))
    return low, high


def _with_one(features: Floats | None) -> Floats:
    array = np.asarray(features)
    return np.hstack([array, np.ones((len(array), 1))])


class _Fit:
    """Least squares, from sums; the shortest solution where there are several."""

    def __init__(self) -> None:
        self.gram: Floats | float = 0.0
        self.product: Floats | float = 0.0

    def add(self, X: Floats, r: Floats) -> None:
        self.gram, self.product = self.gram + X.T @ X, self.product + X.T @ r

    def solved(self) -> tuple[Floats, Floats]:
        """The inverse of the Gram matrix, and the coefficients."""
        inverse = np.linalg.pinv(np.asarray(self.gram), hermitian=True, rcond=1e-10)
        return inverse, inverse @ self.product


def _direct(samples: Samples, choices: Samples, units: Units) -> tuple[UnitSums, int]:
    """The sums of dm, and how many coefficients were fitted. Linear in rewards: each has the weight x' inverse mean(f)."""
    fit = _Fit()
    for part in choices():
        fit.add(_with_one(part.chosen), part.rewards)
    inverse, theta = fit.solved()
    models, mean = UnitSums(units), np.zeros(len(theta))
    for part in samples():
        F = _with_one(part.expected)
        mean += F.sum(axis=0)
        models.add(part.people, part.rewards, np.zeros(len(F)), F @ theta)
    n = models.rows
    direction = inverse @ (mean / max(n, 1))
    tally = UnitSums(units)
    for part in choices():
        X = _with_one(part.chosen)
        shares = X @ direction
        tally.add(part.people, part.rewards, shares, n * shares * (part.rewards - X @ theta))
    tally.include(models)
    return tally, int(np.linalg.matrix_rank(np.asarray(fit.gram), hermitian=True))


def _doubly_robust(samples: Samples, choices: Samples, units: Units) -> UnitSums:
    """The sums of dr: rows are judged by the model that the other half of them fitted."""
    fits, start = [_Fit() for _ in range(FOLDS)], 0
    for part in choices():
        X, fold = _with_one(part.chosen), np.arange(start, start + len(part.rewards)) % FOLDS
        for k in range(FOLDS):
            fits[k].add(X[fold != k], part.rewards[fold != k])
        start += len(part.rewards)
    thetas = np.stack([fit.solved()[1] for fit in fits])
    tally = UnitSums(units)
    for part in samples():
        own = thetas[np.arange(tally.rows, tally.rows + len(part.rewards)) % FOLDS]
        X, F, w = _with_one(part.chosen), _with_one(part.expected), np.asarray(part.weights)
        values = np.einsum("nd,nd->n", F, own) + w * (part.rewards - np.einsum("nd,nd->n", X, own))
        tally.add(part.people, part.rewards, w, values)
    return tally
