"""What to call a verdict, in words and with a sign: never by colour alone."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from adaprivate.evaluation.showing import number


class Verdict(NamedTuple):
    """A verdict for readers."""

    sign: str
    word: str
    look: str
    """Its class in the pages' style."""
    style: str
    """Its style in the terminal."""


VERDICTS = {
    "agrees": Verdict("✓", "agrees", "agrees", "green"),
    "differs": Verdict("≠", "differs", "differs", "yellow"),
    "unsound-as-published": Verdict("✗", "unsound as published", "unsound", "bold red"),
}
"""Those that a printed value can get, in order; what no paper prints gets none."""


def counts(cells: Iterable[Any]) -> dict[str, int]:
    """How many printed values got each verdict, in order."""
    found = Counter(cell.verdict for cell in cells if cell.paper is not None)
    return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}


def plural(verdict: str, count: int) -> str:
    """Its word, of so many."""
    word = VERDICTS[verdict].word
    return word.removesuffix("s") if count != 1 and word in ("agrees", "differs") else word


def chip(verdict: str, count: int | None = None) -> str:
    """A verdict as HTML: its sign, how many, its word; nothing for what no paper prints."""
    if verdict not in VERDICTS:
        return ""
    sign, word, look, _ = VERDICTS[verdict]
    told = word if count is None else f"{count} {plural(verdict, count)}"
    return f'<span class="verdict {look}"><span aria-hidden="true">{sign}</span>{html.escape(told)}</span>'


def square(cell: Any) -> str:
    """A printed value as a small square with its verdict's sign, as HTML; both values when it is pointed at."""
    verdict = VERDICTS[cell.verdict]
    words = html.escape(f"{cell.row}, {cell.column}: paper {number(cell.paper)}, ours {number(cell.ours)}, {verdict.word}")
    inside = f'<span aria-hidden="true">{verdict.sign}</span><span class="unseen">{words}</span>'
    return f'<li class="{verdict.look}" title="{words}">{inside}</li>'


def chips(cells: Iterable[Any]) -> str:
    """How many printed values got each verdict, as HTML."""
    return "".join(chip(verdict, count) for verdict, count in counts(cells).items())
