"""What privacy will cost, before anyone's data is touched: policies for N arms compared on simulated public worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate import check, environments
from adaprivate.policies.arms.sampling import SamplingPolicy
from adaprivate.simulation import mean_sem, policy_settings, run_all

BUDGETED = ("filtered-thompson", "modified-thompson", "adac-ucb")
PURE = ("anytime-lazy-ucb", "lazy-dp-ts", "dp-se", "adap-ucb", "adap-klucb")
SIMULATED_ROUNDS = 4_000_000
"""About so many rounds are simulated for each policy in each world."""
MOST_ARMS_TO_CALIBRATE = 30
"""modified-thompson is left out beyond: predicting the regret of its pairs takes time that grows as N^2."""


def public_worlds(arms: int) -> dict[str, tuple[float, ...]]:
    """The Bernoulli worlds that policies are tried on: arms spread evenly, and one good arm among equals.

    The best arm is the last, so that no policy gains by breaking ties in order.
    """
    return {
        "spread": tuple(0.25 + 0.5 * i / (arms - 1) for i in range(arms)),
        "one good arm": (*(0.45 for _ in range(arms - 1)), 0.55),
    }


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

    Recommended is the least regret, relative to random play, averaged over the worlds. Simulated on public worlds only.
    """
    check.whole("arms", arms, at_least=2, at_most=1_000)
    check.whole("rounds", rounds, at_least=4 * arms, at_most=10_000_000)
    check.expect(len(epsilons) > 0, "epsilon", list(epsilons), "to be non-empty")
    for epsilon in epsilons:
        check.real("epsilon", epsilon, above=0)
    check.probability("delta", delta)
    count = max(4, min(40, SIMULATED_ROUNDS // rounds)) if seeds is None else check.whole("seeds", seeds, at_least=2)
    rows: list[dict[str, Any]] = []
    for epsilon in epsilons:
        found = _compared(arms, rounds, float(epsilon), delta, count, jobs)
        least = min(found, key=lambda row: float(row["regret_share"]))
        rows += [{**row, "recommended": row is least} for row in found]
    return rows


def _compared(arms: int, rounds: int, epsilon: float, delta: float, seeds: int, jobs: int | None) -> list[dict[str, Any]]:
    worlds = public_worlds(arms)
    names = [n for n in (*BUDGETED, *PURE) if n != "modified-thompson" or arms <= MOST_ARMS_TO_CALIBRATE]
    measured: dict[str, dict[str, tuple[float, float | None]]] = {name: {} for name in names}
    shares: dict[str, list[float]] = {name: [] for name in names}
    for label, means in worlds.items():
        place = environments.environment("bernoulli-arms", {"means": means})
        chosen = [policy_settings(name, place, rounds, _options(name, epsilon, delta)) for name in names]
        for policy, runs in zip(chosen, run_all(chosen, place, range(seeds), jobs=jobs), strict=True):
            measured[policy.name][label] = mean_sem([run.regret for run in runs])
            shares[policy.name].append(1 - math.fsum(run.learned_share for run in runs) / seeds)
    return [
        {
            "policy": policy.name,
            "arms": arms,
            "rounds": rounds,
            "epsilon": epsilon,
            "delta": delta if "delta" in vars(policy) else 0.0,
            "parameters": _parameters(policy),
            "regret": {label: value for label, (value, _) in measured[policy.name].items()},
            "regret_sem": {label: sem for label, (_, sem) in measured[policy.name].items()},
            "regret_share": math.fsum(shares[policy.name]) / len(worlds),
            "seeds": seeds,
            **_statement(policy),
        }
        for policy in chosen
    ]


def _options(name: str, epsilon: float, delta: float) -> Mapping[str, Any]:
    exact = {"modified-thompson": {"calibration": "tight"}, "adac-ucb": {"calibration": "exact"}}
    return {"epsilon": epsilon, "delta": delta, **exact.get(name, {})}


def _parameters(policy: Any) -> dict[str, float]:
    """What the policy chose, or was published with."""
    if isinstance(policy, SamplingPolicy):
        prepulls, variance = policy.pair
        return {"eta": policy.budget, "prepulls": prepulls, "variance": variance}  # type: ignore[attr-defined]
    return {"bonus": policy.bonus} if hasattr(policy, "bonus") else {}


def _statement(policy: Any) -> dict[str, Any]:
    """The policy's guarantee, with exact noise where it has that."""
    if isinstance(policy, SamplingPolicy):
        try:
            exact: Any = policy.guarantee(exact_noise=True)
            return {"exact_noise": True, "guarantee": exact.sentence}
        except check.InputError:
            pass  # an epsilon so large that the grid of exact noise would show
    simulated: Any = policy.guarantee()
    return {"exact_noise": False, "guarantee": simulated.sentence}
