"""The world that a plan assumes: how rates of candidates differ. Public numbers only, and all of them can be changed.

A candidate earns 1 with probability logistic(offset + spread z), z its score: theta'x for unit vectors x in so many
dimensions, in units of its standard deviation. The offset makes the mean rate that of random play; the spread says how much
better the best candidate on offer is. It is the world ``synthetic`` with |theta| = spread sqrt(dimension).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, expit, logit, ndtri

from adaprivate import check
from adaprivate.check import Floats

SIGNAL = 2.0
"""|theta| where nothing is said of the best candidate: what the noise-aware policies expect."""
NODES = 64
_NORMAL, _WEIGHTS = np.polynomial.hermite_e.hermegauss(6)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class World:
    """``candidates`` on offer, of ``items`` different ones (infinity: new ones every round), with these mean rates.

    ``arms``: they are fixed and have no features but a coordinate each.
    """

    dimension: int
    candidates: int
    items: float
    base_rate: float
    spread: float
    arms: bool = False

    @property
    def usual(self) -> World:
        """The same with rates that differ as the noise-aware policies expect."""
        return replace(self, spread=SIGNAL / math.sqrt(self.dimension))

    def with_best(self, best: float) -> World:
        """The same with rates that differ so that the best candidate on offer has this one on average."""
        check.real("best", best, above=self.base_rate, below=1)

        def excess(logarithm: float) -> float:
            return replace(self, spread=math.exp(logarithm)).best - best

        low, high = math.log(1e-4), math.log(30.0)
        check.expect(excess(low) < 0 < excess(high), "best", best, f"to be what the best of {self.candidates} can have")
        return replace(self, spread=math.exp(brentq(excess, low, high, xtol=1e-6)))

    @property
    def fixed(self) -> bool:
        """Whether the same candidates are offered every round."""
        return self.items <= self.candidates

    @property
    def unrelated(self) -> bool:
        """Whether candidates are fixed and so few that one says little of another."""
        return self.fixed and self.candidates <= self.dimension

    @property
    def signal(self) -> float:
        """|theta|."""
        return self.spread * math.sqrt(self.dimension)

    @cached_property
    def offset(self) -> float:
        """What the score of a typical candidate is added to."""
        z, reach = _scores(self.dimension, 1), self.spread * math.sqrt(self.dimension) + 10 * self.spread + 1
        middle = float(logit(self.base_rate))
        return float(
            brentq(
                lambda offset: float(expit(offset + self.spread * z).mean()) - self.base_rate,
                middle - reach,
                middle + reach,
            )
        )

    @cached_property
    def highest(self) -> Floats:
        """Quantiles of the largest score on offer."""
        return _scores(self.dimension, self.candidates)

    @cached_property
    def best(self) -> float:
        """The mean rate of the best candidate on offer."""
        return float(expit(self.offset + self.spread * self.highest).mean())

    @property
    def gain(self) -> float:
        """What there is to earn in a round, beyond random play."""
        return self.best - self.base_rate

    def played(self, correlation: Floats) -> tuple[Floats, Floats]:
        """The mean rate, and the mean variance of a reward, of what looks best to estimates so correlated with scores."""
        rho = correlation[:, None, None]
        inside = np.sqrt(
            np.maximum(1 - self.highest**2 / self.dimension, 0.0) * self.dimension / max(self.dimension - 1, 1)
        )
        across = np.sqrt(np.maximum(1 - rho**2, 0.0)) * inside[:, None]
        rates = expit(self.offset + self.spread * (rho * self.highest[:, None] + across * _NORMAL))
        return (rates @ _WEIGHTS).mean(axis=1), (rates * (1 - rates) @ _WEIGHTS).mean(axis=1)

    def learned(self, rates: Floats) -> Floats:
        """Rates as learned shares: 0 random play, which nothing that learns is behind, 1 the best candidate."""
        return np.maximum(rates - self.base_rate, 0.0) / self.gain

    def options(self) -> dict[str, object]:
        """Of the environment ``synthetic`` that is this world."""
        found: dict[str, object] = {"dimension": self.dimension, "candidates": self.candidates}
        found |= {"arms": int(self.items) if math.isfinite(self.items) else 0, "signal": round(self.signal, 6)}
        if self.base_rate != 0.5:
            found["base_rate"] = self.base_rate
        return {**found, "features": "one-hot"} if self.arms else found


def _scores(dimension: int, count: int) -> Floats:
    """Quantiles of the largest of so many scores, in units of the standard deviation of one."""
    levels = ((np.arange(NODES) + 0.5) / NODES) ** (1 / count)
    if dimension < 2:
        return np.asarray(ndtri(levels))
    shape = (dimension - 1) / 2  # a coordinate of a random unit vector
    return np.asarray(math.sqrt(dimension) * (2 * betaincinv(shape, shape, levels) - 1))
