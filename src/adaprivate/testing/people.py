"""That people are protected: lives that differ in all rewards of one person, exact and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from adaprivate.check import Floats, InputError
from adaprivate.runtime.inputs import needs_user
from adaprivate.runtime.policy import Policy
from adaprivate.testing.books import open_noise
from adaprivate.testing.channels import exactly_routed, expect_same_moments, lived, played
from adaprivate.testing.suite import PEOPLE, checks, expect, offers, same_state

SIGNS = 6
"""Ways in which a person's rewards are exchanged, beside all at once and every other one."""


def answers(visits: int) -> Iterator[Floats]:
    """Rewards of a person, who then answers the opposite: which way each moves is what matters."""
    rng = np.random.default_rng(91)
    yield np.zeros(visits)
    yield np.arange(float(visits)) % 2
    for _ in range(SIGNS):
        yield rng.integers(2, size=visits).astype(np.float64)


@checks
def people_cost_what_the_price_says(settings: Any, world: Any) -> None:
    """Given what was released, all rewards of a person together move what receives noise by what is paid for."""
    plan = exactly_routed(settings)
    if plan is None or not plan.unit.needs_user:
        return
    features, rewards = played(settings, 3 * settings.rounds // 2)
    most = 0.0
    for one_of in range(PEOPLE):
        mine = np.arange(len(rewards)) % PEOPLE == one_of
        for given in answers(int(mine.sum())):
            one, two = rewards.copy(), rewards.copy()
            one[mine], two[mine] = given, 1 - given
            with open_noise(silent=True) as first:
                before = lived(settings, features, one, first)
            with open_noise(silent=True) as second:
                after = lived(settings, features, two, second, held=before.releases)
            expect_same_moments(one_of, before, after)
            expect(same_state(before.learner, after.learner), "its learner depends on the rewards of a person")
            parts = [
                float(x - y) / scale
                for a, b in zip(first, second, strict=True)
                for x, y, scale in zip(a.values, b.values, a.scales, strict=True)
            ]
            cost, paid = float(np.linalg.norm(parts)), plan.price(exact_noise=True).mu
            expect(cost <= paid * (1 + 1e-9), f"the rewards of a person cost {cost:.6g}, and the price is {paid:.6g}")
            most = max(most, cost / paid)
    expect(most > 0.5, f"no person costs more than {most:.3g} of the price: it is far too much, or nothing was tried")


@checks
def decisions_say_whose_they_are(settings: Any, world: Any) -> None:
    """A policy that protects people refuses decisions of nobody; any other refuses to be told whose they are."""
    policy = Policy(settings, seed=1)
    offered = offers(settings)[0][0]
    needed = needs_user(settings)
    try:
        policy.decide(offered) if needed else policy.decide(offered, user="someone")
    except InputError as error:
        expect("user" in str(error), f"it is refused, and not for the user: {error}")
    else:
        expect(False, "a decision of nobody is taken" if needed else "it takes a user, and protects no people")
    expect(policy.decided == 0, "a decision that was refused is counted")
