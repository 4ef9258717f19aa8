"""Budgets for steps whose cost is chosen along the way.

A filter fixes a budget first and refuses the step that would exceed it, before the step happens. For Gaussian steps it
costs nothing over a schedule known in advance (docs/privacy.md, Theorem 10; Smith & Thakurta 2022): as long as every
step is mu_t-GDP given what came before and the sum of mu_t^2 stays within mu^2, the whole is mu-GDP.

Accounts are kept in exact fractions: no sequence of steps overspends, or is refused, by rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from adaprivate import check


class BudgetError(RuntimeError):
    """The step was refused because it would overspend; nothing was spent."""


def _square(mu: float) -> Fraction:
    return Fraction(check.real("mu", mu, at_least=0)) ** 2


class GdpFilter:
    """Spends a Gaussian budget ``mu`` step by step and refuses the step that would exceed it."""

    def __init__(self, mu: float) -> None:
        self.mu = check.real("mu", mu, above=0)
        self._limit = Fraction(self.mu) ** 2
        self._spent = Fraction(0)

    def __repr__(self) -> str:
        return f"GdpFilter(mu={self.mu:g}, spent={self.spent:g}, remaining={self.remaining:g})"

    @property
    def spent(self) -> float:
        """The mu spent so far. Not a guarantee of its own: the budget is."""
        return math.sqrt(self._spent)

    @property
    def remaining(self) -> float:
        """The largest single step that can still be afforded."""
        largest = math.sqrt(self._limit - self._spent)
        while not self.affords(largest):
            largest = math.nextafter(largest, 0.0)
        return largest

    def affords(self, mu: float) -> bool:
        """Whether a step of this mu fits into what is left."""
        return self._spent + _square(mu) <= self._limit

    def spend(self, mu: float) -> None:
        """Pay for a step, before taking it. Raises :class:`BudgetError` and spends nothing if it does not fit."""
        if not self.affords(mu):
            raise BudgetError(f"Expected mu={mu!r} <= {self.remaining:.6g}, what is left of the budget {self.mu:g}.")
        self._spent += _square(mu)

    def state(self) -> dict[str, str | float]:
        """The account, for storage as JSON."""
        return {"mu": self.mu, "spent_squared": str(self._spent)}

    @classmethod
    def restored(cls, state: dict[str, str | float]) -> GdpFilter:
        """A filter that continues from an earlier :meth:`state`."""
        try:
            restored = cls(float(state["mu"]))
            restored._spent = Fraction(state["spent_squared"])
        except (KeyError, TypeError, ValueError):
            raise check.InputError(f"Expected state={state!r} to be what state() gave.") from None
        check.expect(0 <= restored._spent <= restored._limit, "spent_squared", state["spent_squared"], "within the budget")
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
        self._spent = Fraction(0)

    def spend(self, mu: float) -> float:
        """Count a step and return the new reading (infinity beyond the last mark)."""
        self._spent += _square(mu)
        return self.reading

    @property
    def reading(self) -> float:
        """The smallest mark not yet exceeded; infinity beyond the last."""
        return next((mark for mark in self.scale if self._spent <= Fraction(mark) ** 2), math.inf)
