"""A public table of items, checked once, among which policies choose again and again."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import entry
from adaprivate.features.clipping import clipping_warning
from adaprivate.policies.core.stock import Stock, stocked
from adaprivate.runtime.learner import clip

COARSE_FROM = 256
"""From so many items on a coarse copy pays."""
MOST_LIKELIHOODS = 1000
"""Among more items nobody can tell how likely each was: nearly all are chosen less often than once in so many draws."""


@entry
def _clipped(table: Floats) -> int:
    return clip(table)


class Catalogue:
    """Public items that stay: ``decide(catalogue)`` chooses among all, ``decide(catalogue, among=places)`` among some.

    ``features`` (items, dimension) are copied, checked and clipped to norm 1 here and not in every decision; what happens
    to the array afterwards changes nothing. ``ids``: a name for each item, all different, as ``decision.item`` gives it;
    ``decision.action`` is always an item's place in the catalogue, from 0 on. From 256 items on a coarse copy is kept, a
    quarter as large; choices are the same as without, and as from the array itself, but for rounding where upper bounds lie
    at the edge of a tie. Any number of policies and threads may share a catalogue. It is no part of a saved policy.
    """

    __slots__ = ("_stock", "clipped", "ids")

    def __init__(self, features: object, ids: object = None) -> None:
        table = np.array(check.floats("features", features, (None, None)), order="C")
        check.expect(0 not in table.shape, "features.shape", table.shape, "== (items, dimension), at least 1 each")
        longer = _clipped(table)
        if longer < 0:
            with np.errstate(over="ignore"):
                row = int(np.argmax((table * table).sum(axis=1)))
            raise check.InputError(f"Expected features[{row}] to have a norm <= 1e150.")
        self.clipped: int
        """How many items were longer than 1 and were clipped."""
        self.ids: tuple[Any, ...] | None
        """The name of each item, if any were given."""
        object.__setattr__(self, "clipped", longer)
        object.__setattr__(self, "ids", None if ids is None else _names(ids, len(table)))
        self._stock: Stock
        object.__setattr__(self, "_stock", stocked(table, coarse=len(table) >= COARSE_FROM))
        if clipping_warning(longer, len(table)) is not None:
            text = f"{longer:,} of {len(table):,} items were longer than 1 and were clipped: their lengths are lost."
            warnings.warn(
                f"{text} Scale features by public constants; ap.Featuriser does.", check.ClippedWarning, stacklevel=2
            )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a catalogue does not change: make another for another {name}")

    @property
    def features(self) -> Floats:
        """The items' features as they are used (items, dimension): to be read."""
        view: Floats = self._stock.table.view()
        view.flags.writeable = False
        return view

    @property
    def dimension(self) -> int:
        """How many features an item has."""
        return int(self._stock.table.shape[1])

    def __len__(self) -> int:
        return len(self._stock.table)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.features, dtype=dtype) if copy or dtype not in (None, np.float64) else self.features

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (np.array(self.features), self.ids, self.clipped)

    def __repr__(self) -> str:
        size = sum(part.nbytes for part in (self._stock.table, self._stock.coarse)) / 1e6
        clipped = f", {self.clipped:,} clipped" if self.clipped else ""
        return f"Catalogue({len(self):,} items, dimension {self.dimension}, {size:,.1f} MB{clipped})"

    def _offer(self, among: object, dimension: int | None) -> Stock:
        """These items as compiled code reads them; ``among`` and the dimension, if one is given, are checked."""
        check.expect(dimension in (None, self.dimension), "candidates.dimension", self.dimension, f"== {dimension}")
        stock: Stock = self._stock
        return stock if among is None else stock._replace(places=_places(among, len(self)))


def _again(features: Floats, ids: tuple[Any, ...] | None, clipped: int) -> Catalogue:
    """The catalogue that was copied or pickled."""
    catalogue = Catalogue(features, ids)
    object.__setattr__(catalogue, "clipped", clipped)
    return catalogue


def _names(ids: object, count: int) -> tuple[Any, ...]:
    if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        raise check.InputError(f"Expected ids of type {type(ids).__name__} to be a list, one id for each item.")
    names = tuple(ids.tolist() if isinstance(ids, np.ndarray) else ids)
    check.expect(len(names) == count, "len(ids)", len(names), f"== {count}, one for each item")
    seen: set[Any] = set()
    try:
        twice = next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]
    except TypeError:
        raise check.InputError("Expected ids to be texts, numbers or others that can be compared (hashable).") from None
    check.expect(len(seen) == count, "ids", twice, "to come once")
    return names


def _places(among: object, count: int) -> Integers:
    """Places in a catalogue of so many items, from a list of them or a mask: each once, in the order given."""
    try:
        given = np.asarray(among)
    except ValueError:  # lists of different lengths
        given = np.empty((), dtype=object)
    if given.dtype == np.bool_ and given.ndim == 1:
        check.expect(len(given) == count, "len(among)", len(given), f"== {count}, or a list of places")
        given = np.flatnonzero(given)
    whole = given.ndim == 1 and (given.dtype.kind in "iu" or not len(given))
    check.expect(whole, check.Unsaid("among"), among, "to be a list of whole numbers, the places of items, or a mask")
    check.expect(len(given) > 0, check.Unsaid("among"), among, "to hold at least one item")
    ordered = np.sort(given)
    if ordered[0] < 0 or ordered[-1] >= count:
        where = int(np.flatnonzero((given < 0) | (given >= count))[0])
        check.expect(False, check.Unsaid(f"among[{where}]"), given[where], f">= 0 and < {count}, the items")
    repeated = bool((ordered[1:] == ordered[:-1]).any())
    check.expect(not repeated, check.Unsaid("among"), among, "to name every item once")
    return np.array(given, np.int64)


def catalogue_of(candidates: object, among: object) -> Catalogue | None:
    """The catalogue, or None for candidates of another kind."""
    if isinstance(candidates, Catalogue):
        return candidates
    kind = type(candidates).__name__
    check.expect(
        among is None,
        check.Unsaid("among"),
        among,
        f"not to be given with candidates of type {kind}, only with a Catalogue",
    )
    return None


def sets_of(among: object) -> list[object]:
    """What each of several decisions chooses among."""
    one_each = isinstance(among, list | tuple) or (isinstance(among, np.ndarray) and among.ndim == 2)
    kind = type(among).__name__
    text = f"Expected among of type {kind} to be a list with the places or the mask of each decision; None for all items."
    if not one_each:
        raise check.InputError(text)
    found: list[object] = list(among)  # type: ignore[call-overload]
    if not found or any(isinstance(one, int | np.integer) for one in found):
        raise check.InputError(text)
    return found


def expect_few(stocks: list[Stock]) -> None:
    """Raise where probabilities are asked for among too many items."""
    for stock in stocks:
        count = len(stock.places) or len(stock.table)
        check.expect(
            count <= MOST_LIKELIHOODS,
            "candidates",
            count,
            f"<= {MOST_LIKELIHOODS} with propensities: among more, how likely one is cannot be told. Choose among fewer",
        )


def rows_in(stock: Stock) -> Floats:
    """The features of the candidates (K, d)."""
    return stock.table[stock.places] if len(stock.places) else stock.table
