"""What a policy is predicted to learn, in closed form: the noise-aware policies' own forecast, in the world assumed.

Choosing by estimates whose correlation with the true scores is rho earns what `World.played` says. Information grows as
the channel brings it (`outlook.information`), along directions across what is played, whose rewards vary as those of the
candidates played by then do; rho and what is played follow from one another. docs/planning.md derives it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammainc

from adaprivate.check import Floats
from adaprivate.planning.fixed import poured
from adaprivate.planning.worlds import World
from adaprivate.policies.noise_aware.outlook import (
    Choice,
    Design,
    Outlook,
    blocks,
    choose,
    information,
    midpoints,
    right_by_rate,
    score_precision,
    width_of,
)
from adaprivate.privacy import gaussian_sigma

CONTINUAL_START, CONTINUAL_GROWTH = 1.7, 2.0
"""The price of continual release where little is learned, and what it grows by with the learned share."""
CONFINED, CONFUSED = 1.2, 3.6
"""How much less is told the more alike, and the better than random play, candidates are that are played."""
PLAYED_ITEMS, SEEN_WEIGHT = 2.0, 0.5
"""How many of a few items are played, relative to the best of each offer; how much directions matter that are seen less."""
WIDER = 1.25
"""How much more fixed arms are explored than by a fluid of rounds."""
STEPS = 6
EARLIEST = 25.0
"""Before so many rounds nothing is predicted by itself."""
INTERCEPT = 0.3
"""The share of an event's weight that the noise-aware policies spend on the mean reward."""
CHANNELS = ("flip", "gaussian", "items")


@dataclass(frozen=True)
class Task:
    """A policy's task: a world, rounds, a budget and whom it protects. ``people`` 0: single rewards are protected."""

    world: World
    rounds: int
    epsilon: float
    delta: float = 1e-5
    told_rate: bool = False
    people: int = 0
    counted_visits: int = 10
    often: tuple[tuple[float, float], ...] = ()
    """How many people come how often, relative to others, where they do not come evenly."""
    design: Design | None = None
    """What offers look like, where a log shows it."""

    @cached_property
    def seen(self) -> Design:
        """What the first offers will show."""
        if self.design is not None and self.design.shares:  # in units of differences
            spread = self.design.spread
            spectrum = tuple(value / spread for value in self.design.spectrum)
            return dataclasses.replace(self.design, spectrum=spectrum, spread=1.0, length=self.design.length / spread)
        if self.design is not None:
            return self.design
        d, world = self.world.dimension, self.world
        turnover = 0.0 if world.fixed else 1 - world.candidates / world.items
        effective = float(min(d, world.candidates - 1)) if world.fixed else float(d)
        return Design(d, world.candidates, world.items, turnover, False, (1 / d,) * d, 1.0, 1.0, effective)

    @property
    def people_options(self) -> dict[str, object]:
        """Of the environment ``synthetic`` to which these people come."""
        return {"people": self.people, **({"visits": "zipf"} if self.often else {})} if self.people else {}

    @property
    def first_batch(self) -> int:
        """The rounds of the first batch, as the policies choose it."""
        return max(1, min(2 * self.world.dimension + 10, self.rounds // 20))

    @cached_property
    def outlook(self) -> Outlook:
        """The public numbers of the policies' forecast."""
        rate = self.world.base_rate if self.told_rate else 0.5
        noise = gaussian_sigma(self.epsilon, self.delta) ** 2 / (1 - INTERCEPT**2)
        return Outlook(self.rounds, self.epsilon, noise, rate * (1 - rate), self.first_batch)

    @cached_property
    def choice(self) -> Choice:
        """What noise-aware will choose after its first rounds."""
        if self.people:  # whose early visits weigh about a half
            quiet = dataclasses.replace(self.outlook, noise_variance=4 * self.outlook.noise_variance)
            return dataclasses.replace(choose(self.seen, quiet, ("gaussian",), None), first=0)
        channels = CHANNELS if 1e-6 <= self.epsilon <= 30 else ("gaussian",)
        right = right_by_rate(self.seen, self.world.base_rate)
        if self.world.arms and len(channels) > 1:  # what is advised for arms is held to items: delta is 0 then
            return dataclasses.replace(choose(self.seen, self.outlook, ("items",), None, right), first=0)
        found = choose(self.seen, self.outlook, channels, None, right)
        scouted = max(self.first_batch - 1, min(7, self.rounds // 2)) if len(channels) > 1 else 0
        if max(scouted, found.first) + self.first_batch > self.rounds:
            found = choose(self.seen, self.outlook, ("flip", "items"), None, right)
        return dataclasses.replace(found, first=max(scouted, found.first))


def moments(rounds: int) -> tuple[Floats, Floats]:
    """The policies' own :func:`midpoints`; in long runs more before the first, where half is learned by then."""
    t, dt = midpoints(rounds)
    first = float(dt[0]) * rounds
    if first <= EARLIEST:
        return t, dt
    early = np.geomspace(EARLIEST, first, 1 + math.ceil(4 * math.log2(first / EARLIEST)))
    edges = np.concatenate([[0.0], early])
    return np.concatenate([(edges[1:] + edges[:-1]) / 2, t[1:]]), np.concatenate([np.diff(edges) / rounds, dt[1:]])


@dataclass(frozen=True)
class Curve:
    """A predicted learned share at moments of a run, each of which stands for a share of its rounds."""

    moments: Floats
    weights: Floats
    shares: Floats

    @property
    def mean(self) -> float:
        """The learned share of the whole run."""
        return float(self.weights @ self.shares)

    def until(self, level: float) -> float | None:
        """The round from which on it earns this much of what there is; None: not within the rounds."""
        reached = np.flatnonzero(self.shares >= level)
        if not reached.size:
            return None
        k = int(reached[0])
        if k == 0:
            return float(self.moments[0])
        (t0, t1), (s0, s1) = self.moments[k - 1 : k + 1], self.shares[k - 1 : k + 1]
        return float(t0 + (t1 - t0) * (level - s0) / (s1 - s0))


def _spectrum(task: Task) -> tuple[Floats, Floats]:
    """Eigenvalues of the design of what is played, and how much each matters to what is offered; sums are 1."""
    world = task.world
    if task.design is not None or not math.isfinite(world.items):
        own = np.array(task.seen.spectrum)
        if task.seen.shares:
            return own, np.array(task.seen.shares)
        return own / own.sum(), own / own.sum()
    # of a few items those are played most that are the best of those offered with them
    K = world.candidates
    alike = max(1.0, PLAYED_ITEMS * world.items * (2 * K - 1) / K**2)
    own = _marchenko_pastur(world.dimension, alike)
    weights = own**SEEN_WEIGHT
    return own / own.sum(), weights / weights.sum()


def _marchenko_pastur(dimension: int, rows: float) -> Floats:
    """Eigenvalues of the covariance of so many random rows, at the middle of every dimension's share of them."""
    ratio = dimension / rows
    low, high = (1 - math.sqrt(ratio)) ** 2, (1 + math.sqrt(ratio)) ** 2
    angles = (np.arange(2000) + 0.5) * math.pi / 2000
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angles)
    density = np.sin(angles) ** 2 / np.maximum(x, 1e-9)
    mass = np.cumsum(density) / density.sum() * min(1.0, 1 / ratio)
    levels = (np.arange(dimension) + 0.5) / dimension - max(0.0, 1 - 1 / ratio)
    return np.maximum(np.interp(levels, mass, x, left=0.0), 1e-3)


def _told(task: Task, policy: str, t: Floats, variance: Floats, spectrum: Floats, share: float) -> Floats:
    """The information (times, directions) about scores after t rounds."""
    if policy == "tuned-linucb":
        return t[:, None] * spectrum / variance[:, None]
    if policy == "rr-linucb":
        return t[:, None] * spectrum / (variance[:, None] + task.outlook.flip_noise)
    price = CONTINUAL_START + CONTINUAL_GROWTH * share
    if not task.people:
        plan = (task.choice.channel, task.choice.first, task.choice.block)
        return information(task.seen, task.outlook, plan, t, variance=variance, spectrum=spectrum, continual=price)
    visits = np.arange(1, task.counted_visits + 1)
    weights = 1 / np.sqrt(visits * (1 / visits).sum())  # as the ledger weighs visits with nothing in common
    came = np.zeros((len(t), len(visits)))  # so many visits were somebody's n-th
    groups = task.often or ((task.people, 1.0),)
    total = math.fsum(people * times for people, times in groups)
    for people, times in groups:
        came += people * gammainc(visits, (t * times / total)[:, None]) / 1.05
    came[t < task.first_batch] = 0.0
    rows = (came @ weights)[:, None] * spectrum
    squares = (came @ weights**2)[:, None] * spectrum
    told: Floats = rows**2 / (variance[:, None] * squares + price * task.outlook.noise_variance)
    return told


def predicted(task: Task, policy: str = "noise-aware") -> Curve:
    """The learned share that noise-aware, rr-linucb or (without privacy) tuned-linucb is predicted to have."""
    if task.seen.blocks:
        return _of_blocks(task, policy)
    return _of_arms(task, policy) if task.world.unrelated else _of_features(task, policy)


def _of_blocks(task: Task, policy: str) -> Curve:
    """Class x context: each direction of the blocks says as much of the scores, which differ as the world says."""
    world, (t, dt) = task.world, moments(task.rounds)
    spectrum, so_far, rho = np.array(task.seen.spectrum), np.cumsum(dt), np.full(len(t), 0.5)
    for _ in range(STEPS):
        variance = np.cumsum(dt * world.played(rho)[1]) / so_far
        told = _told(task, policy, t, variance, spectrum[None], float(dt @ rho))
        known = told * ((variance * world.spread) ** 2)[:, None] / (len(spectrum) * spectrum)
        rho = np.sqrt((known / (1 + known)).mean(axis=1))
    return Curve(t, dt, world.learned(world.played(rho)[0]))


def _of_features(task: Task, policy: str) -> Curve:
    world, (t, dt) = task.world, moments(task.rounds)
    spectrum, weights = _spectrum(task)
    d = world.dimension
    so_far = np.cumsum(dt)
    better = world.gain / (world.base_rate * (1 - world.base_rate))
    tallest = float((world.highest**2).mean())
    rho = np.full(len(t), 0.5)
    for _ in range(STEPS):
        variance = np.cumsum(dt * world.played(rho)[1]) / so_far
        along = np.cumsum(dt * (rho**2 * tallest + 1 - rho**2)) / so_far / d  # of a played vector's squared length
        share = float(dt @ rho)
        power = better * (CONFINED + CONFUSED * (1 - share))
        across = np.maximum((1 - along) * d / max(d - 1, 1), 0.05) ** power
        told = _told(task, policy, t, variance, spectrum * across[:, None], share)
        known = told * ((variance * world.spread) ** 2)[:, None] * d / max(d - 1, 1)
        rho = np.sqrt((known / (1 + known)) @ weights)
    return Curve(t, dt, world.learned(world.played(rho)[0]))


def _of_arms(task: Task, policy: str) -> Curve:
    world, seen, outlook, choice = task.world, task.seen, task.outlook, task.choice
    rate, K = world.base_rate, world.candidates
    variance = rate * (1 - rate)
    played = np.concatenate([[0.0], np.geomspace(1, task.rounds, 200)])  # of one arm, while all are played alike
    told = _told(task, policy, K * played, np.full(1, variance), np.full((1, 1), 1 / K), 0.5)[:, 0]
    if policy == "noise-aware" and choice.channel == "items":  # blocks, as if told reward by reward
        released, total = blocks(choice.block, choice.growth, variance, outlook.item_noise, task.rounds)
        told = np.interp(played, released, total[0]) + np.minimum(played, choice.first / K) * outlook.flip_information
    told = np.maximum.accumulate(told) + 1e-9 * played
    ridge = seen.spread * score_precision(seen, outlook.reward_variance)
    ends, shares = poured(world, task.rounds, told, played, ridge, WIDER * width_of(seen))
    return Curve((ends[1:] + ends[:-1]) / 2, np.diff(ends) / (ends[-1] - ends[0]), shares)
