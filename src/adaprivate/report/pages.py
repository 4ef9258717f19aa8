"""One self-contained HTML page per experiment, and an index of the pages in a folder."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adaprivate.report.tables import number

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
    lines = [
        f"<tr><td>{html.escape(c.row)}<td>{html.escape(c.column)}<td class=n>{number(c.paper)}<td class=n>{number(c.ours)}"
        f"<td class=n>{number(c.sem)}<td class='{c.verdict}'>{c.verdict}</tr>"
        for c in cells
    ]
    paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in about.split("\n\n"))
    page = folder / f"{name}.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><title>{name}</title><style>{_STYLE}</style><h1>{name}</h1>"
        f"<p><em>{html.escape(source)}</em></p>{paragraphs}{figure}"
        f"<table><tr><th><th><th>paper<th>ours<th>sem<th>verdict</tr>{''.join(lines)}</table>\n",
        encoding="utf-8",
    )
    pages = sorted(p.stem for p in folder.glob("*.html") if p.stem != "index")
    items = "".join(f"<li><a href='{p}.html'>{p}</a>" for p in pages)
    head = f"<!doctype html><meta charset=utf-8><title>adaprivate</title><style>{_STYLE}</style>"
    (folder / "index.html").write_text(f"{head}<h1>Results</h1><ul>{items}</ul>\n", encoding="utf-8")
    return page
