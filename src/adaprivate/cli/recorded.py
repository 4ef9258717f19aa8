"""Recorded decisions: what a file holds, what is wrong with it, and what policies would have earned on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adaprivate.cli.terminal import Further, Json, parsed, print_json, quiet, several, show

COLUMNS = "Columns of the log"
JUDGING = "How policies are judged"


def _column(help: str) -> Any:
    return typer.Option(help=help, rich_help_panel=COLUMNS)


def _candidates(help: str) -> Any:
    return typer.Option("--candidates", "--candidate-columns", help=help, rich_help_panel=COLUMNS)


def _judging(help: str) -> Any:
    return typer.Option(help=help, rich_help_panel=JUDGING)


Action = Annotated[str | None, _column("What was chosen (default: action, or item_id).")]
Reward = Annotated[str | None, _column("What it earned (default: reward, or click).")]
Propensity = Annotated[
    str | None, _column("The probability with which it was chosen (default: propensity, or propensity_score).")
]
User = Annotated[str | None, _column("Whose decision it was (default: user, or user_id; '' for none).")]
Time = Annotated[str | None, _column("When it was: rows are put in this order first (default: as they stand).")]
Id = Annotated[str | None, _column("What names each decision (default: decision_id, event_id or id).")]
Context = Annotated[list[str] | None, _column("A column of the context, or how several begin; may be given several times.")]
Candidates = Annotated[
    str | None,
    _candidates("How columns of each row's own candidates begin: x for x_0_3. Or a column that lists candidates by name."),
]
Range = Annotated[tuple[float, float], _column("Least and greatest possible reward; values are printed on this scale.")]
Items = Annotated[Path | None, _column("A file of items: the first column their names, the others what is known of them.")]
Description = Annotated[
    Path | None, _column("A JSON file: how context and items become features (docs/features.md; default: drafted).")
]


def evaluate(
    log: Annotated[
        Path, typer.Argument(help="A CSV, parquet, JSON lines or dsjson file, one decision a row, of any size.")
    ],
    policy: Annotated[list[str], typer.Option(help="A policy of `adaprivate list policies`; may be given several times.")],
    estimator: Annotated[list[str], typer.Option(help="replay, ips, snips, dm or dr; or several.")] = ["replay"],  # noqa: B006
    further: Further = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="The policy's privacy loss (default: 1); several may follow, or be given again."),
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")] = 1e-5,
    action: Action = None,
    reward: Reward = None,
    propensity: Propensity = None,
    user: User = None,
    time: Time = None,
    context: Context = None,
    candidates: Candidates = None,
    items: Items = None,
    featuriser: Description = None,
    reward_range: Range = (0.0, 1.0),
    train: Annotated[float, _judging("The share of rows to learn from first (all but replay).")] = 0.5,
    rounds: Annotated[int | None, _judging("At most so many rounds to learn (default: what is expected).")] = None,
    cap: Annotated[float | None, _judging("A cap on importance weights: less spread, some bias.")] = None,
    interval: Annotated[str, _judging("asymptotic, bootstrap, wilson or few-rewards.")] = "asymptotic",
    confidence: Annotated[float, _judging("The probability with which the interval covers.")] = 0.95,
    release_epsilon: Annotated[
        float | None, _judging("Publish the estimate: add noise for this privacy loss, and count it.")
    ] = None,
    person_rows: Annotated[
        int | None, _judging("Only the first so many rows of each person enter a published estimate.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="key=value: a parameter of the policy, such as base_rate=0.1, a public mean reward from 0 to 1."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything random here but the noise of published estimates.")] = 0,
    seeds: Annotated[
        int | None, _judging("Number of runs of each policy to average (default 5; 1 for a published estimate).")
    ] = None,
    json: Json = False,
) -> None:
    """What would a policy have earned on this log, per round?

    replay: the policy learns as it goes, from the rows where it chooses what was logged; for logs of (nearly) random
    choice, or with propensities. The answer is about a policy that learns for so many rounds.

    ips, snips, dr, dm: the policy learns from the first rows, whoever chose, and is then kept as it is; the other rows say
    what it would earn. ips and snips weigh rewards by propensities, dm trusts a linear model of the reward, dr uses both.

    What can be chosen: every action of the log, or every item of --items, or what a row's --candidates say. --context names
    columns that say more of each row; a featuriser makes features of them and of items.

    Where few rewards carry an estimate its row is marked 'few', and its interval is one for rare events.

    A policy draws random numbers of its own. So each is run --seeds times, and intervals are for its expected reward.

    noise-aware policies learn more if a mean reward is publicly known: --option base_rate=P, from 0 to 1. Take it from a
    publication or from earlier data, never from this log's rewards: the guarantee would not cover that.

    --option unit=user protects all rewards of any one person. Only the first ten visits of each person ever count
    (--option counted_visits=N). Where a user column is there, intervals are of people.

    Without --release-epsilon the numbers are computed from raw rewards: for those who may see the log.

    adaprivate data check says what is wrong with a log; docs/logs.md is a tutorial.
    """
    from adaprivate import report
    from adaprivate.logs.evaluate import evaluate as judged
    from adaprivate.logs.format import guarantees

    found = judged(
        log,
        policy,
        estimator,
        epsilon=several(epsilon, further),
        delta=delta,
        action=action,
        reward=reward,
        propensity=propensity,
        user=user,
        time=time,
        context=context or (),
        candidates=candidates,
        items=items,
        featuriser=featuriser,
        reward_range=reward_range,
        train=train,
        rounds=rounds,
        cap=cap,
        interval=interval,
        confidence=confidence,
        release_epsilon=release_epsilon,
        person_rows=person_rows,
        options=parsed(option),
        seed=seed,
        seeds=seeds,
    )
    rows = found.table.to_dicts()
    if json:
        facts = ("rows", "people", "candidates", "dimension", "reward_range", "value", "low", "high", "few", "doubts")
        log_facts = {fact: rows[0][f"log_{fact}"] for fact in facts}
        print_json({"log": log_facts, "composition": report.COMPOSITION, "rows": rows})
    else:
        show(report.evaluation_table(rows), *(guarantees(rows) if quiet() else report.evaluation_notes(rows)))


def check_data(
    path: Annotated[Path, typer.Argument(help="A file, folder or zip archive.")],
    action: Action = None,
    reward: Reward = None,
    propensity: Propensity = None,
    user: User = None,
    time: Time = None,
    id: Id = None,
    context: Context = None,
    candidates: Candidates = None,
    reward_range: Range = (0.0, 1.0),
    label: Annotated[str | None, typer.Option(help="The column of labels of a table.")] = None,
    json: Json = False,
) -> None:
    """What is at a path, and whether it is whole. Exit code 1 if a log has faults.

    Of a log all faults are listed, with how many rows have them and where the first are: columns that are missing, values
    that are missing or out of range, ids that come twice, actions that were not among the candidates,
    propensities that contradict how often actions were chosen (the sum of 1/p over the rows of an action should be about
    the number of rows that offered it; at most one right log in 1,000 or so is called wrong). Of rewards nothing is said
    but how many are wrong, and where.

    Of ratings and labelled tables the first fault is named, in one line.
    """
    from adaprivate import report
    from adaprivate.logs import check_path

    facts = check_path(
        path,
        action=action,
        reward=reward,
        propensity=propensity,
        user=user,
        time=time,
        id=id,
        context=context or (),
        candidates=candidates,
        reward_range=reward_range,
        label=label,
    )
    found = facts.get("logs", [facts])
    if json:
        print_json(facts)
    else:
        for one in found:
            show(*report.checked_tables(one))
    if any(one.get("faults") for one in found):
        raise typer.Exit(1)


def describe_data(
    log: Annotated[Path, typer.Argument(help="A log.")],
    context: Context = None,
    items: Items = None,
    action: Action = None,
    reward: Reward = None,
    propensity: Propensity = None,
    user: User = None,
    time: Time = None,
    id: Id = None,
    candidates: Candidates = None,
    reward_range: Range = (0.0, 1.0),
) -> None:
    """Draft a featuriser from the columns of a log and its items: a JSON document, for --featuriser and for the service.

    Texts with few values become categories, others are hashed; numbers are scaled by their range. Read it, and put in what
    you know: bounds and categories should not come from the people whom a policy protects (docs/features.md).
    """
    from adaprivate.check import InputError
    from adaprivate.logs.log_table import read_log

    found = read_log(
        log,
        items=items,
        reward_range=reward_range,
        context=context or (),
        action=action,
        reward=reward,
        propensity=propensity,
        user=user,
        time=time,
        id=id,
        candidates=candidates,
    )
    if found.description is None:
        raise InputError("Expected --context or --items to name what features are made of.")
    print_json(found.description)
