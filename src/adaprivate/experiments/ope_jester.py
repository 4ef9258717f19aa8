"""Sec 4.7: what AdaPrivate-TS would earn on Jester, estimated from a log of uniform choice, 15,000 rounds, d = 50.

The policy learns from the first half of the log, with the stated privacy; the second half says what it would earn from
then on. The paper does not describe its log. Here every joke's rating is known, so the estimates stand beside the truth.
"CV" is the standard deviation over seeds in % of the mean, at epsilon 10; the paper prints upper bounds.

What holds: all three estimators rank the policies as the truth does, value rises with epsilon, and DR and SNIPS are
steadier than IPS. What does not: the level (0.17 is half of what random choice earns here) and the size of the rise, 0.06
rather than 0.01. An effective sample size of 730 is that of 7,500 rows, ten candidates and a policy that hardly draws at
random (LinUCB: 755); a Thompson policy with v = 1 spreads its choices and has more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adaprivate import environments
from adaprivate.environments import Environment
from adaprivate.experiments import Cell, Row, compared
from adaprivate.experiments._logged import rounds_of, true_value, uniform_log
from adaprivate.logs.estimators import estimate
from adaprivate.logs.judge import learn_from, sample_for
from adaprivate.logs.log import Log
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import mean_sem, policy_settings

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 4.7, Jester"
QUESTION = "Do estimates from a log tell what AdaPrivate-TS would earn on Jester?"
SEEDS = 5
ROUNDS = 15_000
ESTIMATES = {"ips": "IPS", "snips": "SNIPS", "dr": "DR"}
EPSILONS = (1, 2, 5, 10)
LAST = "AdaPrivate-TS, epsilon 10"
RISE = "epsilon 10 - epsilon 1"
PAPER = {
    ("AdaPrivate-TS, epsilon 1", "DR"): 0.168,
    (LAST, "DR"): 0.178,
    (LAST, "effective sample size"): 730.0,
    (RISE, "DR"): 0.010,
    (LAST, "CV, IPS"): 12.0,
    (LAST, "CV, SNIPS"): 8.0,
    (LAST, "CV, DR"): 8.0,
}


def _settings(rounds: int) -> list[Mapping[str, Any]]:
    private = {f"AdaPrivate-TS, epsilon {e}": ("adaprivate-ts", {"epsilon": float(e)}) for e in EPSILONS}
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "random": ("random", {}),
        "LinUCB": ("linucb", {}),
        "noise-aware, epsilon 1": ("noise-aware", {"epsilon": 1.0}),
    }
    rows = {**private, **others}
    return [{"row": row, "policy": policy, "options": own, "rounds": rounds} for row, (policy, own) in rows.items()]


SETTINGS = _settings(ROUNDS)
QUICK = _settings(1_500)


def _place() -> Environment:
    return environments.environment("jester", {"dimension": 50})


@lru_cache(maxsize=8)
def _drawn(seed: int, rounds: int) -> tuple[Log, Any, Any]:
    candidates, means, rewards = rounds_of(_place(), seed, rounds)
    return uniform_log(candidates, rewards, seed), candidates, means


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """Every seed's true value and estimates."""
    rounds = setting["rounds"]
    half = rounds // 2
    settings = policy_settings(setting["policy"], _place(), half, setting["options"])
    columns = ("true value", *ESTIMATES.values(), "effective sample size", *(f"{name} sem" for name in ESTIMATES.values()))
    found: dict[str, list[float]] = {column: [] for column in columns}
    for seed in range(seeds):
        log, candidates, means = _drawn(seed, rounds)
        policy = Policy(settings, seed=seed, source=None)
        learn_from(policy, log.part(slice(0, half)))
        rows = sample_for(policy.state, log.part(slice(half, None)), seed=seed)
        found["true value"].append(true_value(policy.state, candidates[half:], means[half:], seed))
        for name, column in ESTIMATES.items():
            got = estimate(name, rows)
            found[column].append(got.value)
            found[f"{column} sem"].append(got.sem)
        found["effective sample size"].append(got.effective_sample_size)
    return {**setting, **found}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Values, effective sample sizes, spreads and the rise with epsilon."""
    cells = []
    by_row = {row["row"]: row for row in rows}
    for row in rows:
        for column in ("true value", *ESTIMATES.values(), "effective sample size"):
            ours, sem = mean_sem(row[column])
            cells.append(_cell(row["row"], column, ours, sem, 0.1 * ours if column == "effective sample size" else 0.0))
    low, high = by_row["AdaPrivate-TS, epsilon 1"], by_row[LAST]
    for column in ("true value", *ESTIMATES.values()):
        ours, sem = mean_sem((np.array(high[column]) - np.array(low[column])).tolist())
        cells.append(_cell(RISE, column, ours, sem, 0.0))
    for name in ESTIMATES.values():
        values = np.array(high[name])
        spread = 100 * float(values.std(ddof=1) / values.mean()) if len(values) > 1 else 0.0
        verdict = "agrees" if spread < PAPER[LAST, f"CV, {name}"] else "differs"
        cells.append(Cell(LAST, f"CV, {name}", PAPER[LAST, f"CV, {name}"], spread, None, verdict))
    return cells


def _cell(row: str, column: str, ours: float, sem: float | None, allowed: float) -> Cell:
    printed = PAPER.get((row, column))
    tolerance = allowed + 0.0005 + 3 * (sem or 0.0)
    return compared(row, column, printed, ours, sem, abs(ours - (printed or 0.0)), tolerance)


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Truth and estimates with two standard errors, one group for each policy."""
    for k, column in enumerate(("true value", *ESTIMATES.values())):
        means, sems = zip(*(mean_sem(row[column]) for row in rows), strict=True)
        places = [i + 0.15 * (k - 1.5) for i in range(len(rows))]
        axes.errorbar(places, means, yerr=[2 * (s or 0.0) for s in sems], fmt="o", ms=4, capsize=2, label=column)
    axes.set_xticks(range(len(rows)), [row["row"] for row in rows], rotation=20, ha="right", fontsize=7)
    axes.set_ylabel("reward per round (bars: two standard errors over seeds)")
    axes.legend(fontsize=8)
