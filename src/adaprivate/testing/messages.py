"""That local messages with exact noise cost what their price says, carry its noise, and are those of compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.messages import MessagePlan
from adaprivate.runtime.policy import Policy
from adaprivate.testing.behaviour import exact_plan
from adaprivate.testing.books import FALSE_ALARM, distance, expect_scale, open_noise
from adaprivate.testing.releases import run, silent
from adaprivate.testing.suite import checks, expect, offers, play

PAIRS = 400
"""Pairs of people who are exchanged."""
NUMBERS = 1200
"""Numbers by which the noise is judged, at least."""


def people(dimension: int) -> list[tuple[Floats, float]]:
    """Contexts of norm 1 and longer with a reward each: pairs at random, and one that is furthest apart."""
    rng = np.random.default_rng(90)
    found = []
    for _ in range(PAIRS):
        x, y = rng.standard_normal((2, dimension))
        y -= rng.uniform(0, 2) * x
        found += [(v / np.linalg.norm(v) * rng.choice([1.0, 3.0]), float(rng.integers(2))) for v in (x, y)]
    x, y = np.zeros((2, dimension))
    x[:2], y[:2] = _furthest(dimension), -_furthest(dimension)[::-1]
    return [*found, (x, 1.0), (y, 1.0)]


def _furthest(dimension: int) -> Floats:
    """Of a context that, with the one of its negatives in reverse order, attains the reach (docs/privacy.md, Lemma 4)."""
    return np.array([math.cos(math.pi / 12), math.sin(math.pi / 12)])[:dimension]


@checks
def exact_messages_cost_what_their_price_says(settings: Any, world: Any) -> None:
    """Whoever sends a message, what receives noise in it is no further apart than is paid for, in whole numbers."""
    plan = exact_plan(settings, MessagePlan)
    if plan is None:
        return
    price, sent = plan.price(exact_noise=True), []
    for features, reward in people(plan.dimension):
        with open_noise(silent=True) as seen:
            plan.message(features, reward, Secure())
        expect(len(seen) == 1 and len(seen[0].values) == plan.size, "a message does not carry noise in every number, once")
        sent.append(seen)
    most = max(distance(one, two, pure=False) for one, two in zip(sent[::2], sent[1::2], strict=True))
    expect(most <= price.mu * (1 + 1e-9), f"a message costs {most:.6g}, and its price is {price.mu:.6g}")
    if price.exact:
        expect(most >= 0.99 * price.mu, f"its price {price.mu:.6g} is called exact, and no message costs {most:.6g}")


@checks
def exact_messages_draw_the_noise_that_is_stated(settings: Any, world: Any) -> None:
    """Over many messages the noise in every number is as wide as stated, no two numbers share it, none has it twice."""
    plan = exact_plan(settings, MessagePlan)
    if plan is None:
        return
    features = np.full(plan.dimension, 0.5 / math.sqrt(plan.dimension))
    clear = np.array([float(v) for v in plan.whole(features, 0.5)]) / 2.0**40
    count = math.ceil(NUMBERS / plan.size) + 200
    noise = np.array([plan.message(features, 0.5, Secure()) for _ in range(count)]) - clear
    scaled = noise / (plan.noise_multiplier * plan.participation.change)
    expect_scale(scaled.ravel(), FALSE_ALARM / 2, "the exact noise of messages")
    shared = np.abs(np.corrcoef(scaled.T) - np.eye(plan.size)).max()
    expect(shared < 6.5 / math.sqrt(count), f"two numbers of a message share noise: correlation {shared:.3g}")


@checks
def messages_are_made_once_and_are_all_that_is_learned(settings: Any, world: Any) -> None:
    """In use every round sends one message, with or without a reward, and the server's sums are those of messages."""
    plan = exact_plan(settings, MessagePlan)
    if plan is None:
        return
    candidates, rewards = offers(settings)
    policy = Policy(settings, source=Secure())
    told = [None if number % 3 == 0 else float(reward) for number, reward in enumerate(rewards)]
    with open_noise() as seen:
        play(policy, candidates, told)
        policy.finish()
    expect(len(seen) == policy.version == settings.rounds, f"{len(seen)} messages were made in {settings.rounds} rounds")
    drawn = {float(scale) for draw in seen for scale in draw.scales}
    expect(drawn == {plan.sigma * 2.0**40}, "messages have other noise than their price rests on")
    total = sum(np.array([float(v) for v in draw.values]) + draw.drawn for draw in seen) / 2.0**40
    d = settings.dimension
    learned = np.concatenate([policy.state.statistic, policy.state.gram[np.triu_indices(d)]])
    expect(np.allclose(learned, total, rtol=1e-9, atol=1e-6), "the server learned something else than the messages")


@checks
def compiled_messages_are_those_of_the_plan(settings: Any, world: Any) -> None:
    """Without noise, simulation and production send the same, up to the grid."""
    plan = exact_plan(settings, MessagePlan)
    if plan is None:
        return
    some = people(plan.dimension)[:40]
    features = np.array([x / max(1.0, float(np.linalg.norm(x))) for x, _ in some])
    rewards = np.array([reward for _, reward in some])
    sums = run(settings, silent(settings), features, rewards, list(range(1, 41)))
    exact = np.cumsum([[float(v) / 2.0**40 for v in plan.whole(x, r)][: plan.dimension] for x, r in some], axis=0)
    expect(np.allclose(sums, exact, atol=40 * 2.0**-18), "compiled code and clients send something else")
