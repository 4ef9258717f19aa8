"""What privacy will cost, before anyone's data is touched: predicted in closed form, confirmed by simulation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adaprivate import check, extras
from adaprivate.check import Floats, InputError, Integers
from adaprivate.planning.prediction import Task
from adaprivate.planning.prospect import Prospect, prospect
from adaprivate.planning.worlds import SIGNAL, World
from adaprivate.policies.noise_aware.outlook import Design, design

if TYPE_CHECKING:
    from adaprivate.logs.offers import Offers

__all__ = ["Prospect", "plan"]

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
RETURNING = ("evenly", "zipf")
GROUPS = 24
"""So many groups of people, by how often they come."""
MOST_OFFERS = 480
"""As many candidates as the policies look at before they choose."""


def plan(
    *,
    dimension: int | None = None,
    candidates: int | None = None,
    arms: int | None = None,
    rounds: int | None = None,
    epsilon: float | Sequence[float] = EPSILONS,
    delta: float = 1e-5,
    base_rate: float | None = None,
    best: float | None = None,
    items: int | None = None,
    users: int | None = None,
    visits: float | None = None,
    returning: str = "evenly",
    unit: str | None = None,
    counted_visits: int = 10,
    from_log: Any = None,
    action: str | None = None,
    context: Sequence[str] = (),
    candidate_columns: str | None = None,
    user: str | None = None,
    features: Sequence[str] = (),
    reward: str | None = None,
) -> Prospect:
    """What each epsilon is predicted to cost, which to take and what to run, before anyone's data is touched.

    dimension, candidates, rounds: of the features, on offer each round, and how many. arms: instead of the first two, so
    many fixed arms without features. items: how many different candidates there are; by default new ones come every round.
    base_rate: what random play earns, where that is known (else 1/2 is assumed, and the policy is not told). best: what the
    best candidate on offer earns on average; by default as much as the noise-aware policies expect.
    users, visits: how many people come, and how often each: then all rewards of any one person are protected, unless the
    unit is "event". Only the first ``counted_visits`` visits of each person ever count. returning: "evenly", or "zipf", the
    k-th in proportion to 1/k.
    delta: the probability of exceeding epsilon.

    from_log: a CSV or parquet file, or a table as ap.evaluate takes it, one decision a row, from which rounds, candidates,
    dimension and people are taken. Its rewards are never read: no column is but those that the plan names. action, context
    (or features; whole names, or what stands before a _), candidate_columns (how columns x_k_j begin) and user name its
    columns; features are made of a context as ap.evaluate makes them. reward: a column that none of these may be.
    """
    log, counts = None, None
    if from_log is None:
        _expect_all(dimension, candidates, arms, rounds, users, visits)
    else:
        with extras.needed():
            from adaprivate.logs.offers import offers

        log = offers(
            from_log, action=action, features=[*context, *features], candidates=candidate_columns, user=user, reward=reward
        )
        for name, value in (("arms", arms), ("dimension", dimension), ("candidates", candidates), ("items", items)):
            check.expect(value is None, name, value, "not to be given with a log, which says it")
        if log.arms:
            arms = log.count
        else:
            dimension, candidates = log.dimension, log.count
        rounds = log.rows if rounds is None else rounds
        if log.visits is not None and users is None:
            users, counts = len(log.visits), log.visits
    people, rounds = _people(users, visits, rounds, unit)
    world, seen = _world(dimension, candidates, arms, items, base_rate, best), None
    check.whole("rounds", rounds, at_least=4 * world.candidates if world.arms else 20, at_most=1_000_000_000)
    if log is not None and not log.arms:
        seen = _seen(log)
        world = dataclasses.replace(world, items=max(seen.items, float(world.candidates)))
    epsilons = list(epsilon) if isinstance(epsilon, Sequence) else [epsilon]
    check.expect(len(epsilons) > 0, "epsilon", epsilons, "to be non-empty")
    for budget in epsilons:
        check.real("epsilon", budget, above=0)
        check.budget(budget)
    check.expect(len(set(epsilons)) == len(epsilons), "epsilon", epsilons, "to be all different")
    check.probability("delta", delta)
    check.whole("counted_visits", counted_visits, at_least=1, at_most=100)
    check.one_of("returning", returning, RETURNING)
    often: tuple[tuple[float, float], ...] = ()
    if people and (counts is not None or returning == "zipf"):
        often = _often(1 / np.arange(1.0, people + 1) if counts is None else counts)
    known = base_rate is not None
    task = Task(world, rounds, float(epsilons[0]), delta, known, people, counted_visits, often, seen)
    read = () if log is None else log.read
    return prospect(task, epsilons, rates_known=known, source=_named(from_log), read=read)


def _named(log: Any) -> str:
    if log is None:
        return ""
    return str(log) if isinstance(log, str | Path) else "the table given"


def _expect_all(
    dimension: int | None,
    candidates: int | None,
    arms: int | None,
    rounds: int | None,
    users: int | None,
    visits: float | None,
) -> None:
    """Name all that is missing, where it is more than one thing."""
    needed: dict[str, Any] = {} if arms is not None else {"dimension": dimension, "candidates": candidates}
    needed |= {} if users is not None and visits is not None else {"rounds": rounds}
    missing = [name for name, value in needed.items() if value is None]
    if len(missing) > 1:
        instead = [
            *(["arms for dimension and candidates"] if "dimension" in missing and "candidates" in missing else []),
            *(["users and visits for rounds"] if "rounds" in missing and users is None and visits is None else []),
            "from_log for all of it",
        ]
        words = f"{', '.join(missing[:-1])} and {missing[-1]}"
        raise InputError(f"Expected {words} to be given: whole numbers (or {', or '.join(instead)}).")


def _world(
    dimension: int | None,
    candidates: int | None,
    arms: int | None,
    items: int | None,
    base_rate: float | None,
    best: float | None,
) -> World:
    if arms is not None:
        for name, value in (("dimension", dimension), ("candidates", candidates), ("items", items)):
            check.expect(value is None, name, value, "not to be given with arms")
        dimension = candidates = items = check.whole("arms", arms, at_least=2, at_most=1_000)
    least = 1 if arms is not None else 2  # one number orders candidates alike for whoever knows its sign
    dimension = check.whole("dimension", dimension, at_least=least, at_most=4_096)
    candidates = check.whole("candidates", candidates, at_least=2, at_most=100_000)
    if items is not None:
        check.whole("items", items, at_least=candidates)
    if base_rate is not None:
        check.real("base_rate", base_rate, at_least=1e-4, at_most=1 - 1e-4)
    rate = 0.5 if base_rate is None else float(base_rate)
    count = math.inf if items is None else float(items)
    found = World(dimension, candidates, count, rate, SIGNAL / math.sqrt(dimension), arms is not None)
    return found if best is None else found.with_best(best)


def _people(users: int | None, visits: float | None, rounds: int | None, unit: str | None) -> tuple[int, int]:
    """How many are protected (0: single rewards are), and the rounds."""
    if unit is not None:
        check.one_of("unit", unit, ("event", "user"))
        check.expect(unit == "event" or users is not None, "users", users, "to be given for unit=user")
    if visits is not None:
        check.real("visits", visits, at_least=1)
        check.expect(users is not None, "users", users, "to be given with visits")
    if users is not None:
        check.whole("users", users, at_least=1)
        if rounds is None and visits is not None:
            rounds = round(users * visits)
    whole: Any = rounds
    count = check.whole("rounds", whole, at_least=1)
    if users is not None and visits is not None:
        fits = abs(users * visits - count) <= 0.01 * count
        check.expect(fits, "visits", visits, f"== {count / users:.4g}, rounds over users (give two of the three)")
    return (0 if users is None or unit == "event" else users), count


def _often(counts: Floats | Integers) -> tuple[tuple[float, float], ...]:
    """People in groups of those who come about as often, and how often they do."""
    ordered = np.sort(counts)[::-1]
    ends = np.unique(np.concatenate([[0], np.geomspace(1, len(ordered), GROUPS).astype(np.int64)]))
    return tuple((float(b - a), float(ordered[a:b].mean())) for a, b in pairwise(ends.tolist()))


def _seen(log: Offers) -> Design:
    """What the first offers of a log show the policy."""
    shown = log.candidates[: max(2, MOST_OFFERS // log.count)]
    return design(shown.reshape(-1, log.dimension), np.repeat(np.arange(len(shown)), log.count))
