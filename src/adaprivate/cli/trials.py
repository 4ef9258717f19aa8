"""Policies tried out in simulated worlds."""

from __future__ import annotations

from typing import Annotated

import typer

from adaprivate.cli.terminal import Cluster, Further, Json, ResultsFile, parsed, print_json, progress, several, show


def simulate(
    policy: Annotated[list[str], typer.Option(help="A policy of `adaprivate list policies`; may be given several times.")],
    environment: Annotated[
        str, typer.Option(help="Where rewards come from: one of `adaprivate list environments`.")
    ] = "synthetic",
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="The privacy loss, smaller is more private (default: 1); several may follow, or be given again."),
    ] = None,
    further: Further = None,
    delta: Annotated[float, typer.Option(help="The probability with which that may be exceeded.")] = 1e-5,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 10_000,
    seeds: Annotated[int, typer.Option(help="Runs of each policy, on the same worlds.")] = 12,
    option: Annotated[
        list[str] | None,
        typer.Option(help="key=value: a setting of a policy or the environment, such as batch_size=500; may be repeated."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Threads, or processes of --cluster local (default: one for each core).")
    ] = None,
    cluster: Cluster = None,
    results: ResultsFile = None,
    json: Json = False,
) -> None:
    """Run policies in an environment, every policy on the same worlds."""
    from adaprivate import report
    from adaprivate.simulation import YARDSTICKS, simulated

    values, epsilon = parsed(option), several(epsilon, further)
    with progress(
        rounds * seeds * (len(policy) * len(epsilon or [1]) + len(YARDSTICKS)), "simulating", unit="rounds", silent=json
    ) as advance:
        rows = simulated(
            policy,
            environment,
            rounds=rounds,
            seeds=seeds,
            epsilon=epsilon,
            delta=delta,
            options=values,
            jobs=jobs,
            progress=advance,
            cluster=cluster,
            results=results,
        )
    if json:
        print_json({"rows": rows})
    else:
        show(report.simulation_table(rows), *report.remarks_of(rows))
