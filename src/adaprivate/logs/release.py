"""Publishing an estimate: what it costs those whose rewards it is made of.

Replay, ips and snips are sums of c_t r_t with public weights c_t. The sum and sum c_t^2 r_t (for the interval) are one
vector that a replaced reward moves by at most a known amount; Gaussian noise on it makes both public (docs/privacy.md,
"What a policy would have earned"). A cap on the weights lowers the noise at the price of a bias. To protect people, what
all rewards of one person add is bounded instead: noise grows with the largest share that anyone has in the estimate.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import ndtri

from adaprivate import check, privacy
from adaprivate.check import Floats, Integers
from adaprivate.logs.estimators import Estimate, Sample, effective_sample_size
from adaprivate.mechanisms import EventSum, Gaussian, Noise, UserSum
from adaprivate.mechanisms.noise import EVENT_BITS
from adaprivate.privacy import Guarantee

RELEASED = ("replay", "ips", "snips")
NOISE = "noise"
"""How the interval of a published estimate was made: from what was released, wide enough for its noise."""
SPREAD_SHARE = 0.5
"""How much of an event's weight goes to each sum for the interval, relative to the first."""


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
    weights, shares = _shares(estimator, sample)
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
    return Estimate(estimator, value, sem, value - reach, value + reach, confidence, known, n, method=NOISE), guarantee


def _shares(estimator: str, sample: Sample) -> tuple[Floats, Floats]:
    """The weights of the rows, and what each reward is multiplied with in the estimate."""
    n = len(sample.rewards)
    weights = np.ones(n) if estimator == "replay" else np.asarray(sample.weights)
    total = float(weights.sum())
    check.expect(total > 0, "sum(weights)", total, "> 0: the policy never chooses what was logged")
    return weights, weights / (n if estimator == "ips" else total)


def release_by_person(
    estimator: str, sample: Sample, *, epsilon: float, delta: float, noise: Noise, confidence: float = 0.95
) -> tuple[Estimate, Guarantee]:
    """As :func:`release`, with a guarantee for all rewards of any one person in ``sample.people``.

    Person u adds a_u, their part of the estimate over the largest that anyone's can be, a_u^2 and a_u b_u, b_u their share
    of the rows over the largest: from these follows the interval, in which people are independent and their rows are not.
    """
    check.one_of("estimator", estimator, RELEASED)
    check.real("epsilon", epsilon, above=0)
    check.probability("delta", delta)
    check.expect(sample.people is not None, "people", None, "to be given: whose each row is")
    rewards = check.floats("rewards", sample.rewards, (None,))
    check.expect(bool(((rewards >= 0) & (rewards <= 1)).all()), "rewards", "some", "in [0, 1]")
    weights, shares = _shares(estimator, sample)
    known, person = np.unique(np.asarray(sample.people), return_inverse=True)
    most = np.bincount(person, shares)
    part = most if estimator != "ips" else np.bincount(person) / len(rewards)
    largest, broadest = float(most.max()), float(part.max())
    a, b = np.minimum(np.bincount(person, shares * rewards) / largest, 1.0), part / broadest
    length = math.sqrt(1 + 2 * SPREAD_SHARE**2)
    # on the grid, so that exact noise finds nothing to truncate; less the middle of what is possible, at most 1/2 is left
    added = _on_grid(np.column_stack([a, SPREAD_SHARE * a * a, SPREAD_SHARE * a * b]) / length)
    middle = _on_grid(np.column_stack([np.ones_like(a), SPREAD_SHARE * np.ones_like(a), SPREAD_SHARE * b]) / (2 * length))
    reach = privacy.users(0.5, 1, "replace")
    multiplier = privacy.gaussian_sigma(epsilon, delta)
    mechanism = Gaussian(dimension=3, noise_multiplier=multiplier, noise=noise, participation=reach)
    collector = UserSum(3, noise=noise, clip=0.5, batches=1, centre=0.5)
    for number, vector in zip(known.tolist(), 2 * (added - middle), strict=True):
        collector.add(str(number), vector, 1.0)
    guarantee = mechanism.guarantee(delta, collector, conditions=("public-visits",))
    first, second, third = ((mechanism.release(collector) + middle.sum(axis=0)) * length).tolist()
    value = first * largest
    squares, products = second * largest**2 / SPREAD_SHARE, third * largest * broadest / SPREAD_SHARE
    inside = min(max(value, 0.0), 1.0)
    error = mechanism.sigma * length * largest
    wide = float(ndtri((1 + confidence) / 2))
    variance = squares - 2 * inside * products + inside**2 * float(part @ part)
    slack = wide * error / SPREAD_SHARE * math.hypot(largest, 2 * inside * broadest)  # the noise of the other two sums
    sem = math.sqrt(max(variance + slack, 0.0) * len(known) / max(len(known) - 1, 1) + error**2)
    size = effective_sample_size(weights)
    return (
        Estimate(
            estimator, value, sem, value - wide * sem, value + wide * sem, confidence, size, len(rewards), method=NOISE
        ),
        guarantee,
    )


def _on_grid(values: Floats) -> Floats:
    return np.asarray(np.round(values * 2.0**EVENT_BITS) * 2.0**-EVENT_BITS)


def first_rows(people: Integers, most: int) -> Integers:
    """The rows that are among the first ``most`` of their person."""
    check.whole("person_rows", most, at_least=1)
    order = np.argsort(people, kind="stable")
    begins = np.searchsorted(people[order], people[order], side="left")
    return np.sort(order[np.arange(len(people)) - begins < most])


def together(policy: Guarantee, estimate: Guarantee, *, same_rewards: bool) -> Guarantee:
    """The guarantee of a policy's learning and of the estimate, published together.

    ``same_rewards``: the estimate is made of rewards that the policy learned from (replay), or of others of the same people
    where those are protected, so that what each costs adds up; otherwise no reward is in both, and the larger holds.
    """
    check.expect(policy.unit == estimate.unit, "unit", estimate.unit, f"== {policy.unit}, whom the policy protects")
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


def told(policy: Guarantee | None, estimate: Guarantee, *, replayed: bool, by_person: bool) -> str:
    """What an estimate was published with, and why the guarantee of both is what :func:`together` makes it. Public."""
    own = f"The estimate is published with epsilon {estimate.epsilon:.4g} (noise added)."
    if policy is None or policy.epsilon == 0:
        return f"{own} The policy uses no reward and costs nothing."
    if replayed:
        return f"{own} The policy's {policy.epsilon:.4g} is added because both use the same rewards."
    if by_person:
        return f"{own} The policy's {policy.epsilon:.4g} is added because people may be in both parts of the log."
    return (
        f"{own} The larger of it and the policy's {policy.epsilon:.4g} holds because no reward is in both parts of the log."
    )


def capped(weights: Floats, cap: float | None) -> Floats:
    """Weights no larger than a public cap."""
    return weights if cap is None else np.minimum(weights, check.real("cap", cap, above=0))
