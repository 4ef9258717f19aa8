"""The attack, the same for everything: which of two neighbouring inputs made this transcript?

The runs are split three ways. On the first part attacks are made: the likelihood ratio of Gaussian noise around what would
have been released without it, that of Laplace noise, that of the choices where they are the noise, the low bits of
floating-point noise, a linear rule learned from numbers and actions. On the second part one of them is chosen, with a
threshold. On the third, by far the largest, it is judged, once for epsilon and once for mu: because of that split no
correction for the choices is needed, and the two statements share the error between them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from adaprivate import check, privacy
from adaprivate.audit.bounds import CONFIDENCE, Rule, best_rule, counted, epsilon_bound, mu_bound
from adaprivate.audit.playing import SEEDS, Known, Runs, played
from adaprivate.audit.scripts import Pair
from adaprivate.audit.targets import Target
from adaprivate.check import Array, Floats

PILOT = 160
"""Runs, at most, with which each pair of neighbours is tried."""
PILOT_LUCK = 0.35
"""What luck may add to a distance seen in so few runs."""
MOST_ACTIONS = 60
SPLIT = 0.15
"""The share of runs on which attacks are made, and again of those on which one is chosen."""
LEARNED = "learned from numbers and actions"
HANDICAP = 0.9
"""A learned rule must promise so much more than one that follows from the law of the noise."""
Score = Callable[[Known], Floats]


@dataclass(frozen=True)
class Finding:
    """What an attack proves: nothing smaller than ``measured_epsilon`` at this delta, nothing smaller than ``measured_mu``.

    ``direct_epsilon``: from the counts alone; ``measured_epsilon`` is that or, where Gaussian noise is claimed, the epsilon
    of ``measured_mu``, whichever is larger. ``share``: of the claimed mu, or where that is not Gaussian of epsilon.
    """

    policy: str
    neighbour: str
    claimed_epsilon: float
    delta: float
    claimed_mu: float | None
    measured_epsilon: float
    direct_epsilon: float
    measured_mu: float
    share: float
    holds: bool
    confidence: float
    trials: int
    attack: str
    exact_noise: bool
    seconds: float
    looked_at: int = 0
    """How many released numbers were compared with the grid of exact noise."""
    off_grid: int = 0
    """How many of them exact noise cannot have made: one is enough, whatever the bounds are."""
    note: str = ""
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    """Shares of runs of one and of two, that were judged, in which "two" is guessed, over all thresholds."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        fields = asdict(self)
        fields["curve"] = [list(point) for point in self.curve]
        return fields


# --- scores --------------------------------------------------------------------------------------------------------------


def _whitener(residuals: Floats) -> Floats:
    """A root of the inverse covariance; directions without noise count as if they had a trace of it."""
    scale = residuals.std(axis=0)
    scale = np.where(scale > 1e-9 * (1 + np.abs(residuals).max(initial=0.0)), scale, 1e-9)
    scaled = (residuals - residuals.mean(axis=0)) / scale
    values, basis = np.linalg.eigh(scaled.T @ scaled / max(len(scaled) - 1, 1))
    return np.asarray(basis / np.sqrt(np.maximum(values, 1e-9)) / scale[:, None])


def gaussian_score(runs: Runs) -> Score | None:
    """The likelihood ratio of Gaussian noise with the covariance seen."""
    known, two = runs
    if known.if_one is None or known.if_two is None or known.seen.numbers.shape[1] == 0:
        return None
    root = _whitener(known.seen.numbers - np.where(two[:, None], known.if_two, known.if_one))

    def score(known: Known) -> Floats:
        one, two = known.expectations
        around = (known.seen.numbers - (one + two) / 2) @ root
        return np.asarray((((two - one) @ root) * around).sum(axis=1))

    return score


def known_distance(runs: Runs) -> float:
    """How far apart the two are, in standard deviations of the noise seen, by what would be released without it."""
    known, two = runs
    if known.if_one is None or known.if_two is None or known.seen.numbers.shape[1] == 0:
        return 0.0
    root = _whitener(known.seen.numbers - np.where(two[:, None], known.if_two, known.if_one))
    return math.sqrt(float((((known.if_two - known.if_one) @ root) ** 2).sum(axis=1).mean()))


def _new(numbers: Floats, width: int | None) -> Array:
    """Which numbers are not just what they were a moment before, so many numbers earlier."""
    new = np.ones(numbers.shape, dtype=bool)
    if width is not None:
        new[:, width:] = numbers[:, width:] != numbers[:, :-width]
    return new


def new_numbers_score(runs: Runs, width: int | None, *, laplace: bool) -> Score | None:
    """The likelihood ratio of independent noise, of the size seen, in every number that is new when it is shown."""
    known, two = runs
    if known.if_one is None or known.if_two is None or known.seen.numbers.shape[1] == 0:
        return None
    new = _new(known.seen.numbers, width)
    residuals = np.abs(known.seen.numbers - np.where(two[:, None], known.if_two, known.if_one)) * new
    power = 1 if laplace else 2
    size = np.maximum((residuals**power).sum(axis=0) / np.maximum(new.sum(axis=0), 1), 1e-9**power)

    def score(known: Known) -> Floats:
        one, two = known.expectations
        apart = np.abs(known.seen.numbers - one) ** power - np.abs(known.seen.numbers - two) ** power
        told = _new(known.seen.numbers, width) & (np.abs(two - one) > 1e-12)
        return np.asarray(np.round((apart / size * told).sum(axis=1), 9))  # where Laplace noise is flat, ties are ties

    return score


def _features(known: Known) -> Floats:
    """Numbers less what they would be on average, whether they changed, what was seen aside, and the actions."""
    numbers, actions, aside = known.seen
    middle = 0.0 if known.if_one is None or known.if_two is None else (known.if_one + known.if_two) / 2
    shown = actions[:, :MOST_ACTIONS]
    chosen = [(shown == a).astype(np.float64) for a in range(1, int(shown.max(initial=0)) + 1)]
    silent = (numbers == 0).astype(np.float64)
    others = [] if aside is None else [aside]
    return np.concatenate([numbers - middle, silent, *others, *chosen], axis=1)


def learned_score(runs: Runs) -> Score | None:
    """The linear rule that tells the two apart best, of all numbers, moments and actions, held back by a ridge."""
    known, two = runs
    features = _features(known)
    centre, spread = features.mean(axis=0), features.std(axis=0)
    used = spread > 1e-9 * (1 + np.abs(centre))
    if not used.any():
        return None
    scaled = (features[:, used] - centre[used]) / spread[used]
    means = [scaled[mask].mean(axis=0) for mask in (~two, two)]
    inside = scaled - np.where(two[:, None], means[1], means[0])
    ridge = 0.02 * np.eye(int(used.sum()))
    weights = np.linalg.solve(inside.T @ inside / len(inside) + ridge, means[1] - means[0])
    width = features.shape[1]

    def score(known: Known) -> Floats:
        found = _features(known)
        found = found[:, :width] if found.shape[1] >= width else np.pad(found, ((0, 0), (0, width - found.shape[1])))
        return np.asarray(((found[:, used] - centre[used]) / spread[used]) @ weights)

    return score


def reachable(numbers: Floats, mean: Floats, scale: Floats) -> Array:
    """Whether these are sums, in floating point, of the mean and of a double times the scale."""
    z = (numbers - mean) / scale
    found = np.zeros(numbers.shape, dtype=bool)
    up, down = z.copy(), z.copy()
    for _ in range(3):
        found |= (mean + scale * up == numbers) | (mean + scale * down == numbers)
        up, down = np.nextafter(up, math.inf), np.nextafter(down, -math.inf)
    return found


def low_bits_score(scale: Floats | None) -> Score | None:
    """How many numbers floating-point noise could have made of one input and not of the other."""
    if scale is None:
        return None

    def score(known: Known) -> Floats:
        could = [reachable(known.seen.numbers, mean, scale) for mean in known.expectations]
        return np.asarray((could[1].astype(np.float64) - could[0]).sum(axis=1))

    return score


def choice_score(runs: Runs) -> Score | None:
    """The likelihood ratio of the actions, where choices are the noise."""
    if runs.known.choice is None:
        return None

    def score(known: Known) -> Floats:
        assert known.choice is not None
        return known.choice

    return score


def made(target: Target, runs: Runs) -> dict[str, Score]:
    """Every attack that these runs allow to make, by name."""
    found = {
        "Gaussian likelihood ratio": gaussian_score(runs),
        "Gaussian likelihood ratio of new numbers": new_numbers_score(runs, target.width, laplace=False),
        "Laplace likelihood ratio of new numbers": new_numbers_score(runs, target.width, laplace=True),
        "likelihood ratio of choices": choice_score(runs),
        "low bits": low_bits_score(target.scales),
        LEARNED: learned_score(runs),
    }
    return {name: score for name, score in found.items() if score is not None}


# --- the audit -----------------------------------------------------------------------------------------------------------


def most_telling(target: Target, runs_each: int, seed: int) -> Pair:
    """The neighbours that a few runs tell apart best."""
    found = target.pairs()
    if len(found) == 1:
        return found[0]

    def apart(pair: Pair) -> float:
        runs = played(target, pair, runs_each, seed)
        first = np.arange(runs_each) < runs_each // 2
        rest = ~first
        best = known_distance(runs)
        for score in made(target, Runs(runs.known.part(first), runs.two[first])).values():
            values, two = score(runs.known.part(rest)), runs.two[rest]
            gap = abs(values[two].mean() - values[~two].mean())
            spread = math.sqrt((values[two].var() + values[~two].var()) / 2)
            best = max(best, gap / (spread + 1e-9 * (1 + abs(values).max())) - PILOT_LUCK)
        return best

    return max(found, key=apart)


def audited(target: Target, *, trials: int, confidence: float = CONFIDENCE, seed: int = 1) -> Finding:
    """Attack a target with so many runs: some to make attacks, some to choose one, most to judge it."""
    check.whole("trials", trials, at_least=100, at_most=SEEDS)
    check.expect(0.5 <= confidence < 1, "confidence", confidence, ">= 0.5 and < 1")
    started = time.perf_counter()
    claim, alpha = target.claim, (1 - confidence) / 2
    pair = most_telling(target, max(60, min(PILOT, trials // 10)), seed)
    some = int(SPLIT * trials)
    fit, choose = played(target, pair, some, seed + 1), played(target, pair, some, seed + 2)
    scores = made(target, fit)
    judges = trials - 2 * some

    def best(bound: Callable[..., Floats]) -> tuple[str, Rule]:
        rules = {name: best_rule(score(choose.known), choose.two, judges, bound) for name, score in scores.items()}
        return max(rules.items(), key=lambda item: item[1].promise * (HANDICAP if item[0] == LEARNED else 1.0))

    direct, mu, attack = 0.0, 0.0, "nothing to attack: nothing that is seen varies"
    curve: tuple[tuple[float, float], ...] = ()
    judged = played(target, pair, judges, seed + 3)
    if scores:
        by_epsilon = best(lambda counts, how: epsilon_bound(counts, how, claim.delta, alpha))
        by_mu = best(lambda counts, how: mu_bound(counts, how, alpha))
        values = {name: scores[name](judged.known) for name in {by_epsilon[0], by_mu[0]}}
        (name, rule), (mu_name, mu_rule) = by_epsilon, by_mu
        counts = counted(values[name], judged.two, np.array([rule.threshold]))
        direct = float(epsilon_bound(counts, rule.how, claim.delta, alpha)[0])
        counts = counted(values[mu_name], judged.two, np.array([mu_rule.threshold]))
        mu = float(mu_bound(counts, mu_rule.how, alpha)[0])
        attack = name if name == mu_name else f"{name}; for mu {mu_name}"
        curve = _curve(values[mu_name], judged.two)
    return finding(
        target,
        pair.what,
        direct,
        mu,
        confidence=confidence,
        trials=trials,
        attack=attack,
        seconds=time.perf_counter() - started,
        curve=curve,
    )


def finding(target: Target, neighbour: str, direct: float, mu: float, *, seconds: float, **known: Any) -> Finding:
    """The finding that these bounds amount to, beside the claim."""
    claim = target.claim
    by_mu = privacy.gdp_epsilon(mu, claim.delta) if claim.gaussian and claim.delta > 0 else 0.0
    measured = max(direct, by_mu)
    reached, claimed = (mu, claim.mu) if claim.gaussian and claim.mu else (direct, claim.epsilon)
    share = reached / claimed if claimed > 0 else 0.0
    holds = direct <= claim.epsilon and (claim.mu is None or mu <= claim.mu) and target.off_grid == 0
    return Finding(
        policy=target.name,
        neighbour=neighbour,
        claimed_epsilon=claim.epsilon,
        delta=claim.delta,
        claimed_mu=claim.mu,
        measured_epsilon=measured,
        direct_epsilon=direct,
        measured_mu=mu,
        share=share,
        holds=holds,
        exact_noise=target.exact,
        seconds=seconds,
        looked_at=target.looked_at,
        off_grid=target.off_grid,
        note=target.note,
        **known,
    )


def _curve(scores: Floats, two: Array) -> tuple[tuple[float, float], ...]:
    thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, 101)))
    counts = counted(scores, two, thresholds)
    points = zip(counts.false / max(counts.ones, 1), counts.true / max(counts.twos, 1), strict=True)
    return tuple((float(x), float(y)) for x, y in points)
