"""Zero-concentrated and Renyi differential privacy, and their conversions to (epsilon, delta).

Sound but looser than the exact Gaussian curve of :mod:`adaprivate.privacy.gaussian`; kept because the papers calibrate
with them, and for mechanisms that are not Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from adaprivate import check


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The rho that Eq. 2.8 of the AdaPrivate-TS paper spends on (epsilon, delta): sound, and loose."""
    epsilon = check.real("epsilon", epsilon, above=0)
    log_term = math.log(1 / check.probability("delta", delta))
    return (epsilon / (math.sqrt(epsilon + log_term) + math.sqrt(log_term))) ** 2  # Eq. 2.8 without its cancellation


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at delta by Eq. 2.7 (Bun & Steinke 2016)."""
    rho = check.real("rho", rho, at_least=0)
    return rho + 2 * math.sqrt(rho * math.log(1 / check.probability("delta", delta)))  # Eq. 2.7


def zcdp_epsilon_tight(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at delta by the best Renyi order (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    rho = check.real("rho", rho, at_least=0)
    delta = check.probability("delta", delta)
    if rho == 0:
        return 0.0

    def by_order(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return _order_epsilon(rho * order, order, delta)

    guess = math.log(max(math.sqrt(math.log(1 / delta) / rho), 1e-6))
    best = minimize_scalar(by_order, bounds=(guess - 12, guess + 12), method="bounded", options={"xatol": 1e-10})
    return max(0.0, min(float(best.fun), zcdp_epsilon(rho, delta)))


def zcdp_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The Gaussian standard deviation the paper uses for (epsilon, delta): Eq. 2.8, then sensitivity / sqrt(2 rho)."""
    sensitivity = check.real("sensitivity", sensitivity, above=0)
    return sensitivity / math.sqrt(2 * zcdp_rho(epsilon, delta))


def zcdp_compose(rhos: Iterable[float]) -> float:
    """The rho of all these mechanisms on the same person's data: they add."""
    return math.fsum(check.real("rho", rho, at_least=0) for rho in rhos)


def gdp_rho(mu: float) -> float:
    """mu-GDP implies (mu^2 / 2)-zCDP; for Gaussian noise they are the same number."""
    return check.real("mu", mu, at_least=0) ** 2 / 2


def _order_epsilon(renyi: float, order: float, delta: float) -> float:
    return renyi + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def rdp_epsilon(orders: Sequence[float], rdp: Sequence[float], delta: float) -> float:
    """The epsilon at delta of a mechanism with Renyi divergence ``rdp[i]`` at ``orders[i]`` (CKS 2020, Prop. 12)."""
    alpha = check.floats("orders", orders, (None,))
    renyi = check.floats("rdp", rdp, (len(alpha),))
    delta = check.probability("delta", delta)
    check.expect(len(alpha) > 0, "orders", list(orders), "to be non-empty")
    check.expect(bool((alpha > 1).all()), "orders", list(orders), "> 1")
    check.expect(bool((renyi >= 0).all()), "rdp", list(rdp), ">= 0")
    return max(0.0, min(_order_epsilon(r, a, delta) for r, a in zip(renyi.tolist(), alpha.tolist(), strict=True)))


def rdp_compose(curves: Iterable[Sequence[float]]) -> list[float]:
    """The Renyi curve of all these mechanisms on the same person's data, order by order: they add."""
    rows = [check.floats("rdp", curve, (None,)) for curve in curves]
    check.expect(len({len(row) for row in rows}) == 1, "curves", [len(row) for row in rows], "of one length")
    return [float(x) for x in np.sum(rows, axis=0)]
