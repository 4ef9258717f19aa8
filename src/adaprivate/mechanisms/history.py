"""Strategies that remember the stream: each row of C is applied to the increments it reaches back to."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from adaprivate.check import Array, Floats
from adaprivate.mechanisms.prefix import Strategy, grid_integers, weighted, zeros


class HistoryState(NamedTuple):
    """The increments and their noisy estimates that later rows still need, newest first, and the noisy running sum."""

    increments: Array
    estimates: Floats
    prefix: Floats


class History(Strategy):
    """A lower-triangular C with a positive diagonal, encoded row by row and decoded by forward substitution."""

    @abstractmethod
    def row(self, step: int) -> Floats:
        """Row ``step`` (0-based) of C from the diagonal backwards, without the zeros that no later row fills either."""

    def start(self, dimension: int, exact: bool) -> HistoryState:
        return HistoryState(zeros((0, dimension), exact), np.zeros((0, dimension)), np.zeros(dimension))

    def encode(self, state: HistoryState, step: int, increment: Array) -> tuple[Array, HistoryState]:
        row: Array = self.row(step)
        if increment.dtype == object:
            row = grid_integers(row)
        increments = np.concatenate([increment[None, :], state.increments])[: len(row)]
        return weighted(row, increments)[None, :], state._replace(increments=increments)

    def decode(self, state: HistoryState, step: int, rows: Floats) -> tuple[Floats, HistoryState]:
        row = self.row(step)
        estimate = (rows[0] - weighted(row[1:], state.estimates[: len(row) - 1])) / row[0]
        estimates = np.concatenate([estimate[None, :], state.estimates])[: len(row)]
        prefix = state.prefix + estimate
        return prefix, HistoryState(state.increments, estimates, prefix)

    def matrix(self) -> Floats:
        C = np.zeros((self.steps, self.steps))
        for step in range(self.steps):
            row = self.row(step)
            C[step, step + 1 - len(row) : step + 1] = row[::-1]
        return C
