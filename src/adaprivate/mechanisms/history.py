"""Strategies that remember the stream: each row of C is applied to the increments it reaches back to."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from adaprivate import blas, check, mechanisms, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.prefix import Strategy, grid_integers, on_grid, weighted, zeros


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

    @property
    def kept(self) -> int:
        return min(len(self.row(self.steps - 1)), self.steps - 1)

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


class Dense(History):
    """Any lower-triangular C with a positive diagonal, as a matrix: what a fit found, or what was stored of it."""

    name = "dense"

    def __init__(self, matrix: Floats) -> None:
        C = check.floats("matrix", matrix, (None, len(matrix)))
        sound = len(C) > 0 and bool((on_grid(C) == C).all() and (np.triu(C, 1) == 0).all() and (np.diag(C) > 0).all())
        check.expect(sound, "matrix", f"{C.shape}", "to be lower triangular, on the grid, with a positive diagonal")
        self._hold(C)

    def _hold(self, C: Floats) -> None:
        self.steps, self._C = len(C), C

    def row(self, step: int) -> Floats:
        return self._C[step, step::-1]

    def sensitivity(self, batches: int = 1, separation: int = 1) -> float:
        return privacy.matrix_sensitivity(self._C, batches, separation)

    @blas.one_thread()
    def prefix_std(self) -> Floats:
        running = solve_triangular(self._C.T, np.triu(np.ones_like(self._C)))
        return np.asarray(np.sqrt((running * running).sum(axis=0)))

    def matrix(self) -> Floats:
        return self._C.copy()


def stored(strategy: Strategy) -> tuple[str, Floats | None]:
    """Its name, and its matrix where the name alone does not make it again; another than the default one is refused."""
    if isinstance(strategy, Dense):
        return Dense.name, strategy.matrix()
    again = vars(mechanisms.strategy(strategy.name, strategy.steps))
    same = all(name in again and np.array_equal(value, again[name]) for name, value in vars(strategy).items())
    check.expect(same, "strategy", strategy.name, "to have its default parameters, to be stored")
    return strategy.name, None


def restored(name: str, matrix: Floats | None, steps: int) -> Strategy:
    """The strategy of so many steps that :func:`stored` wrote."""
    return mechanisms.strategy(name, steps) if matrix is None else Dense(matrix)
