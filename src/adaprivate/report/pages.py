"""One self-contained HTML page per experiment, and an index of the pages in a folder."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adaprivate.evaluation.showing import number
from adaprivate.report.tables import verdict_line

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .2rem .8rem; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums } .unsound-as-published { color: #b00; font-weight: bold }
.agrees { color: #060 } .differs { color: #a60 } svg { max-width: 100%; height: auto }
"""


def _figure(plot: Callable[[Sequence[Any], Any], None], rows: Sequence[Any], file: Path) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "adaprivate", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 5), layout="constrained")
        plot(rows, figure.subplots())
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    text = drawing.getvalue()
    file.write_text(text, encoding="utf-8")
    return text[text.index("<svg") :]


def write_page(
    folder: Path,
    name: str,
    *,
    source: str,
    about: str,
    cells: Sequence[Any],
    rows: Sequence[Any] = (),
    plot: Callable[[Sequence[Any], Any], None] | None = None,
) -> Path:
    """Write NAME.html (and NAME.svg) into the folder and refresh its index."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = _figure(plot, rows, folder / f"{name}.svg") if plot else ""
    with_sem = any(c.sem is not None for c in cells)
    lines, previous = [], None
    for c in cells:
        label = html.escape(c.row) if c.row != previous else ""
        sem = f"<td class=n>{number(c.sem)}" if with_sem else ""
        numbers = f"<td class=n>{number(c.paper)}<td class=n>{number(c.ours)}{sem}"
        lines.append(f"<tr><td>{label}<td>{html.escape(c.column)}{numbers}<td class='{c.verdict}'>{c.verdict}</tr>")
        previous = c.row
    plain = about.replace("*", "").replace("`", "")
    paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in plain.split("\n\n"))
    head = "<tr><th>what<th>where<th>paper<th>ours" + ("<th>standard error" if with_sem else "") + "<th>verdict</tr>"
    page = folder / f"{name}.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><title>{name}</title><style>{_STYLE}</style><h1>{name}</h1>"
        f"<p><em>{html.escape(source)}</em></p>{paragraphs}<p>{verdict_line(cells)}.</p>{figure}"
        f"<table>{head}{''.join(lines)}</table><p><a href='index.html'>All results</a></p>\n",
        encoding="utf-8",
    )
    _refresh_index(folder)
    return page


def write_audit(
    folder: Path,
    name: str,
    *,
    about: str,
    rows: Sequence[dict[str, Any]],
    plot: Callable[[Sequence[Any], Any], None] | None = None,
) -> Path:
    """Write NAME.html (and NAME.svg) about what an audit found, one line for each thing attacked."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = _figure(plot, rows, folder / f"{name}.svg") if plot else ""
    lines = []
    for row in rows:
        numbers = "".join(
            f"<td class=n>{number(row[key])}"
            for key in ("claimed_epsilon", "measured_epsilon", "claimed_mu", "measured_mu", "delta", "trials")
        )
        verdict = "agrees" if row["holds"] else "unsound-as-published"
        told = "holds" if row["holds"] else "BROKEN"
        texts = "".join(f"<td>{html.escape(row[key])}" for key in ("neighbour", "attack"))
        lines.append(f"<tr><td>{html.escape(row['policy'])}{numbers}<td class='{verdict}'>{told}{texts}</tr>")
    head = "<tr><th>what<th>epsilon claimed<th>at least<th>mu claimed<th>at least<th>delta<th>runs<th>verdict"
    page = folder / f"{name}.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><title>{name}</title><style>{_STYLE}</style><h1>{name}</h1>"
        f"<p>{html.escape(about)}</p>{figure}<table>{head}<th>neighbours<th>attack</tr>{''.join(lines)}</table>"
        "<p><a href='index.html'>All results</a></p>\n",
        encoding="utf-8",
    )
    _refresh_index(folder)
    return page


def _refresh_index(folder: Path) -> None:
    pages = sorted(p.stem for p in folder.glob("*.html") if p.stem != "index")
    items = "".join(f"<li><a href='{p}.html'>{p}</a>" for p in pages)
    head = f"<!doctype html><meta charset=utf-8><title>adaprivate</title><style>{_STYLE}</style>"
    (folder / "index.html").write_text(f"{head}<h1>Results</h1><ul>{items}</ul>\n", encoding="utf-8")
