"""One look at every row of a log: all its faults, and the public facts that are needed before its rows can be used.

Of rewards it says how many are wrong and where. It never repeats one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from adaprivate.check import Array, Integers
from adaprivate.logs.columns import (
    REWARDS,
    TIMES,
    Columns,
    by_number,
    cells_of,
    counts_of,
    hashes,
    moments,
    names_of,
    numbers,
    perhaps,
    spelled,
    unreadable,
    usual_name,
)
from adaprivate.logs.findings import EXAMPLES, TWICE, LogFinding, Share, misspelt, repeated, share_findings, visit_findings
from adaprivate.logs.tables import Source

EARLIER = "is earlier than in the row before: evaluate puts rows in order first"
ABOVE = "is above 1"
OUTSIDE = "is not within"
"""What is wrong with a reward out of its range, as the text begins."""
MOST_PEOPLE = 1 << 16
"""Number of users that are counted exactly. Of more, the count is approximate."""


@dataclass
class Inspection:
    """What a look at a log found."""

    rows: int
    findings: list[LogFinding] = field(default_factory=list)
    shares: dict[Any, Share] = field(default_factory=dict)
    least_propensity: float | None = None
    people: int | None = None
    in_order: bool = True
    names: set[str] = field(default_factory=set)
    """Every candidate that a row names."""
    most_candidates: int | None = None
    """The most that a row offers, where rows differ."""
    acceptance: float = 0.0
    """The mean of 1 / candidates over rows, where rows differ."""
    longest: float = 0.0
    """The largest norm of a candidate's features, where those stand in columns."""

    @property
    def faults(self) -> list[LogFinding]:
        """What is wrong, without what is only worth knowing."""
        return [finding for finding in self.findings if finding.serious]


class _Faults:
    """Counts of what is wrong, by column and words, with the first places."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: dict[tuple[str | None, str], tuple[int, list[int]]] = {}

    def add(self, column: str | None, wrong: str, mask: Any, start: int) -> None:
        rows = np.flatnonzero(mask.fill_null(False).to_numpy() if isinstance(mask, pl.Series) else mask)
        if len(rows):
            count, places = self.found.get((column, wrong), (0, []))
            room = EXAMPLES - len(places)
            places = places + [self.source.place(start + row) for row in rows[:room].tolist()]
            self.found[column, wrong] = (count + len(rows), places)

    def rename_percentages(self, column: str | None, largest: float, rows: int) -> bool:
        """Say of propensities above 1 that they look like percentages, where they do; whether they did."""
        count, places = self.found.get((column, ABOVE), (0, []))
        percentages = 2 * count > rows and 2 < largest <= 100
        if percentages:
            del self.found[column, ABOVE]
            self.found[column, f"{ABOVE}: these look like percentages, so divide by 100"] = (count, places)
        return percentages

    def listed(self) -> list[LogFinding]:
        return [LogFinding(column, wrong, n, tuple(places)) for (column, wrong), (n, places) in self.found.items()]


class _People:
    """Counts users by the smallest of their hashes: exactly while they are few, then with an error of 0.4 %."""

    def __init__(self) -> None:
        self.smallest = np.zeros(0, dtype=np.uint64)

    def add(self, hashes: Array) -> None:
        self.smallest = np.unique(np.concatenate([self.smallest, hashes]))[: MOST_PEOPLE + 1]

    def count(self) -> int:
        if len(self.smallest) <= MOST_PEOPLE:
            return len(self.smallest)
        share = float(self.smallest[-1]) / 2.0**64  # of all hashes, MOST_PEOPLE are smaller than this one
        return max(round(MOST_PEOPLE / share), MOST_PEOPLE + 1)


def inspect(
    source: Source, columns: Columns, *, reward_range: tuple[float, float] = (0.0, 1.0), thorough: bool = False
) -> Inspection:
    """Look at every row. ``thorough``: also at contexts, at ids that come twice and at how often people come."""
    found, faults, people = Inspection(len(source)), _Faults(source), _People()
    there = {word: name for word, name in columns.single.items() if name in source.schema}
    for name in (name for word, name in columns.single.items() if word not in there):
        found.findings.append(
            LogFinding(name, f"is not a column of the log.{perhaps(name, source.columns)}".rstrip("."), 1)
        )
    if not len(source):
        found.findings.append(LogFinding(None, "the log holds no rows", 1))
        return found
    wanted = [*there.values(), *(name for own in columns.candidates for name in own), *columns.item_columns[:1]]
    wanted += columns.context if thorough else ()
    chosen: dict[Any, list[float]] = {}
    offers: Counter[Any] = Counter()
    seen: list[Array] = []
    visits: list[tuple[Array, Array]] = []
    last: Any = None
    kept = largest = 0.0
    dated = thorough and bool(columns.user) and usual_name((columns.time or "", *TIMES), source.columns) is not None
    telling = [
        name for name, kind in source.schema.items() if not unreadable(kind) and name not in (columns.reward, *REWARDS)
    ]
    for start, block in source.blocks(wanted, 0):
        counts = counts_of(block, columns) if "offered" in there or columns.offered is None else None
        if "reward" in there:
            _check_reward(faults, block[there["reward"]], reward_range, start)
        if "propensity" in there:
            known = numbers(block[there["propensity"]])
            _check_propensity(faults, block[there["propensity"]], known, start)
            right = known.filter((known > 0).fill_null(False))
            if len(right):
                least = float(right.min())  # type: ignore[arg-type]
                found.least_propensity = min(found.least_propensity or least, least)
                largest = max(largest, float(right.max()))  # type: ignore[arg-type]
        if "action" in there:
            _check_action(faults, block, source, columns, counts, start)
            _count_actions(chosen, block, columns, there.get("propensity"))
        if counts is not None:
            _check_counts(faults, block, columns, counts, start, found)
            kept += float((1 / np.maximum(counts, 1)).sum())
            _count_offers(offers, block, source, columns, counts)
        if "user" in there:
            whose = block[there["user"]]
            nobody = _absent(whose)
            faults.add(there["user"], "is missing", nobody, start)
            people.add(hashes(spelled(whose.filter(~nobody))))
            if thorough:
                visits.append(np.unique(hashes(spelled(whose.filter(~nobody))), return_counts=True))
        if "time" in there:
            last = _check_time(faults, block[there["time"]], last, start, found)
        if thorough and "id" in there:
            nameless = _absent(block[there["id"]])
            known_ids = hashes(block[there["id"]].cast(pl.String).fill_null(""))
            ids = np.arange(start, start + len(block), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # each its own
            seen.append(np.where(nameless.to_numpy(), ids, known_ids))
            faults.add(there["id"], "is missing", nameless, start)
        for name in columns.context if thorough else ():
            if block[name].dtype.is_float():
                faults.add(name, "is not a finite number", ~block[name].is_finite(), start)
            if missing := block[name].null_count():
                key = (name, "is missing: its field needs a 'missing' value")
                faults.found[key] = (faults.found.get(key, (0, []))[0] + missing, [])
    percentages = faults.rename_percentages(there.get("propensity"), largest, len(source))
    found.findings += [finding._replace(serious=_serious(finding.wrong)) for finding in faults.listed()]
    found.shares = _shares(chosen, offers, found.rows)
    found.people = people.count() if "user" in there else None
    found.acceptance = kept / found.rows if found.most_candidates is not None else 0.0
    if thorough and seen:
        found.findings += repeated(source, there["id"], seen)
    if thorough and visits:
        found.findings += visit_findings(visits)
    if dated:
        rows = [block.hash_rows(seed=1).to_numpy() for _, block in source.blocks(telling)]
        found.findings += [twice._replace(serious=False) for twice in repeated(source, None, rows, TWICE)]
    if "action" in there and not by_number(source, columns):
        found.findings += misspelt(found.shares, there["action"])
    if found.shares and not percentages and not faults.found.get((there.get("propensity"), "is missing")):
        found.findings += share_findings(
            found.shares, found.rows, found.acceptance, there.get("propensity"), there["action"]
        )
    return found


def _serious(wrong: str) -> bool:
    return wrong != EARLIER and "needs a 'missing'" not in wrong


def _absent(values: pl.Series) -> pl.Series:
    missing = values.is_null()
    if values.dtype == pl.String:
        missing |= (values == "").fill_null(True)
    elif values.dtype.is_float():
        missing |= values.is_nan().fill_null(True)
    return missing


def _check_reward(faults: _Faults, values: pl.Series, bounds: tuple[float, float], start: int) -> None:
    known, absent = numbers(values), _absent(values)
    faults.add(values.name, "is missing", absent, start)
    faults.add(values.name, "is not a number", known.is_null() & ~absent, start)
    beyond = ~known.is_between(*bounds) & ~absent
    faults.add(values.name, f"{OUTSIDE} {bounds[0]:g} .. {bounds[1]:g}", beyond, start)


def _check_propensity(faults: _Faults, values: pl.Series, known: pl.Series, start: int) -> None:
    absent = _absent(values)
    faults.add(values.name, "is missing", absent, start)
    faults.add(values.name, "is not a number", known.is_null() & ~absent, start)
    faults.add(values.name, "is not above 0", (known <= 0) & ~absent, start)
    faults.add(values.name, ABOVE, (known > 1) & ~absent, start)


def _check_action(
    faults: _Faults, block: pl.DataFrame, source: Source, columns: Columns, counts: Integers | None, start: int
) -> None:
    values = block[columns.action]
    absent = _absent(values)
    faults.add(columns.action, "is missing", absent, start)
    if by_number(source, columns):
        known = numbers(values).to_numpy()
        assert counts is not None
        with np.errstate(invalid="ignore"):
            outside = ~((known >= 0) & (known < counts) & (known == np.floor(known)))
        faults.add(columns.action, "is not the number of a candidate of its row", outside & ~absent.to_numpy(), start)
    elif columns.offered is not None and columns.offered in block.columns:
        pairs = pl.DataFrame({"names": names_of(block[columns.offered]), "own": values.cast(pl.String)})
        inside = pairs.select(pl.col("names").list.contains(pl.col("own"))).to_series().fill_null(False)
        faults.add(columns.action, "is not among the candidates of its row", ~inside & ~absent, start)


def _check_counts(
    faults: _Faults, block: pl.DataFrame, columns: Columns, counts: Integers, start: int, found: Inspection
) -> None:
    found.most_candidates = max(found.most_candidates or 0, int(counts.max(initial=0)))
    what = columns.offered or (columns.candidates[0][0] if columns.candidates else columns.item_columns[0])
    faults.add(what, "names no candidate", counts == 0, start)
    if columns.candidates:
        cells, _ = cells_of(block, columns)
        missing: Array = np.isnan(cells)
        partly: Array = np.asarray(missing.any(axis=2) & ~missing.all(axis=2))
        faults.add(what, "and the like are missing for some features of a candidate", partly.any(axis=1), start)
        gap: Array = (np.arange(cells.shape[1]) < counts[:, None]) & missing.all(axis=2)
        faults.add(what, "and the like leave out a candidate before others", gap.any(axis=1), start)
        faults.add(what, "and the like are not finite", np.isinf(cells).any((1, 2)), start)
        finite = np.where(np.isfinite(cells), cells, 0.0)
        found.longest = max(found.longest, float(np.sqrt((finite * finite).sum(axis=2)).max(initial=0.0)))
    elif columns.offered is not None:
        names = names_of(block[columns.offered])
        found.names |= set(names.explode().drop_nulls().unique().to_list())
        faults.add(what, "names a candidate twice", names.list.n_unique() < names.list.len(), start)


def _count_actions(chosen: dict[Any, list[float]], block: pl.DataFrame, columns: Columns, propensity: str | None) -> None:
    known = numbers(block[propensity]) if propensity else pl.Series("p", [1.0]).new_from_index(0, len(block))
    frame = pl.DataFrame({"action": block[columns.action], "p": known}).filter(pl.col("p") > 0)
    sums = frame.group_by("action").agg(
        pl.len(),
        (1 / pl.col("p")).sum().alias("i"),
        (1 / pl.col("p") ** 2).sum().alias("s"),
        pl.min("p"),
        pl.max("p").alias("q"),
    )
    for action, rows, inverse, squares, least, largest in sums.iter_rows():
        own = chosen.setdefault(action, [0, 0.0, 0.0, 1.0, 0.0])
        chosen[action] = [own[0] + rows, own[1] + inverse, own[2] + squares, min(own[3], least), max(own[4], largest)]


def _count_offers(offers: Counter[Any], block: pl.DataFrame, source: Source, columns: Columns, counts: Integers) -> None:
    if by_number(source, columns):
        sizes = np.bincount(counts)
        more = len(block) - np.cumsum(sizes)
        offers.update({k: int(n) for k, n in enumerate(more[:-1].tolist())})
    elif columns.offered is not None:
        tally = names_of(block[columns.offered]).explode().value_counts()
        offers.update(dict(tally.iter_rows()))


def _check_time(faults: _Faults, values: pl.Series, last: Any, start: int, found: Inspection) -> Any:
    absent, known = _absent(values), moments(values)
    faults.add(values.name, "is missing", absent, start)
    faults.add(
        values.name,
        "is no time (a number, a date, or a text such as 2024-05-01T12:30:00)",
        known.is_null() & ~absent,
        start,
    )
    filled = known.fill_null(strategy="forward")
    before = filled.shift(1)
    earlier = (filled < before).fill_null(False)
    if (
        last is not None
        and len(filled)
        and filled[0] is not None
        and isinstance(filled[0], type(last))
        and filled[0] < last
    ):
        earlier = earlier.scatter(0, True)
    faults.add(values.name, EARLIER, earlier, start)
    found.in_order = found.in_order and not bool(earlier.any())
    return filled[-1] if len(filled) and filled[-1] is not None else last


def _shares(chosen: dict[Any, list[float]], offers: Counter[Any], rows: int) -> dict[Any, Share]:
    known = [action for action in chosen if action is not None]
    ordered = sorted(known, key=lambda action: (isinstance(action, str), action))
    return {
        action: Share(int(n), offers.get(action, offers.get(str(action), 0)) if offers else rows, i, s, least, largest)
        for action in ordered
        for n, i, s, least, largest in (chosen[action],)
    }
