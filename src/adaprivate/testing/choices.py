"""That choices see what was released and nothing else, and samples are as wide as stated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from adaprivate.check import Floats
from adaprivate.compiled import streams
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, SamplingPlan
from adaprivate.policies.core.propensities import copied
from adaprivate.purposes import Purpose
from adaprivate.runtime.learner import choose, learn
from adaprivate.runtime.policy import Policy
from adaprivate.testing.books import FALSE_ALARM, exchanged
from adaprivate.testing.releases import silent, staged, stated_ends
from adaprivate.testing.suite import checks, expect, offers, person, play, whose


@checks
def choices_wait_for_the_first_release(settings: Any, world: Any) -> None:
    """Two runs that differ in all their rewards choose alike until the first release."""
    if not settings.private:
        return
    candidates, rewards = offers(settings)
    end = _first_release(settings)
    one, two = (Policy(settings, seed=7) for _ in range(2))
    same = play(one, candidates[:end], rewards[:end]) == play(two, candidates[:end], 1 - rewards[:end])
    expect(same, f"its first {end} choices depend on rewards, and nothing has been released")


def _first_release(settings: Any) -> int:
    """The round after which something is released first."""
    plan = getattr(settings, "plan", None)
    if isinstance(plan, ChannelPlan):
        return _first_version(settings)
    stated = None if plan is None else plan.end_of(0)
    ends = stated_ends(settings)
    if stated is None and ends:
        stated = ends[0]
    if stated is None:
        stated = getattr(settings, "first_release", None)
    if stated is None:
        stage = staged(settings)
        stated = settings.rounds if stage is None else stage.moments[0]
    return int(min(stated, settings.rounds))


def _first_version(settings: Any) -> int:
    """The same where events are routed: by a policy in use, for where they go depends on what it chooses."""
    policy = Policy(settings, seed=7)
    for offered in offers(settings)[0]:
        policy.learn(policy.decide(offered, **whose(settings, policy.decided)), 0.5)
        policy.advance()
        if policy.version:
            break
    return policy.round


@checks
def choices_see_releases_alone(settings: Any, world: Any) -> None:
    """Runs that differ in one reward choose alike as long as they have released alike."""
    if not settings.private or isinstance(getattr(settings, "plan", None), SamplingPlan):
        return
    candidates, rewards = offers(settings)
    less = 1e-3 if isinstance(getattr(settings, "plan", None), BatchPlan) else 1.0
    rounds = settings.rounds
    for place in sorted({0, rounds // 5, rounds // 3, rounds // 2, 4 * rounds // 5}):
        for level in (0.0, 1.0):
            lives = [_lived(settings, less, candidates, r) for r in exchanged(rewards, place, level, 1 - level)]
            (actions, seen), (others, known) = lives
            for number in range(rounds):
                if seen[number] != known[number]:
                    break
                said = f"choice {number} depends on the reward of round {place}, which has not been released"
                expect(actions[number] == others[number], said)


def _lived(settings: Any, less: float, candidates: Floats, rewards: Floats) -> tuple[list[int], list[bytes]]:
    """What was chosen every round, and what had been released before, with so much of the noise."""
    state, rng = settings.start(less * settings.noise_tables([5])[0]), streams(3, Purpose.EXPLORATION, Purpose.CHOICE)
    actions, known, action = [], [], np.zeros(1, dtype=np.int64)
    for number, (offered, reward) in enumerate(zip(candidates, rewards.tolist(), strict=True)):
        if getattr(settings, "planned", -1) == number:
            settings = settings.extended(state.learner)
            state = settings.carried(settings.start(less * settings.noise_tables([5])[0]), state)
        known.append(np.array(settings.released(state), dtype=np.float64).tobytes())
        rows = offered[None].copy()
        choose(state, rows, rng, action)
        actions.append(int(action[0]))
        learn(state, rows[0, actions[-1]].copy(), reward, person(settings, number), rng)
    return actions, known


@checks
def compiled_samples_are_as_wide_as_stated(settings: Any, world: Any) -> None:
    """Private by sampling: arms are chosen as often as samples of the stated mean and variance choose them."""
    plan = getattr(settings, "plan", None)
    if not isinstance(plan, SamplingPlan):
        return
    arms, count = plan.arms, 20_000
    pulls = max(2, getattr(settings, "pair", (0, 1.0))[0])
    state, rng = silent(settings).state, streams(4, Purpose.EXPLORATION, Purpose.CHOICE)
    for number in range(arms * pulls):  # arm 0 always earns, the last never
        learn(state, np.eye(arms)[number // pulls], float(number // pulls < 1), -1, rng)
    weight = pulls + 1
    means = np.where(np.arange(arms) < 1, pulls, 0) / weight
    chosen, one, offered = np.zeros(count, dtype=np.int64), np.zeros(1, dtype=np.int64), np.eye(arms)[None]
    for number in range(count):
        choose(copied(state), offered, rng, one)
        chosen[number] = one[0]
    found = float((chosen == 0).mean())
    spread = math.sqrt(plan.variance / weight)
    stated = [_best_first(means, factor * spread) for factor in (1.0, 2 / 3, 3 / 2)]
    limit = stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(0.25 / count)
    expect(
        abs(found - stated[0]) <= limit, f"the best arm is chosen {found:.3f} of the time, and {stated[0]:.3f} is stated"
    )
    blunt = [abs(other - stated[0]) <= 2 * limit for other in stated[1:]]
    expect(not any(blunt), f"{count} choices are too few to know how wide its samples are")


def _best_first(means: Floats, spread: float) -> float:
    """The probability that the first of independent normal samples is the largest."""
    x, weights = np.polynomial.hermite_e.hermegauss(101)
    below = np.prod([stats.norm.cdf(x + (means[0] - other) / spread) for other in means[1:]], axis=0)
    return float(weights @ below / weights.sum())
