"""The decision log: what was offered and chosen, one row a decision, for `adaprivate evaluate` and your own analyses.

Without rewards the log holds what the service treats as public anyway: rounds, candidates and their features, choices, how
likely they were, and people as keyed numbers. (The service runs no policy whose contexts are private; the log of one would
be private too.) **With rewards the log is PRIVATE and outside the guarantee**: whoever reads it sees every reward, and what
is computed from it protects nobody unless noise is added (`adaprivate evaluate --release-epsilon`). Rewards are there only
where the bandit was made to keep them, or where the caller brings their own.

The holdback's rounds (stream="holdback") are an honest log of uniform choice: any policy can be judged on them.

Rows are read group by group and written in parts: a log may be larger than memory. This module reads rewards where they are
asked for.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import sqlalchemy as sa

from adaprivate import check
from adaprivate.check import Floats, InputError, Integers
from adaprivate.logs.columns import opened
from adaprivate.service import schema
from adaprivate.service.bandit import Bandit
from adaprivate.service.cataloguing import catalogue_of
from adaprivate.service.database import Database
from adaprivate.service.deciding import Group, group_of
from adaprivate.service.faults import Fault
from adaprivate.service.schema import STREAMS

BEGINNING = "x"
"""How columns of candidates' features begin: x_2_0 is the first feature of the third candidate."""
MOST_COLUMNS = 10_000
"""With more columns of features than this they are left out, unless asked for."""
PAGE = 200
PART = 20_000
"""Groups that are read at once, and rows that are written at once."""


class Rows(NamedTuple):
    """A group of decisions as it was stored."""

    first_round: int
    at: float
    version: int
    group: Group


@dataclass
class DecisionLog:
    """The decisions of one bandit so far, to be read in frames.

    rewards: those that the bandit keeps, if it does (True), none (False), or the caller's own: a table or file of
    decision_id and reward. stream: policy or holdback alone, with its own propensities; else they are of the mixture that
    decided. ids: name decisions: whoever may report rewards can then do it of these. features: of all candidates;
    None: where they fit in 10,000 columns. absent: what a decision earned of which no reward is known (default: what the
    bandit counts it as).
    """

    database: Database
    name: str
    rewards: pl.DataFrame | str | Path | bool = True
    stream: str | None = None
    ids: bool = False
    features: bool | None = None
    absent: float | None = None
    rows: int = field(default=0, init=False)
    """So many were read."""
    matched: int = field(default=0, init=False)
    """So many of the caller's rewards were of these decisions."""
    flipped: int = field(default=0, init=False)
    """So many rewards that came are null: they were flipped before they were stored."""
    waiting: int = field(default=0, init=False)
    """So many decisions are left out, as their batch still takes rewards."""

    def __post_init__(self) -> None:
        if self.stream is not None:
            check.one_of("stream", self.stream, STREAMS)
        b = schema.bandits
        with self.database.reading() as connection:
            row = connection.execute(sa.select(b).where(b.c.name == self.name)).one_or_none()
            if row is None:
                raise Fault("unknown-bandit", f"There is no bandit {self.name!r:.80}.")
            self.bandit, self.decided = Bandit.of(row), int(row.decided)
            self._catalogue = catalogue_of(connection, self.bandit)
            books = sa.select(schema.books.c.stream, schema.books.c.sealed).where(schema.books.c.bandit == row.id)
            self._sealed = {one.stream: one.sealed for one in connection.execute(books)}
        self._own = None if isinstance(self.rewards, bool) else _own_rewards(self.rewards)
        self._keeps = self.rewards is True and self.bandit.spec.keep_rewards
        self.private = self._own is not None or self._keeps
        self._absent = (
            self.bandit.missing if self.absent is None else check.real("absent", self.absent, at_least=0, at_most=1)
        )
        self._width = max((int(np.diff(rows.group.starts).max()) for rows in self._stored()), default=0)
        columns = self._width * self.bandit.dimension
        self._featured = columns <= MOST_COLUMNS if self.features is None else self.features

    def frames(self) -> Iterator[pl.DataFrame]:
        """The log in parts; at least one, which may be empty."""
        cells = max(1, self._width * self.bandit.dimension) if self._featured else 1
        most = max(1, min(PART, 5_000_000 // cells))
        waiting: list[Rows] = []
        count, written = 0, False
        for rows in self._stored():
            waiting.append(rows)
            count += len(rows.group.actions)
            if count >= most:
                yield self._finished(waiting)
                waiting, count, written = [], 0, True
        if waiting or not written:
            yield self._finished(waiting)

    def _stored(self) -> Iterator[Rows]:
        """Group by group, in short transactions: nobody waits for a long log. What is stored never changes."""
        d = schema.decisions
        query = sa.select(d.c.first_round, d.c.at, d.c.version, d.c.data).where(d.c.bandit == self.bandit.id)
        next_round = 0
        while next_round < self.decided:
            page = query.where(d.c.first_round >= next_round, d.c.first_round < self.decided)
            with self.database.reading() as connection:
                found = connection.execute(page.order_by(d.c.first_round).limit(PAGE)).all()
            for row in found:
                group = group_of(row.data)
                yield Rows(row.first_round, row.at, row.version, group)
                next_round = row.first_round + len(group.actions)
            if not found:
                break

    def _finished(self, stored: list[Rows]) -> pl.DataFrame:
        frame = self._with_rewards(self._frame(stored))
        if not self.ids and self._own is not None:
            frame = frame.drop("decision_id")
        self.rows += len(frame)
        return frame

    def _frame(self, stored: list[Rows]) -> pl.DataFrame:
        """What is public of these decisions."""
        groups = [rows.group for rows in stored]
        sizes = [len(group.actions) for group in groups]
        total = sum(sizes)
        counts = _joined([np.diff(group.starts) for group in groups])
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        actions, streams = _joined([group.actions for group in groups]), _joined([group.streams for group in groups])
        rounds = _joined([rows.first_round + np.arange(size) for rows, size in zip(stored, sizes, strict=True)])
        names = self._offered(groups)
        columns: dict[str, Any] = {
            "round": rounds,
            "at": pl.Series((np.repeat([rows.at for rows in stored], sizes) * 1e6).astype(np.int64)).cast(
                pl.Datetime("us", "UTC")
            ),
            "version": np.repeat([rows.version for rows in stored], sizes).astype(np.int64),
            "stream": pl.Series(list(STREAMS)).gather(streams),
            "item": names.gather(starts[:-1] + actions),
            "action": actions,
            "candidates": _lists(names, counts),
            "propensity": self._propensities(groups, streams, counts),
        }
        if self.ids or self._own is not None:
            pairs = zip(streams.tolist(), rounds.tolist(), strict=True)
            columns["decision_id"] = [self.bandit.token(stream, number) for stream, number in pairs]
        if self.bandit.needs_user:
            columns["user"] = _joined([group.people for group in groups])
        if self._featured:
            cells = np.full((total, self._width, self.bandit.dimension), np.nan)
            places = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
            cells[np.repeat(np.arange(total), counts), places] = self._features(groups)
            columns |= {
                f"{BEGINNING}_{k}_{j}": pl.Series(cells[:, k, j]).fill_nan(None)
                for k in range(self._width)
                for j in range(self.bandit.dimension)
            }
        frame = pl.DataFrame(columns, schema_overrides={"decision_id": pl.String})
        return frame if self.stream is None else frame.filter(pl.col("stream") == self.stream)

    def _offered(self, groups: list[Group]) -> pl.Series:
        """The names of all candidates, one below the other."""
        known = list(self._catalogue.ids)
        codes = []
        for group in groups:
            code = group.positions.astype(np.int64)
            own = code < 0
            code[own] = len(known) + np.arange(own.sum())
            known += group.names
            codes.append(code)
        return pl.Series(known, dtype=pl.String).gather(_joined(codes))

    def _propensities(self, groups: list[Group], streams: Integers, counts: Integers) -> pl.Series:
        """Of the stream that is asked for, or of the mixture that decided; null where nobody asked."""
        found = np.concatenate([np.zeros(0), *(group.propensities for group in groups)])
        share = self.bandit.spec.holdback
        if self.stream == "holdback":
            found = 1.0 / counts
        elif self.stream == "policy" and share:
            found = np.clip((found - share / counts) / (1 - share), 1e-9, 1.0)
        return pl.Series(found, dtype=pl.Float64).fill_nan(None)

    def _features(self, groups: list[Group]) -> Floats:
        """The features of all candidates, one below the other, as they were when it was decided."""
        parts = [np.zeros((0, self.bandit.dimension))]
        for group in groups:
            if self.bandit.featuriser is None and not group.names:
                parts.append(self._catalogue.features[group.positions])
            else:
                every = range(len(group.actions))
                parts += [group.candidates(self.bandit, self._catalogue, index) for index in every]
        return np.concatenate(parts)

    def _with_rewards(self, frame: pl.DataFrame) -> pl.DataFrame:
        """PRIVATE, where rewards are there: kept ones of rounds that take no more of them, or the caller's own."""
        if self._own is not None:
            joined = frame.join(self._own, on="decision_id", how="left", maintain_order="left")
            self.matched += joined["reward"].count()
            return joined.with_columns(pl.col("reward").fill_null(self._absent))
        if not self._keeps:
            return frame
        sealed = pl.col("stream").replace_strict(
            {name: self._sealed.get(stream, 0) for stream, name in enumerate(STREAMS)}, return_dtype=pl.Int64
        )
        over = frame.filter(pl.col("round") < sealed)
        self.waiting += len(frame) - len(over)
        joined = over.join(self._kept(over["round"]), on="round", how="left", maintain_order="left")
        self.flipped += int(joined["told"].sum())
        came = pl.col("told").is_not_null()
        return joined.with_columns(pl.when(came).then("reward").otherwise(self._absent).alias("reward")).drop("told")

    def _kept(self, rounds: pl.Series) -> pl.DataFrame:
        """Rewards that are kept, among these rounds; null where one was flipped before it was stored."""
        r = schema.rewards
        columns: dict[str, Any] = {"round": pl.Int64, "told": pl.Boolean, "reward": pl.Float64}
        if rounds.is_empty():
            return pl.DataFrame(schema=columns)
        inside = sa.and_(r.c.bandit == self.bandit.id, r.c.round.between(int(rounds[0]), int(rounds[-1])))
        with self.database.reading() as connection:
            found = connection.execute(sa.select(r.c.round, r.c.told, r.c.value).where(inside)).all()
        values = [(row.round, bool(row.told), None if row.told else row.value) for row in found]
        return pl.DataFrame(values, schema=columns, orient="row")


def decisions_frame(source: Database | Any, name: str, **options: Any) -> pl.DataFrame:
    """The log of a bandit as a table; source: a service or a database. PRIVATE where rewards are in it.

    Options are those of :class:`DecisionLog`.
    """
    return pl.concat(DecisionLog(_database(source), name, **options).frames())


def write_log(source: Database | Any, name: str, path: str | Path, **options: Any) -> dict[str, Any]:
    """Write the log of a bandit to a parquet file, whole or not at all; what is in it. PRIVATE where rewards are.

    A file with rewards is for its owner's eyes only. Options are those of :class:`DecisionLog`.
    """
    log = DecisionLog(_database(source), name, **options)
    path = Path(path)
    check.expect(path.parent.is_dir(), "out", str(path), "to be in a folder that exists")
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:  # for the owner's eyes only
        parts = []
        for number, frame in enumerate(log.frames()):
            parts.append(Path(folder) / f"{number:08d}.parquet")
            frame.write_parquet(parts[-1])
        whole = parts[0]
        if len(parts) > 1:
            whole = Path(folder) / "whole.parquet"
            pl.scan_parquet(parts).sink_parquet(whole, maintain_order=True)
        columns = pl.read_parquet_schema(whole)
        if log.private:
            whole.chmod(0o600)
        os.replace(whole, path)
    facts: dict[str, Any] = {"rows": log.rows, "columns": len(columns), "rewards": "reward" in columns}
    facts |= {
        "private": log.private,
        "flipped": log.flipped,
        "waiting": log.waiting,
        "stream": log.stream,
        "features": f"{BEGINNING}_0_0" in columns,
    }
    if log._own is not None:
        facts["rewards_of_other_decisions"] = len(log._own) - log.matched
    return facts


def _database(source: Database | Any) -> Database:
    found = source if isinstance(source, Database) else getattr(source, "database", None)
    if not isinstance(found, Database):
        raise InputError("Expected source to be a service or its database.")
    return found


def _joined(arrays: list[Any]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays]).astype(np.int64)


def _lists(values: pl.Series, counts: Integers) -> pl.Series:
    """So many of these values, and so many, ... as lists."""
    frame = pl.DataFrame({"row": np.repeat(np.arange(len(counts)), counts), "value": values})
    return frame.group_by("row", maintain_order=True).agg("value")["value"]


def _own_rewards(source: pl.DataFrame | str | Path) -> pl.DataFrame:
    """The caller's rewards by decision. What is wrong with them is said without repeating one."""
    file, table = opened(source, "rewards")
    for name in ("decision_id", "reward"):
        check.expect(name in table.columns, f"columns of {file}", table.columns[:8], f"to hold {name}")
    found = table.select(pl.col("decision_id").cast(pl.String), pl.col("reward"))
    if found["reward"].dtype == pl.Boolean or found["reward"].dtype.is_numeric():
        values = found["reward"].cast(pl.Float64)
        if values.null_count() == 0 and values.is_between(0, 1).all():
            check.expect(found["decision_id"].n_unique() == len(found), "decision_id", "...", "to be there once each")
            return found.with_columns(values)
    raise InputError(f"Expected every reward in {file} to be a number from 0 to 1; they are private and not repeated here.")
