"""What policies would have earned on a log, as a table: what ``adaprivate evaluate`` prints, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from adaprivate import check, privacy
from adaprivate import policies as policy_registry
from adaprivate.evaluation.decisions import Decisions, logged
from adaprivate.evaluation.judging import judge, logged_value

_FIELDS = ("estimator", "value", "low", "high", "sem", "effective_sample_size", "rows", "rewarded")
_OWN = {"dimension", "rounds", "epsilon", "delta"}
"""Options of a policy that are arguments of their own, or follow from the log."""


def evaluate(
    log: str | Path | pl.DataFrame | Decisions,
    policies: str | Sequence[str],
    estimator: str | Sequence[str] = "replay",
    *,
    epsilon: float | Sequence[float] | None = None,
    delta: float = 1e-5,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    features: Sequence[str] = (),
    candidates: str | None = None,
    items: str | Path | pl.DataFrame | None = None,
    user: str | None = None,
    train: float = 0.5,
    rounds: int | None = None,
    cap: float | None = None,
    interval: str = "asymptotic",
    confidence: float = 0.95,
    release_epsilon: float | None = None,
    person_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> pl.DataFrame:
    """What each policy would have earned per round; a row for each policy, epsilon and estimator, every setting a column.

    ``log``: a CSV or parquet file or a table, one decision a row; ``action``, ``reward`` (0 to 1) and ``propensity`` name
    its columns. What could be chosen: ``candidates``, how columns of each row's own begin (x for x_0_3); ``items``, a file
    or table of items; ``features``, columns of the context; otherwise the actions are fixed arms.

    replay: the policy learns as it goes, from the rows where it chooses what was logged. ips, snips, dr, dm: it learns from
    the first ``train`` of the rows and is then kept as it is; the other rows say what it would earn. ``cap`` bounds
    importance weights; ``rounds`` bounds the rounds to learn.

    ``user``: the column that says whose a decision was (user or user_id, where there is one), which a policy with
    ``options={"unit": "user"}`` needs. Intervals then take people for independent, not rows. ``people``, ``visits_counted``
    and ``visits_beyond`` say what such a policy learned from.

    Private policies are judged at every ``epsilon`` (by default 1, unless an option says what they may spend), the others
    once. Estimates are made of raw rewards, for those who may
    see the log, unless ``release_epsilon`` makes a single one fit to publish; for a policy that protects people it protects
    them too, and has noise by the person with the most rows: ``person_rows`` counts only the first so many rows of each.
    ``log_value``: what was earned as logged.
    """
    columns = {"action": action, "reward": reward, "propensity": propensity, "candidates": candidates, "user": user}
    taken = log if isinstance(log, Decisions) else logged(log, items=items, features=features, **columns)
    names = [policies] if isinstance(policies, str) else list(policies)
    estimators = [estimator] if isinstance(estimator, str) else list(estimator)
    budgets = epsilon if isinstance(epsilon, Sequence) else [epsilon]
    for what, listed in (("policies", names), ("estimator", estimators), ("epsilon", budgets)):
        check.expect(len(listed) > 0, what, listed, "to be non-empty")
    takes = {name: policy_registry.options(name) for name in names}
    check.known(options or {}, sorted({option for own in takes.values() for option in own} - _OWN))
    cases = [(name, budget) for name in names for budget in policy_registry.budgets(name, epsilon, options or {})]
    if release_epsilon is not None:
        count = len(cases) * len(estimators)
        check.expect(count == 1, "policies x epsilons x estimators", count, "== 1 to be released: every release adds up")
    how: dict[str, Any] = {"train": train, "rounds": rounds, "cap": cap, "interval": interval, "confidence": confidence}
    how["seed"] = seed
    earned = logged_value(taken, confidence) if release_epsilon is None else None
    of_log: dict[str, Any] = {"rows": len(taken), "people": taken.people}
    of_log |= {"candidates": taken.count, "dimension": taken.dimension}
    of_log |= {field: getattr(earned, field, None) for field in ("value", "low", "high")}
    results = []
    for name, budget in cases:
        given = {**(options or {}), "delta": delta, **({} if budget is None else {"epsilon": budget})}
        own = {key: value for key, value in given.items() if key in takes[name]}
        for word in estimators:
            estimate, guarantee, visits = judge(
                taken,
                name,
                word,
                options=own,
                release_epsilon=release_epsilon,
                release_delta=delta,
                person_rows=person_rows,
                **how,
            )
            seen = visits or {}
            results.append(
                {
                    "policy": name,
                    "epsilon": budget,
                    "released": release_epsilon is not None,
                    **{field: getattr(estimate, field) for field in _FIELDS},
                    **privacy.stated(guarantee),
                    "people": seen.get("people"),
                    "visits_counted": seen.get("counted"),
                    "visits_beyond": seen.get("beyond"),
                    **{f"log_{key}": value for key, value in of_log.items()},
                    **how,
                    **{f"policy_{key}" if key in how else key: own[key] for key in own if key != "epsilon"},
                }
            )
    return pl.DataFrame(results, infer_schema_length=None)
