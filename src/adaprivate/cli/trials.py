"""Policies tried out: in simulated worlds, and on recorded decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adaprivate.cli.terminal import Json, parsed, print_json, progress, show


def simulate(
    policy: Annotated[list[str], typer.Option(help="A policy; may be given several times.")],
    environment: Annotated[str, typer.Option(help="Where rewards come from.")] = "synthetic",
    epsilon: Annotated[
        list[float] | None, typer.Option(help="The privacy loss (default: 1); may be given several times.")
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")] = 1e-5,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 10_000,
    seeds: Annotated[int, typer.Option(help="Runs of each policy, on the same worlds.")] = 12,
    option: Annotated[list[str] | None, typer.Option(help="key=value: a parameter of a policy or the environment.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads (default: all cores).")] = None,
    json: Json = False,
) -> None:
    """Run policies in an environment, every policy on the same worlds."""
    from adaprivate import report
    from adaprivate.simulation import YARDSTICKS
    from adaprivate.simulation import simulate as run

    values = parsed(option)
    with progress(
        rounds * seeds * (len(policy) * len(epsilon or [1]) + len(YARDSTICKS)), "simulating", unit="rounds", silent=json
    ) as advance:
        table = run(
            policy,
            environment,
            rounds=rounds,
            seeds=seeds,
            epsilon=epsilon or None,
            delta=delta,
            options=values,
            jobs=jobs,
            progress=advance,
        )
    if json:
        print_json({"rows": table.to_dicts()})
    else:
        show(report.simulation_table(table.to_dicts()))


def evaluate(
    log: Annotated[Path, typer.Argument(help="A CSV or parquet file, one decision a row.")],
    policy: Annotated[list[str], typer.Option(help="A policy; may be given several times.")],
    estimator: Annotated[list[str], typer.Option(help="replay, ips, snips, dm or dr; or several.")] = ["replay"],  # noqa: B006
    epsilon: Annotated[
        list[float] | None, typer.Option(help="The policy's privacy loss (default: 1); may be given several times.")
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")] = 1e-5,
    action: Annotated[str | None, typer.Option(help="The column of actions (action, or item_id).")] = None,
    reward: Annotated[str | None, typer.Option(help="The column of rewards, 0 to 1 (reward, or click).")] = None,
    propensity: Annotated[
        str | None, typer.Option(help="The column of the chosen action's probability (propensity, or propensity_score).")
    ] = None,
    features: Annotated[list[str] | None, typer.Option(help="A column of the context, or how several begin.")] = None,
    candidates: Annotated[str | None, typer.Option(help="How columns of candidates' features begin: x for x_0_3.")] = None,
    items: Annotated[Path | None, typer.Option(help="A file of items: name, numeric features.")] = None,
    user: Annotated[str | None, typer.Option(help="The column of people (user, or user_id): for unit=user.")] = None,
    train: Annotated[float, typer.Option(help="The share of rows to learn from first (all but replay).")] = 0.5,
    rounds: Annotated[int | None, typer.Option(help="At most so many rounds to learn (default: what is expected).")] = None,
    cap: Annotated[float | None, typer.Option(help="A cap on importance weights: less spread, some bias.")] = None,
    interval: Annotated[str, typer.Option(help="asymptotic or bootstrap.")] = "asymptotic",
    confidence: Annotated[float, typer.Option(help="The probability with which the interval covers.")] = 0.95,
    release_epsilon: Annotated[
        float | None, typer.Option(help="Publish the estimate: add noise for this privacy loss, and count it.")
    ] = None,
    person_rows: Annotated[
        int | None, typer.Option(help="Only the first so many rows of each person enter a published estimate.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="key=value: a parameter of the policy.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything random here but the noise of published estimates.")] = 0,
    json: Json = False,
) -> None:
    """What would a policy have earned on this log, per round?

    replay: the policy learns as it goes, from the rows where it chooses what was logged; for logs of (nearly) random
    choice, or with propensities. The answer is about a policy that learns for so many rounds.

    ips, snips, dr, dm: the policy learns from the first rows, whoever chose, and is then kept as it is; the other rows say
    what it would earn. ips and snips weigh rewards by propensities, dm trusts a linear model of the reward, dr uses both.

    What can be chosen: with --candidates each row's own columns; with --items every item; with --features every action,
    the context in a block of its own; otherwise the actions are fixed arms.

    --option unit=user protects all rewards of any one person. --user names the column that says whose a decision was.

    Without --release-epsilon the numbers are computed from raw rewards: for those who may see the log.
    """
    from adaprivate import report
    from adaprivate.evaluation.evaluate import evaluate as judged

    rows = judged(
        log,
        policy,
        estimator,
        epsilon=epsilon or None,
        delta=delta,
        action=action,
        reward=reward,
        propensity=propensity,
        features=features or (),
        candidates=candidates,
        items=items,
        user=user,
        train=train,
        rounds=rounds,
        cap=cap,
        interval=interval,
        confidence=confidence,
        release_epsilon=release_epsilon,
        person_rows=person_rows,
        options=parsed(option),
        seed=seed,
    ).to_dicts()
    if json:
        facts = ("rows", "people", "candidates", "dimension", "value", "low", "high")
        log_facts = {fact: rows[0][f"log_{fact}"] for fact in facts}
        print_json({"log": log_facts, "composition": report.COMPOSITION, "rows": rows})
    else:
        show(report.evaluation_table(rows), *report.evaluation_notes(rows))


def check_data(
    path: Annotated[Path, typer.Argument(help="A file, folder or zip archive.")],
    action: Annotated[str | None, typer.Option(help="The column of a log that says what was chosen.")] = None,
    reward: Annotated[str | None, typer.Option(help="The column of rewards, in [0, 1].")] = None,
    propensity: Annotated[str | None, typer.Option(help="The column of probabilities of the choice.")] = None,
    features: Annotated[list[str] | None, typer.Option(help="A column of the context, or how several begin.")] = None,
    candidates: Annotated[str | None, typer.Option(help="How columns of candidates' features begin: x for x_0_3.")] = None,
    user: Annotated[str | None, typer.Option(help="The column of a log that says whose a decision was.")] = None,
    label: Annotated[str | None, typer.Option(help="The column of labels of a table.")] = None,
    json: Json = False,
) -> None:
    """What is at a path, and whether it is whole: one line naming file, line and column if not."""
    from adaprivate import report
    from adaprivate.data import check_path

    facts = check_path(
        path,
        action=action,
        reward=reward,
        propensity=propensity,
        features=features or (),
        candidates=candidates,
        user=user,
        label=label,
    )
    if json:
        print_json(facts)
        return
    for found in facts.get("logs", [facts]):
        show(report.listing(found["path"], ("", ""), ((name, str(value)) for name, value in found.items())))
