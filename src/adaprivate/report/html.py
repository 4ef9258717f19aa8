"""What every page is made of: one file with style, script and data inside, and no address that is asked for anything."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_folder = Path(__file__).parent / "page"
escape = html.escape


@cache
def _part(name: str) -> str:
    return (_folder / name).read_text(encoding="utf-8")


def data(document: object, name: str = "") -> str:
    """Values for the page's script, which finds them by name or by where they are."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    mark = f' id="{name}"' if name else ""
    return f'<script type="application/json"{mark}>{text}</script>'


def document(title: str, body: str, *, links: Iterable[tuple[str, str]] = (), foot: str = "") -> str:
    """A whole page."""
    navigation = "".join(link(target, text) for target, text in links)
    scripts = _part("chart.js") + _part("page.js")
    return (
        _part("page.html")
        .replace("{title}", escape(title))
        .replace("{links}", navigation)
        .replace("<style></style>", f"<style>{_part('style.css')}</style>")
        .replace("<script></script>", f"<script>{scripts}</script>")
        .replace("{foot}", foot)
        .replace("{body}", body)
    )


def link(target: str, text: str) -> str:
    """A link to a file of the same report."""
    return f'<a href="{escape(target)}">{escape(text)}</a>'


def lead(title: str, answer: str = "", *, before: str = "", after: str = "") -> str:
    """A page's question and its answer; ``after`` is HTML."""
    parts = [f'<p class="soft">{escape(before)}</p>'] if before else []
    parts.append(f"<h1>{escape(title)}</h1>")
    if answer:
        parts.append(f'<p class="answer">{escape(answer)}</p>')
    return f'<div class="lead">{"".join(parts)}{after}</div>'


def card(title: str, *inside: str, look: str = "") -> str:
    """A part of a page; what is inside is HTML."""
    return f'<section class="card {look}"><h2>{escape(title)}</h2>{"".join(inside)}</section>'


def table(
    heads: Sequence[str], lines: Iterable[str], *, look: str = "", name: str = "", numbers: Sequence[str] = ()
) -> str:
    """A table of lines that are HTML; ``numbers`` are the heads of columns of numbers."""
    look_of = {True: ' class="number"', False: ""}
    head = "".join(f'<th scope="col"{look_of[text in numbers]}>{escape(text)}</th>' for text in heads)
    marks = "".join(f' {key}="{value}"' for key, value in (("class", look), ("id", name)) if value)
    return f"<table{marks}><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def figure(chart: dict[str, Any] | None, svg: str, caption: str, file: str) -> str:
    """A chart that answers when it is pointed at, or the picture as it is."""
    told = f"<figcaption>{escape(caption)}</figcaption>"
    if chart is None:
        return f'<figure class="static-figure"><div class="scroll">{svg}</div>{told}</figure>'
    without = f"<noscript><p>A script draws this chart; {link(file, file)} is the same picture.</p></noscript>"
    return f'<figure class="interactive"><div class="chart"></div>{data(chart)}{without}{told}</figure>'


def facts(entries: Iterable[tuple[str, str]], look: str = "facts") -> str:
    """Names and values, both HTML."""
    return f'<dl class="{look}">' + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in entries) + "</dl>"


def listing(entries: Iterable[str]) -> str:
    """A list of texts."""
    return "<ul>" + "".join(f"<li>{escape(entry)}</li>" for entry in entries) + "</ul>"


def fold(summary: str, inside: str) -> str:
    """What is there for those who ask."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def options(name: str, entries: Iterable[tuple[str, str]], chosen: str) -> str:
    """Buttons of which one is pressed: value and look, the latter HTML."""
    return "".join(
        f'<label><input type="radio" name="{name}" value="{escape(value)}"{" checked" * (value == chosen)}>{look}</label>'
        for value, look in entries
    )


def switch(name: str, title: str, entries: Iterable[str], chosen: str) -> str:
    """One of a few, to choose."""
    buttons = options(name, ((value, f"<span>{escape(value)}</span>") for value in entries), chosen)
    return f'<fieldset class="switch no-print" id="{name}"><legend>{escape(title)}</legend>{buttons}</fieldset>'


def prose(text: str) -> str:
    """A docstring as paragraphs and lists, with `code` and *emphasis*."""
    parts = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if part.lstrip().startswith("- "):
            items = re.split(r"\n- ", "\n" + part.strip())[1:]
            parts.append("<ul>" + "".join(f"<li>{_marked(item)}</li>" for item in items) + "</ul>")
        else:
            parts.append(f"<p>{_marked(part)}</p>")
    return f'<div class="prose">{"".join(parts)}</div>'


def _marked(text: str) -> str:
    plain = escape(" ".join(text.split()), quote=False)
    plain = re.sub(r"``?([^`]+)``?", r"<code>\1</code>", plain)
    return re.sub(r"\*(\w[^*]*)\*", r"<em>\1</em>", plain)
