"""That compiled states release no more than they pay for: paired runs that differ in one reward, over many seeds of noise.

Actions are forced, so that a release is a public function of the rewards plus noise. Neighbouring rewards move all releases
together by a vector v; with S the covariance of all their noise, an observer of everything learns as much as from Gaussian
noise at mu = sqrt(v' S^-1 v). S is estimated over seeds; for Gaussian noise (n - 1) v'S^-1v / v'Ŝ^-1v is chi-square with
n - p degrees, n seeds and p numbers, and that is the test. Noise that is missing, too small, shared between releases or
spent on a reward that is in several of them all show in v' S^-1 v.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from adaprivate import privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams, borrowed, entry, streams
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan, SamplingPlan
from adaprivate.policies.core.dispatch import update, visit
from adaprivate.policies.core.propensities import copied
from adaprivate.privacy import GaussianPrice, PurePrice
from adaprivate.purposes import Purpose
from adaprivate.testing.books import FALSE_ALARM, ROUNDS, distinguished, drive, enough_to_see, events, exchanged, open_noise
from adaprivate.testing.suite import PEOPLE, checks, expect, fixed_arms

MOST_NUMBERS = 240  # of what is released, the first ones
LONGEST = 1 << 15
"""Settings are tried with more rounds, up to so many, if nothing is released in their own."""
PLACES = 6
"""Rounds whose reward is replaced."""
MOST_TOLD = 24
"""Rewards that are told one by one are looked at up to so many."""


@entry
def _advance(state: Any, features: Floats, rewards: Floats, rng: Streams, first: int, last: int) -> None:
    """Count the rounds from ``first`` up to ``last``, not included."""
    for t in range(first, last):
        visit(borrowed(state), t % PEOPLE)
        update(borrowed(state), borrowed(features[t]), rewards[t], borrowed(rng))


class Begun(NamedTuple):
    """A state before the first round, and the table of noise that these or longer settings have for it."""

    state: Any
    noise: Callable[[Any], Floats]


def stages(settings: Any, begun: Begun, features: Floats, rewards: Floats, moments: list[int]) -> Iterator[tuple[Any, Any]]:
    """The settings and the state after each of these rounds, planned further at public moments as policies in use are."""
    state, rng, done = copied(begun.state), streams(0, Purpose.EXPLORATION, Purpose.CHOICE), 0
    for moment in moments:
        while done < moment:
            planned = getattr(settings, "planned", moment)
            if planned == done:
                settings = settings.extended(state.learner)
                state = settings.carried(settings.start(begun.noise(settings)), state)
                continue
            until = min(moment, planned)
            _advance(state, features, rewards, rng, done, until)
            done = until
        yield settings, state


def run(settings: Any, begun: Begun, features: Floats, rewards: Floats, moments: list[int]) -> Floats:
    """What has been released after each of these rounds: (moments, size)."""
    played = stages(settings, begun, features, rewards, moments)
    return np.array([np.array(own.released(state), dtype=np.float64).ravel() for own, state in played])


class Stage(NamedTuple):
    """Settings and what they are played with: features and rewards by round, and the rounds after which they release."""

    settings: Any
    features: Floats
    rewards: Floats
    moments: list[int]


def forced(settings: Any, rounds: int) -> Floats:
    """Features of norm 1 for every round, or the arms in turn."""
    if fixed_arms(settings):
        return np.asarray(np.eye(settings.dimension)[np.arange(rounds) % settings.dimension])
    vectors = events(settings, rounds)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1.0))


def staged(settings: Any) -> Stage | None:
    """These settings on stage, with more rounds if they need them to release anything; None if they never do."""
    rounds = settings.rounds
    while True:
        features = forced(settings, rounds)
        rewards = np.random.default_rng(94).integers(2, size=rounds).astype(np.float64)
        if fixed_arms(settings):  # one arm is clearly the best: who looks for that first gets on
            rewards = features[:, 0].copy()
        every = list(range(rounds + 1))
        seen = [run(settings, begun, features, rewards, every) for begun in starts(settings, [1, 2])]
        changes = sorted({int(t) for one in seen for t in np.flatnonzero((np.diff(one, axis=0) != 0).any(axis=1)) + 1})
        if isinstance(getattr(settings, "plan", None), RewardPlan):
            changes = list(range(1, min(rounds, MOST_TOLD) + 1))
        if changes:
            return Stage(settings, features, rewards, changes)
        if rounds >= LONGEST:
            return None
        rounds *= 8
        settings = dataclasses.replace(settings, rounds=rounds)


def starts(settings: Any, seeds: Sequence[int]) -> list[Begun]:
    """The states before the first round, with the noise of these seeds."""

    def of_seed(seed: int) -> Callable[[Any], Floats]:
        return lambda own: own.noise_tables([seed])[0]

    tables = settings.noise_tables(seeds)
    return [Begun(settings.start(table.copy()), of_seed(seed)) for seed, table in zip(seeds, tables, strict=True)]


def silent(settings: Any) -> Begun:
    """The state before the first round without noise: tables of zeros, which streams of noise read as zeros too."""

    def nothing(own: Any) -> Floats:
        return np.zeros_like(own.noise_tables([0])[0])

    return Begun(settings.start(nothing(settings)), nothing)


def paid(settings: Any, additive: bool = True) -> tuple[float, bool]:
    """How far apart, in standard deviations of the noise, neighbours may be by the guarantee; whether noise is Gaussian.

    Pure privacy by Laplace noise: a release of scale b moved by v costs v / b, and b is 1 / sqrt(2) of its deviation; costs
    add, and their squares are less. Where noise is not added, as flips are not, no mean moves by more than
    2 sinh(epsilon / 2) deviations: the chi-square divergence is at most that squared.
    """
    statement = settings.guarantee()
    price = settings.plan.price() if getattr(settings, "plan", None) is not None else None
    pure = isinstance(price, PurePrice) or (price is None and statement.delta == 0)
    if pure:
        epsilon = price.pure_epsilon if isinstance(price, PurePrice) else statement.epsilon
        return epsilon / math.sqrt(2) if additive else 2 * math.sinh(min(epsilon, 700.0) / 2), False
    if statement.mu is not None:
        return statement.mu, True
    return privacy.gdp_mu(statement.epsilon, statement.delta), False


class Noise(NamedTuple):
    """The noise of all releases, seen over seeds: which numbers carry some, how much, and how it is shared."""

    kept: Any
    std: Floats
    values: Floats
    basis: Floats
    seeds: int

    @property
    def numbers(self) -> int:
        """How many different numbers carry noise."""
        return int((self.values > 0).sum())


def noise_of(stage: Stage, moments: list[int]) -> Noise:
    """The covariance of everything released at these moments, by its correlations."""
    size = len(moments) * stage.settings.released(silent(stage.settings).state).size
    seeds = range(100, 400 + 2 * size)
    play_it = partial(run, stage.settings, features=stage.features, rewards=stage.rewards, moments=moments)
    released = np.array([play_it(begun) for begun in starts(stage.settings, seeds)])
    fresh = np.ones(released.shape[1:], dtype=bool)  # what is not what it was before, for some seed
    fresh[1:] = (released[:, 1:] != released[:, :-1]).any(axis=0)
    numbers = released[:, fresh]
    std = numbers.std(axis=0, ddof=1)
    loud = std > 1e-12 * (1 + np.abs(numbers).max(axis=0))
    scaled = (numbers - numbers.mean(axis=0))[:, loud] / std[loud]
    values, basis = np.linalg.eigh(scaled.T @ scaled / (len(seeds) - 1))
    return Noise(
        fresh, np.where(loud, std, 0.0), np.where(values > 1e-10 * max(len(values), 1), values, 0.0), basis, len(seeds)
    )


def apart(noise: Noise, moved: Floats) -> float:
    """sqrt(v' S^-1 v) by the estimated S; infinite where something moved that carries no noise of its own."""
    v = moved[noise.kept]
    loud = noise.std > 0
    size = float(np.abs(v).max(initial=0.0))
    if size < 1e-12:
        return 0.0
    if np.abs(v[~loud]).max(initial=0.0) > 1e-9 * size:
        return math.inf
    along = noise.basis.T @ (v[loud] / noise.std[loud])
    silent = noise.values == 0
    if np.linalg.norm(along[silent]) > 1e-5 * np.linalg.norm(along):
        return math.inf
    return float(np.linalg.norm(along[~silent] / np.sqrt(noise.values[~silent])))


def interval(estimate: float, noise: Noise, gaussian: bool) -> tuple[float, float]:
    """Bounds on the true distance; for other noise than Gaussian as wide as Laplace noise (kurtosis 6) needs them."""
    left = max(noise.seeds - noise.numbers, 1)
    degrees = left if gaussian else 0.4 * left
    alpha = FALSE_ALARM / (2 * PLACES)
    scale = left / (noise.seeds - 1) / degrees
    low, high = (stats.chi2.ppf(q, degrees) * scale for q in (alpha, 1 - alpha))
    return estimate * math.sqrt(low), estimate * math.sqrt(high)


def looked_at(stage: Stage) -> list[int]:
    """The first moments of release, as many as can be judged together."""
    size = max(1, stage.settings.released(silent(stage.settings).state).size)
    return stage.moments[: max(2, MOST_NUMBERS // size)]


def tried(moments: list[int]) -> list[int]:
    """Rounds whose reward is replaced: before the first release, last of it, between others, before the last looked at."""
    chosen = {0, moments[0] - 1, *(moments[len(moments) * part // 4] - 1 for part in (1, 2, 3)), max(moments[-1] - 1, 0)}
    return sorted(chosen)[:PLACES]


@checks
def releases_cost_what_the_guarantee_says(settings: Any, world: Any) -> None:
    """Everything that compiled code releases, of rewards that differ in one, is no further apart than is paid for."""
    if not settings.private or isinstance(getattr(settings, "plan", None), SamplingPlan | ChannelPlan):
        return
    stage = staged(settings)
    if stage is None:
        expect(
            settings.guarantee().epsilon == 0, f"nothing is released in {LONGEST} rounds: its guarantee cannot be tested"
        )
        return
    if isinstance(getattr(settings, "plan", None), RewardPlan):
        _expect_flips_to_cost(stage)
        return
    moments = looked_at(stage)
    noise, most = noise_of(stage, moments), 0.0
    begun = [silent(stage.settings), *starts(stage.settings, range(16))]
    for place in tried(moments):
        for old, new in ((0.0, 1.0), (0.3, 0.7)):
            moved, additive = difference(stage, moments, begun, exchanged(stage.rewards, place, old, new))
            bound, gaussian = paid(stage.settings, additive)
            early = np.array(moments) <= place
            expect(not moved[early].any(), f"the reward of round {place} shows before that round")
            _expect_not_before_its_batch(stage, place, moments, moved)
            distance = apart(noise, moved)
            expect(math.isfinite(distance), f"the reward of round {place} is released without noise of its own")
            low, high = interval(distance, noise, gaussian)
            said = f"the reward of round {place} costs at least {low:.4g}, and the guarantee pays for {bound:.4g}"
            expect(low <= bound * (1 + 1e-9), said)
            most = max(most, high)
    statement = settings.guarantee()
    price = settings.plan.price() if getattr(settings, "plan", None) is not None else None
    if isinstance(price, GaussianPrice) and statement.exact and statement.unit == "event":
        said = f"its guarantee is called exact, pays for {price.mu:.4g}, and no reward costs {most:.4g}"
        expect(most >= 0.9 * price.mu, said)


def _expect_flips_to_cost(stage: Stage) -> None:
    """Rewards told one by one: what compiled code tells of 0 and of 1, over seeds, by exact bounds on their odds."""
    epsilon = stage.settings.guarantee().epsilon
    begun = starts(stage.settings, range(1000, 1000 + enough_to_see(epsilon)))
    zero, one = (
        np.array([run(stage.settings, state, stage.features, np.full(len(stage.rewards), r), [1])[0, 0] for state in begun])
        for r in (0.0, 1.0)
    )
    bound = distinguished(zero, one, 0.0)
    expect(bound <= epsilon, f"the reward of round 0 costs at least {bound:.4g}, and the guarantee pays for {epsilon:.4g}")


def difference(stage: Stage, moments: list[int], begun: list[Begun], pair: tuple[Floats, Floats]) -> tuple[Floats, bool]:
    """How these neighbours move everything released, on average over the noise; whether that is the same for any noise."""

    def moved(start: Begun) -> Floats:
        one, two = (run(stage.settings, start, stage.features, rewards, moments) for rewards in pair)
        return two - one

    first = moved(begun[0])
    told = isinstance(getattr(stage.settings, "plan", None), RewardPlan)
    if not told and all(np.allclose(first, moved(other), rtol=1e-6, atol=1e-9) for other in begun[1:]):
        return first, True
    return np.mean([moved(state) for state in starts(stage.settings, range(100, 500))], axis=0), False


def _expect_not_before_its_batch(stage: Stage, place: int, moments: list[int], moved: Floats) -> None:
    ends = stated_ends(stage.settings)
    if ends is not None:
        due = next((end for end in ends if place < end), math.inf)
        early = np.array(moments) < due
        expect(not moved[early].any(), f"the reward of round {place} shows before its batch is released")


def stated_ends(settings: Any) -> list[int] | None:
    """The public moments of release, where a policy states them."""
    plan = getattr(settings, "plan", None)
    if isinstance(plan, BatchPlan):
        return list(plan.ends)
    return [int(end) for end in settings.ends] if hasattr(settings, "ends") else None


@checks
def releases_come_at_the_stated_moments(settings: Any, world: Any) -> None:
    """Where the plan states after which rounds it releases, it releases after those and no others."""
    ends = stated_ends(settings)
    stage = staged(settings) if ends and settings.private else None
    if stage is not None and ends is not None and stage.settings is settings:
        expected = [end for end in ends if end <= settings.rounds]
        expect(stage.moments == expected, f"it releases after rounds {stage.moments}, and states {expected}")


@checks
def compiled_releases_are_those_of_the_book(settings: Any, world: Any) -> None:
    """Simulation and production release the same sums, and the simulated noise of a release is its own row of the table."""
    plan = getattr(settings, "plan", None)
    if not isinstance(plan, BatchPlan) or plan.sampling_rate < 1 or plan.participation.unit not in ROUNDS:
        return
    moments = [end for end in plan.ends if end <= settings.rounds]
    if not moments:
        return
    features = forced(settings, settings.rounds)
    rewards = np.random.default_rng(93).uniform(size=settings.rounds)
    clear = run(settings, silent(settings), features, rewards, moments)
    with open_noise(silent=True):
        exact = np.array(drive(plan, features, rewards).releases)
    grid = 2.0**-18 * settings.rounds * (1 if plan.shape is None else float(np.abs(plan.shape.root).sum()))
    expect(np.abs(clear - exact).max() < grid, "without noise, compiled code and the book release different sums")
    table = settings.noise_tables([11])[0]
    noisy = run(settings, starts(settings, [11])[0], features, rewards, moments)
    own = table[: len(moments), : plan.size]
    expect(np.allclose(noisy - clear, own, rtol=1e-7, atol=1e-7), "the noise of a release is not its row of the table")
