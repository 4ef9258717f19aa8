"""Replay: a policy that learns, run on the rows where it chooses what was logged (Li et al. 2011).

Where the log was not made by uniform choice, a row is kept with probability (least propensity) / (its own), so that among
the kept ones every action was equally likely. The rewards of rows that are not kept are never looked at. A log without
propensities is taken for one of uniform choice; where rows offer more candidates or fewer, each was then chosen with
probability 1 / candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats, Integers
from adaprivate.compiled import streams
from adaprivate.logs.log import Log
from adaprivate.purposes import Purpose
from adaprivate.runtime.inputs import needs_user
from adaprivate.runtime.policy import Policy


def whose(policy: Policy, log: Log) -> Sequence[int | None]:
    """Whose each row is, for a policy that protects people; None for others, which are not told."""
    if not needs_user(policy.settings):
        return [None] * len(log)
    needed = f"to be a column of the log: {policy.settings.name} protects people"
    check.expect(log.users is not None, "user", None, needed)
    users: list[int] = np.asarray(log.users).tolist()
    return users


def replay(policy: Policy, log: Log, *, rounds: int, seed: int = 0, learn: bool = True) -> Array:
    """Let the policy choose and learn, for at most so many rounds; returns the rows where it agreed with the log.

    The mean reward of these rows, with its standard error, speaks of what this run of the policy was worth round by round;
    another run may learn better or worse. ``learn=False`` keeps the policy as it is.
    """
    found = [start + rows for start, _, rows in accepted(policy, log, rounds=rounds, seed=seed, learn=learn)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def accepted(
    policy: Policy, log: Log, *, rounds: int, seed: int = 0, learn: bool = True
) -> Iterator[tuple[int, Log, Integers]]:
    """The same part by part: where it starts, the part, and its rows that were accepted."""
    check.whole("rounds", rounds, at_least=1)
    rng = np.random.default_rng(int(streams(seed, Purpose.REPLAY)[0, 0]))
    start, room = 0, rounds
    for part in log.parts():
        if not room:
            break
        rows = _agreed(policy, part, _kept(part, log, rng), room, learn)
        yield start, part, rows
        start, room = start + len(part), room - len(rows)
    policy.finish()


def _kept(part: Log, log: Log, rng: np.random.Generator) -> Array:
    """Which rows are kept, so that every candidate was equally likely in them."""
    propensities, least = part.propensities, log.least_propensity
    if propensities is None and part.counts is not None:
        propensities, least = 1.0 / np.maximum(part.counts, 1), 1.0 / log.count
    if propensities is None or least is None:
        return np.ones(len(part), dtype=bool)
    uniform: Floats = rng.uniform(size=len(part))
    return np.asarray(uniform * propensities <= least * (1 + 1e-12))


def _agreed(policy: Policy, log: Log, kept: Array, most: int, learn: bool) -> Integers:
    users = whose(policy, log)
    candidates, counts = log.candidates, log.counts
    agreed: list[int] = []
    for row in np.flatnonzero(kept).tolist():
        offered = candidates[0 if log.fixed else row]
        if counts is not None:
            offered = offered[: counts[row]]
        action = policy.consider(offered)
        if action != log.actions[row]:
            continue
        if learn:
            policy.observe(offered[action], float(log.rewards[row]), user=users[row])
        agreed.append(row)
        if len(agreed) == most:
            break
    return np.array(agreed, dtype=np.int64)
