"""The first minute, and the site of all reports."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer

from adaprivate.cli.published import Reproduced, reproduced
from adaprivate.cli.terminal import Json, print_json, progress, show

MAIN = "privacy-cost"
BESIDE = ("claims", "table1", "prefix-noise")
CANARIES, FEW_CANARIES, CONFIDENCE = 10_000, 1_000, 1 - 1e-6
"""Of every attack, or of a quick one; a sound policy is called broken once in a million attacks."""
CHANNELS = ("flip", "gaussian")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the results behind it.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Three seeds, short runs.")] = False,
    json: Json = False,
) -> None:
    """What is this, does it work, what does privacy cost, is it sound: one page, from runs made now."""
    from adaprivate import experiments, extras, report

    extras.expect("polars", "matplotlib")
    started = time.monotonic()
    chosen = [experiments.experiment(name) for name in (MAIN, *BESIDE)]
    steps = sum(len(one.only([], quick=quick)) for one in chosen) + len(CHANNELS)
    done: dict[str, Reproduced] = {}
    with progress(steps, "demo", unit="steps", silent=json) as advance, _another_process() as pool:
        waiting = [pool.submit(_attacked, channel, FEW_CANARIES if quick else CANARIES) for channel in CHANNELS]
        for one in chosen:
            done[one.name] = reproduced(one, out / "results", advance, quick=quick)
        attacks = []
        for attack in waiting:
            attacks.append(attack.result())
            advance(1)
    glance, charts, svg = _glance(done, attacks, out, started)
    page = report.write_front(out, glance, charts, svg)
    if json:
        print_json(
            {
                "page": str(page),
                "answer": done[MAIN].answer,
                "rows": [{key: row[key] for key in _SHOWN} for row in glance.rows],
                "attacks": attacks,
                "guarantee": glance.promises[glance.usual],
                "verdicts": {name: report.verdict_line(done[name].cells) for name in BESIDE},
                "seconds": glance.seconds,
            }
        )
    else:
        show(*report.terminal(glance, page))
    if not glance.holds:
        raise typer.Exit(1)


_SHOWN = (
    *("row", "policy", "epsilon", "share", "share_sem", "regret", "regret_sem"),
    *("percent_of_tuned", "percent_of_tuned_sem"),
)


def _another_process() -> ProcessPoolExecutor:
    """A process beside this one, so that both compile at once; Ctrl-C is this one's to hear."""
    return ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )


def _attacked(channel: str, canaries: int) -> dict[str, Any]:
    """What an attack finds in one run of our policy with exact noise, through one of its channels."""
    from adaprivate.audit import audited_in_one_run

    found = audited_in_one_run(
        "noise-aware", {"epsilon": 1.0, "channel": channel}, canaries=canaries, exact_noise=True, confidence=CONFIDENCE
    ).to_dict()
    return {"channel": channel} | {key: value for key, value in found.items() if key not in ("curve", "seconds")}


def _glance(done: dict[str, Reproduced], attacks: list[dict[str, Any]], out: Path, started: float) -> tuple[Any, Any, str]:
    from adaprivate import experiments, report
    from adaprivate.report.promises import promises

    paper: Any = experiments.module(MAIN)
    rows = done[MAIN].rows
    ours = [row for row in rows if row["row"] == paper.OURS]
    names = report.Names(paper.OURS, paper.PUBLISHED, paper.FLIPS, paper.TUNED, paper.RANDOM)
    picture = out / "results" / f"{MAIN}.svg"
    _, lost = report.draw(paper.plot_regret, rows, out / "results" / f"{MAIN}-regret.svg")
    svg, learned = report.draw(paper.plot, rows, picture)
    glance = report.Glance(
        rows=rows,
        names=names,
        promises={row["epsilon"]: promises([row])[0] for row in ours},
        attacks=attacks,
        claims=done["claims"].cells,
        levels=done["table1"].cells,
        world="The synthetic world of the AdaPrivate-TS paper: five of 100 candidates in 20 dimensions",
        rounds=rows[0].get("rounds", experiments.ROUNDS),
        seeds=done[MAIN].seeds,
        seconds=time.monotonic() - started,
    )
    return glance, {"learned share": learned, "regret": lost}, svg


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that `adaprivate reproduce --out` has written to.")],
    json: Json = False,
) -> None:
    """Join the reports of a folder into a site: the papers, cell by cell."""
    from adaprivate.report import verdict_line, write_site

    page, entries = write_site(folder)
    cells = [cell for entry in entries for cell in entry["cells"]]
    if json:
        found = [{"experiment": e["name"], "question": e.get("question"), "answer": e.get("answer")} for e in entries]
        print_json({"page": str(page), "experiments": found, "verdicts": verdict_line(cells)})
    else:
        told = [line for line in (verdict_line(cells),) if line]
        show(f"{len(entries)} result{'s' * (len(entries) != 1)}", *told, f"Site: {page}")
