"""That compiled channels are those of the book, cost what the guarantee says, and release at public moments alone."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.channels import GAUSSIAN, ITEMS
from adaprivate.testing.books import (
    exchanged,
    open_noise,
    standard_releases,
)
from adaprivate.testing.channels import (
    RUNS,
    Life,
    enough,
    exactly_routed,
    expect_channel_noise,
    expect_same_moments,
    expect_stated_ends,
    lived,
    pairs,
    places,
    played,
    routed,
    to_the_last_end,
)
from adaprivate.testing.releases import Begun, silent, stages, starts
from adaprivate.testing.suite import checks, expect


def compiled(settings: Any, begun: Begun, features: Floats, rewards: Floats) -> Life:
    """These events counted by compiled code, and what it released, one a round at most."""
    life, before = Life([], [], [], [], []), 0
    moments = list(range(1, len(rewards) + 1))
    for number, (own, state) in enumerate(stages(settings, begun, features, rewards, moments), 1):
        route = own.route(state.learner)
        life.routes.append(route)
        life.plans.append(own.plan)
        count = int(state.learner.scalars["releases"][0])
        if count > before:
            size = own.plan.size if route["channel"] == GAUSSIAN else 1
            values = np.array(own.released(state), dtype=np.float64).ravel()[:size]
            life.rounds.append(number)
            life.releases.append(Release(before, values, route["channel"]))
        expect(count <= before + 1, f"{count - before} releases in round {number - 1}")
        before = count
    return life


@checks
def compiled_channels_are_those_of_the_book(settings: Any, world: Any) -> None:
    """Simulation and production route alike, and release the same of every channel but for the noise."""
    plan = exactly_routed(settings)
    if plan is None:
        return
    features, rewards = played(settings, 3 * settings.rounds // 2)
    if plan.channels == (GAUSSIAN,):
        rewards = np.random.default_rng(93).integers(1025, size=len(rewards)) / 1024  # a grid that every book keeps
    clear = compiled(settings, silent(settings), features, rewards)
    with open_noise(silent=True):
        exact = lived(settings, features, rewards)
    _expect_same_life(clear, exact)
    for one, two in zip(clear.releases, exact.releases, strict=True):
        root = clear.sums.shape.root if clear.sums and clear.sums.shape else np.eye(1)
        grid = 2.0**-18 * len(rewards) * float(np.abs(root).sum()) if one.channel == GAUSSIAN else 1e-9
        said = f"without noise, compiled code and the book release something else by {one.channel!r}"
        expect(one.values.shape == two.values.shape and np.abs(one.values - two.values).max() < grid, said)


def _expect_same_life(clear: Life, exact: Life) -> None:
    expect(clear.routes == exact.routes, "compiled code routes events elsewhere than production does")
    expect(clear.rounds == exact.rounds, f"it releases after rounds {clear.rounds}, and production after {exact.rounds}")
    same = [a.channel for a in clear.releases] == [b.channel for b in exact.releases]
    expect(same, "compiled code releases by other channels than production does")


@checks
def compiled_channels_cost_what_the_guarantee_says(settings: Any, world: Any) -> None:
    """What compiled code releases carries the noise of its price, and one reward moves its own channel's alone."""
    plan = routed(settings)
    if plan is None:
        return
    features, rewards, clear = to_the_last_end(settings, partial(compiled, settings, silent(settings)))
    expect(clear.releases, "nothing is released: its guarantee cannot be tested")
    expect_stated_ends(clear)
    seeds = range(100, 100 + enough(clear, 2 * RUNS))
    lives = [compiled(settings, begun, features, rewards) for begun in starts(settings, seeds)]
    if any((life.routes, life.rounds) != (clear.routes, clear.rounds) for life in lives):
        return  # it routes by what was released: then only its book can be judged
    expect_channel_noise(plan, lives, [clear] * len(lives), "simulated")
    for place in places(clear):
        for begun in (silent(settings), *starts(settings, range(3))):
            for old, new in pairs(clear.routes[place]["channel"]):
                one, two = (
                    compiled(settings, begun, features, neighbour) for neighbour in exchanged(rewards, place, old, new)
                )
                _expect_moved_as_paid(place, one, two, abs(new - old))


def _expect_moved_as_paid(place: int, one: Life, two: Life, change: float) -> None:
    """Raise unless these neighbours, with the same noise, differ in what the reward's channel pays for alone."""
    expect_same_moments(place, one, two)
    channel, due = one.routes[place]["channel"], one.due(place)
    moved = [b.values - a.values for a, b in zip(one.releases, two.releases, strict=True)]
    shown = [n for n, difference in enumerate(moved) if np.abs(difference).max() > 1e-9]
    for n in shown:
        expect(one.rounds[n] >= due, f"the reward of round {place} shows before it is due")
        other = one.releases[n].channel
        expect(other == channel, f"the reward of round {place} took {channel!r} and shows in {other!r}")
    if channel == GAUSSIAN:
        rows = [difference for a, difference in zip(one.releases, moved, strict=True) if a.channel == GAUSSIAN]
        sums = one.sums
        if rows and sums is not None:
            every = np.zeros((1, len(sums.ends), sums.size))
            every[0, : len(rows)] = rows
            cost, paid = float(np.linalg.norm(standard_releases(sums, every))), 1 / sums.noise_multiplier
            said = f"the reward of round {place} costs {cost:.6g} by {channel!r}, and its price is {paid:.6g}"
            expect(cost <= paid * (1 + 1e-6), said)
        return
    expect(len(shown) <= 1, f"the reward of round {place} shows in {len(shown)} releases of {channel!r}")
    if channel == ITEMS and due <= len(one.routes):
        far = float(np.abs(moved[shown[0]]).max()) if shown else 0.0
        said = f"the reward of round {place} moves a block by {far:.3g}, and it is a bit"
        expect(math.isclose(far, change, rel_tol=1e-6), said)


@checks
def releases_come_at_public_moments(settings: Any, world: Any) -> None:
    """Where an event goes, when something is released and what is planned depends on what was released before alone."""
    if routed(settings) is None:
        return
    features, rewards = played(settings)
    (begun,) = starts(settings, [5])
    base = compiled(settings, begun, features, rewards)
    for place in range(len(rewards)):
        one = rewards.copy()
        one[place] = 1 - one[place]
        other = compiled(settings, begun, features, one)
        _expect_same_until_released(place, base, other)


def _expect_same_until_released(place: int, one: Life, two: Life) -> None:
    released = [dict(zip(life.rounds, life.releases, strict=True)) for life in (one, two)]
    for number in range(len(one.routes)):
        at = f"the reward of round {place}, which has not been released, moves"
        expect(one.plans[number] is two.plans[number] or _same_plan(one, two, number), f"{at} what is planned")
        expect(one.routes[number] == two.routes[number], f"{at} where an event goes")
        expect((number + 1 in released[0]) == (number + 1 in released[1]), f"{at} a release")
        if number + 1 in released[0]:
            a, b = (known[number + 1] for known in released)
            if not np.array_equal(a.values, b.values):
                return


def _same_plan(one: Life, two: Life, number: int) -> bool:
    if number and one.plans[number] is one.plans[number - 1] and two.plans[number] is two.plans[number - 1]:
        return True  # as the round before
    return bool(one.plans[number].to_bytes() == two.plans[number].to_bytes())
