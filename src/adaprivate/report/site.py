"""The papers, cell by cell: one page over all experiments whose pages are in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adaprivate import check
from adaprivate.report import html
from adaprivate.report.verdicts import VERDICTS, chips, counts, plural, square

TITLE = "The papers, cell by cell"
OWN, SEVERAL, ATTACKS = "Our own", "Several papers", "Attacks"
AUDIT = "audit"
"""What an audit names as its paper."""


def found(folder: Path) -> list[dict[str, Any]]:
    """What the folder's experiments wrote about themselves, by name; files of others are passed over."""
    entries = []
    for file in sorted(folder.glob("*.json")):
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))
            cells = [SimpleNamespace(**cell) for cell in entry["cells"]]
            written = {"paper": str(entry["paper"]), "question": str(entry["question"]), "answer": str(entry["answer"])}
            counts(cells)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if file.with_suffix(".html").exists():
            entries.append({**written, "name": file.stem, "cells": cells})
    return entries


def paper_of(source: str) -> str:
    """Which paper a source names, by its authors and year."""
    if source == AUDIT:
        return ATTACKS
    if re.match(r"ours?\b", source):
        return OWN
    named = [match.end() for match in re.finditer(r"\([^()]*&[^()]*\)|\b(19|20)\d\d\b", source)]
    return SEVERAL if len(named) > 1 else source[: named[0]] if named else source.partition(",")[0]


def site(entries: Sequence[dict[str, Any]]) -> str:
    """The page."""
    papers: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        papers.setdefault(paper_of(entry["paper"]), []).append(entry)
    total = counts(cell for entry in entries for cell in entry["cells"])
    printed, results = sum(total.values()), _many(len(entries), "experiment")
    if printed:
        verdicts = ", ".join(f"{n} {plural(v, n)}" for v, n in total.items())
        sentence = f"{_many(printed, 'value')} that papers print, recomputed by {results}: {verdicts}."
    else:
        sentence = f"{results}, of whose values no paper prints any."
    parts = [html.lead(TITLE, sentence)]
    if printed:
        parts.append(_totals(total))
    for paper in sorted(papers, key=lambda paper: (paper in (OWN, ATTACKS), paper != SEVERAL, paper)):
        own = chips([cell for entry in papers[paper] for cell in entry["cells"]])
        head = f'<h2>{html.escape(paper)}<span class="verdicts">{own}</span></h2>'
        inside = "".join(f"<li>{_result(entry)}</li>" for entry in papers[paper])
        parts.append(f'<section class="paper">{head}<ul class="results">{inside}</ul></section>')
    if printed:
        signs = ", ".join(f"{verdict.sign} {verdict.word}" for verdict in VERDICTS.values())
        parts.append(
            f'<p class="soft small">Every square is one printed value: {signs}. Point at it to see both values.</p>'
        )
    return html.document(TITLE, "".join(parts))


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _totals(total: dict[str, int]) -> str:
    printed, tiles, bars = sum(total.values()), [], []
    for verdict, n in total.items():
        sign, _, look, _ = VERDICTS[verdict]
        tiles.append(f'<p class="{look}"><b>{sign} {n}</b>{plural(verdict, n)}, {100 * n / printed:.0f} %</p>')
        bars.append(f'<span class="{look}" style="flex: {n}"></span>')
    share = f'<div class="share" aria-hidden="true">{"".join(bars)}</div>'
    return f'<section class="card totals" aria-label="Verdicts">{"".join(tiles)}{share}</section>'


def _result(entry: dict[str, Any]) -> str:
    squares = "".join(square(cell) for cell in entry["cells"] if cell.paper is not None)
    strip = f'<ul class="strip">{squares}</ul><p class="verdicts">{chips(entry["cells"])}</p>' if squares else ""
    return (
        f'<article class="card result"><p class="soft small">{html.escape(entry["paper"])}</p>'
        f"<h3>{html.link(entry['name'] + '.html', entry['question'])}</h3><p>{html.escape(entry['answer'])}</p>"
        f"{strip}</article>"
    )


def write_site(folder: Path) -> tuple[Path, list[dict[str, Any]]]:
    """Write the folder's index.html; the page, and what it joins."""
    check.expect(folder.is_dir(), "folder", str(folder), "to be a folder of reports")
    entries = found(folder)
    check.expect(bool(entries), "folder", str(folder), "to hold reports: adaprivate reproduce NAME --out writes them")
    page = folder / "index.html"
    page.write_text(site(entries), encoding="utf-8")
    return page, entries
