"""What the package holds, and published results recomputed."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from adaprivate import extras
from adaprivate.cli.terminal import Cluster, Json, ResultsFile, print_json, progress, show, using
from adaprivate.errors import InputError

MOST_AT_ONCE = 32
"""So many settings of an experiment are under way at most."""


class Kind(enum.StrEnum):
    """What can be listed."""

    policies = "policies"
    environments = "environments"
    mechanisms = "mechanisms"
    experiments = "experiments"


def list_(
    kind: Annotated[
        str, typer.Argument(help=f"What to list: {', '.join(Kind)}.", metavar="KIND", autocompletion=lambda: list(Kind))
    ],
    json: Json = False,
) -> None:
    """List what the package offers, a line each; policies with whom they protect, by what, and whether with exact noise."""
    from adaprivate import check, report

    kind = Kind(check.one_of("kind", kind, Kind))

    entries: list[dict[str, Any]]
    if kind is Kind.mechanisms:
        from adaprivate import mechanisms

        entries = [{"name": e.name, "summary": e.summary, "module": e.module} for e in mechanisms.examples()]
    elif kind is Kind.policies:
        from adaprivate import policies
        from adaprivate.policies.core.overview import START_HERE

        entries = []
        for name in policies.names():
            line, about = policies.describe(name)
            entries.append({"name": name, "summary": line, "about": about, **policies.overview(name).to_dict()})
        entries.sort(key=lambda entry: entry["start_here"] or len(START_HERE) + 1)
        for place, entry in enumerate(entries, 1):  # names that are not there are skipped
            entry["start_here"] = entry["start_here"] and place
    elif kind is Kind.environments:
        from adaprivate import environments

        entries = [
            {"name": name, "summary": environments.describe(name), "options": environments.options(name)}
            for name in environments.names()
        ]
    else:
        from adaprivate import experiments

        found = [experiments.experiment(name) for name in experiments.names()]
        if not found:
            extras.expect(extras.PAPERS)
        entries = [{"name": e.name, "summary": e.about.partition("\n")[0], "source": e.source} for e in found]
    if json:
        print_json({kind.value: entries})
    elif kind is Kind.policies:
        show(report.policy_table(entries), report.POLICY_WORDS)
    elif kind is Kind.environments:
        rows = ((e["name"], e["summary"], ", ".join(e["options"])) for e in entries)
        show(report.listing(kind.value, ("name", "what it does", "--option, each as key=value"), rows))
    else:
        show(report.listing(kind.value, ("name", "what it does"), ((e["name"], e["summary"]) for e in entries)))


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment; --list names them.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds (default: the paper's).")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three seeds, short runs: a first look, without verdicts on what was cut.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only rows with this in their name, where that makes sense; repeatable.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the HTML report.")] = Path("results"),
    list_names: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    cluster: Cluster = None,
    results: ResultsFile = None,
    json: Json = False,
) -> None:
    """Recompute a published table, figure or claim, with a verdict per cell."""
    from adaprivate import experiments, report

    if list_names:
        list_(Kind.experiments, json)
        return
    if name is None:
        raise InputError("Expected name=None to be an experiment; adaprivate reproduce --list names them.")
    chosen = experiments.experiment(name)
    settings = len(chosen.only(only or [], quick=quick))
    with using(cluster, results=results), progress(settings, name, unit="settings", silent=json) as advance:
        done = reproduced(chosen, out, advance, seeds=seeds, quick=quick, only=only or [])
    seeds_told = report.seeds_line(done.cells)
    if json:
        asked = {"experiment": name, "paper": chosen.source, "question": chosen.question, "answer": done.answer}
        asked["seeds"] = seeds_told
        print_json({**asked, "cells": [report.entry(cell) for cell in done.cells]})
    else:
        title = f"{name}: {chosen.source}" + (f", {seeds_told}" if seeds_told else "")
        told = [done.answer] if chosen.answered else []
        told += [line for line in (report.verdict_line(done.cells),) if line]
        show(report.cell_table(title, done.cells), *report.meaning_lines(done.cells), *told, f"Report: {done.page}")


def _rows(
    run: Callable[[Any, int], dict[str, Any]], settings: Sequence[Any], seeds: int, advance: Callable[[int], None]
) -> list[dict[str, Any]]:
    """The row of every setting, in order: one after the other here, many at once where other workers play."""
    from adaprivate import cluster

    workers, rows = cluster.current(), {}
    if not workers.far:
        for n, setting in enumerate(settings):
            rows[n] = run(setting, seeds)
            advance(1)
        return list(rows.values())
    with ThreadPoolExecutor(min(workers.slots, MOST_AT_ONCE)) as pool:
        waiting = {pool.submit(copy_context().run, run, setting, seeds): n for n, setting in enumerate(settings)}
        try:
            for done in as_completed(waiting):
                rows[waiting[done]] = done.result()
                advance(1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.stop()  # else this waits for every setting that has begun
            raise
    return [rows[n] for n in range(len(settings))]


class Reproduced(NamedTuple):
    """An experiment that was run, and its page."""

    rows: list[dict[str, Any]]
    cells: list[Any]
    answer: str
    page: Path
    seeds: int


def reproduced(
    chosen: Any,
    out: Path,
    advance: Callable[[int], None],
    *,
    seeds: int | None = None,
    quick: bool = False,
    only: Sequence[str] = (),
) -> Reproduced:
    """Run an experiment and write its page into the folder; ``advance`` is called after every setting."""
    import shlex

    from adaprivate import report
    from adaprivate.report.checkpoint import Checkpoint
    from adaprivate.report.promises import promises

    extras.expect("polars", "matplotlib")
    count = chosen.seed_count(seeds, quick=quick)
    settings = chosen.only(only, quick=quick)
    with Checkpoint(out, chosen.name, chosen.run) if chosen.kept else contextlib.nullcontext() as checkpoint:
        rows = _rows(checkpoint.filled(chosen.run) if checkpoint else chosen.run, settings, count, advance)
    cells = chosen.judged(rows, count, quick=quick)
    answer = chosen.answer(rows, cells)
    again = f"adaprivate reproduce {chosen.name}" + (" --quick" if quick else f" --seeds {count}" * (chosen.seeds > 1))
    again += "".join(f" --only {shlex.quote(word)}" for word in only)
    page = report.write_page(
        out,
        chosen.name,
        source=chosen.source,
        about=chosen.about,
        cells=cells,
        rows=rows,
        plot=chosen.plot,
        question=chosen.question,
        answer=answer,
        provenance=report.Provenance(again, quick, count, settings, promises(rows)),
    )
    if checkpoint:
        checkpoint.clear()
    return Reproduced(rows, cells, answer, page, count)
