"""Publishing an estimate: what it costs those whose rewards it is made of.

Replay, ips and snips are sums of c_t r_t with public weights c_t. The sum and sum c_t^2 r_t (for the interval) are one
vector that a replaced reward moves by at most a known amount; Gaussian noise on it makes both public (docs/privacy.md,
"What a policy would have earned"). A cap on the weights lowers the noise at the price of a bias.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import ndtri

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.evaluation.estimators import Estimate, Sample, effective_sample_size
from adaprivate.mechanisms import EventSum, Gaussian, Noise
from adaprivate.privacy import Guarantee

RELEASED = ("replay", "ips", "snips")
SPREAD_SHARE = 0.5
"""How much of an event's weight goes to the second sum, relative to the first."""


def release(
    estimator: str, sample: Sample, *, epsilon: float, delta: float, noise: Noise, confidence: float = 0.95
) -> tuple[Estimate, Guarantee]:
    """The estimate with noise, its interval widened by it, and the guarantee for the rewards in ``sample``.

    For rewards 0 and 1 the interval is that of the estimator, widened by the noise; for others in between it is wider.
    """
    check.one_of("estimator", estimator, RELEASED)
    check.real("epsilon", epsilon, above=0)
    check.probability("delta", delta)
    n = len(sample.rewards)
    weights = np.ones(n) if estimator == "replay" else np.asarray(sample.weights)
    total = float(weights.sum())
    check.expect(total > 0, "sum(weights)", total, "> 0: the policy never chooses what was logged")
    shares = weights / (n if estimator == "ips" else total)
    largest = float(shares.max())
    mechanism = Gaussian(dimension=2, noise_multiplier=privacy.gaussian_sigma(epsilon, delta), noise=noise)
    collector = EventSum(2, noise=noise)
    length = math.hypot(1, SPREAD_SHARE)
    relative = shares / largest
    events = np.column_stack([relative, SPREAD_SHARE * relative**2]) / length
    for features, reward in zip(events, sample.rewards.tolist(), strict=True):
        collector.add(features, reward)
    guarantee = mechanism.guarantee(delta, collector)
    first, second = mechanism.release(collector).tolist()
    value = first * length * largest
    squares = max(second * length * largest**2 / SPREAD_SHARE, 0.0)
    error = mechanism.sigma * length * largest
    inside = min(max(value, 0.0), 1.0)
    if estimator == "ips":
        variance = squares - inside**2 / n
    else:
        variance = squares * (1 - 2 * inside) + inside**2 * float(shares @ shares)
    slack = ndtri((1 + confidence) / 2) * error * largest / SPREAD_SHARE  # the second sum's own noise
    variance = max(variance + slack, 0.0)
    sem = math.sqrt(variance + error**2)
    reach = float(ndtri((1 + confidence) / 2)) * sem
    known = effective_sample_size(weights)
    return Estimate(estimator, value, sem, value - reach, value + reach, confidence, known, n), guarantee


def together(policy: Guarantee, estimate: Guarantee, *, same_rewards: bool) -> Guarantee:
    """The guarantee of a policy's learning and of the estimate, published together.

    ``same_rewards``: the estimate is made of rewards that the policy learned from (replay), so that what each costs adds
    up; otherwise no reward is in both, and the larger holds.
    """
    epsilon = policy.epsilon + estimate.epsilon if same_rewards else max(policy.epsilon, estimate.epsilon)
    delta = policy.delta + estimate.delta if same_rewards else max(policy.delta, estimate.delta)
    conditions = [*dict.fromkeys([*policy.assumptions, *estimate.assumptions])]
    enforced = [*dict.fromkeys(text for text in [*policy.enforced, *estimate.enforced] if text not in conditions)]
    return dataclasses.replace(
        policy,
        epsilon=epsilon,
        delta=delta,
        mu=None,
        assumptions=tuple(conditions),
        enforced=tuple(enforced),
        exact=False,
        nominal_epsilon=None,
        simulated=policy.simulated or estimate.simulated,
    )


def capped(weights: Floats, cap: float | None) -> Floats:
    """Weights no larger than a public cap."""
    return weights if cap is None else np.minimum(weights, check.real("cap", cap, above=0))
