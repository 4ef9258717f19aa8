"""Before anyone's data is touched: what privacy will cost, and what to run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from adaprivate import extras
from adaprivate.cli.terminal import Cluster, Further, Json, ResultsFile, print_json, progress, several, show, using
from adaprivate.errors import InputError

SEEDS = 12
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)


def plan(
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="The privacy loss to allow; several may follow, or be given again (default: .1 .5 1 2 5)."),
    ] = None,
    further: Further = None,
    dimension: Annotated[int | None, typer.Option(help="The length of feature vectors.")] = None,
    candidates: Annotated[int | None, typer.Option(help="How many candidates are offered each round.")] = None,
    arms: Annotated[int | None, typer.Option(help="Instead of these: so many fixed arms without features.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds will be played.")] = None,
    items: Annotated[
        int | None, typer.Option(help="How many different candidates there are (default: new ones every round).")
    ] = None,
    base_rate: Annotated[
        float | None,
        typer.Option(help="What random play earns, if known (else 0.5 is assumed, and policies are not told)."),
    ] = None,
    best: Annotated[
        float | None, typer.Option(help="What the best candidate on offer earns (default: as the policies expect).")
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="How many people come: all of a person's rewards are protected.")
    ] = None,
    visits: Annotated[float | None, typer.Option(help="How often each of them comes.")] = None,
    returning: Annotated[str, typer.Option(help="How: evenly, or zipf (the k-th in proportion to 1/k).")] = "evenly",
    unit: Annotated[str | None, typer.Option(help="event or user (default: user where there are users).")] = None,
    counted_visits: Annotated[
        int, typer.Option(help="Only the first visits of each person ever count: so many (unit user).")
    ] = 10,
    delta: Annotated[float, typer.Option(help="The probability of exceeding epsilon.")] = 1e-5,
    from_log: Annotated[
        Path | None, typer.Option(help="A CSV or parquet log: its public columns say the above. Rewards are never read.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="The log's column of actions (action, or item_id).")] = None,
    context: Annotated[list[str] | None, typer.Option(help="A column of the log's context, or how several begin.")] = None,
    features: Annotated[list[str] | None, typer.Option(hidden=True, help="The same as --context.")] = None,
    candidate_columns: Annotated[
        str | None, typer.Option(help="How the log's columns of candidates' features begin: x for x_0_3.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="The log's column of people (user, or user_id).")] = None,
    reward: Annotated[
        str | None, typer.Option(help="The log's column of rewards, which is not read (reward, or click).")
    ] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Confirm it by simulation in the world assumed.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(help=f"Runs of each policy (default: {SEEDS}). Without --simulate: compares policies for fixed arms."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Threads, or processes of --cluster local (default: one for each core).")
    ] = None,
    cluster: Cluster = None,
    results: ResultsFile = None,
    out: Annotated[Path | None, typer.Option(help="Draw it: a .png or .svg file, or a folder.")] = None,
    json: Json = False,
) -> None:
    """What each epsilon costs in reward, which to take, what to run and what would change that: before touching any data.

    Predicted in closed form, in a world of public numbers that is printed and can be changed (docs/planning.md says how,
    and where it was confirmed). --simulate plays that world and prints what was measured beside it.

    --arms N --seeds S compares eight policies for fixed arms with noise-aware on simulated public worlds.
    """
    epsilons = several(epsilon, further) or list(EPSILONS)
    if arms is not None and seeds is not None and not simulate:
        with using(cluster, jobs, results):
            _compare_arms(arms, rounds, epsilons, delta, seeds, jobs, json)
        return
    from adaprivate.planning import plan as planned

    if out is not None:
        extras.expect("matplotlib")
    if seeds is not None and not simulate:
        raise InputError(f"Expected seeds={seeds} to be given with simulate, or with arms.")
    if not simulate and (cluster is not None or results is not None):
        named = f"cluster={cluster!r}" if cluster is not None else f"results={str(results)!r}"
        raise InputError(f"Expected {named} to be given with simulate, or with arms and seeds.")
    found = planned(
        dimension=dimension,
        candidates=candidates,
        arms=arms,
        rounds=rounds,
        epsilon=epsilons,
        delta=delta,
        base_rate=base_rate,
        best=best,
        items=items,
        users=users,
        visits=visits,
        returning=returning,
        unit=unit,
        counted_visits=counted_visits,
        from_log=from_log,
        action=action,
        context=[*(context or ()), *(features or ())],
        candidate_columns=candidate_columns,
        user=user,
        reward=reward,
    )
    if simulate:
        runs = SEEDS if seeds is None else seeds
        total = found.task.rounds * runs * (2 * len(epsilons) + 1)
        with progress(total, "simulating", unit="rounds", silent=json) as advance:
            found = found.simulate(runs, jobs=jobs, progress=advance, cluster=cluster, results=results)
    drawn = None if out is None else found.plot(out)
    if json:
        print_json(found.to_dict())
        return
    from adaprivate.planning import showing

    show(showing.table(found))
    sys.stdout.write("\n".join(showing.notes(found)) + "\n")  # commands stay whole, to be copied
    if drawn is not None:
        sys.stdout.write(f"Drawn: {drawn}\n")


def _compare_arms(
    arms: int, rounds: int | None, epsilons: list[float], delta: float, seeds: int, jobs: int | None, json: bool
) -> None:
    from adaprivate import report
    from adaprivate.planning.arms import plan_arms

    if rounds is None:
        raise InputError("Expected rounds to be given: a whole number.")
    rows = plan_arms(arms, rounds, epsilons, delta, seeds=seeds, jobs=jobs)
    if json:
        print_json({"rows": rows})
        return
    by_budget = [[row for row in rows if row["epsilon"] == budget] for budget in epsilons]
    for group in by_budget:
        show(report.plan_table(group))
    show("* recommended, = not told apart from it; delta 0 promises more at the same epsilon; wrong: commitments.")
    show("Regret is simulated on these public worlds, not promised for yours; guarantees hold in any.")
    for group in by_budget:
        show(report.plan_advice(group))
    show(*report.remarks_of(rows))
