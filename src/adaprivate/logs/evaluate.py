"""What policies would have earned on a log, as a table: what ``adaprivate evaluate`` prints, from Python."""

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
    """What each policy would have earned per round; a row for each policy, epsilon and estimator, every setting a column.

    ``log``: a CSV, parquet, JSON lines or Vowpal Wabbit dsjson file, a table (a polars or pandas DataFrame, a list of
    dicts, a dict of columns), or Open Bandit Pipeline's feedback (a dict); one decision a row. ``action``, ``reward``
    (within ``reward_range``) and ``propensity`` name its columns. A file may be larger than memory
    (docs/logs.md).

    What could be chosen: ``candidates``, how columns of each row's own begin (x for x_0_3), or a column that lists items by
    name; ``items``, a file or table of items, the first column their names; ``context``, columns of the log, or how several
    begin. ``featuriser`` says how contexts and items become features: a :class:`Featuriser`, its description or a file of
    it; where context columns are named without one, it is drafted from them. Otherwise actions are fixed arms.

    replay: the policy learns as it goes, from the rows where it chooses what was logged. ips, snips, dr, dm: it learns from
    the first ``train`` of the rows and is then kept as it is; the other rows say what it would earn. ``time`` names the
    column by which rows are put in order first. ``cap`` bounds importance weights; ``rounds`` bounds the rounds to learn.

    ``user``: the column that says whose a decision was (user or user_id, where there is one; "" for none), which a policy
    with ``options={"unit": "user"}`` needs. Intervals then take people for independent, not rows. ``people``,
    ``visits_counted`` and ``visits_beyond`` say what such a policy learned from.

    Values, intervals and standard errors are rewards per round on the scale of ``reward_range`` (column
    ``log_reward_range``). Policies learn from rewards scaled to 0 to 1, and so are ``base_rate`` and ``missing`` given.
    ``assumed_base_rate``: the mean reward, from 0 to 1, that a policy assumed because ``base_rate`` was not given;
    ``learns_base_rate``: whether it corrects that. Give a public number: the guarantee covers none computed from this log.

    ``seeds``: number of runs of each policy, with random draws of their own, whose mean is the value; by default 5. The
    interval is for the policy's expected reward when it is run afresh on such a log. ``run_sd`` is the standard deviation
    between runs. A policy that is deterministic, or learns nothing, has one run (``run_noise``: none). A released estimate
    is of one run, and its interval leaves out how much another would differ: more would cost the policy's budget again.

    ``interval``: asymptotic, bootstrap, wilson or few-rewards. Where few rewards carry an estimate its row is marked
    (``few``) and the interval is that for few rewards; ``method`` says which it is.
    ``assumes``: what replay takes for given.

    Private policies are judged at every ``epsilon`` (by default 1, unless an option says what they may spend), the others
    once. Estimates are made of raw rewards, for those who may
    see the log, unless ``release_epsilon`` makes a single one fit to publish; for a policy that protects people it protects
    them too, and has noise by the person with the most rows: ``person_rows`` counts only the first so many rows of each.
    ``log_value``: what was earned as logged.
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
            estimate, guarantee, visits, assumed, run_noise = judge(
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
                    "estimator": word,
                    **_in_units(estimate, within),
                    **{field: getattr(estimate, field) for field in _FIELDS},
                    "run_noise": run_noise,
                    "assumes": assumption(taken) if word == "replay" else None,
                    **privacy.stated(guarantee, seen.get("people") or len(taken)),
                    "people": seen.get("people"),
                    "visits_counted": seen.get("counted"),
                    "visits_beyond": seen.get("beyond"),
                    "assumed_base_rate": None if assumed is None else assumed.rate,
                    "learns_base_rate": None if assumed is None else assumed.learned,
                    **of_log,
                    **how,
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
