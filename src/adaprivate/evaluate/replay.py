"""Replay: a policy that learns, run on the rows where it chooses what was logged (Li et al. 2011).

Where the log was not made by uniform choice, a row is kept with probability (least propensity) / (its own), so that among
the kept ones every action was equally likely. The rewards of rows that are not kept are never looked at.
"""

from __future__ import annotations

import numpy as np

from adaprivate import check
from adaprivate.check import Array
from adaprivate.compiled import streams
from adaprivate.data.logs import Log
from adaprivate.policies.policy import Policy

REPLAY_PURPOSE = 21
"""The purpose of the stream of a seed that keeps rows."""


def acceptance(log: Log) -> float:
    """The share of rows that any policy is expected to learn from."""
    return 1 / log.count if log.propensities is None else float(log.propensities.min())


def replay(policy: Policy, log: Log, *, rounds: int, seed: int = 0) -> Array:
    """Let the policy learn, for at most so many rounds; returns the rows it learned from."""
    check.whole("rounds", rounds, at_least=1)
    kept = np.ones(len(log), dtype=bool)
    if log.propensities is not None:
        key = int(streams(seed, REPLAY_PURPOSE)[0, 0])
        uniform = np.random.default_rng(key).uniform(size=len(log))
        kept = uniform * log.propensities <= log.propensities.min()
    accepted: list[int] = []
    for row in np.flatnonzero(kept).tolist():
        decision = policy.decide(log.offered(row))
        if decision.action != log.actions[row]:
            policy.withdraw(decision)
            continue
        policy.learn(decision, float(log.rewards[row]))
        accepted.append(row)
        if len(accepted) == rounds:
            break
    return np.array(accepted, dtype=np.int64)
