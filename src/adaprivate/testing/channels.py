"""That every reward leaves by one channel and pays what that costs: policies with a plan of channels, exact and compiled.

Actions are forced, so that routes are public functions of the rounds and of what was released. Two lives that differ in
one reward are compared given the same releases: those of the first are what the second's learner reads. Then the same noise
must be drawn at the same moments, and of all that receives it only what the reward's own channel releases may have moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from adaprivate.check import Floats
from adaprivate.compiled import streams
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.channels import CHANNELS, FLIP, GAUSSIAN, ITEMS, ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.purposes import Purpose
from adaprivate.runtime.engines import ExactEngine
from adaprivate.runtime.learner import Learner
from adaprivate.testing.behaviour import exact_plan
from adaprivate.testing.books import (
    FALSE_ALARM,
    Draw,
    exchanged,
    expect_release_noise,
    expect_scale,
    open_noise,
)
from adaprivate.testing.suite import checks, expect, person

RUNS = 120
"""How often exact noise is drawn, at least; compiled code is run with twice as many seeds."""
ENOUGH = 500
"""Numbers of one channel by which its noise is judged."""
MOST_RUNS = 600


class Life(NamedTuple):
    """Where every event went; after which round each release came, what it was, and how many draws there were by then."""

    routes: list[dict[str, Any]]
    rounds: list[int]
    releases: list[Release]
    draws: list[int]
    plans: list[Any]
    """The plan of every round."""
    learner: Any = None
    """The learner's state at the end."""

    @property
    def sums(self) -> BatchPlan | None:
        """The sums planned last."""
        return getattr(self.plans[-1], "sums", None)  # blocks of arms have none

    def due(self, place: int) -> float:
        """The round after which the event of this place is released first: infinite if it is not."""
        route = self.routes[place]
        if route["channel"] == FLIP:
            return place + 1
        if route["channel"] == ITEMS:
            later = enumerate(self.routes[place:], place + 1)
            return next((n for n, other in later if other["closes"] and other["block"] == route["block"]), math.inf)
        return next((end for end in (self.sums.ends if self.sums else ()) if end > place), math.inf)


def routed(settings: Any) -> ChannelPlan | None:
    """The plan of settings that have one of channels; None for all others."""
    plan = getattr(settings, "plan", None)
    return plan if isinstance(plan, ChannelPlan) else None


def exactly_routed(settings: Any) -> ChannelPlan | None:
    """The same where it can have exact noise."""
    return exact_plan(settings, ChannelPlan)


def played(settings: Any, rounds: int | None = None) -> tuple[Floats, Floats]:
    """Features by round, most of them of a few vectors that come again, of all lengths up to 1; and a bit for each."""
    rounds = settings.rounds if rounds is None else rounds
    rng = np.random.default_rng(92)
    vectors = rng.standard_normal((rounds, settings.dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    items = vectors[:3].copy()
    if isinstance(getattr(settings, "catalogue", None), tuple):
        items = np.array(settings.catalogue)
        items /= np.maximum(np.linalg.norm(items, axis=1, keepdims=True), 1.0)
    items[-1] *= 0.4
    again = np.arange(rounds) % 5 != 3
    vectors[again] = items[rng.integers(len(items), size=int(again.sum()))]
    return vectors, rng.integers(2, size=rounds).astype(np.float64)


# --- exact lives ------------------------------------------------------------------------------------------------------


class _Holding(Learner):
    """Keeps what is released, and reads what was released in another life instead, if one is given."""

    _held: Sequence[Release] | None
    _heard: list[Release]

    def read(self, release: Release) -> None:
        place = len(self._heard)
        self._heard.append(release)
        if self._held is not None and place < len(self._held):
            release = release._replace(values=self._held[place].values)
        super().read(release)


def holding(learner: Learner, held: Sequence[Release] | None, heard: list[Release]) -> Learner:
    """The learner before its first release; it reads what is held, if anything is. ``heard`` gets the rest."""
    found = _Holding(learner.state, learner.rng)
    found._held, found._heard = held, heard
    return found


def lived(
    settings: Any,
    features: Floats,
    rewards: Floats,
    seen: Sequence[Draw] = (),
    held: Sequence[Release] | None = None,
    people: Sequence[int] | None = None,
) -> Life:
    """These events counted as a policy with exact noise counts them, planned further at public moments.

    ``people``: who comes in each round; by default a few in turn, where a policy asks.
    """
    engine = ExactEngine(settings, Secure(), streams(0, Purpose.EXPLORATION, Purpose.CHOICE), lambda: None)
    heard: list[Release] = []
    engine.learner = holding(engine.learner, held, heard)
    life = Life([], [], [], [], [])
    for number, (vector, reward) in enumerate(zip(features, rewards.tolist(), strict=True)):
        while getattr(engine.settings, "planned", -1) == number:
            engine.extend()
        engine.count(number, vector.copy(), reward, person(settings, number) if people is None else people[number])
        life.routes.append(engine.settings.route(engine.state))
        life.plans.append(engine.plan)
        for release in heard[len(life.releases) :]:
            life.rounds.append(number + 1)
            life.releases.append(release)
            life.draws.append(len(seen))
    return life._replace(learner=engine.state)


def places(life: Life) -> list[int]:
    """Rounds whose reward is replaced: some of every channel, from the first to the last, and some that end a release."""
    chosen: set[int] = set()
    for channel in CHANNELS:
        own = [number for number, route in enumerate(life.routes) if route["channel"] == channel]
        ending = [number for number in own if life.due(number) == number + 1]
        for found in (own, ending):
            chosen |= {found[len(found) * part // 4] for part in range(4) if found} | {*found[-1:]}
    return sorted(chosen)


def pairs(channel: str) -> tuple[tuple[float, float], ...]:
    """Rewards to exchange: bits, where others would be rounded at random."""
    return ((0.0, 1.0), (0.3, 0.7)) if channel == GAUSSIAN else ((0.0, 1.0), (1.0, 0.0))


def expect_same_moments(place: int, one: Life, two: Life) -> None:
    """Raise unless the reward of this place moved nothing public, given the same releases."""
    expect(one.routes == two.routes, f"the reward of round {place} moves where events go")
    expect(one.rounds == two.rounds, f"the reward of round {place} moves a release")
    different = {(id(a), id(b)): (a, b) for a, b in zip(one.plans, two.plans, strict=True) if a is not b}
    same = all(a.to_bytes() == b.to_bytes() for a, b in different.values())
    expect(same, f"the reward of round {place} moves what is planned")


def _paid(plan: ChannelPlan, channel: str) -> float:
    """What an event of this channel may cost: epsilon, or mu."""
    return 1 / plan.noise_multiplier if channel == GAUSSIAN else plan.epsilon


def cost_of(place: int, seen: tuple[Sequence[Draw], Sequence[Draw]], lives: tuple[Life, Life]) -> float:
    """What the reward of this place costs in the channel it took; raises where it shows in another, or before it is due."""
    one, two = lives
    channel, due = one.routes[place]["channel"], one.due(place)
    drawn = [(draw.kind, draw.scales.tolist()) for draw in seen[0]]
    expect(drawn == [(draw.kind, draw.scales.tolist()) for draw in seen[1]], "the scale of its noise depends on a reward")
    costs, first = [], 0
    for round_, last, a, b in zip(one.rounds, one.draws, one.releases, two.releases, strict=True):
        expect(last > first, "a release has no noise")
        parts = [
            (one_draw.kind, float(x - y) / scale)
            for one_draw, other in zip(seen[0][first:last], seen[1][first:last], strict=True)
            for x, y, scale in zip(one_draw.values, other.values, one_draw.scales, strict=True)
        ]
        first = last
        moved = [(kind, part) for kind, part in parts if part]
        shown = bool(moved) or not np.array_equal(a.values, b.values)
        expect(not shown or round_ >= due, f"the reward of round {place} shows before it is due")
        others = {kind.replace("grid", GAUSSIAN) for kind, _ in moved} | ({a.channel} if shown else set())
        expect(others <= {channel}, f"the reward of round {place} took {channel!r} and shows in {sorted(others)}")
        costs += [part for _, part in moved]
    return float(np.linalg.norm(costs)) if channel == GAUSSIAN else float(np.abs(costs).sum())


@checks
def exact_channels_cost_what_their_price_says(settings: Any, world: Any) -> None:
    """Given what was released, one reward moves what receives noise in its own channel alone, by what that pays for."""
    plan = exactly_routed(settings)
    if plan is None:
        return
    features, rewards = played(settings, 3 * settings.rounds // 2)
    with open_noise(silent=True) as seen:
        life = lived(settings, features, rewards, seen)
    expect(life.releases, "nothing is released: its guarantee cannot be tested")
    expect(
        [release.batch for release in life.releases] == [*range(len(life.releases))], "releases are not numbered in turn"
    )
    expect_stated_ends(life)
    most: dict[str, float] = {}
    for place in places(life):
        channel = life.routes[place]["channel"]
        for old, new in pairs(channel):
            one, two = exchanged(rewards, place, old, new)
            with open_noise(silent=True) as first:
                before = lived(settings, features, one, first)
            with open_noise(silent=True) as second:
                after = lived(settings, features, two, second, held=before.releases)
            expect_same_moments(place, before, after)
            cost, paid = cost_of(place, (first, second), (before, after)), _paid(plan, channel)
            said = f"the reward of round {place} costs {cost:.6g} by {channel!r}, and its price is {paid:.6g}"
            expect(cost <= paid * (1 + 1e-9), said)
            if life.due(place) <= len(rewards):
                most[channel] = max(most.get(channel, 0.0), cost)
    attained = plan.unit.attained and plan.participation.batches == 1
    for channel, cost in most.items() if attained else ():
        paid = _paid(plan, channel)
        expect(cost >= 0.9 * paid, f"its price {paid:.6g} is called exact, and no reward costs {cost:.6g} by {channel!r}")


def expect_stated_ends(life: Life) -> None:
    """Raise unless sums are released after the rounds that are stated, and no others."""
    found = [n for n, release in zip(life.rounds, life.releases, strict=True) if release.channel == GAUSSIAN]
    ends = [end for end in (life.sums.ends if life.sums else ()) if end <= len(life.routes)]
    expect(found == ends, f"sums are released after rounds {found}, and {ends} are stated")
    told = [n for n, release in zip(life.rounds, life.releases, strict=True) if release.channel == FLIP]
    flips = [n + 1 for n, route in enumerate(life.routes) if route["channel"] == FLIP]
    expect(told == flips, "flips are not told at once, each once")
    blocks = [n for n, release in zip(life.rounds, life.releases, strict=True) if release.channel == ITEMS]
    closed = [n + 1 for n, route in enumerate(life.routes) if route["closes"]]
    expect(blocks == closed, "blocks are not released when they are closed, each once")


# --- noise ------------------------------------------------------------------------------------------------------------


@cache
def _discrete_laplace(epsilon: float) -> tuple[float, float, float]:
    """Standard deviation, kurtosis and P(0) of q^|z|, q = e^-epsilon."""
    z = np.arange(-math.ceil(60 / epsilon), math.ceil(60 / epsilon) + 1, dtype=np.float64)
    p = np.exp(-epsilon * np.abs(z))
    p /= p.sum()
    variance = float(p @ z**2)
    return math.sqrt(variance), float(p @ z**4) / variance**2, float(p.max())


def _expect_share(hits: int, count: int, probability: float, what: str) -> None:
    """Raise unless so many of so many agree with this probability."""
    below, above = stats.binom.cdf(hits, count, probability), stats.binom.sf(hits - 1, count, probability)
    said = f"{what} in {hits} of {count}, and {probability:.4g} is what its price rests on"
    expect(min(below, above) > FALSE_ALARM / 4, said)


def expect_channel_noise(plan: ChannelPlan, lives: Sequence[Life], clear: Sequence[Life], kind: str) -> None:
    """Raise unless releases less what they are without noise are, in every channel, the noise that is paid for."""
    table = [
        [a.values - b.values for a, b in zip(noisy.releases, quiet.releases, strict=True)]
        for noisy, quiet in zip(lives, clear, strict=True)
    ]
    every = [
        (release.channel, noise)
        for life, own in zip(lives, table, strict=True)
        for release, noise in zip(life.releases, own, strict=True)
    ]
    told, items = (np.array([noise[0] for name, noise in every if name == channel]) for channel in (FLIP, ITEMS))
    if told.size:
        _expect_flips(plan, told, kind)
    if items.size:
        expect_items(plan, items, kind)
    channels = [release.channel for release in lives[0].releases]
    if any([release.channel for release in life.releases] != channels for life in lives):
        return  # routed by what was released
    rows = [place for place, channel in enumerate(channels) if channel == GAUSSIAN]
    sums = lives[0].sums
    if sums is not None:
        expect(len(rows) == len(sums.ends), f"{len(rows)} of {len(sums.ends)} batches are released")
        expect_release_noise(sums, np.array([[own[place] for place in rows] for own in table]), kind)
    flipped, still = 1 / (1 + math.exp(plan.epsilon)), _discrete_laplace(plan.epsilon)[2]
    for channel, probability in ((FLIP, flipped), (ITEMS, 1 - still)):
        own = [place for place, name in enumerate(channels) if name == channel]
        drawn = np.array([[abs(noise[place][0]) > 1e-6 for place in own] for noise in table])
        _expect_independent(drawn, probability, kind)


def _expect_flips(plan: ChannelPlan, noise: Floats, kind: str) -> None:
    keep = 1 / (1 + math.exp(-plan.epsilon))
    flipped = np.abs(noise) > 1e-9
    apart = np.allclose(np.abs(noise[flipped]), 1 / (2 * keep - 1), rtol=1e-9)
    expect(apart, "what is told of a flipped bit is not 1 / (2p - 1) from what is told of the bit")
    _expect_share(int(flipped.sum()), flipped.size, 1 - keep, f"{kind} bits are flipped")


def expect_items(plan: ChannelPlan, noise: Floats, kind: str) -> None:
    """Raise unless these numbers are discrete Laplace noise of this plan."""
    deviation, kurtosis, still = _discrete_laplace(plan.epsilon)
    expect(np.allclose(noise, np.rint(noise), atol=1e-6), f"the {kind} noise of a block is not a whole number")
    _expect_share(int((np.abs(noise) < 0.5).sum()), noise.size, still, f"the {kind} noise of a block is 0")
    expect_scale(noise / deviation, FALSE_ALARM, f"the {kind} noise of a block", kurtosis)


def _expect_independent(drawn: Any, probability: float, kind: str) -> None:
    """Raise where releases of a channel share their noise: (runs, releases), whether it is other than 0."""
    runs, releases = drawn.shape
    if releases < 2:
        return
    one, two = drawn[:, : releases - releases % 2 : 2], drawn[:, 1::2]
    both, square = int((one & two).sum()), probability**2
    said = f"the {kind} noise of two releases is not independent: both have some in"
    expect(both <= stats.binom.isf(FALSE_ALARM, one.size, square), f"{said} {both} of {one.size} cases")
    joint = drawn.T.astype(np.int64) @ drawn
    worst = int((joint - np.diag(np.diag(joint))).max())
    expect(worst <= stats.binom.isf(FALSE_ALARM / releases**2, runs, square), f"{said} {worst} of {runs} cases")


def enough(life: Life, runs: int) -> int:
    """So many runs, or more, that every channel has numbers enough."""
    counts = [sum(release.channel == channel for release in life.releases) for channel in (FLIP, ITEMS)]
    size = life.sums.size if life.sums else ENOUGH
    return min(MOST_RUNS, max(runs, math.ceil(ENOUGH / size), *(math.ceil(ENOUGH / n) for n in counts if n)))


def to_the_last_end(settings: Any, live: Callable[[Floats, Floats], Life]) -> tuple[Floats, Floats, Life]:
    """What is played until all sums that were planned have been released, and the life that this makes."""
    features, rewards = played(settings)
    life = live(features, rewards)
    last = life.sums.ends[-1] if life.sums else 0
    if last > len(rewards):
        features, rewards = played(settings, last)
        life = live(features, rewards)
    return features, rewards, life


@checks
def exact_channels_draw_the_noise_that_is_stated(settings: Any, world: Any) -> None:
    """Over many runs, flips, blocks and rows carry the noise of their price: its law, no less, no more, none shared."""
    plan = exactly_routed(settings)
    if plan is None:
        return
    with open_noise(silent=True):
        features, rewards, first = to_the_last_end(settings, partial(lived, settings))
    lives, clear = [], []
    for _ in range(enough(first, RUNS)):
        lives.append(lived(settings, features, rewards))
        with open_noise(silent=True):
            clear.append(lived(settings, features, rewards, held=lives[-1].releases))
    expect_channel_noise(plan, lives, clear, "exact")
