"""One self-contained HTML page per experiment, its raw rows beside it, and the site of all pages in a folder."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from adaprivate.logs.format import number
from adaprivate.report import html
from adaprivate.report.files import raw, write_rows
from adaprivate.report.pictures import Plot, draw
from adaprivate.report.site import AUDIT, write_site
from adaprivate.report.verdicts import chip, chips, counts, detail, entry, meanings, seeds_line

FIRST_LOOK = " · a first look only: few seeds, short runs"
MOST_LINES = 45
"""A longer table scrolls in the page."""
_PACKAGES = ("adaprivate", "numpy", "scipy", "numba", "polars", "opendp")
_SIMULATED = (
    "These are simulations whose noise comes from a seed: nobody's data was used, and nobody is protected by them. With "
    "exact noise (source=Secure(), for policies that have it) the same settings promise:"
)
_POINT = (
    "Point at the picture for values, or focus it and use the arrow keys; where it has a legend, a click on a name hides "
    "its line."
)


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where a page's numbers come from: what was run, with which seeds, by which command, and what its policies promise."""

    command: str = ""
    quick: bool = False
    seeds: int | None = None
    settings: Sequence[Mapping[str, Any]] = ()
    promises: Sequence[Mapping[str, Any]] = ()
    """Each with who, guarantee, enforced and assumptions."""


def versions() -> dict[str, str]:
    """What computed a page."""
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def foot() -> str:
    """What computed a page, at its end."""
    return f"<p>{html.escape(_joined(versions()))}</p>"


def _joined(names: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {told}" for name, told in names.items())


def write_page(
    folder: Path,
    name: str,
    *,
    source: str,
    about: str,
    cells: Sequence[Any],
    rows: Sequence[Any] = (),
    plot: Plot | None = None,
    question: str = "",
    answer: str = "",
    provenance: Provenance | None = None,
) -> Path:
    """Write NAME.html into the folder, its rows, picture and cells beside it, and refresh the site."""
    folder.mkdir(parents=True, exist_ok=True)
    of = provenance or Provenance()
    title = question or about.partition("\n")[0]
    files = [file.name for file in write_rows(folder, name, raw(rows, of.settings))] if rows else []
    files += [f"{name}.json", *([f"{name}.svg"] if plot else [])]
    picture, interactive = _picture(plot, rows, folder, name)
    verdicts = chips(cells)
    body = "".join(
        (
            html.lead(
                title,
                answer,
                before=source + FIRST_LOOK * of.quick,
                after=f'<p class="verdicts">{verdicts}</p>' if verdicts else "",
            ),
            picture,
            _table(cells),
            '<div class="columns">',
            _reading(about, cells, interactive),
            f'<div class="stack">{_promised(of.promises)}{_settings(of, cells, files)}</div>',
            "</div>",
        )
    )
    told = {"experiment": name, "paper": source, "question": title, "answer": answer}
    ran = {"command": of.command, "seeds": of.seeds, "versions": versions()}
    found = {**told, **ran, "cells": [entry(cell) for cell in cells]}
    return _written(folder, name, title, body, found)


def _written(folder: Path, name: str, title: str, body: str, entry: Mapping[str, Any]) -> Path:
    (folder / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    page = folder / f"{name}.html"
    page.write_text(html.document(title, body, links=[("index.html", "All results")], foot=foot()), encoding="utf-8")
    write_site(folder)
    return page


def _picture(plot: Plot | None, rows: Sequence[Any], folder: Path, name: str) -> tuple[str, bool]:
    if plot is None:
        return "", False
    svg, chart = draw(plot, rows, folder / f"{name}.svg")
    about = " ".join((plot.__doc__ or "").split())
    inside = html.figure(chart, svg, about, f"{name}.svg")
    return f'<section class="card" aria-label="Picture">{inside}</section>', chart is not None


def _line(cell: Any, *, printed: bool, with_sem: bool, again: bool) -> str:
    def value(name: str, written: float | None, look: str = "") -> str:
        shown = "" if written is None else number(written)
        exact = "" if written is None else repr(float(written))
        return f'<td class="number {look}" data-name="{name}" data-value="{exact}">{shown}</td>'

    parts = [f'<th scope="row">{html.escape(cell.row)}</th><td class="where">{html.escape(cell.column)}</td>']
    parts += [value("paper", cell.paper)] * printed
    parts += [value("ours", cell.ours, "strong")]
    parts += [value("±", cell.sem, "soft")] * with_sem
    beside = html.escape(detail(cell)) if cell.paper is not None else ""
    parts += [
        f'<td data-value="{html.escape(cell.verdict) if cell.paper is not None else ""}">{chip(cell.verdict)}'
        + (f' <span class="soft small">({beside})</span></td>' if beside else "</td>")
    ] * printed
    look = ' class="again"' if again else ""
    return f'<tr data-verdict="{html.escape(cell.verdict)}"{look}>{"".join(parts)}</tr>'


def _table(cells: Sequence[Any]) -> str:
    """A line for every cell, and a choice of verdicts."""
    found = counts(cells)
    with_sem = any(cell.sem is not None for cell in cells)
    heads = ["what", "where", *(["paper"] if found else []), "ours", *(["± standard error"] if with_sem else [])]
    rows = [cell.row for cell in cells]
    lines = [
        _line(cell, printed=bool(found), with_sem=with_sem, again=above == cell.row)
        for cell, above in zip(cells, [None, *rows], strict=False)
    ]
    numbers = ("paper", "ours", "± standard error")
    table = html.table(
        [*heads, *(["verdict"] if found else [])], lines, look="stacked sortable grouped", name="cells", numbers=numbers
    )
    title = "Cell by cell" if found else "The numbers"
    if len(cells) > MOST_LINES:
        inside = f'<div class="scroll long" tabindex="0" role="region" aria-label="{title}">{table}</div>'
    else:
        inside = f'<div class="scroll">{table}</div>'
    return html.card(title, _filter(found, len(cells)), inside)


def _filter(found: Mapping[str, int], cells: int) -> str:
    choices = [("all", f'<span class="verdict">all {cells}</span>')]
    choices += [(verdict, chip(verdict, count)) for verdict, count in found.items()]
    alone = cells - sum(found.values())
    if alone and found:
        choices.append(("not-in-paper", f'<span class="verdict">{alone} of ours alone</span>'))
    if len(choices) < 3:
        return ""
    buttons = html.options("shown", choices, "all")
    return f'<fieldset class="filter" data-table="cells"><legend>Show</legend>{buttons}</fieldset>'


def _reading(about: str, cells: Sequence[Any], interactive: bool) -> str:
    found = counts(cells)
    notes = [_POINT] if interactive else []
    if any(cell.sem is not None for cell in cells):
        notes.append("± is one standard error over seeds; bands and whiskers in the picture are two.")
    if any(cell.paper is None for cell in cells) and found:
        notes.append("Lines without a verdict are ours alone: no paper prints them.")
    told = html.facts((chip(verdict), words) for verdict, words in meanings(cells).items())
    listed = f'<div class="prose">{html.listing(notes)}</div>' if notes else ""
    return html.card("How to read this", told if found else "", listed, html.prose(about))


def _promise(promise: Mapping[str, Any]) -> str:
    rests = "".join(
        html.fold(title, html.listing(promise[key]))
        for key, title in (("enforced", "What the software enforces"), ("assumptions", "What you must keep to"))
        if promise.get(key)
    )
    weak = "".join(f"<p>{html.escape(remark)}</p>" for remark in promise.get("remarks", ()))
    return f"<li><p><b>{html.escape(promise['who'])}</b>: {html.escape(promise['guarantee'])}</p>{weak}{rests}</li>"


def _promised(promises: Sequence[Mapping[str, Any]]) -> str:
    """What policies promise, each as a sentence with what it rests on."""
    if not promises:
        return ""
    first, *others = [f'<ul class="promises">{_promise(promise)}</ul>' for promise in promises]
    more = html.fold(f"{len(others)} more", "".join(others)) if others else ""
    return html.card("The guarantee in words", f"<p>{html.escape(_SIMULATED)}</p>", first, more, look="guarantee")


def _settings(of: Provenance, cells: Sequence[Any], files: Sequence[str]) -> str:
    entries = []
    if of.command:
        entries.append(("Again", f"<code>{html.escape(of.command)}</code>"))
    if of.seeds is not None:
        used = html.escape(seeds_line(cells) or f"0 to {of.seeds - 1}")
        entries.append(("Seeds", "nothing is random" if of.seeds == 1 else f"{used}, from 0 on, the same for all"))
    if of.settings:
        entries.append(("Settings", f"{len(of.settings)}"))
    entries.append(("Versions", html.escape(_joined(versions()))))
    entries.append(("Files", f'<ul class="files">{"".join(f"<li>{html.link(file, file)}</li>" for file in files)}</ul>'))
    each = html.fold("Every setting", html.listing(_told(setting) for setting in of.settings)) if of.settings else ""
    return html.card("Settings, seeds, files", html.facts(entries), each)


def _told(setting: Mapping[str, Any]) -> str:
    def written(value: Any) -> str:
        return json.dumps(value, default=str) if isinstance(value, Mapping | list | tuple) else str(value)

    return ", ".join(f"{key} {written(value)}" for key, value in setting.items() if value is not None)


def write_audit(folder: Path, name: str, *, about: str, rows: Sequence[dict[str, Any]], plot: Plot | None = None) -> Path:
    """Write NAME.html (and NAME.svg) about what an audit found, one line for each thing attacked."""
    folder.mkdir(parents=True, exist_ok=True)
    heads = {"epsilon claimed": "claimed_epsilon", "epsilon at least": "measured_epsilon", "mu claimed": "claimed_mu"}
    heads |= {"mu at least": "measured_mu", "delta": "delta", "runs": "trials"}
    lines = []
    for row in rows:
        numbers = "".join(
            f'<td class="number" data-value="{float(row[key])!r}">{number(row[key])}</td>' for key in heads.values()
        )
        look, told = ("agrees", "✓ holds") if row["holds"] else ("unsound", "✗ BROKEN")
        texts = "".join(f"<td>{html.escape(row[key])}</td>" for key in ("neighbour", "attack"))
        verdict = f'<td><span class="verdict {look}">{told}</span></td>'
        lines.append(f'<tr><th scope="row">{html.escape(row["policy"])}</th>{numbers}{verdict}{texts}</tr>')
    title = f"Does an attack find more than is claimed? {name.removeprefix('audit-')}"
    answer = about if any(not row["holds"] for row in rows) else f"No: every bound stays within its claim. {about}"
    picture, _ = _picture(plot, rows, folder, name)
    table = html.table(
        ["what", *heads, "verdict", "neighbours", "attack"], lines, look="sortable", name="attacks", numbers=[*heads]
    )
    body = html.lead(title, answer) + picture + html.card("What was attacked", f'<div class="scroll">{table}</div>')
    entry = {"experiment": name, "paper": AUDIT, "question": title, "answer": answer, "cells": []}
    return _written(folder, name, title, body, entry)
