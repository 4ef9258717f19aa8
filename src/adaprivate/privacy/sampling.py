"""Poisson sampling before Gaussian noise: the exact curve, and the published recipe that is not a guarantee.

Each reward of a batch enters the sum independently with probability q, the inclusion bits stay secret, and N(0, sigma^2 I)
is added. For neighbours that differ in one reward r in [0, 1] (same features, norm at most 1) the curve is exactly

    delta(epsilon) = q delta_G(log(1 + (e^epsilon - 1) / q); 1 / sigma),

in both directions (docs/privacy.md, Theorem 9). The bound does not hold for rewards in [-1, 1] or when features may change
as well: there the two contributions can be two apart.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from adaprivate import check
from adaprivate.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma

PUBLISHED_ORDERS = (2, 3, 4, 5, 6, 8, 16, 32, 64)


def _rate(sampling_rate: float) -> float:
    return check.real("sampling_rate", sampling_rate, above=0, at_most=1)


def _unsampled_epsilon(epsilon: float, rate: float) -> float:
    """log(1 + (e^epsilon - 1) / q) without overflow."""
    if epsilon > 50:
        return epsilon - math.log(rate) + math.log1p(-(1 - rate) * math.exp(-epsilon))
    return math.log1p(math.expm1(epsilon) / rate)


def sampled_gaussian_delta(sigma: float, epsilon: float, sampling_rate: float) -> float:
    """The exact delta of Poisson-sampled Gaussian noise (replace one reward in [0, 1], features of norm at most 1)."""
    rate = _rate(sampling_rate)
    epsilon = check.real("epsilon", epsilon, at_least=0)
    return rate * gaussian_delta(sigma, _unsampled_epsilon(epsilon, rate))


def sampled_gaussian_epsilon(sigma: float, delta: float, sampling_rate: float) -> float:
    """The exact epsilon of Poisson-sampled Gaussian noise (replace one reward in [0, 1], features of norm at most 1)."""
    rate = _rate(sampling_rate)
    delta = check.probability("delta", delta)
    if delta >= rate:
        return 0.0
    inner = gaussian_epsilon(sigma, delta / rate)
    if inner > 50:
        return inner + math.log(rate) + math.log1p((1 - rate) / rate * math.exp(-inner))
    return math.log1p(rate * math.expm1(inner))


def sampled_gaussian_sigma(epsilon: float, delta: float, sampling_rate: float) -> float:
    """The least sigma for (epsilon, delta) with Poisson sampling; 0 when ``sampling_rate <= delta`` needs no noise.

    Sampling does not pay: the unbiased sum divides by q, and ``sigma / q`` grows as q falls for every budget in use
    (checked for epsilon >= 0.1 and delta <= 0.01; it can fall only where epsilon is of the order of delta).
    """
    rate = _rate(sampling_rate)
    epsilon = check.real("epsilon", epsilon, above=0)
    delta = check.probability("delta", delta)
    if delta >= rate:
        return 0.0
    sigma = gaussian_sigma(_unsampled_epsilon(epsilon, rate), delta / rate)
    while sampled_gaussian_epsilon(sigma, delta, rate) > epsilon:
        sigma *= 1 + 1e-12
    return sigma


def published_renyi(order: int, sigma: float, sampling_rate: float) -> float:
    """Eq. 3.6 as printed. Not an upper bound on the Renyi divergence: for reproduction only."""
    order = check.whole("order", order, at_least=2)
    ratio = math.sqrt(2) * _rate(sampling_rate) / check.real("sigma", sigma, above=0)
    return _published_log_moment(order, ratio) / (order - 1)


def _published_log_moment(order: int, ratio: float) -> float:
    """The bracket of Eq. 3.6 is (1 + a)^alpha - alpha a with a = sqrt(2) q / sigma."""
    power = order * math.log1p(ratio)
    return power + math.log1p(-order * ratio * math.exp(-power))


def published_sampled_gaussian_sigma(epsilon: float, delta: float, sampling_rate: float) -> float:
    """The sigma the paper's recipe returns (Eq. 3.6 over its orders). NOT a guarantee: for reproduction only.

    At epsilon 1, delta 1e-5, q = 0.5 its true epsilon is 7.50; see ``sampled_gaussian_epsilon``.
    """
    rate = _rate(sampling_rate)
    epsilon = check.real("epsilon", epsilon, above=0)
    log_term = math.log(1 / check.probability("delta", delta))
    ratios = []
    for order in PUBLISHED_ORDERS:
        allowed = epsilon * (order - 1) - log_term

        def excess(log_ratio: float, order: int = order, allowed: float = allowed) -> float:
            return _published_log_moment(order, math.exp(log_ratio)) - allowed

        if allowed > 0:
            ratios.append(math.exp(brentq(excess, -40.0, max(2.0, allowed + 1), xtol=1e-14, rtol=1e-14)))
    check.expect(
        bool(ratios),
        "epsilon",
        epsilon,
        f"> {log_term / (PUBLISHED_ORDERS[-1] - 1):.4g} (else Eq. 3.6 has no solution)",
    )
    return math.sqrt(2) * rate / max(ratios)
