"""Runs of neighbouring inputs, as an attacker knows them: played here, or in blocks by other workers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adaprivate import cluster
from adaprivate.audit.scripts import Pair
from adaprivate.audit.targets import Target, Transcripts
from adaprivate.check import Array, Floats

LEAST_BLOCK = 25
"""Other workers play at least so many runs at a time."""
SEEDS = 1_000_000
"""So many runs of a part have seeds of their own."""
GRID = 2.0**-24
"""Numbers of simulated noise are looked at on this grid: their low bits betray them, and protect nobody anyway."""


class Known(NamedTuple):
    """What an attacker has: transcripts, and what would have been released without noise under either input."""

    seen: Transcripts
    if_one: Floats | None
    if_two: Floats | None
    choice: Floats | None

    @property
    def expectations(self) -> tuple[Floats, Floats]:
        """Both, where they are known."""
        assert self.if_one is not None
        assert self.if_two is not None
        return self.if_one, self.if_two

    def part(self, rows: Any) -> Known:
        """Some of the runs."""
        seen = Transcripts(*(None if a is None else a[rows] for a in self.seen))  # type: ignore[arg-type]
        return Known(seen, *(None if a is None else a[rows] for a in (self.if_one, self.if_two, self.choice)))


class Runs(NamedTuple):
    """Transcripts of a pair of neighbours, and which was played: a fair coin's choice."""

    known: Known
    two: Array


def played(target: Target, pair: Pair, count: int, seed: int) -> Runs:
    """So many runs, each of one or of two by a fair coin; in blocks where there are other workers to play them."""
    two = np.random.default_rng([seed, count, 991]).integers(2, size=count).astype(bool)
    seeds = np.arange(count) + seed * SEEDS
    workers = cluster.current()
    if not workers.far:
        return _played(target, pair, two, seeds)
    target.settle(pair)
    size = max(LEAST_BLOCK, -(-count // (4 * workers.slots)))
    starts = range(0, count, size)
    tasks = [
        cluster.Task(
            f"{target.name}, trials {start} to {min(start + size, count) - 1}",
            _block,
            (target, pair, two[start : start + size], seeds[start : start + size]),
        )
        for start in starts
    ]
    found: dict[int, Runs] = {}
    with contextlib.closing(workers.completed(tasks)) as done:
        for place, (runs, looked_at, off_grid) in done:
            found[place] = runs
            target.looked_at, target.off_grid = target.looked_at + looked_at, target.off_grid + off_grid
    return _joined([found[place] for place in range(len(starts))])


def _block(target: Target, pair: Pair, two: Array, seeds: Array) -> tuple[Runs, int, int]:
    """Some of the runs, and what was looked at in them."""
    own: Target = object.__new__(type(target))
    vars(own).update({**vars(target), "looked_at": 0, "off_grid": 0})
    return _played(own, pair, two, seeds), own.looked_at, own.off_grid


def _joined(parts: Sequence[Runs]) -> Runs:
    def together(arrays: Sequence[Any]) -> Any:
        if arrays[0] is None:
            return None
        width = max(array.shape[1:] for array in arrays)
        return np.concatenate(
            [np.pad(a, [(0, 0), *((0, w - n) for w, n in zip(width, a.shape[1:], strict=True))]) for a in arrays]
        )

    seen = Transcripts(*map(together, zip(*(part.known.seen for part in parts), strict=True)))
    known = Known(seen, *map(together, zip(*(part.known[1:] for part in parts), strict=True)))
    return Runs(known, np.concatenate([part.two for part in parts]))


def _played(target: Target, pair: Pair, two: Array, seeds: Array) -> Runs:
    count = len(two)
    halves = [(s, mask) for s, mask in ((pair.one, ~two), (pair.two, two)) if mask.any()]
    parts = [(target.play(script, seeds[mask].tolist()), mask) for script, mask in halves]
    numbers = np.zeros((count, max(part.numbers.shape[1] for part, _ in parts)))
    actions = np.zeros((count, pair.one.rounds), dtype=np.int64)
    first = parts[0][0].aside
    aside = None if first is None else np.zeros((count, first.shape[1]))
    for part, mask in parts:
        numbers[mask, : part.numbers.shape[1]], actions[mask] = part.numbers, part.actions
        if aside is not None and part.aside is not None:
            aside[mask] = part.aside
    if not target.exact and target.scales is None:
        numbers = np.round(numbers / GRID) * GRID
    seen = Transcripts(numbers, actions, aside)
    expectations = (target.expected(pair.one, actions), target.expected(pair.two, actions))
    return Runs(Known(seen, *expectations, target.choice_loss(pair.one, pair.two, actions)), two)
