"""Logs of any length, read from a table block by block. Features are built as they are needed.

The candidates come from one of

    candidates        columns x_k_j: feature j of candidate k, each row its own; a candidate that is null is not there
    a featuriser      a public description: contexts from columns of the log, items from a table, a row's own lists, or
                      one-hot; drafted from the columns where context columns are named and no featuriser is
    an items file     one row an item, its name and numeric features; every item is a candidate of every row
    nothing           the actions of the log are fixed arms: unit vectors

and rows may list the items that they offered. Numeric features that come without a featuriser are scaled by the largest
norm if that is above 1: a public number, like everything here but rewards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Array, Floats, InputError, Integers
from adaprivate.data.files import File, fault
from adaprivate.features import Clipping, Featuriser
from adaprivate.logs.columns import (
    Columns,
    by_number,
    cells_of,
    columns_of,
    counts_of,
    expect_columns,
    hashes,
    names_of,
    numbers,
    opened,
    spelled,
    time_key,
)
from adaprivate.logs.draft import LogFeatures, described, draft, numeric_columns, why_hashed
from adaprivate.logs.findings import UNEVEN, LogFinding, uniform_chance
from adaprivate.logs.inspection import OUTSIDE, Inspection, inspect
from adaprivate.logs.log import Log, Products, steady_propensities
from adaprivate.logs.tables import Source, source_of

CONTRADICTED = "The log's propensities CONTRADICT how often its actions were chosen"


class _TableLog(Log):
    """A log in a table, read again whenever it is gone through. Its parts hold actions, rewards and features.

    ``look``: findings of a first look at all rows. ``names``: the items, where actions are names. ``items``: their rows, or
    their positions, in the same order. ``drafted``: whether the featuriser was drafted from the log.
    """

    def __init__(
        self,
        source: Source,
        columns: Columns,
        look: Inspection,
        names: tuple[str, ...],
        features: LogFeatures | None,
        items: Array | None,
        reward_range: tuple[float, float],
        drafted: bool,
        clipping: Clipping,
    ) -> None:
        self.source, self.columns, self.look, self.names, self.features = source, columns, look, names, features
        self.items, self.reward_range, self.drafted, self.clipping = items, reward_range, drafted, clipping
        self.description = None if features is None else features.to_dict()
        if not columns.propensity:
            self.uniform_chance = min(1.0, 2 * min(uniform_chance(look.shares, look.acceptance)))
        self._fixed = self._fixed_candidates()
        self._by_number = by_number(source, columns)
        self._known = pl.Enum(names)
        self._counting: Clipping | None = clipping

    def __len__(self) -> int:
        return self.look.rows

    @property
    def fixed(self) -> bool:
        return self._fixed is not None

    @property
    def count(self) -> int:
        return len(self.names) if self.look.most_candidates is None else self.look.most_candidates

    @property
    def dimension(self) -> int:
        if self.columns.candidates:
            return len(self.columns.candidates[0])
        if self._fixed is not None:
            return int(self._fixed.shape[2])
        assert self.features is not None
        return self.features.featuriser.dimension

    @property
    def people(self) -> int | None:
        return self.look.people

    @property
    def least_propensity(self) -> float | None:
        return self.look.least_propensity if self.columns.propensity else None

    @property
    def steady(self) -> Floats | None:
        columns = self.columns
        if columns.propensity is None or columns.candidates or columns.offered or columns.item_columns:
            return None
        shares = {str(name): share for name, share in self.look.shares.items()}
        seen = [(shares[name].least, shares[name].largest) if name in shares else (1.0, 0.0) for name in self.names]
        least, largest = np.array(seen).T
        return steady_propensities(least, largest)

    def notes(self) -> list[str]:
        found = [finding for finding in self.look.findings if not finding.places and finding.column is not None]
        found = [finding for finding in found if finding.wrong != UNEVEN]  # which replay says itself
        wrong = "; ".join(f"{finding.column} {finding.wrong}" for finding in found if finding.serious)
        notes = [f"{CONTRADICTED}, so values that rest on them are biased: {wrong}."] if wrong else []
        notes += [f"{finding.column} {finding.wrong}".rstrip("?.") + "." for finding in found if not finding.serious]
        if (worry := self.clipping.warning()) is not None:
            notes.append(worry)
        if self.drafted and self.features is not None:
            names = ", ".join(self.features.context_names) or "none"
            notes.append(
                f"Features were drafted from the log (context: {names}); adaprivate data describe prints the draft, "
                "--featuriser takes a description of yours."
            )
            kinds = [field for field in self.features.featuriser.to_dict()["context"] if field["kind"] == "hashed"]  # type: ignore[attr-defined]
            for field in kinds:
                why = why_hashed(self.source, field["name"])[0].replace("hashed", f"hashed into {field['buckets']} buckets")
                notes.append(f"{field['name']} {why}; leave it out, mend it or describe it.")
        return notes

    def _fixed_candidates(self) -> Floats | None:
        """The candidates, where every row offers the same."""
        columns = self.columns
        if columns.candidates or columns.offered or columns.item_columns:
            return None
        if self.features is None:
            return np.eye(len(self.names))[None]
        if self.features.featuriser.context:
            return None
        return self.features.featuriser.build(None, self.items)[None]

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[Log]:
        columns = self.columns
        wanted = [name for word, name in columns.single.items() if word not in ("position", "time", "id")]
        wanted += [name for own in columns.candidates for name in own]
        wanted += [*columns.item_columns, *(self.features.context_names if self.features else ())]
        counting, self._counting = self._counting, None  # values are counted once, however often rows are gone through
        for _, block in self.source.blocks(wanted, start, stop):
            yield from self._decisions(block, counting).parts()

    def whole(self) -> Log:
        parts = list(self.parts())

        def every(field: str) -> Any:
            arrays = [getattr(part, field) for part in parts]
            return None if arrays[0] is None else np.concatenate(arrays)

        candidates = every("candidates") if self._fixed is None else self._fixed
        return Log(candidates, *map(every, ("actions", "rewards", "propensities", "users", "counts")))

    def _decisions(self, block: pl.DataFrame, counting: Clipping | None) -> Log:
        columns, (low, high) = self.columns, self.reward_range
        rewards = (numbers(block[columns.reward]).to_numpy() - low) / (high - low)
        known = None if columns.propensity is None else numbers(block[columns.propensity]).to_numpy()
        users = None if columns.user is None else (hashes(spelled(block[columns.user])) >> np.uint64(1)).astype(np.int64)
        candidates, counts, actions = self._choices(block, counting)
        return Log(candidates, actions, rewards, known, users, counts)

    def _choices(self, block: pl.DataFrame, counting: Clipping | None) -> tuple[Floats | Products, Integers | None, Array]:
        """The candidates of each row of a block, their number where it differs, and the action."""
        columns = self.columns
        if self._by_number:
            actions: Integers = numbers(block[columns.action]).to_numpy().astype(np.int64)
        else:
            actions = self._codes(block[columns.action])
        if self._fixed is not None:
            return self._fixed, None, actions
        if columns.candidates:
            cells, counts = cells_of(block, columns)
            scaled = np.nan_to_num(cells[:, : self.count]) / max(self.look.longest, 1.0)
            return np.ascontiguousarray(scaled), counts, actions
        assert self.features is not None
        featuriser, contexts = self.features.featuriser, self.features.contexts(block, counting)
        if columns.item_columns:
            items, own = self._own_items(block, counting)
            return Products(featuriser, contexts, items), own, actions
        assert self.items is not None
        if columns.offered is None:
            return Products(featuriser, contexts, self.items), None, actions
        places, own = self._listed(block)
        if not self._by_number:
            here = (places == actions[:, None]) & (np.arange(places.shape[1]) < own[:, None])
            actions = here.argmax(axis=1)
        return Products(featuriser, contexts, self.items[places]), own, actions

    def _codes(self, values: pl.Series) -> Integers:
        return values.cast(pl.String).cast(self._known).to_physical().cast(pl.Int64).to_numpy()

    def _listed(self, block: pl.DataFrame) -> tuple[Integers, Integers]:
        """The places of each row's candidates among the items, and how many there are."""
        assert self.columns.offered is not None
        lists = names_of(block[self.columns.offered])
        counts = lists.list.len().to_numpy().astype(np.int64)
        return _padded(self._codes(lists.explode()), counts, self.count), counts

    def _own_items(self, block: pl.DataFrame, counting: Clipping | None) -> tuple[Floats, Integers]:
        """The features of each row's own candidates, and how many there are."""
        counts = counts_of(block, self.columns)
        assert counts is not None
        assert self.features is not None
        flat = pl.DataFrame({name: _exploded(block[name], counts) for name in self.columns.item_columns})
        return _padded(self.features.of_columns(flat, counting), counts, self.count), counts


def _exploded(lists: pl.Series, counts: Integers) -> pl.Series:
    """The entries of lists one below the other; of a row whose list is missing, as many nulls as it has candidates."""
    if lists.null_count() == 0:
        return lists.explode()
    frame = pl.DataFrame({"values": lists, "count": counts})
    nulls = pl.lit(None, lists.dtype.inner).repeat_by("count")  # type: ignore[attr-defined]
    return frame.select(pl.coalesce("values", nulls)).to_series().explode()


def _padded(flat: Array, counts: Integers, most: int) -> Array:
    """What belongs to rows, one below the other, as (n, most, ...); zeros where a row has fewer."""
    found = np.zeros((len(counts), most, *flat.shape[1:]), dtype=flat.dtype)
    row = np.repeat(np.arange(len(counts)), counts)
    found[row, np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)] = flat
    return found


def read_log(
    source: Any,
    *,
    items: Any = None,
    featuriser: str | Path | Mapping[str, Any] | Featuriser | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    **columns: Any,
) -> _TableLog:
    """Read a log from a file or table. Its ``columns`` are named as in :func:`adaprivate.logs.columns.columns_of`."""
    low, high = (check.real("reward_range", bound) for bound in reward_range)
    check.expect(low < high, "reward_range", reward_range, "to be two numbers, the smaller one first")
    found = source_of(source)
    named = columns_of(found, **columns)
    expect_columns(found, named)
    if items is None:
        items = found.usual.get("items")
    own = bool(named.candidates)
    check.expect(not (own and items is not None), "items", "...", "not to be given with candidates' own features")
    check.expect(not (own and named.context), "context", named.context, "not to be given with candidates' own features")
    check.expect(not (own and featuriser is not None), "featuriser", "...", "not to be given with candidates' own features")
    look = inspect(found, named, reward_range=(low, high))
    if named.propensity and not columns.get("propensity") and _says_nothing(look, named.propensity):
        named = replace(named, propensity=None)
        look = inspect(found, named, reward_range=(low, high))
    for finding in look.faults:
        if finding.places:
            _refuse(found, finding)
    if named.time is not None and not look.in_order:
        found = found.sorted(time_key(found, named.time))
    return _prepared(found, named, look, items, featuriser, (low, high))


def _says_nothing(look: Inspection, column: str) -> bool:
    return any((one.column, one.wrong, one.rows) == (column, "is missing", look.rows) for one in look.findings)


def _refuse(source: Source, finding: LogFinding) -> NoReturn:
    more = f" (as in {finding.rows:,} rows)" if finding.rows > 1 else ""
    where = f"{source.file}, {source.of} {finding.places[0]}, column {finding.column}"
    wider = ""
    if finding.wrong.startswith(OUTSIDE):
        wider = " State the range of rewards: reward_range=(least, greatest), or --reward-range."
    raise InputError(
        f"Expected {where} to be right: it {finding.wrong}{more}.{wider} adaprivate data check lists all faults."
    )


def _prepared(
    source: Source,
    columns: Columns,
    look: Inspection,
    items: Any,
    featuriser: str | Path | Mapping[str, Any] | Featuriser | None,
    reward_range: tuple[float, float],
) -> _TableLog:
    table, file = None, File(Path("items"))
    names: tuple[str, ...] = ()
    if items is not None:
        file, table = opened(items, "items")
        names = tuple(str(value) for value in table[table.columns[0]].to_list())
        check.expect(len(set(names)) == len(names), f"items of {file}", "...", "to be there once each")
    elif not (columns.candidates or columns.item_columns):
        names = tuple(sorted(look.names) if columns.offered else map(str, look.shares))
    used = set(look.names) if columns.offered else {str(name) for name in look.shares}
    if table is not None:
        unknown = sorted(used - set(names))
        check.expect(not unknown, "actions", unknown[:3], f"to be items of {file}")
    features, drafted = None, False
    if featuriser is not None:
        features = described(featuriser)
    elif columns.context or columns.item_columns or (table is not None and not numeric_columns(table)):
        features = LogFeatures.from_dict(draft(source, columns.context, table, columns.item_columns, len(names)))
        drafted = True
    elif table is not None:
        features = _by_numbers(file, table)
    elif columns.offered is not None:
        one_hot = {"kind": "one-hot", "most": len(names)}
        features = LogFeatures.from_dict({"items": one_hot, "interactions": "none"})
    if features is not None:
        columns.expect_private("a context of the featuriser", features.context_names)
        own = [one.name for one in features.item_fields]
        columns.expect_private("items", own or ([] if features.one_hot or table is None else table.columns))
    rows: Array | None = None
    clipping = Clipping()
    if features is not None and not columns.item_columns:
        rows = features.item_rows(_item_table(features, table, names), clipping)
        rows = features.featuriser.item_vectors(rows, None if features.item_fields else clipping)[0]
    return _TableLog(source, columns, look, names, features, rows, reward_range, drafted, clipping)


def _item_table(features: LogFeatures, table: pl.DataFrame | None, names: tuple[str, ...]) -> pl.DataFrame:
    if table is not None:
        return table
    check.expect(features.one_hot, "items", None, "to be given: the featuriser describes features of items")
    return pl.DataFrame({"name": list(names)})


def _by_numbers(file: File, table: pl.DataFrame) -> LogFeatures:
    """Items by their numeric columns, scaled by the longest where that is above 1."""
    named = numeric_columns(table)
    features = table.select(named).cast(pl.Float64).to_numpy()
    wrong = np.argwhere(~np.isfinite(features))
    if len(wrong):
        row, column = wrong[0].tolist()
        fault(file, row + 1, named[column], float(features[row, column]), "to be a finite number", of="row")
    longest = max(float(np.linalg.norm(features, axis=1).max()), 1.0)
    kind = {"kind": "features", "length": len(named), "norm": longest}
    return LogFeatures.from_dict({"items": kind, "interactions": "none"})
