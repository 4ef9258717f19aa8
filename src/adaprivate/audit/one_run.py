"""One run of one policy with many canaries: rewards that are fair coins, in directions of their own, to be guessed.

Canaries share a run, so their guesses are not independent; the bounds are those of Steinke, Nasr & Jagielski (2023) for
(epsilon, delta) and of Mahloujifar, Melis & Chaudhuri (2024) for mu-GDP, which allow for that and are looser than those of
many runs. How many guesses to make is settled by the claim alone, before the run.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.audit.attack import Finding, finding
from adaprivate.audit.bounds import CONFIDENCE, one_run_epsilon, one_run_mu
from adaprivate.audit.grid import looked
from adaprivate.audit.targets import Claim, Target, small_settings
from adaprivate.check import Array, Floats
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.channels import FLIP, GAUSSIAN, ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan
from adaprivate.runtime.policy import Policy

DIMENSION = 50
SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01)
"""Shares of canaries that may be guessed, the surest first."""


class _Statement(Target):
    """What is claimed, for the finding."""

    def __init__(self, name: str, claim: Claim, exact: bool) -> None:
        self.name, self.claim = name, claim
        self.exact = exact  # type: ignore[misc]

    def pairs(self) -> Any:
        """None: all canaries are in one run."""
        return []

    def play(self, script: Any, seeds: Any) -> Any:
        """Not played."""
        raise TypeError("one run is not played again")


def one_run_settings(name: str, values: dict[str, Any], canaries: int) -> Any:
    """Settings with room for so many canaries, each batch's in directions of their own."""
    kind = small_settings(name, {})
    check.expect(values.get("unit") != "user", "unit", "user", "== 'event' for one run of many canaries, each a person's")
    known = {field.name for field in dataclasses.fields(kind)}
    simple = {"dimension": DIMENSION, "rounds": canaries, "batch_size": DIMENSION, "intercept": 0.0, "noise": "independent"}
    simple |= {"growth": 1.0, "horizon": None}
    if "channel" in known and values.get("channel") != GAUSSIAN:
        simple |= {"dimension": 2, "batch_size": None}
        values = {"channel": FLIP, **values}
    wanted = {key: value for key, value in simple.items() if key in known} | values
    settings = dataclasses.replace(kind, **wanted)
    fits = isinstance(settings.plan, BatchPlan | RewardPlan) or (
        isinstance(settings.plan, ChannelPlan) and len(settings.plan.channels) == 1
    )
    check.expect(fits, "policy", name, "to release sums or single rewards, for one run of many canaries")
    return settings


def _released(policy: Policy, features: Floats, rewards: Floats) -> tuple[list[int], list[Release]]:
    """Play it through; the rounds after which something was released, and what."""
    ends: list[int] = []
    releases: list[Release] = []
    exact = policy.source is not None
    if exact:
        reading = policy.learner.read

        def read(release: Release) -> None:
            ends.append(policy.round + 1)
            releases.append(release)
            reading(release)

        vars(policy.learner)["read"] = read
    for x, reward in zip(features, rewards, strict=True):
        before = policy.version
        decision = policy.decide(np.array([x, x]))
        policy.learn(decision, float(reward))
        policy.advance()
        if not exact and policy.version != before:
            ends.append(policy.round)
            releases.append(Release(len(releases), np.array(policy.settings.released(policy.state)).ravel()))
    return ends, releases


def _scores(plan: Any, features: Floats, ends: list[int], releases: list[Release]) -> Floats:
    """For each canary, how far what was released leans to 1: its own direction in its own batch."""
    released = np.array([release.values for release in releases])
    sums = plan.sums if isinstance(plan, ChannelPlan) else plan
    scores = np.zeros(len(features))
    if not isinstance(sums, BatchPlan):
        scores[: len(released)] = released[:, 0] - released[:, 0].mean()
        return scores
    if sums.decoded:
        released = np.diff(np.concatenate([np.zeros((1, released.shape[1])), released]), axis=0)
    batch = np.searchsorted(np.array(ends), np.arange(len(features)), side="right")
    kept = batch < len(ends)
    events = np.array([sums.event(x) for x in features[kept]])
    middle = (0.5 - sums.centre) * (events * events).sum(axis=1)
    scores[kept] = (events * released[batch[kept]]).sum(axis=1) - middle
    return scores


def _kind(plan: Any) -> str:
    return f"the channel {plan.channels[0]}" if isinstance(plan, ChannelPlan) else f"a {type(plan).__name__}"


def guesses_to_make(canaries: int, claim: Claim, alpha: float) -> int:
    """As many as would prove most, were the claim exactly true."""
    rng = np.random.default_rng(canaries)
    bits = rng.integers(2, size=canaries) == 1
    if claim.mu is None or not claim.gaussian:
        return canaries  # flips are all alike
    lean = np.where(bits, 0.5, -0.5) * claim.mu + rng.standard_normal(canaries)
    found = {}
    for share in SHARES:
        count, right = _guessed(lean, bits, int(share * canaries))
        found[count] = one_run_mu(canaries, count, right, alpha)
    return max(found, key=lambda count: found[count])


def _guessed(scores: Floats, bits: Array, count: int) -> tuple[int, int]:
    """Guess the surest: how many guesses, and how many of them are right."""
    surest = np.argsort(-np.abs(scores), kind="stable")[: max(count, 1)]
    return len(surest), int(((scores[surest] > 0) == bits[surest]).sum())


def audited_in_one_run(
    name: str,
    values: dict[str, Any],
    *,
    canaries: int = 5000,
    exact_noise: bool = False,
    confidence: float = CONFIDENCE,
    seed: int = 1,
) -> Finding:
    """Attack a policy in a single run with this many canaries."""
    check.whole("canaries", canaries, at_least=DIMENSION)
    started = time.perf_counter()
    alpha = (1 - confidence) / 2
    settings = one_run_settings(name, values, canaries)
    claim = Claim.of(settings.guarantee(exact_noise=exact_noise), settings.plan, exact_noise=exact_noise)
    count = guesses_to_make(canaries, claim, alpha)
    rng = np.random.default_rng([seed, 4242])
    features = np.eye(settings.dimension)[np.arange(canaries) % settings.dimension]
    bits = rng.integers(2, size=canaries) == 1
    policy = Policy(settings, source=Secure()) if exact_noise else Policy(settings, seed=seed)
    ends, shown = _released(policy, features, bits.astype(np.float64))
    guesses, right = _guessed(_scores(policy.settings.plan, features, ends, shown), bits, count)
    direct = one_run_epsilon(canaries, guesses, right, claim.delta, alpha)
    mu = one_run_mu(canaries, guesses, right, alpha)
    target = _Statement(name, claim, exact_noise)
    if exact_noise:
        target.looked_at, target.off_grid = looked(policy.settings.plan, shown)
    return finding(
        target,
        f"{canaries} rewards of one run, each 0 or 1",
        direct,
        mu,
        confidence=confidence,
        trials=1,
        attack=f"{right:,} of {guesses:,} rewards guessed right, each 0 or 1, in one run of {_kind(policy.settings.plan)}",
        seconds=time.perf_counter() - started,
    )
