"""What is played: neighbouring inputs that differ in one protected unit, made to tell as much as they can."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.check import Floats

REWARD, MISSING, USER, CONTEXT = "reward", "missing", "user", "context"
NEIGHBOURS = (REWARD, MISSING, USER, CONTEXT)
BY_UNIT = {"event": REWARD, "user": USER, "joint": CONTEXT, "local": CONTEXT}
"""What differs between neighbours, by the unit that a guarantee protects."""
PROMISED = {
    "event": (REWARD, MISSING),
    "user": (USER, REWARD, MISSING),
    "joint": (CONTEXT, REWARD, MISSING),
    "local": (CONTEXT, REWARD, MISSING),
}
"""What may differ by a guarantee for each unit: what it protects, and parts of that."""
CANDIDATES = 2


@dataclass(frozen=True)
class Script:
    """Candidates (T, K, d) and a reward for each round, NaN where none comes; who visits; rounds whose action is hidden."""

    candidates: Floats
    rewards: Floats
    visitors: tuple[int, ...]
    hidden: tuple[int, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds are played."""
        return len(self.rewards)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring scripts, and in words what differs."""

    one: Script
    two: Script
    what: str
    rounds: tuple[int, ...]
    """The rounds that differ."""
    others: bool = True
    """Whether rewards of other rounds enter sums as well."""


def base_script(settings: Any, seed: int) -> Script:
    """Random unit vectors (or the arms) as candidates, random bits as rewards, everyone a visitor of their own."""
    rng = np.random.default_rng([seed, 5711])
    rounds, d = settings.rounds, settings.dimension
    if getattr(settings, "fixed_arms", False):
        candidates = np.tile(np.eye(d), (rounds, 1, 1))
    else:
        candidates = rng.standard_normal((rounds, CANDIDATES, d))
        candidates /= np.linalg.norm(candidates, axis=2, keepdims=True) * (1 + 1e-12)
    rewards = rng.integers(2, size=rounds).astype(np.float64)
    return Script(candidates, rewards, tuple(range(1, rounds + 1)))


def _with(script: Script, rounds: tuple[int, ...], row: Floats | None, rewards: tuple[float, ...], **more: Any) -> Script:
    """The script with these rewards in these rounds, where all candidates are this row (None: as they are)."""
    candidates, told = script.candidates.copy(), script.rewards.copy()
    told[list(rounds)] = rewards
    if row is not None:
        candidates[list(rounds)] = row
    return dataclasses.replace(script, candidates=candidates, rewards=told, **more)


def _shown(settings: Any, script: Script, place: int) -> Floats | None:
    """What all candidates of a protected round are, so that its action tells nothing by itself; None for fixed arms."""
    return None if getattr(settings, "fixed_arms", False) else script.candidates[place, 0]


def pairs(settings: Any, neighbour: str, seed: int = 0) -> list[Pair]:
    """Neighbours to choose from: the protected rounds early and late in batches, values at their ends."""
    check.one_of("neighbour", neighbour, NEIGHBOURS)
    script = base_script(settings, seed)
    places = _places(settings)
    if neighbour == USER:
        visits = _visits(settings)
        found = [_person(settings, script, rounds, 0.0) for rounds in visits]
        never = [] if math.isnan(settings.missing) else visits[:2]
        return found + [_person(settings, script, rounds, math.nan) for rounds in never]
    if neighbour == CONTEXT:
        check.expect(not getattr(settings, "fixed_arms", False), "neighbour", neighbour, "for a policy that has contexts")
        return [_row(script, place, *change) for place in places[:1] for change in _turns(script.candidates[place, 0])]
    values = [(0.0, 1.0)] if neighbour == REWARD else [(math.nan, 1.0), (math.nan, 0.0)]
    found = []
    quiet = dataclasses.replace(script, rewards=np.zeros(script.rounds))
    for base, others, where in ((script, "random bits", places), (quiet, "zero", places[:2])):
        for place in where:
            row = _shown(settings, base, place)
            for low, high in values:
                one, two = (_with(base, (place,), row, (value,)) for value in (low, high))
                what = f"the reward of round {place}: {_told(low)} or {high:g}, all others {others}"
                found.append(Pair(one, two, what, (place,), base is script))
    return found


def _told(reward: float) -> str:
    return "missing" if math.isnan(reward) else f"{reward:g}"


def _places(settings: Any) -> list[int]:
    """Rounds to protect: the first, the last of the first batch, and some of the first half."""
    batch = getattr(settings, "batch_size", None) or max(1, settings.rounds // 4)
    wanted = [0, min(batch, settings.rounds) - 1, settings.rounds // 4, settings.rounds // 2]
    return list(dict.fromkeys(place for place in wanted if 0 <= place < settings.rounds))


def _visits(settings: Any) -> list[tuple[int, ...]]:
    """Rounds of one person: several of one batch, one of each batch, both, and as many as count."""
    batch = getattr(settings, "batch_size", None) or max(1, settings.rounds // 4)
    rounds = settings.rounds
    several = tuple(range(min(batch, rounds)))
    each = tuple(range(0, rounds, batch))
    early = tuple(range(min(2 * batch, rounds)))
    counted = tuple(range(min(getattr(settings, "counted_visits", rounds), rounds)))
    return list(dict.fromkeys([several, each, early, counted, (0,)]))


def _person(settings: Any, script: Script, rounds: tuple[int, ...], low: float) -> Pair:
    """All rewards of one person: this (NaN: none comes) or 1, for the same features in every visit."""
    row = _shown(settings, script, 0)
    visitors = tuple(0 if t in rounds else who for t, who in enumerate(script.visitors))
    one, two = (_with(script, rounds, row, (value,) * len(rounds), visitors=visitors) for value in (low, 1.0))
    return Pair(one, two, f"all {len(rounds)} rewards of one person: {_told(low)} or 1", rounds)


def _turns(x: Floats) -> list[tuple[str, Floats, float, Floats, float]]:
    """Rows (features, reward) and others in their place: turned by 90, 120 and 180 degrees, the reward kept or changed."""
    if len(x) == 1:
        return [("turned round", x, 1.0, -x, 1.0), ("another reward", x, 0.0, x, 1.0)]
    aside = np.zeros_like(x)
    aside[int(np.argmin(np.abs(x)))] = 1.0
    aside -= x * (aside @ x)
    aside /= np.linalg.norm(aside) * (1 + 1e-12)
    slanted = -0.5 * x + math.sqrt(0.75) * aside
    return [
        ("turned by 90 degrees", x, 1.0, aside, 0.0),
        ("turned by 90 degrees", x, 1.0, aside, 1.0),
        ("turned by 120 degrees", x, 1.0, slanted, 1.0),
        ("turned round", x, 1.0, -x, 1.0),
        ("another reward", x, 0.0, x, 1.0),
    ]


def _row(script: Script, place: int, what: str, x: Floats, reward: float, other: Floats, other_reward: float) -> Pair:
    hidden = (place,)
    one = _with(script, (place,), x, (reward,), hidden=hidden)
    two = _with(script, (place,), other, (other_reward,), hidden=hidden)
    return Pair(one, two, f"the row of round {place}: {what}, reward {reward:g} or {other_reward:g}", (place,))
