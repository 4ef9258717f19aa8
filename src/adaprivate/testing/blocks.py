"""That blocks of arms with exact noise cost what their price says, carry its noise, and are those of compiled code.

Arms are played in turn, so that what is released when is a public function of the rounds and of earlier releases.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.blocks import BlockPlan
from adaprivate.mechanisms.channels import ITEMS
from adaprivate.mechanisms.units import Event
from adaprivate.testing.behaviour import exact_plan
from adaprivate.testing.books import exchanged, open_noise
from adaprivate.testing.channels import (
    ENOUGH,
    Life,
    cost_of,
    expect_items,
    expect_same_moments,
    expect_stated_ends,
    lived,
)
from adaprivate.testing.releases import LONGEST, forced, silent, stages
from adaprivate.testing.suite import checks, expect, same_state

PLACES = 4
"""Rounds whose reward is replaced."""


def staged(settings: Any) -> tuple[Any, Floats, Floats, Life]:
    """These settings with rounds enough to release something, the arms in turn, a bit for each round, and their life."""
    while True:
        features = forced(settings, settings.rounds)
        rewards = np.random.default_rng(91).integers(2, size=settings.rounds).astype(np.float64)
        with open_noise(silent=True) as seen:
            life = lived(settings, features, rewards, seen)
        if life.releases:
            return settings, features, rewards, life
        expect(settings.rounds < LONGEST, "nothing is released: its guarantee cannot be tested")
        settings = dataclasses.replace(settings, rounds=8 * settings.rounds)


def places(life: Life) -> list[int]:
    """Rounds whose reward is replaced: first and last of the first block released, last of the last, and the last round."""
    ends = [number for number, route in enumerate(life.routes) if route["closes"]]
    first = next(n for n, route in enumerate(life.routes) if route["block"] == life.routes[ends[0]]["block"])
    return sorted({first, ends[0], ends[-1], len(life.routes) - 1})[:PLACES]


@checks
def exact_blocks_cost_what_their_price_says(settings: Any, world: Any) -> None:
    """Given what was released, one reward moves one block, by what the price pays for, and no moment of release."""
    plan = exact_plan(settings, BlockPlan)
    if plan is None:
        return
    settings, features, rewards, life = staged(settings)
    numbers = [release.batch for release in life.releases]
    expect(numbers == [*range(len(numbers))], "releases are not numbered in turn")
    expect_stated_ends(life)
    most = 0.0
    for place in places(life):
        one, two = exchanged(rewards, place, 0.0, 1.0)
        with open_noise(silent=True) as first:
            before = lived(settings, features, one, first)
        with open_noise(silent=True) as second:
            after = lived(settings, features, two, second, held=before.releases)
        expect_same_moments(place, before, after)
        if before.routes[place]["channel"] != ITEMS:
            same = all(np.array_equal(a.values, b.values) for a, b in zip(before.releases, after.releases, strict=True))
            expect(same, f"the reward of round {place} goes nowhere, and shows")
            continue
        cost = cost_of(place, (first, second), (before, after))
        expect(cost <= plan.epsilon * (1 + 1e-9), f"the reward of round {place} costs {cost:.6g}, and epsilon is less")
        most = max(most, cost)
    expect(most >= 0.9 * plan.epsilon, f"its price {plan.epsilon:.6g} is called exact, and no reward costs {most:.6g}")


@checks
def exact_blocks_draw_the_noise_that_is_stated(settings: Any, world: Any) -> None:
    """Blocks of bits less their sums are discrete Laplace noise of this epsilon: no wider, no narrower."""
    plan = exact_plan(settings, BlockPlan)
    if plan is None:
        return
    book, noise = plan.book(Secure()), []
    for number in range(4 * ENOUGH):
        book.add(Event(number, np.eye(2)[0], float(number % 2), channel=ITEMS, block=0, closes=number % 2 == 1))
        if book.due:
            release, book = book.close()
            noise.append(float(release.values[0]) - 1.0)
    expect_items(plan.channels, np.array(noise), "exact")


@checks
def compiled_blocks_are_those_of_the_book(settings: Any, world: Any) -> None:
    """Of bits, simulation and production release the same but for the noise, and learn the same of it."""
    if exact_plan(settings, BlockPlan) is None:
        return
    settings, features, rewards, life = staged(settings)
    moments = list(range(1, settings.rounds + 1))
    released, before = [], 0
    for number, (own, state) in enumerate(stages(settings, silent(settings), features, rewards, moments), 1):
        route = own.route(state.learner)
        expect(route == life.routes[number - 1], f"compiled code routes round {number - 1} elsewhere than production does")
        if int(state.learner.scalars["releases"][0]) > before:
            before += 1
            released.append((number, float(state.book.released[0])))
    expected = [(n, float(r.values[0])) for n, r in zip(life.rounds, life.releases, strict=True)]
    expect(released == expected, "without noise, compiled code and the book release something else")
    expect(same_state(state.learner, life.learner), "from the same releases, compiled code has learned something else")
