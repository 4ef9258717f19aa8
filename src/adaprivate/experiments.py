"""Published claims, recomputed: what an experiment is, and every experiment by name.

An experiment is one module, of anyone's package (docs/extending.md), with

    SOURCE     the paper, table or section
    PAPER      the printed values, {(row, column): value} (optional)
    SETTINGS   what to run, a list
    SEEDS      number of seeds by default (1 where nothing is random)
    run        one setting, number of seeds -> a dict of values, the row it produced
    compare    all rows -> a list of Cell, each with a verdict; `judged` takes back those that the seeds do not support
    QUESTION   what it answers, as a question (optional: the first line of its docstring)
    answer     all rows -> the answer in a sentence, made of their numbers (optional: verdicts are counted)
    plot       all rows, matplotlib axes -> the picture (optional)
    QUICK      the settings of a first look, where those of SETTINGS are too long for one (optional)
    KEPT       True if rows are plain values and finished ones outlive an interruption (optional)
    PARTIAL    True if compare and plot take the rows of some settings alone, chosen by their "row" (optional)

A module of several experiments lists classes in ``EXPERIMENTS``, each with these names and its own ``NAME``. Entry points
of the group ``adaprivate.experiments`` name the modules: ``adaprivate reproduce NAME`` and ``adaprivate list experiments``
then find them with no other edit. Those of this project are a distribution of their own, ``adaprivate-papers``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from adaprivate import check, extras
from adaprivate.registry import Registry, file_name, has

AGREES, DIFFERS, UNSOUND = "agrees", "differs", "unsound-as-published"
NOT_COMPARABLE, NONE, NOT_IN_PAPER = "not-comparable", "none", "not-in-paper"
VERDICTS = (AGREES, DIFFERS, UNSOUND, NOT_COMPARABLE, NONE, NOT_IN_PAPER)
"""Not comparable: the paper measured something else. None: the run was too small, so nothing is said."""
LEAST_SEEDS = 3
"""Fewer seeds support no verdict on a measured number."""
ROUNDS = 10_000
"""Rounds of a setting that names a policy and no number of rounds."""
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
    tolerance: float | None = None
    """How far ours may be from the printed value, or beyond a printed bound, and still agree."""
    number: str = ""
    """Of what is unsound: the verdict on the number itself."""
    seeds: int | None = None
    """How many seeds stand behind ours; None where nothing is random."""
    computed: bool = False
    """True where ours follows from a formula: nothing is random."""

    def __post_init__(self) -> None:
        check.one_of("verdict", self.verdict, VERDICTS)


def compared(
    row: str, column: str, printed: float | None, ours: float, sem: float | None, off: float, tolerance: float
) -> Cell:
    """A cell that agrees where ``off``, how far ours is from the printed value or bound, is at most the tolerance."""
    if printed is None:
        return Cell(row, column, None, ours, sem, NOT_IN_PAPER)
    return Cell(row, column, printed, ours, sem, AGREES if off <= tolerance else DIFFERS, tolerance)


def unsound(cell: Cell) -> Cell:
    """The cell of a number that was earned with less privacy than stated; whether the number agrees stands beside that."""
    return replace(cell, verdict=UNSOUND, number=cell.verdict)


def not_comparable(cell: Cell) -> Cell:
    """The cell of a printed number that was measured on other data or by another protocol."""
    return cell if cell.paper is None else replace(cell, verdict=NOT_COMPARABLE, tolerance=None)


def seeds_used(rows: Sequence[Mapping[str, Any]], seeds: int) -> dict[str, int]:
    """How many seeds each row ran: as many as asked for, or its own ``most_seeds``."""
    used: dict[str, int] = {}
    for row in rows:
        count = min(seeds, row.get("most_seeds") or seeds)
        name = str(row.get("row", ""))
        used[name] = min(used.get(name, seeds), count)
    return used


@dataclass(frozen=True)
class Experiment:
    """An experiment that was found."""

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
    paper: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def judged(self, rows: Sequence[Row], seeds: int, *, quick: bool = False) -> list[Cell]:
        """The cells of `compare`, with the seeds behind each; a measured number has no verdict where these are too few.

        A quick run that was cut, in seeds or in rounds, has none either.
        """
        cells = self.compare(rows)
        if self.seeds == 1:
            return cells
        cut, used = quick and (self.quick is not self.settings or seeds < self.seeds), seeds_used(rows, seeds)
        found = []
        for cell in cells:
            if not cell.computed:
                own = used.get(cell.row, seeds)
                cell = _withdrawn(replace(cell, seeds=own), cut or own < LEAST_SEEDS)
            found.append(cell)
        return found

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


def _withdrawn(cell: Cell, small: bool) -> Cell:
    """The cell without its verdict on a number, if the run was too small for one."""
    if small and cell.paper is not None and cell.verdict in (AGREES, DIFFERS):
        return replace(cell, verdict=NONE, tolerance=None)
    if small and cell.number in (AGREES, DIFFERS):
        return replace(cell, number=NONE, tolerance=None)
    return cell


_WORDS = {
    AGREES: ("agrees", "agree"),
    DIFFERS: ("differs", "differ"),
    UNSOUND: ("is unsound as published", "are unsound as published"),
    NOT_COMPARABLE: ("is not comparable", "are not comparable"),
    NONE: ("is not judged", "are not judged"),
}


def counted(cells: Sequence[Cell]) -> str:
    """How many printed values agree with ours, differ, or are unsound, as a sentence."""
    printed = [cell.verdict for cell in cells if cell.paper is not None]
    count = {verdict: printed.count(verdict) for verdict in VERDICTS if verdict in printed}
    if not printed:
        return f"No printed value stands beside ours, of which there are {len(cells)}."
    if len(count) == 1:
        one, many = _WORDS[printed[0]]
        return f"The one printed value {one}." if len(printed) == 1 else f"All {len(printed)} printed values {many}."
    parts = [f"{n} {_WORDS[verdict][n > 1]}" for verdict, n in count.items()]
    return f"Of {len(printed)} printed values {', '.join(parts[:-1])} and {parts[-1]}."


def _load(thing: Any, name: str) -> Experiment:
    """The experiment that a module, or an object of a class, describes."""
    about = inspect.getdoc(thing) or ""
    return Experiment(
        name,
        thing.SOURCE,
        about,
        thing.SETTINGS,
        thing.run,
        getattr(thing, "SEEDS", 1),
        thing.compare,
        getattr(thing, "plot", None),
        getattr(thing, "QUICK", thing.SETTINGS),
        getattr(thing, "KEPT", False),
        getattr(thing, "PARTIAL", False),
        getattr(thing, "QUESTION", about.partition("\n")[0]),
        getattr(thing, "answer", None),
        getattr(thing, "PAPER", {}),
    )


def _offers(module: ModuleType) -> dict[str, Experiment]:
    if has(module, "EXPERIMENTS"):
        return {each.NAME: _load(each(), each.NAME) for each in module.EXPERIMENTS}
    if not has(module, "SOURCE", "SETTINGS", "run", "compare"):
        return {}
    name = file_name(module.__name__)
    return {name: _load(module, name)}


_registry = Registry("experiments", None, _offers)


def names() -> list[str]:
    """Every experiment, by name."""
    return _registry.names()


def experiment(name: str) -> Experiment:
    """The experiment of this name; where the papers are not installed, the error says how to get them."""
    if name not in _registry.names() and name not in _registry.refused():
        extras.expect(extras.PAPERS)
    return _registry.find(name)


def module(name: str) -> ModuleType:
    """The module that an experiment comes from."""
    experiment(name)
    return _registry.module(name)
