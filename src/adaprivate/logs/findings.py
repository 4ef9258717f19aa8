"""Findings about a whole log: shares of actions, misspelt names, rows that come twice, and how often users come.

*Propensities against shares.* If action a was chosen with the probabilities p that the log says, the sum of 1/p over the
rows that chose it is, on average, the number of rows that offered it, n. With h = sum(1/p^2)/sum(1/p), the mean of 1/p, the
sum over h is close to a binomial count of n trials with chance 1/h; for a p that never changes it is one. Sums too large
for it say that propensities are too small. Sums too small say that they are too large, or that a was all but impossible in
most rows; that is told apart only where no action's propensity ever changes, and is elsewhere said of many right logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import betainc

from adaprivate.check import Array
from adaprivate.logs.columns import perhaps
from adaprivate.logs.tables import Source

EXAMPLES = 5
"""So many rows of a fault are named."""
FALSE_ALARM = 1e-3
"""The chance that right propensities that never change (without any: uniform choice) are called wrong, over all actions."""
UNEVEN = "is not chosen evenly: replay, which takes choice for uniform where the log has no propensities, is biased"
RARE = 100
"""An action with a name like another's that has so many times its rows, and more, is perhaps misspelt."""


class LogFinding(NamedTuple):
    """Something wrong, where, and how often. ``places``: the first few rows or lines."""

    column: str | None
    wrong: str
    rows: int
    places: tuple[int, ...] = ()
    serious: bool = True
    """Whether it is a fault, not only worth knowing."""


class Share(NamedTuple):
    """How an action was chosen: rows that chose and that offered it, sums of 1/p and 1/p^2, least and largest p."""

    rows: int
    offered: int
    inverse: float
    squares: float
    least: float
    largest: float


def misspelt(shares: dict[Any, Share], action: str) -> list[LogFinding]:
    """Names of actions that are rare, and all but those of actions that are not. Numbers in them are not misspelt."""
    names = {str(name): share.rows for name, share in shares.items()}
    found = []
    for name, rows in names.items():
        if question := perhaps(name, [other for other, count in names.items() if count >= RARE * rows]):
            words = f"is {name!r} in only {rows:,} row{'s' * (rows > 1)}.{question}"
            found.append(LogFinding(action, words, rows, serious=False))
    return found


TWICE = "all columns but the reward are as in an earlier row: the same person, at the same time, twice"


def repeated(source: Source, name: str | None, seen: list[Array], words: str = "has come before") -> list[LogFinding]:
    """Rows whose hash an earlier row has."""
    every = np.concatenate(seen)
    ordered = np.argsort(every, kind="stable")
    again = ordered[1:][every[ordered[1:]] == every[ordered[:-1]]]
    if not len(again):
        return []
    places = tuple(source.place(row) for row in np.sort(again)[:EXAMPLES].tolist())
    return [LogFinding(name, words, len(again), places)]


def visit_findings(visits: list[tuple[Array, Array]]) -> list[LogFinding]:
    """How often people come: worth knowing, no fault."""
    every = pl.DataFrame({"who": np.concatenate([who for who, _ in visits]), "n": np.concatenate([n for _, n in visits])})
    counts = every.group_by("who").agg(pl.sum("n"))["n"]
    numbers = counts.to_numpy()
    words = f"people: half of them have {np.median(numbers):g} rows or fewer, one has {numbers.max()}"
    return [LogFinding(None, words, len(counts), serious=False)] if len(counts) else []


def chance(share: Share) -> tuple[float, float]:
    """How likely a sum of 1/p as small as this one is, and one as large, if the propensities are right."""
    h = max(share.squares / share.inverse, 1.0)
    count, n = min(share.inverse / h, share.offered), share.offered
    if share.inverse / h > n * (1 + 1e-9):
        return 1.0, 0.0
    low = 1.0 if count >= n else float(betainc(n - count, count + 1, 1 - 1 / h))
    high = 1.0 if count <= 0 else float(betainc(count, n - count + 1, 1 / h))
    return low, high


def share_findings(
    shares: Mapping[Any, Share], rows: int, acceptance: float, propensity: str | None, action: str
) -> list[LogFinding]:
    """Actions whose shares contradict the propensities; without any, uniform choice."""
    if propensity is None:
        low, high = uniform_chance(shares, acceptance)
        return [LogFinding(action, UNEVEN, rows, serious=False)] if min(low, high) < FALSE_ALARM / 2 else []
    steady = all(share.largest <= share.least * (1 + 1e-6) for share in shares.values())
    bound = FALSE_ALARM / (2 * max(len(shares), 1))
    wrong: list[LogFinding] = []
    for name, share in shares.items():
        if not share.offered:
            continue  # its rows are faults already
        low, high = chance(share)
        where = f"rows with {action} {name}, where {share.offered:,} are to be expected"
        text = f"adds up to {share.inverse:,.0f} as 1/p over {where}"
        if high < bound:
            wrong.append(LogFinding(propensity, f"{text}: it is too small there", share.rows))
        elif low < bound and steady:
            wrong.append(LogFinding(propensity, f"{text}: it is too large there", share.rows))
        elif low < bound:
            support = (
                "it is too large there, or the action was next to impossible in most rows and weights say little of it"
            )
            wrong.append(LogFinding(propensity, f"{text}: {support}", share.rows, serious=False))
    wrong.sort(key=lambda finding: -finding.rows)
    return _bounded(wrong, propensity)


def uniform_chance(shares: Mapping[Any, Share], acceptance: float) -> tuple[float, float]:
    """How likely shares as low, and as high, as those of any action are under uniform choice.

    ``acceptance``: the mean of 1 / candidates over rows, or 0 where every row offers all actions.
    """
    count, lows, highs = len(shares), [1.0], [1.0]
    h = 1 / acceptance if acceptance else float(count)
    for share in (share for share in shares.values() if share.offered):
        low, high = chance(Share(share.rows, share.offered, share.rows * h, share.rows * h * h, 1 / h, 1 / h))
        lows.append(min(low * count, 1.0))
        highs.append(min(high * count, 1.0))
    return min(lows), min(highs)


def _bounded(findings: Iterable[LogFinding], column: str) -> list[LogFinding]:
    listed = list(findings)
    if len(listed) <= EXAMPLES:
        return listed
    rest = listed[EXAMPLES:]
    words = f"contradicts the shares of {len(rest)} more actions"
    return [
        *listed[:EXAMPLES],
        LogFinding(column, words, sum(finding.rows for finding in rest), serious=any(f.serious for f in rest)),
    ]
