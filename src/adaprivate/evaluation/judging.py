"""What would a policy have earned on this log? Learn, privately, from the log; then estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from adaprivate import check, policies
from adaprivate.evaluation.decisions import Decisions
from adaprivate.evaluation.estimators import ESTIMATORS, Estimate, Sample, estimate
from adaprivate.evaluation.release import RELEASED, capped, first_rows, release, release_by_person, together
from adaprivate.evaluation.replay import acceptance, replay, whose
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan
from adaprivate.policies.core.propensities import choice_probabilities
from adaprivate.privacy import Guarantee
from adaprivate.runtime.policy import Policy

NEEDS_PROPENSITIES = ("ips", "snips", "dr")
_CHUNK = 20_000_000


def sample_for(state: Any, log: Decisions, *, cap: float | None = None, draws: int = 256, seed: int = 0) -> Sample:
    """What estimators need to judge this state of a policy, fixed from now on, on a log.

    Probabilities that have to be drawn are drawn for each row afresh, without bias: their errors average out over rows.
    """
    if log.fixed:
        once = choice_probabilities(state, log.candidates, draws=256 * draws, seed=seed).probability[0]
        chosen, expected = once[log.actions], np.broadcast_to(once @ log.candidates[0], (len(log), log.dimension))
    else:
        chosen, expected = np.empty(len(log)), np.empty((len(log), log.dimension))
        size = max(1, _CHUNK // (log.count * log.dimension))  # rows at a time
        for start in range(0, len(log), size):
            part = slice(start, start + size)
            found = choice_probabilities(
                state, log.candidates[part], draws=draws, seed=seed + start, lattice=False
            ).probability
            chosen[part] = found[np.arange(len(found)), log.actions[part]]
            shares = found / found.sum(axis=1, keepdims=True)
            expected[part] = np.einsum("nk,nkd->nd", shares, log.candidates[part])
    weights = None if log.propensities is None else capped(chosen / log.propensities, cap)
    return Sample(log.rewards, weights, log.chosen, expected, log.users)


def learn_from(policy: Policy, log: Decisions) -> None:
    """Let the policy learn from what was chosen and earned, row by row, whoever chose it."""
    for features, reward, user in zip(log.chosen, log.rewards.tolist(), whose(policy, log), strict=True):
        policy.observe(features, reward, user=user)
    policy.finish()


class Judgement(NamedTuple):
    """An estimate, the guarantee of everything that was computed for it, and what was counted of whom."""

    estimate: Estimate
    guarantee: Guarantee | None
    visits: dict[str, int] | None
    """Of a policy that protects people: the people it learned from, their visits that counted, and those beyond: public."""


def judge(
    log: Decisions,
    policy: str,
    estimator: str,
    *,
    options: Mapping[str, Any] | None = None,
    train: float = 0.5,
    rounds: int | None = None,
    cap: float | None = None,
    interval: str = "asymptotic",
    confidence: float = 0.95,
    seed: int = 0,
    release_epsilon: float | None = None,
    release_delta: float = 1e-5,
    person_rows: int | None = None,
) -> Judgement:
    """What the policy would have earned per round, and the guarantee of everything that was computed for it.

    replay: the policy learns as it goes and is paid where it agrees with the log. The others: it learns from the first
    ``train`` of the rows and stays as it is then; the remaining rows say what it earns. With ``release_epsilon`` the
    estimate itself is made public, with exact noise; without it, it is for those who may see the log. It protects whom the
    policy protects; for people, ``person_rows`` has only the first so many rows of each enter it.
    """
    check.one_of("estimator", estimator, ESTIMATORS)
    if estimator in NEEDS_PROPENSITIES:
        check.expect(log.propensities is not None, "propensity", None, f"to be a column of the log for {estimator}")
    replayed = estimator == "replay"
    share = acceptance(log) if replayed else check.real("train", train, at_least=0, below=1)
    learned = math.floor(len(log) * share) if rounds is None else check.whole("rounds", rounds, at_least=1)
    check.expect(replayed or len(log) - learned >= 2, "rows to evaluate on", len(log) - learned, ">= 2")
    settings = policies.settings(policy, {"dimension": log.dimension, "rounds": max(learned, 1), **(options or {})})
    statement = settings.guarantee()
    by_reward = statement is None or statement.epsilon == 0 or statement.unit in ("event", "user")
    check.expect(by_reward, "policy", policy, "to protect rewards: contexts of a log are taken as public")
    fixed = getattr(settings, "fixed_arms", False)
    check.expect(
        not fixed, "policy", policy, "to choose by features (on fixed arms: unit vectors), not a policy on fixed arms"
    )
    releases = isinstance(getattr(settings, "plan", None), BatchPlan | ChannelPlan | RewardPlan)
    if release_epsilon is not None:
        check.expect(estimator in RELEASED, "estimator", estimator, f"in {{{', '.join(RELEASED)}}} to be released")
        private = releases or settings.name == "random"
        check.expect(private, "policy", policy, "to be private with exact noise for an estimate to be released")
    by_person = statement is not None and statement.unit == "user"
    if person_rows is not None:
        bounds = by_person and release_epsilon is not None
        check.expect(bounds, "person_rows", person_rows, "== None unless an estimate is released that protects people")
    exact = release_epsilon is not None and releases
    player = Policy(settings, seed=None if exact else seed, source=Secure() if exact else None)
    if replayed:
        accepted = replay(player, log, rounds=max(learned, 1), seed=seed)
        check.expect(len(accepted) >= 2, "accepted rows", len(accepted), f">= 2 of {len(log)}")
        sample = Sample(log.rewards[accepted], people=None if log.users is None else log.users[accepted])
    else:
        learn_from(player, log.part(slice(0, learned)))
        sample = sample_for(player.state, log.part(slice(learned, None)), cap=cap, seed=seed)
    if release_epsilon is None:
        found = estimate(estimator, sample, confidence=confidence, interval=interval, seed=seed)
        return Judgement(found, player.guarantee, player.people)
    if person_rows is not None:
        assert sample.people is not None
        rows = first_rows(sample.people, person_rows)
        kept = None if sample.weights is None else sample.weights[rows]
        sample = Sample(sample.rewards[rows], kept, people=sample.people[rows])
    found, price = (release_by_person if by_person else release)(
        estimator, sample, epsilon=release_epsilon, delta=release_delta, noise=Secure(), confidence=confidence
    )
    own = player.guarantee
    if own is not None and own.epsilon > 0:
        price = together(own, price, same_rewards=replayed or by_person)
    return Judgement(found, price, player.people)


def logged_value(log: Decisions, confidence: float = 0.95) -> Estimate:
    """What the logging policy itself earned."""
    return estimate("replay", Sample(log.rewards, people=log.users), confidence=confidence)
