"""The probability with which a policy's state chooses each candidate, computed rather than counted where that can be done.

Scores of a Thompson policy are jointly Gaussian (:mod:`adaprivate.orthants`). Policies that do not draw at random choose
one candidate with probability 1. A state says which beside its ``select``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Streams, borrowed, entry, streams
from adaprivate.orthants import Propensities, gaussian_best
from adaprivate.policies.core.dispatch import Split, select
from adaprivate.purposes import Purpose

__all__ = ["Propensities", "certain", "choice_probabilities", "copied", "gaussian_best", "propensities_of"]


@entry
def _choose(state: Any, candidates: Floats, rng: Streams, out: Integers) -> None:
    for row in range(candidates.shape[0]):
        out[row] = select(borrowed(state), borrowed(candidates[row]), borrowed(rng))


Found = Callable[..., Propensities]
_KNOWN: dict[type, Found] = {}


def propensities_of(state: type) -> Callable[[Found], Found]:
    """Register how likely this type of state is to choose each candidate; stands beside its ``select``."""

    def register(function: Found) -> Found:
        _KNOWN[state] = function
        return function

    return register


def certain(state: Any, candidates: Floats, **how: Any) -> Propensities:
    """For a state that does not draw at random: the candidate that it chooses has probability 1. Works on a copy."""
    rows, count, _ = candidates.shape
    chosen = np.zeros(rows, dtype=np.int64)
    _choose(copied(state), candidates, streams(0, Purpose.PROPENSITY, Purpose.PROPENSITY_CHOICE), chosen)
    one = np.zeros((rows, count))
    one[np.arange(rows), chosen] = 1.0
    return Propensities(one, np.zeros((rows, count)))


def copied(state: Any) -> Any:
    """The state with arrays of its own."""
    return type(state)(*(copied(part) for part in state)) if isinstance(state, tuple) else state.copy()


def choice_probabilities(
    state: Any, candidates: Floats, *, draws: int = 512, seed: int = 0, lattice: bool = True
) -> Propensities:
    """The probability of each candidate (n, K) for rows of candidates (n, K, d) of norm at most 1; the state stays."""
    kind = type(state)
    check.expect(kind in _KNOWN, "policy's state", kind.__name__, "to have probabilities that can be computed")
    return _KNOWN[kind](state, candidates, draws=draws, seed=seed, lattice=lattice)


@propensities_of(Split)
def _of_learner(state: Split, candidates: Floats, **how: Any) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)
