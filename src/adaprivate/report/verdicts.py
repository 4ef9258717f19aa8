"""What to call a verdict, in words and with a sign: never by colour alone."""

from __future__ import annotations

import dataclasses
import html
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from adaprivate.logs.format import number


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
    "not-comparable": Verdict("∦", "not comparable", "apart", "dim"),
    "none": Verdict("–", "not judged", "apart", "dim"),
}
"""Those that a printed value can get, in order; what no paper prints gets none."""


MEANINGS = {
    "agrees": "Ours is the printed value within the errors of both, or within the tolerance shown. A stated epsilon is "
    "kept: the true one is no larger.",
    "differs": "Ours is further from the printed value, or beyond the printed bound, than errors or the tolerance allow.",
    "unsound-as-published": "What is stated is not kept: the true epsilon is larger, or too little noise earned the value.",
    "not-comparable": "The paper measured it on other data or by another protocol, so the two numbers need not agree.",
    "none": "Too little to say: {}.",
}
_FEW, _CUT = "fewer than three seeds", "a first look that was cut short"
"""Why a value is not judged."""


def meanings(cells: Iterable[Any]) -> dict[str, str]:
    """What the verdicts that occur mean; of values that are not judged, the reasons that apply."""
    listed = list(cells)
    seeds = [getattr(cell, "seeds", None) or 0 for cell in listed if cell.verdict == "none"]
    why = dict.fromkeys(_CUT if count > 2 else _FEW for count in seeds)
    return {verdict: MEANINGS[verdict].format(" or ".join(why)) for verdict in counts(listed)}


def detail(cell: Any) -> str:
    """What stands beside a cell's verdict: its tolerance, the verdict on an unsound number, why there is none."""
    number_is, tolerance, seeds = (getattr(cell, name, None) for name in ("number", "tolerance", "seeds"))
    if cell.verdict == "none":
        return f"{seeds} seed{'s' * (seeds != 1)}" + ", cut short" * (seeds is not None and seeds > 2) if seeds else ""
    judged = number_is or cell.verdict
    within = {"agrees": "within {}", "differs": "by more than {}"}.get(judged, "") if tolerance else ""
    told = within.format(number(tolerance))
    if number_is:
        told = f"its number {VERDICTS[number_is].word} {told}".rstrip()
    return told


def said(cell: Any) -> str:
    """The verdict of a cell in words, with what stands beside it: the same in the terminal, in JSON and in HTML."""
    verdict = VERDICTS.get(cell.verdict)
    if verdict is None:
        return ""
    beside = detail(cell)
    return f"{verdict.word} ({beside})" if beside else verdict.word


def entry(cell: Any) -> dict[str, Any]:
    """A cell for JSON, with its verdict in words."""
    return {**dataclasses.asdict(cell), "says": said(cell)}


def seeds_line(cells: Iterable[Any]) -> str:
    """How many seeds were run, and which rows ran fewer; empty where nothing is random."""
    used: dict[str, int] = {}
    for cell in cells:
        if (seeds := getattr(cell, "seeds", None)) is not None:
            used[cell.row] = min(seeds, used.get(cell.row, seeds))
    most = max(used.values(), default=0)
    fewer: dict[int, list[str]] = {}
    for row, seeds in used.items():
        if seeds < most:
            fewer.setdefault(seeds, []).append(row)
    parts = "; ".join(f"{', '.join(rows)}: {seeds}" for seeds, rows in sorted(fewer.items()))
    return (f"{most} seeds" + f" ({parts})" * bool(parts)) if most else ""


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
    words = html.escape(f"{cell.row}, {cell.column}: paper {number(cell.paper)}, ours {number(cell.ours)}, {said(cell)}")
    inside = f'<span aria-hidden="true">{verdict.sign}</span><span class="unseen">{words}</span>'
    return f'<li class="{verdict.look}" title="{words}">{inside}</li>'


def chips(cells: Iterable[Any]) -> str:
    """How many printed values got each verdict, as HTML."""
    return "".join(chip(verdict, count) for verdict, count in counts(cells).items())
