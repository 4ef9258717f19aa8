"""What notebooks show: titles, facts and lines as small pieces of HTML. Only what callers pass, escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape


def facts_html(title: str, facts: Mapping[str, object], *below: str) -> str:
    """A title over a table of names and values; ``below`` is HTML already."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items()
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table>{''.join(below)}</div>"


def lines_html(title: str, lines: Iterable[str]) -> str:
    """A title over a list; nothing where there are no lines."""
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<p>{escape(title)}</p><ul>{found}</ul>" if found else ""
