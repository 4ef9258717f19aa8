"""The command line: thin, one clear line for every mistake, --json everywhere."""

from __future__ import annotations

import enum
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from adaprivate.check import InputError

app = typer.Typer(
    name="adaprivate",
    help="Differentially private bandits: accounting, mechanisms, policies, experiments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


class Kind(enum.StrEnum):
    """What can be listed."""

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
    noise: Annotated[
        str, typer.Option(help="How running sums share noise: list mechanisms names the ways.")
    ] = "independent",
    unit: Annotated[str, typer.Option(help="Whom to protect: event or user.")] = "event",
    batches_per_user: Annotated[int | None, typer.Option(help="Batches one user may enter (unit user).")] = None,
    separation: Annotated[int, typer.Option(help="Least distance between two batches of one user.")] = 1,
    clip: Annotated[float | None, typer.Option(help="Norm of a user's contribution to a batch (unit user).")] = None,
    neighbours: Annotated[str, typer.Option(help="replace or add-remove.")] = "replace",
    sampling_rate: Annotated[float | None, typer.Option(help="Poisson sampling of events, inclusion kept secret.")] = None,
    json: Json = False,
) -> None:
    """The least noise for (epsilon, delta), exactly, before anyone's data is touched."""
    from adaprivate.mechanisms.calibration import calibration

    found = calibration(
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


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment; --list names them.")] = None,
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
    rows = [chosen.run(setting) for setting in chosen.settings]
    cells = chosen.compare(rows)
    page = report.write_page(out, name, source=chosen.source, about=chosen.about, cells=cells, rows=rows, plot=chosen.plot)
    if json:
        _print_json({"experiment": name, "paper": chosen.source, "cells": [dataclasses.asdict(cell) for cell in cells]})
    else:
        _print(report.cell_table(f"{name}: {chosen.source}", cells), f"Report: {page}")


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
    except Exception as error:
        # The option parser's own complaints (its exception classes differ between typer versions).
        if not hasattr(error, "format_message"):
            raise
        message = " ".join(str(error.format_message()).split())
        if message:
            sys.stderr.write(f"adaprivate: {message}\n")
        sys.exit(getattr(error, "exit_code", 2))
    sys.exit(code if isinstance(code, int) else 0)
