"""That exact releases cost what their price says: books driven with neighbouring rewards, their noise laid open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from adaprivate.check import Array, Floats
from adaprivate.compiled import streams
from adaprivate.mechanisms import Secure, Simulated, noise
from adaprivate.mechanisms.laws import randomised_response
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.noise import NOISE_BITS
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan, SamplingPlan
from adaprivate.mechanisms.units import Event
from adaprivate.privacy import PurePrice
from adaprivate.purposes import Purpose
from adaprivate.runtime.learner import Learner
from adaprivate.testing.behaviour import refusal
from adaprivate.testing.suite import checks, expect

FALSE_ALARM = 1e-6
"""The probability, over all statistical tests of a check, that a policy which is right is called wrong."""
RUNS = 60
"""How often a book is driven with fresh exact noise."""


ROUNDS = ("event", "joint")
"""Units that lie in one round."""


class Draw(NamedTuple):
    """One call of an exact sampler: what received noise, the scale of that noise, and what was drawn.

    Numbers with Gaussian or Laplace noise in grid units; a "flip" is of a bit, and its scale 1 over the logarithm of the
    odds that it is told truly; "items" are a whole number with discrete Laplace noise.
    """

    values: Array
    scales: Floats
    drawn: Floats
    kind: str = "grid"


@contextmanager
def open_noise(silent: bool = False) -> Iterator[list[Draw]]:
    """Record every draw of exact noise meanwhile; ``silent`` draws nothing, adds zeros, and tells bits truly."""
    seen: list[Draw] = []
    kept, kept_flipper, kept_items = noise._add, randomised_response._flipper, DiscreteLaplace.add

    def add(values: Array, scale: float | Floats, sampler: Any) -> Floats:
        exact = np.array([int(v) for v in np.asarray(values).ravel()], dtype=object)
        scales = np.broadcast_to(np.asarray(scale, np.float64), np.shape(values)).ravel() * 2.0**NOISE_BITS
        if silent:
            result = np.array([v / 2**NOISE_BITS for v in exact]).reshape(np.shape(values))
        else:
            result = kept(values, scale, sampler)
        drawn = [int(y * 2**NOISE_BITS) - v for y, v in zip(result.ravel().tolist(), exact.tolist(), strict=True)]
        seen.append(Draw(exact, scales, np.array(drawn, dtype=np.float64)))
        return result

    def record(value: int, scale: float, drawn: int, kind: str) -> None:
        seen.append(Draw(np.array([value], dtype=object), np.array([scale]), np.array([drawn], dtype=np.float64), kind))

    def flipper(keep: float) -> Any:
        flip = kept_flipper(keep)

        def flipped(bit: bool) -> bool:
            told = bool(bit) if silent else bool(flip(bool(bit)))
            record(int(bit), 1 / (math.log(keep) - math.log1p(-keep)), int(told) - int(bit), "flip")
            return told

        return flipped

    def add_items(self: DiscreteLaplace, total: int, source: Any) -> int:
        if not source.exact:
            return kept_items(self, total, source)
        noisy = total if silent else kept_items(self, total, source)
        record(total, self.scale, noisy - total, "items")
        return noisy

    noise._add, randomised_response._flipper = add, flipper  # type: ignore[assignment]
    DiscreteLaplace.add = add_items  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        noise._add, randomised_response._flipper = kept, kept_flipper
        DiscreteLaplace.add = kept_items  # type: ignore[method-assign]


class Driven(NamedTuple):
    """A book's life: after which round each release came, what it was, and how many draws had been made by then."""

    rounds: list[int]
    releases: list[Floats]
    draws: list[int]


def drive(plan: BatchPlan, features: Floats, rewards: Floats, seen: Sequence[Draw] = ()) -> Driven:
    """Enter these events into a fresh book with exact noise, and close every batch that is due."""
    book, driven = plan.book(Secure()), Driven([], [], [])
    for number, (vector, reward) in enumerate(zip(features, rewards.tolist(), strict=True)):
        book.add(Event(number, vector, reward))
        while book.due:
            release, book = book.close()
            driven.rounds.append(number + 1)
            driven.releases.append(release.values)
            driven.draws.append(len(seen))
    return driven


def exact_batches(settings: Any) -> BatchPlan | None:
    """The plan of settings that release batches with exact noise and protect single rewards or rounds; None for others."""
    plan = getattr(settings, "plan", None)
    if not isinstance(plan, BatchPlan) or plan.participation.unit not in ROUNDS or not plan.ends:
        return None
    return plan if refusal(lambda: plan.refuse_exact_noise(settings.name)) is None else None


def events(settings: Any, rounds: int, seed: int = 3) -> Floats:
    """Features that go to the limit: of norm 1, every third longer, items of the catalogue where there is one."""
    rng = np.random.default_rng([seed, 97])
    vectors = rng.standard_normal((rounds, settings.dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    items = getattr(settings, "catalogue", None)
    if isinstance(items, tuple):
        vectors[::2] = np.array(items)[rng.integers(len(items), size=len(vectors[::2]))]
    vectors[2::3] *= 3
    return vectors


def places(ends: Sequence[int], rounds: int) -> list[int]:
    """Rounds whose reward is replaced: first, middle and last of every batch, and after the last batch."""
    found = {rounds - 1}
    for first, end in zip([0, *ends], ends, strict=False):
        found |= {first, (first + end) // 2, end - 1}
    return sorted(place for place in found if place < rounds)


def exchanged(rewards: Floats, place: int, old: float, new: float) -> tuple[Floats, Floats]:
    """Two neighbours: these rewards with the one at this place exchanged."""
    one, two = rewards.copy(), rewards.copy()
    one[place], two[place] = old, new
    return one, two


Life = tuple[Floats, Floats]
"""The features and the rewards of all rounds."""


def neighbours(plan: BatchPlan, features: Floats, rewards: Floats, place: int) -> Iterator[tuple[str, Life, Life]]:
    """What is replaced at this place, and two lives that differ in it: a reward; where contexts are private, those too."""
    for old, new in ((0.0, 1.0), (0.3, 0.7)):
        one, two = exchanged(rewards, place, old, new)
        yield "the reward", (features, one), (features, two)
        if plan.participation.unit != "joint":
            continue
        own = features[place]
        for vector in (-own, np.roll(own, 1), (own + np.roll(own, 1)) / 2, 0.2 * own, 0.0 * own):
            other = features.copy()
            other[place] = vector
            yield "the context", (features, one), (other, one)
            yield "the context and the reward", (features, one), (other, two)


def distance(one: Sequence[Draw], two: Sequence[Draw], pure: bool) -> float:
    """How far apart the values that received noise are, in scales of that noise: l2, or l1 for pure privacy."""
    parts = []
    for a, b in zip(one, two, strict=True):
        expect(np.array_equal(a.scales, b.scales), "the scale of its noise depends on a reward")
        parts.append(np.array([float(x - y) for x, y in zip(a.values, b.values, strict=True)]) / a.scales)
    every = np.concatenate(parts) if parts else np.zeros(1)
    return float(np.abs(every).sum()) if pure else float(np.linalg.norm(every))


@checks
def exact_releases_cost_what_their_price_says(settings: Any, world: Any) -> None:
    """Neighbours move what receives noise, over all releases together, by no more than the price pays for."""
    plan = exact_batches(settings)
    if plan is None:
        return
    price = plan.price(exact_noise=True)
    pure = isinstance(price, PurePrice)
    paid = price.pure_epsilon if isinstance(price, PurePrice) else price.mu
    rounds = plan.ends[-1] + 3
    features = events(settings, rounds)
    rewards = np.random.default_rng(96).integers(2, size=rounds).astype(np.float64)
    most = 0.0
    for place in places(plan.ends, rounds):
        own = next((batch for batch, end in enumerate(plan.ends) if place < end), len(plan.ends))
        for what, *pair in neighbours(plan, features, rewards, place):
            lives = []
            for life in pair:
                with open_noise(silent=True) as seen:
                    driven = drive(plan, *life, seen)
                expect(driven.rounds == list(plan.ends), f"it releases after rounds {driven.rounds}, not {list(plan.ends)}")
                expect(all(b > a for a, b in zip([0, *driven.draws], driven.draws, strict=False)), "a release has no noise")
                lives.append((seen, driven))
            (one, first), (two, second) = lives
            before = first.draws[own - 1] if own else 0
            early = distance(one[:before], two[:before], pure)
            expect(early == 0, f"{what} of round {place} shows before its batch is released")
            pairs = list(zip(first.releases, second.releases, strict=True))[:own]
            expect(all(np.array_equal(a, b) for a, b in pairs), f"{what} of round {place} shows too early")
            moved = distance(one, two, pure)
            expect(moved <= paid * (1 + 1e-9), f"{what} of round {place} costs {moved:.6g}, and its price is {paid:.6g}")
            most = max(most, moved)
    if price.exact:
        expect(most >= 0.9 * paid, f"its price {paid:.6g} is called exact, and no reward costs more than {most:.6g}")


def expect_scale(standardised: Floats, alpha: float, what: str, kurtosis: float = 3.0) -> None:
    """Raise unless these numbers, of standard deviation 1 if all is right, have it; 2/3 and 3/2 would be told from 1.

    By the sum of squares, chi-square for Gaussian numbers; for another kurtosis with as many degrees as match its variance.
    """
    size = standardised.size * 2 / (kurtosis - 1)
    low, high = stats.chi2.ppf(alpha / 2, size) / size, stats.chi2.isf(alpha / 2, size) / size
    square = float((standardised**2).mean())
    expect(low > 4 / 9 and high < 9 / 4, f"{standardised.size} numbers are too few to know {what}")
    found = f"{what} has {math.sqrt(square):.3g} times the standard deviation that its price rests on"
    expect(low <= square <= high, found)
    for factor in (2 / 3, 3 / 2):
        expect(not low <= factor**2 <= high, f"the test of {what} would not notice {factor:.3g} times")


def law_shape(law: Any) -> tuple[float, float]:
    """The standard deviation of a law's noise of scale 1, and its kurtosis."""
    if law.name == "gaussian":
        return 1.0, 3.0
    draws = law.add(np.zeros(200_000), 1.0, Simulated(0))
    return float(draws.std()), float((draws**4).mean() / (draws**2).mean() ** 2)


def square(plan: BatchPlan) -> bool:
    """Whether the rows that received noise can be found from what is released: one for each batch."""
    return all(epoch.strategy.rows == epoch.strategy.steps for epoch in plan.epochs)


def standard_releases(plan: BatchPlan, table: Floats) -> Floats:
    """Noise of releases (runs, batches, size) in round coordinates, over the standard deviation that it should have.

    Running sums are turned back into the rows behind them, which are independent, where there is one for each batch.
    """
    factor, _ = law_shape(plan.law)
    scaled = (table if plan.shape is None else table @ np.linalg.inv(plan.shape.root).T) / plan.scales
    for first, last, strategy in plan.epochs:
        mechanism = plan.mechanism(plan.epoch_of(first), Simulated(0))
        own = scaled[:, first:last]
        if not plan.decoded:
            own *= strategy.sensitivity() / mechanism.row_std
        elif square(plan):
            own[:] = np.einsum("kj,rjd->rkd", strategy.matrix(), np.diff(own, axis=1, prepend=0.0)) / mechanism.row_std
        else:
            own /= mechanism.prefix_std()[:, None]
    return np.asarray(scaled / factor)


def expect_release_noise(plan: BatchPlan, table: Floats, kind: str) -> None:
    """Raise unless the noise of every release is as wide as stated, and no two rows of it are correlated."""
    scaled, batches = standard_releases(plan, table), table.shape[1]
    kurtosis = law_shape(plan.law)[1]
    alpha = FALSE_ALARM / (batches + 1)
    for batch in range(batches):
        expect_scale(scaled[:, batch].ravel(), alpha, f"the {kind} noise of release {batch}", kurtosis)
    if batches < 2 or not square(plan):
        return
    flat = scaled.transpose(1, 0, 2).reshape(batches, -1)
    shared = flat @ flat.T / flat.shape[1]
    limit = stats.norm.isf(alpha / batches**2) / math.sqrt(flat.shape[1]) * 1.2  # products of normals: a little wider tails
    worst = float(np.abs(shared - np.diag(np.diag(shared))).max())
    expect(worst <= limit, f"the {kind} noise of two releases has correlation {worst:.3g}")


@checks
def exact_noise_is_as_wide_as_stated(settings: Any, world: Any) -> None:
    """Over many runs, the noise in every exact release has the standard deviation of its price: no less, and no more."""
    plan = exact_batches(settings)
    if plan is None:
        return
    rounds = plan.ends[-1]
    features, rewards = events(settings, rounds), np.zeros(rounds)
    with open_noise(silent=True):
        clear = np.array(drive(plan, features, rewards).releases)
    runs = max(RUNS, math.ceil(400 / plan.size))
    with open_noise() as seen:
        table = np.array([drive(plan, features, rewards).releases for _ in range(runs)]) - clear
    drawn = np.concatenate([draw.drawn / draw.scales for draw in seen])
    factor, kurtosis = law_shape(plan.law)
    expect_scale(drawn / factor, FALSE_ALARM, "what the exact sampler draws", kurtosis)
    expect_release_noise(plan, table, "exact")


@checks
def simulated_noise_is_as_wide_as_stated(settings: Any, world: Any) -> None:
    """Over many seeds, the simulated noise of every release has the covariance of its price: no less, and no more."""
    plan = getattr(settings, "plan", None)
    if isinstance(plan, BatchPlan) and plan.ends:
        seeds = range(max(200, math.ceil(600 / plan.size)))
        table = settings.noise_tables(seeds)[:, :, : plan.size]
        expect_release_noise(plan, np.asarray(table * plan.sampling_rate), "simulated")


@checks
def exact_samples_cost_what_their_price_says(settings: Any, world: Any) -> None:
    """Private by sampling: however the arms are played, one reward moves all samples together by no more than the price."""
    plan = getattr(settings, "plan", None)
    if not isinstance(plan, SamplingPlan) or refusal(lambda: plan.refuse_exact_noise(settings.name)) is not None:
        return
    arms, rounds = plan.arms, plan.rounds
    rng = np.random.default_rng(95)
    prepulls = np.repeat(np.arange(arms), getattr(settings, "pair", (0, 1.0))[0])
    orders = [rng.integers(arms, size=rounds), np.full(rounds, arms - 1), np.arange(rounds) % arms]
    most, drawn = 0.0, []
    for order in orders:
        order[: len(prepulls)] = prepulls[:rounds]
        for place in {0, len(prepulls) // 2, rounds // 3}:
            lives = []
            for reward in (0.0, 1.0):
                with open_noise(silent=reward == 0.0) as seen:
                    _sampled(settings, plan, order, place, reward)
                lives.append(seen)
            most = max(most, distance(lives[0], lives[1], pure=False))
            drawn += [draw.drawn / draw.scales for draw in lives[1]]
    expect(most <= plan.mu * (1 + 1e-9), f"a reward costs {most:.6g}, and its price is {plan.mu:.6g}")
    expect(most > 0, "no sample depends on a reward: these settings test nothing")
    if drawn:
        expect_scale(np.concatenate(drawn), FALSE_ALARM, "what the exact sampler draws")


def _sampled(settings: Any, plan: SamplingPlan, order: Any, place: int, reward: float) -> None:
    """Play the arms in this order with exact samples, all rewards 1/2 but this one."""
    book = plan.book(Secure())
    learner = Learner(settings.learner(), streams(0, Purpose.EXPLORATION, Purpose.CHOICE))
    for number, arm in enumerate(order.tolist()):
        settings.exact_choice(learner.state, book)
        features = np.eye(plan.arms)[arm]
        book.add(Event(number, features, reward if number == place else 0.5))
        learner.counted(features)


@checks
def told_rewards_cost_what_their_price_says(settings: Any, world: Any) -> None:
    """Told one by one: what is told of a reward of 0 and of 1 is no easier to tell apart than the price says."""
    plan = getattr(settings, "plan", None)
    if not isinstance(plan, RewardPlan) or refusal(lambda: plan.refuse_exact_noise(settings.name)) is not None:
        return
    statement = plan.guarantee(settings.name, exact_noise=True)
    count = enough_to_see(statement.epsilon)
    told = {r: np.array([plan.law.tell(r, Secure()) for _ in range(count)]) for r in (0.0, 0.3, 1.0)}
    width = max(float(values.max()) for values in told.values()) - min(float(values.min()) for values in told.values())
    room = width * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * count))  # Hoeffding
    for reward, values in told.items():
        far = abs(float(values.mean()) - reward)
        expect(far <= room, f"what it tells of a reward of {reward:g} is not that on average")
    bound = distinguished(told[0.0], told[1.0], statement.delta)
    expect(bound <= statement.epsilon, f"epsilon is at least {bound:.4g}, and it states {statement.epsilon:.4g}")


def enough_to_see(epsilon: float) -> int:
    """Draws by which something told in clear would be told apart from this epsilon, up to one of 6."""
    return max(1500, int(60 * math.exp(min(epsilon, 6.0))))


def distinguished(one: Floats, two: Floats, delta: float) -> float:
    """A lower bound on epsilon from these numbers of two neighbours: half-lines, by exact (Clopper-Pearson) bounds."""
    edges = np.quantile(np.concatenate([one, two]), np.linspace(0.05, 0.95, 19))
    alpha, best = FALSE_ALARM / (4 * len(edges)), 0.0
    for edge in edges:
        for a, b in ((one, two), (two, one)):
            for inside, outside in (((a <= edge).sum(), (b <= edge).sum()), ((a > edge).sum(), (b > edge).sum())):
                low = float(stats.beta.ppf(alpha, inside, len(a) - inside + 1)) if inside else 0.0
                high = float(stats.beta.isf(alpha, outside + 1, len(b) - outside)) if outside < len(b) else 1.0
                if low > delta:
                    best = max(best, math.log((low - delta) / high))
    return best
