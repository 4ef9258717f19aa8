"""Published claims, recomputed: one file per table, figure or set of statements.

An experiment is one module, of this package or of anyone's (docs/extending.md), with

    SOURCE     the paper, table or section
    PAPER      the printed values, {(row, column): value}
    SETTINGS   what to run, a list
    SEEDS      how many seeds by default (1 where nothing is random)
    run        one setting, number of seeds -> a dict of values, the row it produced
    compare    all rows -> a list of Cell, each with a verdict
    QUESTION   what it answers, as a question (optional: the first line of its docstring)
    answer     all rows -> the answer in a sentence, made of their numbers (optional: verdicts are counted)
    plot       all rows, matplotlib axes -> the picture (optional)
    QUICK      the settings of a first look, where those of SETTINGS are too long for one (optional)
    KEPT       True if rows are plain values and finished ones outlive an interruption (optional)
    PARTIAL    True if compare and plot take the rows of some settings alone, chosen by their "row" (optional)

It is then found by ``adaprivate reproduce NAME`` and ``adaprivate list experiments`` with no other edit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from adaprivate import check
from adaprivate.registry import Registry, file_name, has

VERDICTS = ("agrees", "differs", "unsound-as-published", "not-in-paper")
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One printed number, ours beside it, and what to think of it."""

    row: str
    column: str
    paper: float | None
    ours: float
    sem: float | None
    verdict: str

    def __post_init__(self) -> None:
        check.one_of("verdict", self.verdict, VERDICTS)


@dataclass(frozen=True)
class Experiment:
    """A discovered experiment module."""

    name: str
    source: str
    about: str
    settings: Sequence[Mapping[str, Any]]
    run: Callable[[Mapping[str, Any], int], Row]
    seeds: int
    compare: Callable[[Sequence[Row]], list[Cell]]
    plot: Callable[[Sequence[Row], Any], None] | None
    quick: Sequence[Mapping[str, Any]]
    kept: bool
    partial: bool = False
    question: str = ""
    answered: Callable[[Sequence[Row]], str] | None = None

    def answer(self, rows: Sequence[Row], cells: Sequence[Cell]) -> str:
        """The answer to its question in a sentence, from what was measured."""
        return counted(cells) if self.answered is None else self.answered(rows)

    def only(self, words: Sequence[str], *, quick: bool = False) -> list[Mapping[str, Any]]:
        """The settings whose row has one of these words in it; all where there are no words."""
        chosen = self.quick if quick else self.settings
        if not words:
            return list(chosen)
        check.expect(self.partial, "only", list(words), f"not to be given: {self.name} needs all of its settings")
        for word in words:
            check.expect(any(word in setting["row"] for setting in chosen), "only", word, f"in a row of {self.name}")
        return [setting for setting in chosen if any(word in setting["row"] for word in words)]

    def seed_count(self, wanted: int | None, *, quick: bool = False) -> int:
        """How many seeds to run: as many as wanted, else the experiment's own number, or three for a first look."""
        if quick:
            check.expect(wanted is None, "seeds", wanted, "not to be given with --quick")
            return min(3, self.seeds)
        count = check.whole("seeds", self.seeds if wanted is None else wanted, at_least=1)
        return check.whole("seeds", count, at_least=2) if self.seeds > 1 else count


_WORDS = {"agrees": ("agrees", "agree"), "differs": ("differs", "differ")}
_UNSOUND = ("is unsound as published", "are unsound as published")


def counted(cells: Sequence[Cell]) -> str:
    """How many printed values agree with ours, differ, or are unsound, as a sentence."""
    printed = [cell.verdict for cell in cells if cell.paper is not None]
    count = {verdict: printed.count(verdict) for verdict in VERDICTS if verdict in printed}
    if not printed:
        return f"No printed value stands beside ours, of which there are {len(cells)}."
    if len(count) == 1:
        one, many = _WORDS.get(printed[0], _UNSOUND)
        return f"The one printed value {one}." if len(printed) == 1 else f"All {len(printed)} printed values {many}."
    parts = [f"{n} {_WORDS.get(verdict, _UNSOUND)[n > 1]}" for verdict, n in count.items()]
    return f"Of {len(printed)} printed values {', '.join(parts[:-1])} and {parts[-1]}."


def _load(module: ModuleType, name: str) -> Experiment:
    about = inspect.getdoc(module) or ""
    question = getattr(module, "QUESTION", about.partition("\n")[0])
    plot = getattr(module, "plot", None)
    seeds = getattr(module, "SEEDS", 1)
    quick, kept = getattr(module, "QUICK", module.SETTINGS), getattr(module, "KEPT", False)
    partial = getattr(module, "PARTIAL", False)
    return Experiment(
        name,
        module.SOURCE,
        about,
        module.SETTINGS,
        module.run,
        seeds,
        module.compare,
        plot,
        quick,
        kept,
        partial,
        question,
        getattr(module, "answer", None),
    )


def _offers(module: ModuleType) -> dict[str, Experiment]:
    if not has(module, "SOURCE", "SETTINGS", "run", "compare"):
        return {}
    name = file_name(module.__name__)
    return {name: _load(module, name)}


_registry = Registry("experiments", __name__, _offers, by_file=True)


def names() -> list[str]:
    """Every experiment, by name."""
    return _registry.names()


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    return _registry.find(name)
