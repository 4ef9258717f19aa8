"""The value of a policy on a log: let it learn, privately, from the log, then estimate what it earns.

A policy draws exploration and privacy noise, so one log gives another value in every run. The mean over S runs errs by

    the rows of the log        at most the mean square of the runs' own standard errors: all runs share the log
    the draws of the policy    B / S, with B the variance of the runs' values

A run's own interval, whatever its method, gives the reach of the first part on each side. Student's with S - 1 degrees of
freedom gives that of the second. Reaches of two independent errors add up in squares (Zou and Donner 2008).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from adaprivate import check, policies
from adaprivate.check import Floats, Integers
from adaprivate.logs.estimators import ESTIMATORS, Estimate, Sample, Samples, estimate_in_parts
from adaprivate.logs.intervals import Units, summary
from adaprivate.logs.log import Log
from adaprivate.logs.release import RELEASED, capped, first_rows, release, release_by_person, together, told
from adaprivate.logs.replay import accepted, whose
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan
from adaprivate.policies.core.propensities import choice_probabilities
from adaprivate.policies.noise_aware.starting import OFF
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose
from adaprivate.runtime.policy import Policy

NEEDS_PROPENSITIES = ("ips", "snips", "dr")
SELDOM = 0.01
"""What a policy chooses in a smaller share of rows has no say in which weights were possible."""
DEFAULT_SEEDS = 5
"""Number of runs where none is asked for: with fewer, Student's quantile makes intervals far longer."""

Run = TypeVar("Run")


class Weighing:
    """How likely this state of a policy, fixed from now on, is to choose what was logged, part by part.

    Probabilities that have to be drawn are drawn for each row afresh, without bias: their errors average out over rows.
    """

    def __init__(self, state: Any, log: Log, *, cap: float | None = None, draws: int = 256, seed: int = 0) -> None:
        self.state, self.cap, self.draws, self.seed = state, cap, draws, seed
        self._once: Floats | None = None
        self._steady, self._rows = log.steady, 0
        self._taken, self._squares = np.zeros((2, log.count))
        if log.fixed:  # the same candidates in every row
            first = next(iter(log.parts()))
            self._once = choice_probabilities(state, first.candidates, draws=256 * draws, seed=seed).probability[0]

    def sample(self, part: Log, start: int) -> Sample:
        """What estimators need of a part of the log that starts at this row."""
        if self._once is not None:
            chosen, mean = self._once[part.actions], self._once @ part.candidates[0]
            shares = np.broadcast_to(self._once, (len(part), len(self._once)))
            expected = np.broadcast_to(mean, (len(part), part.dimension))
        else:
            features = part.candidates
            found = self._probabilities(features, part.counts, start)
            chosen = found[np.arange(len(found)), part.actions]
            shares = found / found.sum(axis=1, keepdims=True)
            expected = np.einsum("nk,nkd->nd", shares, features)
        if self._steady is not None:
            self._rows += len(part)
            self._taken += shares.sum(axis=0)
            self._squares += (shares * shares).sum(axis=0)
        weights = None if part.propensities is None else capped(chosen / part.propensities, self.cap)
        return Sample(part.rewards, weights, part.chosen, expected, part.users)

    def largest(self) -> float:
        """The largest weight that was possible in the samples so far, where propensities say; whether it occurred or not.

        Of an action whose propensity never changes: its mean weight where the policy chooses it. Actions that it chooses
        in less than one row of 100 are left out: what they earn matters as little.
        """
        often = self._taken >= max(SELDOM * self._rows, 1e-9)
        if self._steady is None or not (often & ~np.isnan(self._steady)).any():
            return 0.0
        found = float(np.nanmax(self._squares[often] / self._taken[often] / self._steady[often]))
        return found if self.cap is None else min(found, self.cap)

    def _probabilities(self, features: Floats, counts: Integers | None, start: int) -> Floats:
        how: dict[str, Any] = {"draws": self.draws, "seed": self.seed + start, "lattice": False}
        if counts is None:
            return choice_probabilities(self.state, features, **how).probability
        found = np.zeros(features.shape[:2])
        for count in np.unique(counts).tolist():
            rows = np.flatnonzero(counts == count)
            offered = np.ascontiguousarray(features[rows, :count])
            found[rows, :count] = choice_probabilities(self.state, offered, **how).probability
        return found


def sample_for(state: Any, log: Log, *, cap: float | None = None, draws: int = 256, seed: int = 0) -> Sample:
    """What estimators need to judge this state of a policy on all rows of a log, at once."""
    return joined(_samples(Weighing(state, log, cap=cap, draws=draws, seed=seed), log, 0))


def _samples(weighing: Weighing, log: Log, start: int) -> Iterator[Sample]:
    for part in log.parts(start):
        yield weighing.sample(part, start)
        start += len(part)


def _choices(log: Log, start: int) -> Iterator[Sample]:
    for part in log.parts(start):
        yield Sample(part.rewards, chosen=part.chosen, people=part.users)


def _replayed(policy: Policy, log: Log, rounds: int, seed: int) -> Iterator[Sample]:
    """The rows that replay accepts, while it goes on."""
    count = 0
    for _, part, rows in accepted(policy, log, rounds=rounds, seed=seed):
        count += len(rows)
        yield Sample(part.rewards[rows], people=None if part.users is None else part.users[rows])
    check.expect(count >= 2, "accepted rows", count, f">= 2 of {len(log)}")


def joined(samples: Iterable[Sample]) -> Sample:
    """Samples of parts as one."""
    parts = list(samples)

    def every(field: str) -> Any:
        arrays = [getattr(part, field) for part in parts]
        return np.concatenate(arrays) if arrays and arrays[0] is not None else None

    return Sample(*(every(name) for name in ("rewards", "weights", "chosen", "expected", "people")))


def learn_from(policy: Policy, log: Log, rows: int | None = None) -> None:
    """Let the policy learn from what was chosen and earned, row by row, whoever chose it."""
    for part in log.parts(0, rows):
        for features, reward, user in zip(part.chosen, part.rewards.tolist(), whose(policy, part), strict=True):
            policy.observe(features, reward, user=user)
    policy.finish()


class AssumedRate(NamedTuple):
    """The mean reward, from 0 to 1, that a policy starts from, and whether its releases correct it."""

    rate: float
    learned: bool


class Judgement(NamedTuple):
    """An estimate, the guarantee of everything that was computed for it, and what was counted of whom."""

    estimate: Estimate
    guarantee: Guarantee | None
    visits: dict[str, int] | None
    """Of a policy that protects people: the people it learned from, their visits that counted, and those beyond: public."""
    assumed: AssumedRate | None = None
    """What the policy assumed of the mean reward, where it takes ``base_rate`` and was given none."""
    run_noise: str = "left out"
    """Whether the interval holds the policy's own random draws: included, left out, or none (all runs are alike)."""
    counting: str | None = None
    """Of a policy that protects people: which visits of each count."""
    published: str | None = None
    """What a released estimate was published with, and how that and the policy's epsilon make the guarantee."""


def assumed_rate(policy: Policy) -> AssumedRate | None:
    """Return the mean reward that a policy assumes because it was given no ``base_rate``. None for other policies."""
    plan = getattr(getattr(policy.state, "learner", policy.state), "plan", None)
    if getattr(policy.settings, "base_rate", 0.0) is not None or plan is None:
        return None
    rate = float(plan["centre"][0] + plan["intercept_mean"][0])
    return AssumedRate(rate, learned=bool(0 < plan["intercept_precision"][0] < OFF))


def judge(
    log: Log,
    policy: str,
    estimator: str,
    *,
    options: Mapping[str, Any] | None = None,
    train: float = 0.5,
    rounds: int | None = None,
    cap: float | None = None,
    interval: str = "asymptotic",
    confidence: float = 0.95,
    seed: int = 0,
    seeds: int | None = 1,
    release_epsilon: float | None = None,
    release_delta: float = 1e-5,
    person_rows: int | None = None,
) -> Judgement:
    """What the policy would have earned per round, and the guarantee of everything that was computed for it.

    replay: the policy learns as it goes and is paid where it agrees with the log. The others: it learns from the first
    ``train`` of the rows and stays as it is then; the remaining rows say what it earns. Values are from 0 to 1.

    ``seeds``: number of runs that the value is the mean of (:func:`adaprivate.logs.judge.over_runs`); None: five, or
    one for a released estimate. A policy that is deterministic, or does not learn from rewards, has one run.

    With ``release_epsilon`` the estimate itself is made public, with exact noise; without it, it is for those who may see
    the log. It protects whom the policy protects; for people, ``person_rows`` has only the first so many rows of each enter
    it. It is of one run: every further one would learn from the same rewards, and cost the policy's budget again.
    """
    check.one_of("estimator", estimator, ESTIMATORS)
    if estimator in NEEDS_PROPENSITIES:
        known, how_to = log.least_propensity is not None, "name it with propensity=, or --propensity"
        check.expect(known, "propensity", None, f"to be a column of the log for {estimator}: {how_to}")
    released = release_epsilon is not None
    if seeds is None:
        seeds = 1 if released else DEFAULT_SEEDS
    each = run_seeds(seed, seeds)
    if released and seeds > 1:
        raise check.InputError(
            f"seeds must be 1 for a released estimate (got {seeds}): every run learns from the same rewards with noise of "
            "its own, and would cost the policy's epsilon again. Leave out seeds, or release_epsilon."
        )
    replayed = estimator == "replay"
    share = log.acceptance if replayed else check.real("train", train, at_least=0, below=1)
    learned = math.floor(len(log) * share) if rounds is None else check.whole("rounds", rounds, at_least=1)
    check.expect(replayed or len(log) - learned >= 2, "rows to evaluate on", len(log) - learned, ">= 2")
    settings = policies.settings(policy, {"dimension": log.dimension, "rounds": max(learned, 1), **(options or {})})
    statement = settings.guarantee()
    by_reward = statement is None or statement.epsilon == 0 or statement.unit in ("event", "user")
    check.expect(by_reward, "policy", policy, "to protect rewards: contexts of a log are taken as public")
    fixed = getattr(settings, "fixed_arms", False)
    check.expect(
        not fixed, "policy", policy, "to choose by features (on fixed arms: unit vectors), not a policy on fixed arms"
    )
    plan: Any = getattr(settings, "plan", None)
    releases = isinstance(plan, BatchPlan | ChannelPlan | RewardPlan)
    if release_epsilon is not None:
        check.expect(estimator in RELEASED, "estimator", estimator, f"in {{{', '.join(RELEASED)}}} to be released")
        private = releases or settings.name == "random"
        check.expect(private, "policy", policy, "to be private with exact noise for an estimate to be released")
    by_person = statement is not None and statement.unit == "user"
    counting = plan.unit.counted if by_person else None
    if person_rows is not None:
        bounds = by_person and release_epsilon is not None
        check.expect(bounds, "person_rows", person_rows, "== None unless an estimate is released that protects people")
    exact = release_epsilon is not None and releases
    learns = statement is None or statement.epsilon > 0
    if not learns:  # one run's interval holds all there is
        each = each[:1]

    def ready(own: int) -> tuple[Policy, Samples, Samples, int, Callable[[], float] | None]:
        """A policy that has learned what it may, the samples that judge it, their most rows, and the largest weight."""
        player = Policy(settings, seed=None if exact else own, source=Secure() if exact else None)
        if replayed:
            most = max(learned, 1)
            samples: Samples = lambda: _replayed(player, log, most, own)  # noqa: E731
            return player, samples, samples, most, None
        learn_from(player, log, learned)
        weighing = Weighing(player.state, log, cap=cap, seed=seed)  # alike in all runs: they differ by the policy alone
        judging: Samples = lambda: _samples(weighing, log, learned)  # noqa: E731
        return player, judging, lambda: _choices(log, learned), len(log) - learned, weighing.largest

    if release_epsilon is None:
        how: dict[str, Any] = {"confidence": confidence, "interval": interval, "seed": seed, "whole": cap is None}

        def run(own: int) -> Judgement:
            player, samples, choices, most, largest = ready(own)
            found = estimate_in_parts(estimator, samples, choices, Units(most, log.people), largest=largest, **how)
            return Judgement(found, player.guarantee, player.people, assumed_rate(player), counting=counting)

        runs = played(run, lambda one: one.estimate, each)
        mean, visits = over_runs([one.estimate for one in runs]), _visits(runs)
        noise = "included" if len(runs) > 1 else "none" if len(runs) < seeds or not learns else "left out"
        return runs[0]._replace(estimate=mean, visits=visits, run_noise=noise)
    player, samples, *_ = ready(seed)
    sample = joined(Sample(part.rewards, part.weights, people=part.people) for part in samples())
    if person_rows is not None:
        assert sample.people is not None
        rows = first_rows(sample.people, person_rows)
        kept = None if sample.weights is None else sample.weights[rows]
        sample = Sample(sample.rewards[rows], kept, people=sample.people[rows])
    found, price = (release_by_person if by_person else release)(
        estimator, sample, epsilon=release_epsilon, delta=release_delta, noise=Secure(), confidence=confidence
    )
    stated = player.guarantee
    published = told(stated, price, replayed=replayed, by_person=by_person)
    if stated is not None and stated.epsilon > 0:
        price = together(stated, price, same_rewards=replayed or by_person)
    return Judgement(
        found, price, player.people, assumed_rate(player), "left out" if learns else "none", counting, published
    )


def _visits(runs: Sequence[Judgement]) -> dict[str, int] | None:
    """The mean of what was counted in several runs, in whole numbers."""
    counted = [one.visits for one in runs if one.visits is not None]
    return {name: round(sum(one[name] for one in counted) / len(counted)) for name in counted[0]} if counted else None


def logged_value(log: Log, confidence: float = 0.95) -> Estimate:
    """What the logging policy itself earned."""
    rows = Units(len(log), log.people)
    samples: Samples = lambda: (Sample(part.rewards, people=part.users) for part in log.parts())  # noqa: E731
    return estimate_in_parts("replay", samples, samples, rows, confidence=confidence)


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
