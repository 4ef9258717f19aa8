"""Budgets for steps whose cost is chosen along the way.

A filter fixes a budget first and refuses the step that would exceed it, before the step happens. For Gaussian steps it
costs nothing over a schedule known in advance (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2022): as long as every
step is mu_t-GDP given what came before and sum mu_t^2 stays within mu^2, the whole is mu-GDP.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

from adaprivate import check


class BudgetError(RuntimeError):
    """The step was refused because it would overspend; nothing was spent."""


class GdpFilter:
    """Spends a Gaussian budget ``mu`` step by step and refuses the step that would exceed it.

    The account is kept in squares and every addition is rounded up, so that no sequence of steps overspends by rounding.
    """

    def __init__(self, mu: float) -> None:
        self.mu = check.real("mu", mu, above=0)
        self._limit = math.nextafter(self.mu * self.mu, 0.0)
        self._spent = 0.0

    @property
    def spent(self) -> float:
        """The mu spent so far. Not a guarantee of its own: the budget is."""
        return min(math.sqrt(self._spent), self.mu)

    @property
    def remaining(self) -> float:
        """The largest single step that can still be afforded."""
        return math.sqrt(max(0.0, math.nextafter(self._limit - self._spent, 0.0))) * (1 - 1e-15)

    def _after(self, mu: float) -> float:
        cost = check.real("mu", mu, at_least=0) ** 2
        return math.nextafter(self._spent + math.nextafter(cost, math.inf), math.inf) if mu > 0 else self._spent

    def affords(self, mu: float) -> bool:
        """Whether a step of this mu fits into what is left."""
        return self._after(mu) <= self._limit

    def spend(self, mu: float) -> None:
        """Pay for a step, before taking it. Raises :class:`BudgetError` and spends nothing if it does not fit."""
        after = self._after(mu)
        if after > self._limit:
            raise BudgetError(f"Expected mu={mu!r} <= {self.remaining:.6g}, what is left of the budget {self.mu:g}.")
        self._spent = after

    def state(self) -> dict[str, float]:
        """The account, for storage."""
        return {"mu": self.mu, "spent_squared": self._spent}

    @classmethod
    def restored(cls, state: dict[str, float]) -> GdpFilter:
        """A filter that continues from an earlier :meth:`state`."""
        restored = cls(state["mu"])
        restored._spent = check.real("spent_squared", state["spent_squared"], at_least=0)
        return restored


class GdpOdometer:
    """Reads what has been spent, on a public scale fixed in advance.

    For each mark g of the scale, everything released before the spending first exceeded g is g-GDP (it is what a filter
    with budget g would have let through). The reading is the smallest mark not yet exceeded. Stopping at a time chosen
    from the data does not turn the reading of that moment into a guarantee; a :class:`GdpFilter` does.
    """

    def __init__(self, scale: Sequence[float]) -> None:
        marks = check.floats("scale", scale, (None,)).tolist()
        check.expect(len(marks) > 0 and marks[0] > 0, "scale", list(scale), "to be positive")
        check.expect(all(a < b for a, b in itertools.pairwise(marks)), "scale", list(scale), "to increase")
        self.scale = tuple(marks)
        self._spent = 0.0

    def spend(self, mu: float) -> float:
        """Count a step and return the new reading (infinity beyond the last mark)."""
        cost = check.real("mu", mu, at_least=0) ** 2
        if mu > 0:
            self._spent = math.nextafter(self._spent + math.nextafter(cost, math.inf), math.inf)
        return self.reading

    @property
    def reading(self) -> float:
        """The smallest mark not yet exceeded; infinity beyond the last."""
        squares = [math.nextafter(mark * mark, 0.0) for mark in self.scale]
        position = bisect.bisect_left(squares, self._spent)
        return self.scale[position] if position < len(self.scale) else math.inf
