"""The exact privacy of Gaussian noise: (epsilon, delta) <-> sigma <-> mu.

A release whose mean moves by at most ``sensitivity`` between neighbours, plus N(0, sigma^2 I), is exactly mu-GDP with
``mu = sensitivity / sigma`` (Dong, Roth & Su 2022), and its whole (epsilon, delta) curve is (Balle & Wang 2018)

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

With ``u = epsilon/mu - mu/2`` and the Mills ratio ``R(t) = Phi(-t) / phi(t)`` the same number is
``phi(u) (R(u) - R(u + mu))``, which neither overflows nor cancels; all computing here is in that form, in logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from adaprivate import check

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
# The root of a calibration is moved to the safe side by these relative amounts: far above the rounding of the formulas
# (about 2e-13; 2e-9 beyond u = 29, where epsilon hardly moves with delta), far below anything a user could see. The margin
# of epsilon is smaller than that of mu, so that converting a calibrated sigma back never reports more than was asked for.
_DELTA_MARGIN = 1e-12
_MU_MARGIN = 4e-11
_EPSILON_MARGIN = 1e-11


def _mills(t: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(t / math.sqrt(2)))


def _log_mills_drop(u: float, width: float) -> float:
    """Logarithm of R(u) - R(u + width), for u above -30."""
    if width > 0.25:
        return math.log(_mills(u) - _mills(u + width))
    # -R'(t) = 1 - t R(t) > 0; integrating it keeps every digit when the two Mills ratios are close.
    t = u + 0.5 * width * (1 + _NODES)
    slope = 1 - t * math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))
    far = t > 30
    if far.any():
        s = t[far] ** -2
        slope[far] = s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s)))
    return math.log(0.5 * width * float(_WEIGHTS @ slope))


def _log_delta(mu: float, epsilon: float) -> float:
    """Logarithm of delta(epsilon) for a mu-GDP mechanism."""
    u = epsilon / mu - mu / 2
    if u < -1:
        # delta = Phi(-u) - e^epsilon Phi(-u - mu); both logarithms are exact here.
        larger, smaller = float(log_ndtr(-u)), epsilon + float(log_ndtr(-u - mu))
        return larger + math.log1p(-math.exp(smaller - larger))
    return -0.5 * u * u - _LOG_SQRT_2PI + _log_mills_drop(u, mu)


def gdp_delta(mu: float, epsilon: float) -> float:
    """The smallest delta at which mu-GDP implies (epsilon, delta)-DP."""
    mu = check.real("mu", mu, at_least=0)
    epsilon = check.real("epsilon", epsilon, at_least=0)
    return math.exp(_log_delta(mu, epsilon)) if mu > 0 else 0.0


def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which mu-GDP implies (epsilon, delta)-DP."""
    mu = check.real("mu", mu, at_least=0)
    delta = check.probability("delta", delta)
    target = math.log(delta)
    if mu == 0 or _log_delta(mu, 0.0) <= target - _DELTA_MARGIN:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + mu
    while _log_delta(mu, high) > target:
        high *= 2
    root = 0.0
    if _log_delta(mu, 0.0) > target:
        root = float(brentq(lambda e: _log_delta(mu, e) - target, 0.0, high, xtol=1e-300, rtol=4e-15, maxiter=300))
    # d delta / d epsilon = -e^epsilon Phi(-mu/2 - epsilon/mu): what lowers delta by its own rounding
    rounding = _DELTA_MARGIN * math.exp(target - root - float(log_ndtr(-mu / 2 - root / mu)))
    return root * (1 + _EPSILON_MARGIN) + rounding


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP."""
    epsilon = check.real("epsilon", epsilon, above=0)
    delta = check.probability("delta", delta)
    target = math.log(delta)

    def excess(log_mu: float) -> float:
        return _log_delta(math.exp(log_mu), epsilon) - target

    # Phi(mu/2 - epsilon/mu) >= delta(epsilon), so the mu at which that bound meets delta is a floor for the root.
    tail = math.sqrt(2 * math.log(1 / delta)) + 1
    low = math.log(math.sqrt(tail * tail + 2 * epsilon) - tail)
    high = low + 1
    while excess(low) > 0:
        low -= 1
    while excess(high) < 0:
        high += 1
    mu = math.exp(float(brentq(excess, low, high, xtol=1e-15, rtol=4e-15, maxiter=300))) * (1 - _MU_MARGIN)
    while gdp_epsilon(mu, delta) > epsilon:
        mu *= 1 - _MU_MARGIN
    return mu


def gdp_compose(mus: Iterable[float]) -> float:
    """The mu of all these mechanisms run on the same person's data, also when each is chosen after seeing the earlier."""
    return math.sqrt(math.fsum(check.real("mu", mu, at_least=0) ** 2 for mu in mus))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least Gaussian standard deviation that gives (epsilon, delta)-DP.

    Never too small: ``gaussian_epsilon(gaussian_sigma(epsilon, delta), delta) <= epsilon`` in floating point.
    """
    sensitivity = check.real("sensitivity", sensitivity, above=0)
    sigma = sensitivity / gdp_mu(epsilon, delta)
    while gaussian_epsilon(sigma, delta, sensitivity) > epsilon:
        sigma *= 1 + _MU_MARGIN
    return sigma


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """The exact epsilon of Gaussian noise of standard deviation ``sigma`` at ``delta``."""
    sigma = check.real("sigma", sigma, above=0)
    sensitivity = check.real("sensitivity", sensitivity, above=0)
    return gdp_epsilon(sensitivity / sigma, delta)


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float = 1.0) -> float:
    """The exact delta of Gaussian noise of standard deviation ``sigma`` at ``epsilon``."""
    sigma = check.real("sigma", sigma, above=0)
    sensitivity = check.real("sensitivity", sensitivity, above=0)
    return gdp_delta(sensitivity / sigma, epsilon)
