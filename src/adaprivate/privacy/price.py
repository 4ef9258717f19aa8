"""What one protected unit's participation costs, and how costs add up.

A mechanism prices one use of itself; only :func:`compose` combines prices, so that no accountant multiplies by a count
twice or not at all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from scipy.special import log_expit, ndtri_exp

from adaprivate import check
from adaprivate.privacy.gaussian import gdp_compose, gdp_delta, gdp_epsilon
from adaprivate.privacy.sampling import sampled_gaussian_delta, sampled_gaussian_epsilon

LOSS_GRID = 1e-4
"""Width of the privacy-loss grid of numerical compositions; losses are rounded up onto it."""


class Price(ABC):
    """A privacy curve: every (epsilon, delta) at which the mechanism is private."""

    @property
    @abstractmethod
    def mu(self) -> float:
        """A mu for which the mechanism is mu-GDP; infinity when there is none in closed form."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The delta at this epsilon (an upper bound, exact where :attr:`exact`)."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """The epsilon at this delta (an upper bound, exact where :attr:`exact`)."""

    exact: bool = True
    slack: float = 0.0
    """Total variation distance of the noise really drawn from the ideal noise the curve speaks of."""

    def exact_at(self, delta: float) -> bool:
        """Whether no smaller epsilon holds at this delta."""
        return self.exact

    @abstractmethod
    def loss_distribution(self) -> Any:
        """The pessimistic privacy-loss distribution of the ideal noise, for numerical composition."""


def _with_slack(delta: float, epsilon: float, slack: float) -> float:
    return min(1.0, delta + (1 + math.exp(min(epsilon, 700.0))) * slack)


def _epsilon_with_slack(price: Price, ideal: Callable[[float], float], delta: float) -> float | None:
    """The ideal curve's epsilon at a slightly smaller delta, so that the slack fits into the rest. None: it does not."""
    for share in (1.0, 1 - 1e-12, 1 - 1e-9, 1 - 1e-6, 0.999, 0.9, 0.5):
        epsilon = ideal(delta * share)
        if price.slack == 0 or price.delta(epsilon) <= delta:
            return epsilon
    return None


def _refuse_slack(price: Price, epsilon: float, delta: float, most: float | None = None) -> NoReturn:
    """Raise: the noise of this ideal epsilon is too small to be exact. ``most``: the largest that fits, where known."""
    if (price.slack >= delta / 4) if most is None else most < 1:
        raise check.InputError(f"Expected delta={delta!r} well above the discretization slack {price.slack:.3g}.")
    bound = "to be smaller" if most is None else f"<= {math.floor(10 * most) / 10:g}"
    raise check.InputError(
        f"Expected epsilon={epsilon:.4g} {bound} for exact noise at delta={delta:g}: smaller noise shows the grid "
        "on which it is drawn. Choose a smaller epsilon; simulated noise (seed=) takes any, for experiments."
    )


@dataclass(frozen=True)
class GaussianPrice(Price):
    """Gaussian noise: exactly mu-GDP, plus ``(1 + e^epsilon) slack`` for exact integer noise on a fine grid."""

    gdp: float
    slack: float = 0.0
    exact: bool = True

    def __post_init__(self) -> None:
        check.real("mu", self.gdp, at_least=0)
        check.real("slack", self.slack, at_least=0, below=1)

    @property
    def mu(self) -> float:
        return self.gdp

    def delta(self, epsilon: float) -> float:
        return _with_slack(gdp_delta(self.gdp, epsilon), epsilon, self.slack)

    def epsilon(self, delta: float) -> float:
        epsilon = self._fitting(delta)
        if epsilon is None:
            _refuse_slack(self, gdp_epsilon(self.gdp, delta), delta, self._most(delta))
        return epsilon

    def _fitting(self, delta: float) -> float | None:
        return _epsilon_with_slack(self, lambda d: gdp_epsilon(self.gdp, d), delta)

    def _most(self, delta: float) -> float:
        """The largest epsilon at which exact noise fits, whatever this one's is: slack falls with the square of mu."""
        fits, fails = 0.0, self.gdp
        for _ in range(40):
            mu = (fits + fails) / 2
            other = GaussianPrice(mu, self.slack * (mu / self.gdp) ** 2)
            fits, fails = (fits, mu) if other._fitting(delta) is None else (mu, fails)
        return gdp_epsilon(fits, delta)

    def loss_distribution(self) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        if self.gdp == 0:
            return pld.identity(value_discretization_interval=LOSS_GRID)
        return pld.from_gaussian_mechanism(1 / self.gdp, value_discretization_interval=LOSS_GRID)


@dataclass(frozen=True)
class SampledGaussianPrice(Price):
    """Gaussian noise on a Poisson sample of rewards in [0, 1]: exact for one replaced reward.

    The proof is in docs/privacy.md, Theorem 9.
    """

    sigma: float
    sampling_rate: float
    exact: bool = True

    def __post_init__(self) -> None:
        check.real("sigma", self.sigma, above=0)
        check.real("sampling_rate", self.sampling_rate, above=0, at_most=1)

    @property
    def mu(self) -> float:
        """Sampling never costs more than no sampling; the curve itself is not Gaussian."""
        return 1 / self.sigma

    def delta(self, epsilon: float) -> float:
        return sampled_gaussian_delta(self.sigma, epsilon, self.sampling_rate)

    def epsilon(self, delta: float) -> float:
        return sampled_gaussian_epsilon(self.sigma, delta, self.sampling_rate)

    def loss_distribution(self) -> Any:
        """Not offered: the curve bounds both orders of neighbours, but no one pair of distributions is proved to."""
        raise check.InputError("Expected prices=SampledGaussianPrice to stand alone: sampled releases are not composed.")


@dataclass(frozen=True)
class PurePrice(Price):
    """Pure epsilon-DP, for instance Laplace noise: delta = 0."""

    pure_epsilon: float

    def __post_init__(self) -> None:
        check.real("pure_epsilon", self.pure_epsilon, at_least=0)

    @property
    def mu(self) -> float:
        """Pure epsilon-DP implies mu-GDP with mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon))."""
        return -2 * float(ndtri_exp(log_expit(-self.pure_epsilon)))

    def delta(self, epsilon: float) -> float:
        """Randomised response is the worst pure mechanism: (e^e0 - e^epsilon) / (1 + e^e0)."""
        epsilon = check.real("epsilon", epsilon, at_least=0)
        if epsilon >= self.pure_epsilon:
            return 0.0
        return -math.expm1(epsilon - self.pure_epsilon) / (1 + math.exp(-self.pure_epsilon))

    def exact_at(self, delta: float) -> bool:
        """Only at delta = 0 is the curve that of every pure mechanism."""
        return delta == 0

    def epsilon(self, delta: float = 0.0) -> float:
        """At delta > 0 a little less than the pure epsilon."""
        delta = check.real("delta", delta, at_least=0, below=1)
        odds = 1 - delta * (1 + math.exp(-self.pure_epsilon))
        return max(0.0, self.pure_epsilon + math.log(odds)) if odds > 0 else 0.0

    def loss_distribution(self) -> Any:
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld

        parameters = common.DifferentialPrivacyParameters(self.pure_epsilon, 0)
        return pld.from_privacy_parameters(parameters, value_discretization_interval=LOSS_GRID)


@dataclass(frozen=True)
class NumericalPrice(Price):
    """A privacy-loss distribution on a grid, losses rounded up: an upper bound on the true curve."""

    distribution: Any
    slack: float = 0.0
    exact: bool = False

    @property
    def mu(self) -> float:
        return math.inf

    def delta(self, epsilon: float) -> float:
        epsilon = check.real("epsilon", epsilon, at_least=0)
        return _with_slack(float(self.distribution.get_delta_for_epsilon(epsilon)), epsilon, self.slack)

    def epsilon(self, delta: float) -> float:
        delta = check.probability("delta", delta)

        def ideal(d: float) -> float:
            return float(self.distribution.get_epsilon_for_delta(d))

        epsilon = _epsilon_with_slack(self, ideal, delta)
        if epsilon is None:
            _refuse_slack(self, ideal(delta), delta)
        return epsilon

    def loss_distribution(self) -> Any:
        return self.distribution


@dataclass(frozen=True)
class EitherPrice(Price):
    """One of these prices, whichever: every unit pays exactly one of them, and which one is public before it pays.

    Whoever does not know which states the worst of them at every point (docs/privacy.md, Theorem 7).
    """

    prices: tuple[Price, ...]
    slack: float = field(init=False)
    exact: bool = field(init=False)

    def __post_init__(self) -> None:
        check.expect(len(self.prices) > 0, "prices", self.prices, "to be non-empty")
        for price in self.prices:
            check.kind("price", price, Price)
        object.__setattr__(self, "slack", max(price.slack for price in self.prices))
        object.__setattr__(self, "exact", all(price.exact for price in self.prices))

    @property
    def mu(self) -> float:
        return max(price.mu for price in self.prices)

    def delta(self, epsilon: float) -> float:
        return max(price.delta(epsilon) for price in self.prices)

    def epsilon(self, delta: float) -> float:
        return max(price.epsilon(delta) for price in self.prices)

    def exact_at(self, delta: float) -> bool:
        """Whether one that is exact there sets the epsilon: some unit may pay it."""
        worst = self.epsilon(delta)
        return any(price.exact_at(delta) for price in self.prices if price.epsilon(delta) == worst)

    def loss_distribution(self) -> Any:
        """That of paying all of them: it covers each, and costs whoever composes more than need be."""
        total = self.prices[0].loss_distribution()
        for price in self.prices[1:]:
            total = total.compose(price.loss_distribution())
        return total


def compose(prices: Sequence[Price]) -> Price:
    """The price of all these mechanisms on the same person's data, each possibly chosen after seeing the earlier ones.

    Gaussian prices add in squares and pure ones add, both in closed form; a mixture is composed numerically
    (dp-accounting, losses rounded up).
    """
    check.kind("prices", prices, list, tuple)
    for price in prices:
        check.kind("price", price, Price)
    check.expect(len(prices) > 0, "prices", list(prices), "to be non-empty")
    if len(prices) == 1:
        return prices[0]
    gaussian = [p for p in prices if isinstance(p, GaussianPrice)]
    if len(gaussian) == len(prices):
        return GaussianPrice(
            gdp_compose(p.gdp for p in gaussian), math.fsum(p.slack for p in prices), all(p.exact for p in prices)
        )
    pure = [p for p in prices if isinstance(p, PurePrice)]
    if len(pure) == len(prices):
        return PurePrice(math.fsum(p.pure_epsilon for p in pure))
    total = prices[0].loss_distribution()
    for price in prices[1:]:
        total = total.compose(price.loss_distribution())
    return NumericalPrice(total, math.fsum(p.slack for p in prices))
