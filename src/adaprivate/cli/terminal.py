"""What every command shares: options of the form key=value, output for people and for programs, progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from adaprivate.errors import InputError

QUIET = "ADAPRIVATE_QUIET"
"""The environment variable that says: no progress, no remarks."""
Further = Annotated[list[float] | None, typer.Argument(hidden=True, metavar="EPSILON")]
"""Numbers that follow an option which takes several: ``--epsilon .1 1 5``."""
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


Cluster = Annotated[
    str | None,
    typer.Option(
        help="local: a process for each core; tcp://host:port: a dask scheduler and its workers (docs/cluster.md)."
    ),
]
ResultsFile = Annotated[
    Path | None, typer.Option("--results", help="Keep finished seeds in this file, and go on from those that are in it.")
]


def using(cluster: str | None, jobs: int | None = None, results: Path | None = None) -> AbstractContextManager[None]:
    """Have these workers and this file used inside; nothing is imported where neither was asked for."""
    if cluster is None and results is None:
        return nullcontext()
    from adaprivate import cluster as workers

    return workers.using(cluster, jobs=jobs, results=results)


def quiet() -> bool:
    """Whether nothing but results and mistakes shall be said."""
    return bool(os.environ.get(QUIET))


def several(given: list[float] | None, further: list[float] | None) -> list[float] | None:
    """The values of an option, given again or one after the other; None where there is none."""
    if further and not given:
        raise InputError(f"Expected {further[0]:g} to follow an option, as in --epsilon {further[0]:g}.")
    return [*(given or []), *(further or [])] or None


def print_json(document: object) -> None:
    """One JSON document on one line."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def show(*renderables: Any) -> None:
    """Tables and texts, one below the other."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    for renderable in renderables:
        console.print(renderable)


@contextmanager
def progress(total: float, title: str, *, unit: str, silent: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar with rate and time left on stderr; nothing when it is not a terminal, or with --quiet."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """How fast it goes, once that is known."""

        def render(self, task: Task) -> Text:
            known = unit == "rounds" and task.speed is not None
            return Text(f"{task.speed:,.0f} {unit}/s" if known else "")

    console = Console(stderr=True)
    if silent or quiet() or not console.is_terminal:
        yield lambda amount: None
        return
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
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


def parsed(option: list[str] | None) -> dict[str, object]:
    """Options by name, from texts key=value."""
    values: dict[str, object] = {}
    for text in option or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"Expected option={text!r} to be key=value.")
        values[key.replace("-", "_")] = _value(value)
    return values
