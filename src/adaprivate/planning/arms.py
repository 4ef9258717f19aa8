"""Policies for fixed arms, compared on simulated public worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import check, environments, privacy
from adaprivate.policies.arms.sampling import SamplingSettings
from adaprivate.policies.core.settings import exact_guarantee
from adaprivate.simulation import mean_sem, policy_settings, run_all

BUDGETED = ("filtered-thompson", "modified-thompson", "adac-ucb")
PURE = ("noise-aware", "anytime-lazy-ucb", "lazy-dp-ts", "dp-se", "adap-ucb", "adap-klucb")
OPTIONS: dict[str, dict[str, Any]] = {
    "noise-aware": {"channel": "items"},
    "modified-thompson": {"calibration": "tight"},
    "adac-ucb": {"calibration": "exact"},
}
"""What each is told besides its budget: with channel="items" epsilon is pure, for a reward enters one arm's block."""
COMMITTING = ("filtered-thompson", "dp-se")
"""Policies that may settle on a wrong arm: rare and dear, so that a mean needs more runs."""
SIMULATED_ROUNDS = 4_000_000
"""About so many rounds are simulated for each policy in each world, eight times as many for one that commits."""


def public_worlds(arms: int) -> dict[str, tuple[float, ...]]:
    """The Bernoulli worlds that policies are tried on: arms spread evenly, and one better arm among equals.

    The best arm is the last, so that no policy gains by breaking ties in order.
    """
    return {
        "spread": tuple(0.25 + 0.5 * i / (arms - 1) for i in range(arms)),
        "gap 0.1": (*(0.45 for _ in range(arms - 1)), 0.55),
        "gap 0.05": (*(0.45 for _ in range(arms - 1)), 0.5),
    }


def runs_of(name: str, rounds: int) -> int:
    """How many runs of a policy are simulated: 4 to 40, or 20 to 300 of one that commits (100 or more to T = 320,000)."""
    if name in COMMITTING:
        return max(20, min(300, 8 * SIMULATED_ROUNDS // rounds))
    return max(4, min(40, SIMULATED_ROUNDS // rounds))


def plan_arms(
    arms: int,
    rounds: int,
    epsilons: Sequence[float],
    delta: float = 1e-5,
    *,
    seeds: int | None = None,
    jobs: int | None = None,
) -> list[dict[str, Any]]:
    """One row for each policy and epsilon: its parameters, regret in each public world, and whether it is the one to take.

    Recommended is the least regret, relative to random play and averaged over the worlds, among policies that can run with
    exact noise; the others are "simulation only". "tied" differs from the recommended row by less than two standard
    errors, "ahead" is better by more.
    """
    check.whole("arms", arms, at_least=2, at_most=1_000)
    check.whole("rounds", rounds, at_least=4 * arms, at_most=10_000_000)
    check.expect(len(epsilons) > 0, "epsilon", list(epsilons), "to be non-empty")
    for epsilon in epsilons:
        check.real("epsilon", epsilon, above=0)
    check.expect(len(set(epsilons)) == len(epsilons), "epsilon", list(epsilons), "to be all different")
    check.probability("delta", delta)
    if seeds is not None:
        check.whole("seeds", seeds, at_least=2)
    rows: list[dict[str, Any]] = []
    for epsilon in epsilons:
        rows += _judged(_compared(arms, rounds, float(epsilon), delta, seeds, jobs))
    return rows


def _judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with what to think of them."""
    deployable = [row for row in rows if row["exact_noise"]]
    best = min(deployable, key=lambda row: float(row["regret_share"])) if deployable else None

    def standing(row: dict[str, Any]) -> str:
        if best is None or row is best:
            return "recommended" if row is best else ""
        difference = row["regret_share"] - best["regret_share"]
        tied = abs(difference) < 2 * math.hypot(row["regret_share_sem"], best["regret_share_sem"])
        return "tied" if tied else "ahead" if difference < 0 else ""

    return [{**row, "recommended": row is best, "standing": standing(row)} for row in rows]


def _compared(
    arms: int, rounds: int, epsilon: float, delta: float, seeds: int | None, jobs: int | None
) -> list[dict[str, Any]]:
    worlds = public_worlds(arms)
    few = arms <= privacy.MOST_ARMS_TO_CALIBRATE
    rows = []
    for name in (n for n in (*BUDGETED, *PURE) if few or n != "modified-thompson"):
        count = runs_of(name, rounds) if seeds is None else seeds
        regret, shares, wrong = {}, [], {}
        for label, means in worlds.items():
            place = environments.environment("bernoulli-arms", {"means": means})
            policy: Any = policy_settings(name, place, rounds, _options(name, epsilon, delta))
            keep = _committed if name == "filtered-thompson" else None
            runs = run_all([policy], place, range(count), jobs=jobs, keep_state=keep)[0]
            regret[label] = mean_sem([run.regret for run in runs])
            shares.append(mean_sem([1 - run.learned_share for run in runs]))
            if keep is not None:
                wrong[label] = float(np.mean([run.state not in (-1, arms - 1) for run in runs]))
        rows.append(
            {
                "policy": name,
                "arms": arms,
                "rounds": rounds,
                "epsilon": epsilon,
                "delta": 0.0 if name in PURE else delta,
                "options": OPTIONS.get(name, {}),
                "parameters": _parameters(policy),
                "regret": {label: value for label, (value, _) in regret.items()},
                "regret_sem": {label: sem for label, (_, sem) in regret.items()},
                "regret_share": math.fsum(share for share, _ in shares) / len(worlds),
                "regret_share_sem": math.hypot(*(sem or 0.0 for _, sem in shares)) / len(worlds),
                "wrong_commitments": wrong or None,
                "seeds": count,
                **_statement(policy),
            }
        )
    return rows


def _committed(state: Any) -> int:
    """The arm that a policy settled on; -1: on none."""
    return int(state.learner.scalars[0]["committed"])


def _options(name: str, epsilon: float, delta: float) -> Mapping[str, Any]:
    return {"epsilon": epsilon, "delta": delta, **OPTIONS.get(name, {})}


def _parameters(policy: Any) -> dict[str, float]:
    """What the policy chose, or was published with."""
    if isinstance(policy, SamplingSettings):
        prepulls, variance = policy.pair
        return {"eta": policy.budget, "prepulls": prepulls, "variance": variance}  # type: ignore[attr-defined]
    return {"bonus": policy.bonus} if hasattr(policy, "bonus") else {}


def _statement(policy: Any) -> dict[str, Any]:
    """The policy's guarantee, with exact noise where it has that."""
    try:
        return {"exact_noise": True, **privacy.stated(exact_guarantee(policy), policy.rounds)}
    except check.InputError:  # it has none, or not at this epsilon: its grid would show, or the sampler does not reach
        return {"exact_noise": False, **privacy.stated(policy.guarantee(), policy.rounds)}
