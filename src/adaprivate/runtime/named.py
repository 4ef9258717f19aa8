"""Policies with their options in the signature, for editors and type checkers: each is :func:`policy` of one name.

A test holds every signature against the settings that it stands for: their names, defaults and types. Without
``dimension`` it is taken from the first candidates.
"""

from __future__ import annotations

import inspect

from adaprivate import policies
from adaprivate.mechanisms import Secure
from adaprivate.runtime.opening import policy
from adaprivate.runtime.policy import Policy

NAMES = {
    "NoiseAware": "noise-aware",
    "NoiseAwareTS": "noise-aware-ts",
    "NoiseAwareUCB": "noise-aware-ucb",
    "AdaPrivateTS": "adaprivate-ts",
    "AdaPrivateUCB": "adaprivate-ucb",
    "RRLinUCB": "rr-linucb",
    "RRLinTS": "rr-lints",
    "LinUCB": "linucb",
    "LinTS": "lints",
    "TunedLinUCB": "tuned-linucb",
    "RandomPlay": "random",
}
"""The functions of this file, and the policies that they make."""


def _explain() -> None:
    """Have ``help`` say of every option what the settings say of it."""
    for function, name in NAMES.items():
        made = globals()[function]
        explained = inspect.getdoc(policies.settings_class(name)) or ""
        made.__doc__ = f"{inspect.getdoc(made)}\n\n{explained.partition(chr(10))[2].strip()}\n"


def NoiseAware(
    *,
    dimension: int | None = None,
    rounds: int,
    epsilon: float = 1.0,
    delta: float = 1e-05,
    channel: str = "auto",
    base_rate: float | None = None,
    missing: float | None = None,
    local: bool = False,
    batch_size: int | None = None,
    growth: float = 1.1,
    noise: str = "informative",
    centre: float | None = None,
    intercept: float = 0.3,
    ridge: float | None = None,
    adapt_ridge: bool = True,
    reward_variance: float | None = None,
    horizon: int | None = None,
    memory: float | None = None,
    catalogue: tuple[tuple[float, ...], ...] | None = None,
    unit: str = "event",
    counted_visits: int = 10,
    weights: str = "directions",
    counted_batches: int = 3,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """The largest upper bound of the posterior given all releases, wider where the same candidates come again.

    ``policy("noise-aware", ...)`` with its options spelt out.
    """
    return policy("noise-aware", **locals())


def NoiseAwareTS(
    *,
    dimension: int | None = None,
    rounds: int,
    epsilon: float = 1.0,
    delta: float = 1e-05,
    channel: str = "auto",
    base_rate: float | None = None,
    missing: float | None = None,
    local: bool = False,
    batch_size: int | None = None,
    growth: float = 1.1,
    noise: str = "informative",
    centre: float | None = None,
    intercept: float = 0.3,
    ridge: float | None = None,
    adapt_ridge: bool = True,
    reward_variance: float | None = None,
    horizon: int | None = None,
    memory: float | None = None,
    catalogue: tuple[tuple[float, ...], ...] | None = None,
    unit: str = "event",
    counted_visits: int = 10,
    weights: str = "directions",
    counted_batches: int = 3,
    v: float | None = None,
    fading: float | None = None,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """Samples theta from the posterior given all releases, its spread scaled by v (T/t)^fading.

    ``policy("noise-aware-ts", ...)`` with its options spelt out.
    """
    return policy("noise-aware-ts", **locals())


def NoiseAwareUCB(
    *,
    dimension: int | None = None,
    rounds: int,
    epsilon: float = 1.0,
    delta: float = 1e-05,
    channel: str = "auto",
    base_rate: float | None = None,
    missing: float | None = None,
    local: bool = False,
    batch_size: int | None = None,
    growth: float = 1.1,
    noise: str = "informative",
    centre: float | None = None,
    intercept: float = 0.3,
    ridge: float | None = None,
    adapt_ridge: bool = True,
    reward_variance: float | None = None,
    horizon: int | None = None,
    memory: float | None = None,
    catalogue: tuple[tuple[float, ...], ...] | None = None,
    unit: str = "event",
    counted_visits: int = 10,
    weights: str = "directions",
    counted_batches: int = 3,
    alpha: float | None = None,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """The largest posterior mean plus alpha posterior standard deviations, by default more and more of them.

    ``policy("noise-aware-ucb", ...)`` with its options spelt out.
    """
    return policy("noise-aware-ucb", **locals())


def AdaPrivateTS(
    *,
    dimension: int | None = None,
    rounds: int,
    epsilon: float = 1.0,
    delta: float = 1e-05,
    batch_size: int = 300,
    schedule: str = "fixed",
    growth: float = 1.5,
    ridge: float = 1.0,
    noise: str = "independent",
    calibration: str = "zcdp",
    centre: float = 0.0,
    theta_0: tuple[float, ...] | None = None,
    forced_exploration: float = 0.0,
    statistics: str = "b",
    v: float = 1.0,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """Thompson sampling from N(A^-1 b, v^2 A^-1), b released in batches.

    ``policy("adaprivate-ts", ...)`` with its options spelt out.
    """
    return policy("adaprivate-ts", **locals())


def AdaPrivateUCB(
    *,
    dimension: int | None = None,
    rounds: int,
    epsilon: float = 1.0,
    delta: float = 1e-05,
    batch_size: int = 300,
    schedule: str = "fixed",
    growth: float = 1.5,
    ridge: float = 1.0,
    noise: str = "independent",
    calibration: str = "zcdp",
    centre: float = 0.0,
    theta_0: tuple[float, ...] | None = None,
    forced_exploration: float = 0.0,
    statistics: str = "b",
    alpha: float = 1.0,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), b released in batches.

    ``policy("adaprivate-ucb", ...)`` with its options spelt out.
    """
    return policy("adaprivate-ucb", **locals())


def RRLinUCB(
    *,
    dimension: int | None = None,
    rounds: int,
    ridge: float = 1.0,
    centre: float = 0.0,
    alpha: float = 1.0,
    epsilon: float = 1.0,
    unit: str = "event",
    counted_visits: int = 1,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), every reward seen as a flipped bit.

    ``policy("rr-linucb", ...)`` with its options spelt out.
    """
    return policy("rr-linucb", **locals())


def RRLinTS(
    *,
    dimension: int | None = None,
    rounds: int,
    ridge: float = 1.0,
    centre: float = 0.0,
    v: float = 1.0,
    epsilon: float = 1.0,
    unit: str = "event",
    counted_visits: int = 1,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """Thompson sampling from N(A^-1 b, v^2 A^-1), every reward seen as a flipped bit.

    ``policy("rr-lints", ...)`` with its options spelt out.
    """
    return policy("rr-lints", **locals())


def LinUCB(
    *,
    dimension: int | None = None,
    rounds: int,
    ridge: float = 1.0,
    centre: float = 0.0,
    alpha: float = 1.0,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """The candidate with the largest x' A^-1 b + alpha sqrt(x' A^-1 x), learning every reward at once.

    ``policy("linucb", ...)`` with its options spelt out.
    """
    return policy("linucb", **locals())


def LinTS(
    *,
    dimension: int | None = None,
    rounds: int,
    ridge: float = 1.0,
    centre: float = 0.0,
    v: float = 1.0,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """Thompson sampling from N(A^-1 b, v^2 A^-1), learning every reward at once.

    ``policy("lints", ...)`` with its options spelt out.
    """
    return policy("lints", **locals())


def TunedLinUCB(
    *,
    dimension: int | None = None,
    rounds: int,
    ridge: float | None = None,
    intercept_ridge: float = 1.0,
    alpha: float = 0.4,
    centre: float = 0.5,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """The candidate with the largest e' A^-1 b + alpha sqrt(log(1 + t / d)) sqrt(e' A^-1 e), e = (x, 1), after t rounds.

    ``policy("tuned-linucb", ...)`` with its options spelt out.
    """
    return policy("tuned-linucb", **locals())


def RandomPlay(
    *,
    dimension: int | None = None,
    rounds: int,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Policy:
    """Every candidate with the same probability.

    ``policy("random", ...)`` with its options spelt out.
    """
    return policy("random", **locals())


_explain()
