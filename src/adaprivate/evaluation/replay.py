"""Replay: a policy that learns, run on the rows where it chooses what was logged (Li et al. 2011).

Where the log was not made by uniform choice, a row is kept with probability (least propensity) / (its own), so that among
the kept ones every action was equally likely. The rewards of rows that are not kept are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaprivate import check
from adaprivate.check import Array
from adaprivate.compiled import streams
from adaprivate.evaluation.decisions import Decisions
from adaprivate.purposes import Purpose
from adaprivate.runtime.asking import needs_user
from adaprivate.runtime.policy import Policy


def acceptance(log: Decisions) -> float:
    """The share of rows that any policy is expected to learn from."""
    return 1 / log.count if log.propensities is None else float(log.propensities.min())


def whose(policy: Policy, log: Decisions) -> Sequence[int | None]:
    """Whose each row is, for a policy that protects people; None for others, which are not told."""
    if not needs_user(policy.settings):
        return [None] * len(log)
    needed = f"to be a column of the log: {policy.settings.name} protects people"
    check.expect(log.users is not None, "user", None, needed)
    users: list[int] = np.asarray(log.users).tolist()
    return users


def replay(policy: Policy, log: Decisions, *, rounds: int, seed: int = 0, learn: bool = True) -> Array:
    """Let the policy choose and learn, for at most so many rounds; returns the rows where it agreed with the log.

    The mean reward of these rows, with its standard error, speaks of what this run of the policy was worth round by round;
    another run may learn better or worse. ``learn=False`` keeps the policy as it is.
    """
    check.whole("rounds", rounds, at_least=1)
    kept, users = np.ones(len(log), dtype=bool), whose(policy, log)
    if log.propensities is not None:
        key = int(streams(seed, Purpose.REPLAY)[0, 0])
        uniform = np.random.default_rng(key).uniform(size=len(log))
        kept = uniform * log.propensities <= log.propensities.min()
    accepted: list[int] = []
    for row in np.flatnonzero(kept).tolist():
        offered = log.offered(row)
        action = policy.consider(offered)
        if action != log.actions[row]:
            continue
        if learn:
            policy.observe(offered[action], float(log.rewards[row]), user=users[row])
        accepted.append(row)
        if len(accepted) == rounds:
            break
    policy.finish()
    return np.array(accepted, dtype=np.int64)
