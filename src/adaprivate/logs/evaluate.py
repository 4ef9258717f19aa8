"""Estimates of policies on a log as a table: the command ``adaprivate evaluate``, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from adaprivate import check, privacy
from adaprivate import policies as policy_registry
from adaprivate.features import Featuriser
from adaprivate.logs.estimators import Estimate
from adaprivate.logs.findings import FALSE_ALARM
from adaprivate.logs.format import as_text
from adaprivate.logs.judge import judge, logged_value
from adaprivate.logs.log import Log
from adaprivate.logs.log_table import read_log
from adaprivate.logs.release import NOISE

_FIELDS = ("effective_sample_size", "rows", "rewarded", "few", "method", "mean_weight", "odd_weights", "seeds")
_OWN = {"dimension", "rounds", "epsilon", "delta"}
"""Options of a policy that are arguments of their own, or follow from the log."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A row for each policy, epsilon and estimator. ``str()`` is the table for people; ``table`` the polars DataFrame.

    What a DataFrame can do is asked of the table: ``found["value"]``, ``found.select(...)``, ``found.to_dicts()``.
    """

    table: pl.DataFrame
    featuriser: dict[str, object] | None = None
    """The description of features that were used, ready for JSON; None where there is none."""

    def __str__(self) -> str:
        return as_text(self.table.to_dicts())

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return getattr(self.table, name)

    def equals(self, other: Evaluation | pl.DataFrame) -> bool:
        """Whether the tables are the same."""
        return self.table.equals(other.table if isinstance(other, Evaluation) else other)


def evaluate(
    log: Any,
    policy: str | Sequence[str],
    estimator: str | Sequence[str] = "replay",
    *,
    epsilon: float | Sequence[float] | None = None,
    delta: float = 1e-5,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    user: str | None = None,
    time: str | None = None,
    context: Sequence[str] = (),
    candidates: str | None = None,
    items: Any = None,
    featuriser: str | Path | Mapping[str, Any] | Featuriser | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    train: float = 0.5,
    rounds: int | None = None,
    cap: float | None = None,
    interval: str = "asymptotic",
    confidence: float = 0.95,
    release_epsilon: float | None = None,
    person_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    seeds: int | None = None,
) -> Evaluation:
    """Estimate the mean reward per round of policies on a log. Return a row for each policy, epsilon and estimator.

    ``log``: a CSV, parquet, JSON lines or Vowpal Wabbit dsjson file, a table (a polars or pandas DataFrame, a list of
    dicts, a dict of columns), or the feedback of Open Bandit Pipeline (a dict). One row is one decision. A file may be
    larger than memory (docs/logs.md). ``action``, ``reward`` and ``propensity`` name its columns. Rewards lie within
    ``reward_range``. Rows are first put in the order of the column ``time``, where one is named.

    ``candidates``: the beginning of columns with each row's own features (x for x_0_3), or a column that lists items by
    name. ``items``: a file or table of items; its first column has their names. ``context``: columns of the log, or
    beginnings of their names. ``featuriser``: how contexts and items become features, as a :class:`Featuriser`, its
    description or a file of it. Without one, it is drafted from the named context columns. Where none of these is
    given, actions are fixed arms.

    ``estimator``: with replay a policy learns as it goes, from the rows where it chooses the logged action. With ips,
    snips, dr and dm it learns from the first ``train`` of the rows and is then fixed; the other rows give its value.
    ``rounds`` bounds the rounds to learn. ``cap`` bounds importance weights. ``assumes`` names what replay relies on.

    ``user``: the column that names the user of each decision (by default user or user_id; "" for none). A policy with
    ``options={"unit": "user"}`` needs it. Intervals then take users for independent, not rows. ``people``,
    ``visits_counted`` and ``visits_beyond`` count what such a policy learned from; ``visits_counting`` is its limit.

    Values, intervals and standard errors are rewards per round on the scale of ``reward_range`` (column
    ``log_reward_range``). Policies learn from rewards scaled to 0 to 1; state ``base_rate`` and ``missing`` on that
    scale. ``assumed_base_rate`` is the mean reward that a policy assumed because ``base_rate`` was not given, and
    ``learns_base_rate`` whether its releases correct it. State a public number only: the guarantee covers none that was
    computed from this log. ``log_value`` is the mean reward of the log itself.

    ``seeds``: number of runs of each policy, with random draws of their own, whose mean is the value; by default 5. The
    interval is for the policy's expected reward when it is run afresh on such a log. ``run_sd`` is the standard deviation
    between runs. A policy that is deterministic, or learns nothing, has one run (``run_noise``: none). A released estimate
    is of one run, because every further run would cost the policy's budget again. Its interval leaves out how much
    another run would differ.

    ``interval``: asymptotic, bootstrap, wilson or few-rewards. Where few rewards carry an estimate its row is marked
    (``few``) and the interval is the one for few rewards; ``method`` names it.

    Private policies are evaluated at every ``epsilon``, by default 1 unless an option states their budget; the others
    once. Estimates are computed from raw rewards, for readers who may see the log. ``release_epsilon`` makes a single
    estimate public. For a policy that protects users it protects users, too; its noise then grows with the most rows of
    one user, and ``person_rows`` uses only that many first rows of each. ``published`` says how the guarantee comes about.
    """
    if isinstance(log, Log):
        taken = log
    else:
        columns = {"action": action, "reward": reward, "propensity": propensity, "user": user, "time": time}
        taken = read_log(
            log,
            items=items,
            featuriser=featuriser,
            reward_range=reward_range,
            context=context,
            candidates=candidates,
            **columns,
        )
    names = [policy] if isinstance(policy, str) else list(policy)
    estimators = [estimator] if isinstance(estimator, str) else list(estimator)
    budgets = epsilon if isinstance(epsilon, Sequence) else [epsilon]
    for what, listed in (("policy", names), ("estimator", estimators), ("epsilon", budgets)):
        check.expect(len(listed) > 0, what, listed, "to be non-empty")
        check.expect(len(set(listed)) == len(listed), what, list(listed), "to be all different")
    takes = {name: policy_registry.options(name) for name in names}
    check.known(options or {}, sorted({option for own in takes.values() for option in own} - _OWN))
    cases = [(name, budget) for name in names for budget in policy_registry.budgets(name, epsilon, options or {})]
    if release_epsilon is not None:
        count = len(cases) * len(estimators)
        check.expect(count == 1, "policies x epsilons x estimators", count, "== 1 to be released: every release adds up")
    how: dict[str, Any] = {"train": train, "rounds": rounds, "cap": cap, "interval": interval, "confidence": confidence}
    how["seed"] = seed
    within = taken.reward_range
    of_log = _of_log(taken, confidence, within, released=release_epsilon is not None)
    results = []
    for name, budget in cases:
        given = {**(options or {}), "delta": delta, **({} if budget is None else {"epsilon": budget})}
        own = {key: value for key, value in given.items() if key in takes[name]}
        for word in estimators:
            estimate, guarantee, visits, assumed, run_noise, counting, published = judge(
                taken,
                name,
                word,
                options=own,
                release_epsilon=release_epsilon,
                release_delta=delta,
                person_rows=person_rows,
                seeds=seeds,
                **how,
            )
            seen = visits or {}
            results.append(
                {
                    "policy": name,
                    "epsilon": budget,
                    "released": release_epsilon is not None,
                    "release_epsilon": release_epsilon,
                    "person_rows": person_rows,
                    "published": published,
                    "estimator": word,
                    **_in_units(estimate, within),
                    **{field: getattr(estimate, field) for field in _FIELDS},
                    "run_noise": run_noise,
                    "assumes": assumption(taken) if word == "replay" else None,
                    **privacy.stated(guarantee, seen.get("people") or len(taken)),
                    "people": seen.get("people"),
                    "visits_counted": seen.get("counted"),
                    "visits_beyond": seen.get("beyond"),
                    "visits_counting": counting,
                    "assumed_base_rate": None if assumed is None else assumed.rate,
                    "learns_base_rate": None if assumed is None else assumed.learned,
                    **of_log,
                    **how,
                    "interval": interval if release_epsilon is None else NOISE,
                    **{f"policy_{key}" if key in how else key: own[key] for key in own if key != "epsilon"},
                }
            )
    return Evaluation(pl.DataFrame(results, infer_schema_length=None), taken.description)


def _in_units(estimate: Estimate, within: tuple[float, float]) -> dict[str, float | None]:
    """An estimate made of rewards from 0 to 1, on the scale of rewards within this range."""
    least, width = within[0], within[1] - within[0]
    moved = {field: least + width * getattr(estimate, field) for field in ("value", "low", "high")}
    return {**moved, "sem": width * estimate.sem, "run_sd": None if estimate.run_sd is None else width * estimate.run_sd}


def _of_log(log: Log, confidence: float, within: tuple[float, float], *, released: bool) -> dict[str, Any]:
    """What is said of the log itself; of its rewards nothing where an estimate is published."""
    facts: dict[str, Any] = {"rows": len(log), "people": log.people, "candidates": log.count, "dimension": log.dimension}
    facts["reward_range"] = list(within)
    facts |= dict.fromkeys(("value", "low", "high", "rewarded", "few"))
    if not released:
        earned = logged_value(log, confidence)
        own = _in_units(earned, within)
        facts |= {field: own[field] for field in ("value", "low", "high")}
        facts |= {"rewarded": earned.rewarded, "few": earned.few}
    facts["doubts"] = log.notes()
    return {f"log_{key}": value for key, value in facts.items()}


def assumption(log: Log) -> str:
    """What replay takes for given."""
    if log.least_propensity is not None:
        return "rows are kept by the log's propensities, which are taken for right."
    text = "the log has no propensities, so replay assumes that every candidate was equally likely in every row"
    chance = log.uniform_chance
    if chance is None:
        return f"{text}."
    if chance < FALSE_ALARM:
        return f"{text}. The shares of its actions CONTRADICT that (p = {chance:.1g}): the estimate is biased."
    return f"{text}. The shares of its actions do not contradict that (p = {chance:.2g})."
