"""The trade-off between two kinds of error: what a claim allows, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from adaprivate.audit.targets import Claim
from adaprivate.check import Floats


def allowed(claim: Claim, false: Floats) -> Floats:
    """The largest share of true positives that the claim allows at these shares of false ones."""
    levels = np.concatenate([[0.0, claim.epsilon], np.geomspace(1e-3, max(2 * claim.epsilon, 1e-2), 60)])
    deltas = [claim.delta if e >= claim.epsilon else 1.0 for e in levels]
    if claim.curve is not None:
        deltas = [min(claim.curve.delta(float(e)), 1.0) for e in levels]
    odds = np.exp(levels)[:, None]
    limits = np.minimum(odds * false + np.array(deltas)[:, None], 1 - (1 - false - np.array(deltas)[:, None]) / odds)
    found = np.clip(limits.min(axis=0), 0.0, 1.0)
    if claim.mu is not None:
        found = np.minimum(found, special.ndtr(special.ndtri(false) + claim.mu))
    return np.asarray(found)


def trade_off_plot(claim: Claim, curve: Sequence[Sequence[float]]) -> Callable[[Sequence[Any], Any], None]:
    """A plot of what the claim allows and of what the judged runs showed."""

    def plot(rows: Sequence[Any], axes: Any) -> None:
        false = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 200)])
        axes.plot(false, allowed(claim, false), color="#b00", label="the most that the claim allows")
        points = np.array(curve)
        axes.plot(points[:, 0], points[:, 1], ".", color="#06c", label="measured")
        axes.plot([0, 1], [0, 1], ":", color="#888", label="guessing blindly")
        axes.set_xlabel('guessed "two" in runs of one')
        axes.set_ylabel('guessed "two" in runs of two')
        axes.legend()

    return plot
