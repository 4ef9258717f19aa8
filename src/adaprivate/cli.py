"""The command line: thin, one clear line for every mistake, --json everywhere."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from adaprivate import check
from adaprivate.check import InputError

app = typer.Typer(
    name="adaprivate",
    help="Differentially private bandits: accounting, mechanisms, policies, experiments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
FEW_REWARDED = 10
"""With fewer rewarded rows behind an estimate its interval is not to be believed."""
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


class Kind(enum.StrEnum):
    """What can be listed."""

    policies = "policies"
    environments = "environments"
    mechanisms = "mechanisms"
    experiments = "experiments"


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def _print(*renderables: Any) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    for renderable in renderables:
        console.print(renderable)


@app.command("list")
def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")], json: Json = False) -> None:
    """List what the package offers."""
    from adaprivate import report

    if kind is Kind.mechanisms:
        from adaprivate import mechanisms

        entries = [{"name": e.name, "summary": e.summary, "module": e.module} for e in mechanisms.examples()]
    elif kind is Kind.policies:
        from adaprivate import policies

        found_policies = {name: policies.describe(name) for name in policies.names()}
        entries = [{"name": name, "summary": line, "about": about} for name, (line, about) in found_policies.items()]
    elif kind is Kind.environments:
        from adaprivate import environments

        entries = [{"name": name, "summary": environments.describe(name)} for name in environments.names()]
    else:
        from adaprivate import experiments

        found = [experiments.experiment(name) for name in experiments.names()]
        entries = [{"name": e.name, "summary": e.about.partition("\n")[0], "source": e.source} for e in found]
    if json:
        _print_json({kind.value: entries})
    else:
        _print(report.listing(kind.value, ("name", "what it does"), ((e["name"], e["summary"]) for e in entries)))


@app.command()
def calibrate(
    epsilon: Annotated[float, typer.Option(help="The privacy loss to allow.")],
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")],
    sensitivity: Annotated[float, typer.Option(help="The largest l2 change one event makes to a batch sum.")] = 1.0,
    batches: Annotated[int | None, typer.Option(help="Release a running sum after each of so many batches.")] = None,
    rounds: Annotated[int | None, typer.Option(help="With --batch-size: so many rounds, whole batches released.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rounds in a batch.")] = None,
    noise: Annotated[
        str, typer.Option(help="How running sums share noise: independent, tree, honaker, sqrt, banded, blt, optimal.")
    ] = "independent",
    unit: Annotated[str, typer.Option(help="Whom to protect: event or user.")] = "event",
    batches_per_user: Annotated[int | None, typer.Option(help="Batches one user may enter (unit user).")] = None,
    separation: Annotated[int, typer.Option(help="Least distance between two batches of one user.")] = 1,
    clip: Annotated[float | None, typer.Option(help="Norm of a user's contribution to a batch (unit user).")] = None,
    neighbours: Annotated[
        str, typer.Option(help="replace: any values instead; add-remove: a user left out (unit user).")
    ] = "replace",
    sampling_rate: Annotated[float | None, typer.Option(help="Poisson sampling of events, inclusion kept secret.")] = None,
    json: Json = False,
) -> None:
    """The least noise for (epsilon, delta), exactly, before anyone's data is touched."""
    from adaprivate.mechanisms.calibration import calibrate as find

    if (rounds is None) != (batch_size is None) or (batches is not None and rounds is not None):
        raise InputError(f"Expected rounds={rounds}, batch_size={batch_size} to be given together, and instead of batches.")
    if rounds is not None and batch_size is not None:
        check.whole("batch_size", batch_size, at_least=1, at_most=check.whole("rounds", rounds, at_least=1))
        batches = rounds // batch_size
    found = find(
        epsilon,
        delta,
        sensitivity=sensitivity,
        batches=batches,
        noise=noise,
        unit=unit,
        batches_per_user=batches_per_user,
        separation=separation,
        clip=clip,
        neighbours=neighbours,
        sampling_rate=sampling_rate,
    )
    if json:
        _print_json(found.to_dict())
        return
    from adaprivate import report

    _print(report.facts_table("calibration", found.facts()), str(found.guarantee))


@contextmanager
def _progress(total: float, title: str, *, unit: str, silent: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar with rate and time left on stderr; nothing when it is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    rate = TextColumn("{task.speed:,.0f} " + unit + "/s" if unit == "rounds" else "")
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=console, disable=silent or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)


def _value(text: str) -> object:
    """An option's value: a number or truth value where it reads as one, else the text."""
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    if "," in text:
        return tuple(_value(part) for part in text.split(","))
    return {"true": True, "false": False}.get(text.lower(), text)


def _options(option: list[str] | None) -> dict[str, object]:
    values: dict[str, object] = {}
    for text in option or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"Expected option={text!r} to be key=value.")
        values[key.replace("-", "_")] = _value(value)
    return values


@app.command()
def simulate(
    policy: Annotated[list[str], typer.Option(help="A policy; may be given several times.")],
    environment: Annotated[str, typer.Option(help="Where rewards come from.")] = "synthetic",
    epsilon: Annotated[list[float], typer.Option(help="The privacy loss; may be given several times.")] = [1.0],  # noqa: B006
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")] = 1e-5,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 10_000,
    seeds: Annotated[int, typer.Option(help="Runs of each policy, on the same worlds.")] = 12,
    option: Annotated[list[str] | None, typer.Option(help="key=value: a parameter of a policy or the environment.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads (default: all cores).")] = None,
    json: Json = False,
) -> None:
    """Run policies in an environment, every policy on the same worlds."""
    from adaprivate import report
    from adaprivate.simulation import simulate as run

    values = _options(option)
    with _progress(rounds * seeds * (len(policy) * len(epsilon) + 1), "simulating", unit="rounds", silent=json) as advance:
        table = run(
            policy,
            environment,
            rounds=rounds,
            seeds=seeds,
            epsilon=epsilon,
            delta=delta,
            options=values,
            jobs=jobs,
            progress=advance,
        )
    if json:
        _print_json({"rows": table.to_dicts()})
    else:
        _print(report.simulation_table(table.to_dicts()))


@app.command()
def evaluate(
    log: Annotated[Path, typer.Argument(help="A CSV or parquet file, one decision a row.")],
    policy: Annotated[list[str], typer.Option(help="A policy; may be given several times.")],
    estimator: Annotated[str, typer.Option(help="replay, ips, snips, dm or dr.")] = "replay",
    epsilon: Annotated[list[float], typer.Option(help="The policy's privacy loss; may be given several times.")] = [1.0],  # noqa: B006
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")] = 1e-5,
    action: Annotated[str | None, typer.Option(help="The column of actions (action, or item_id).")] = None,
    reward: Annotated[str | None, typer.Option(help="The column of rewards, 0 to 1 (reward, or click).")] = None,
    propensity: Annotated[
        str | None, typer.Option(help="The column of the chosen action's probability (propensity, or propensity_score).")
    ] = None,
    features: Annotated[list[str] | None, typer.Option(help="A column of the context, or how several begin.")] = None,
    candidates: Annotated[str | None, typer.Option(help="How columns of candidates' features begin: x for x_0_3.")] = None,
    items: Annotated[Path | None, typer.Option(help="A file of items: name, numeric features.")] = None,
    train: Annotated[float, typer.Option(help="The share of rows to learn from first (all but replay).")] = 0.5,
    rounds: Annotated[int | None, typer.Option(help="At most so many rounds to learn (default: what is expected).")] = None,
    cap: Annotated[float | None, typer.Option(help="A cap on importance weights: less spread, some bias.")] = None,
    interval: Annotated[str, typer.Option(help="asymptotic or bootstrap.")] = "asymptotic",
    confidence: Annotated[float, typer.Option(help="The probability with which the interval covers.")] = 0.95,
    release_epsilon: Annotated[
        float | None, typer.Option(help="Publish the estimate: add noise for this privacy loss, and count it.")
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

    Without --release-epsilon the numbers are computed from raw rewards: for those who may see the log.
    """
    from adaprivate import policies, report
    from adaprivate.data.logs import log as read
    from adaprivate.evaluate.decisions import decisions
    from adaprivate.evaluate.evaluation import evaluate as judge
    from adaprivate.evaluate.evaluation import logged_value

    found = read(log, action=action, reward=reward, propensity=propensity, features=features or (), candidates=candidates)
    taken = decisions(found, context=bool(features), items=items)
    values, rows = _options(option), []
    for key in values:
        offered = {known for name in policy for known in policies.options(name)} - {"epsilon", "delta", "rounds"}
        check.expect(key in offered, "option", key, "in {" + ", ".join(sorted(offered)) + "}")
    budgets = sum(len(epsilon) if "epsilon" in policies.options(name) else 1 for name in policy)
    if release_epsilon is not None and budgets > 1:
        raise InputError(f"Expected policies x epsilons={budgets} == 1 with --release-epsilon: every release adds up.")
    for name in policy:
        known = policies.options(name)
        shared = {key: value for key, value in {**values, "delta": delta}.items() if key in known}
        for budget in epsilon if "epsilon" in known else [None]:
            own = {} if budget is None else {"epsilon": budget}
            estimate, guarantee = judge(
                taken,
                name,
                estimator,
                options={**shared, **own},
                train=train,
                rounds=rounds,
                cap=cap,
                interval=interval,
                confidence=confidence,
                seed=seed,
                release_epsilon=release_epsilon,
                release_delta=delta,
            )
            row: dict[str, Any] = {"policy": name, "epsilon": budget, "released": release_epsilon is not None}
            row |= {field: getattr(estimate, field) for field in ("estimator", "value", "low", "high", "sem")}
            row |= {field: getattr(estimate, field) for field in ("effective_sample_size", "rows", "rewarded")}
            row["guarantee"] = guarantee.sentence if guarantee else "none: this policy protects nobody"
            rows.append(row)
    logged = None if release_epsilon is not None else logged_value(taken, confidence)
    document = {
        "log": {
            "rows": len(taken),
            "candidates": taken.count,
            "dimension": taken.dimension,
            "value": logged and logged.value,
            "low": logged and logged.low,
            "high": logged and logged.high,
        },
        "rows": rows,
    }
    if json:
        _print_json(document)
        return
    _print(report.evaluation_table(document, confidence), *(f"{r['policy']}: {r['guarantee']}" for r in rows))
    if any(row["rewarded"] is not None and row["rewarded"] < FEW_REWARDED for row in rows):
        _print(f"Where fewer than {FEW_REWARDED} rows carry the value (JSON: rewarded) the interval is too short.")
    if release_epsilon is None:
        _print("Computed from raw rewards, for those who may see the log; --release-epsilon makes it fit to publish.")


@app.command()
def plan(
    arms: Annotated[int, typer.Option(help="How many arms to choose from.")],
    rounds: Annotated[int, typer.Option(help="How many rounds will be played.")],
    epsilon: Annotated[list[float], typer.Option(help="The privacy loss to allow; may be given several times.")],
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")] = 1e-5,
    seeds: Annotated[
        int | None, typer.Option(help="Runs of each policy (default: 4 to 40 by rounds, 20 to 300 if it commits).")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads (default: all cores).")] = None,
    json: Json = False,
) -> None:
    """Which policy, which parameters, what regret: policies on fixed arms compared on simulated public worlds."""
    from adaprivate import report
    from adaprivate.planning import plan_arms

    rows = plan_arms(arms, rounds, epsilon, delta, seeds=seeds, jobs=jobs)
    if json:
        _print_json({"rows": rows})
        return
    by_budget = [[row for row in rows if row["epsilon"] == budget] for budget in epsilon]
    for group in by_budget:
        _print(report.plan_table(group))
    _print("* recommended, = not told apart from it; delta 0 promises more at the same epsilon; wrong: commitments.")
    _print("Regret is simulated on these public worlds, not promised for yours; guarantees hold in any.")
    for group in by_budget:
        _print(report.plan_advice(group))


data_app = typer.Typer(help="Recorded data: ratings, logs, labelled tables.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("check")
def check_data(
    path: Annotated[Path, typer.Argument(help="A file, folder or zip archive.")],
    action: Annotated[str | None, typer.Option(help="The column of a log that says what was chosen.")] = None,
    reward: Annotated[str | None, typer.Option(help="The column of rewards, in [0, 1].")] = None,
    propensity: Annotated[str | None, typer.Option(help="The column of probabilities of the choice.")] = None,
    features: Annotated[list[str] | None, typer.Option(help="A column of the context, or how several begin.")] = None,
    candidates: Annotated[str | None, typer.Option(help="How columns of candidates' features begin: x for x_0_3.")] = None,
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
        label=label,
    )
    if json:
        _print_json(facts)
        return
    for found in facts.get("logs", [facts]):
        _print(report.listing(found["path"], ("", ""), ((name, str(value)) for name, value in found.items())))


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment; --list names them.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds (default: the paper's).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Three seeds, short runs: a first look.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the HTML report.")] = Path("results"),
    list_names: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    json: Json = False,
) -> None:
    """Recompute a published table, figure or claim, with a verdict per cell."""
    import dataclasses

    from adaprivate import experiments, report

    if list_names:
        list_(Kind.experiments, json)
        return
    if name is None:
        raise InputError("Expected name=None to be an experiment; adaprivate reproduce --list names them.")
    chosen = experiments.experiment(name)
    if quick and seeds is not None:
        raise InputError(f"Expected seeds={seeds} not to be given with --quick.")
    count = min(3, chosen.seeds) if quick else check.whole("seeds", chosen.seeds if seeds is None else seeds, at_least=1)
    if chosen.seeds > 1:
        check.whole("seeds", count, at_least=2)
    settings = chosen.quick if quick else chosen.settings
    kept = report.KeptRows(out, name) if chosen.kept else None
    with _progress(len(settings), name, unit="settings", silent=json) as advance:
        rows = []
        for setting in settings:
            row = kept.get(setting, count) if kept else None
            if row is None:
                row = chosen.run(setting, count)
                if kept:
                    kept.put(setting, count, row)
            rows.append(row)
            advance(1)
    cells = chosen.compare(rows)
    page = report.write_page(out, name, source=chosen.source, about=chosen.about, cells=cells, rows=rows, plot=chosen.plot)
    if kept:
        kept.clear()
    if json:
        _print_json({"experiment": name, "paper": chosen.source, "cells": [dataclasses.asdict(cell) for cell in cells]})
    else:
        title = f"{name}: {chosen.source}" + (f", {count} seeds" if chosen.seeds > 1 else "")
        _print(report.cell_table(title, cells), report.verdict_line(cells), f"Report: {page}")


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _main(
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def version(json: Json = False) -> None:
    """Print the version."""
    from adaprivate import __version__

    if json:
        _print_json({"version": __version__})
    else:
        sys.stdout.write(__version__ + "\n")


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        sys.stderr.write(f"adaprivate: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        sys.stderr.write(f"adaprivate: {error}\n")
        sys.exit(2)
    except Exception as error:
        # The option parser's own complaints (its exception classes differ between typer versions).
        if not hasattr(error, "format_message"):
            raise
        message = " ".join(str(error.format_message()).split())
        if message:
            sys.stderr.write(f"adaprivate: {message}\n")
        sys.exit(getattr(error, "exit_code", 2))
    sys.exit(code if isinstance(code, int) else 0)
