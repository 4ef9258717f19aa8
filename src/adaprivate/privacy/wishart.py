"""What Wishart noise costs: M + W with W ~ Wishart_p(k, L^2 I), where M is a sum of rows v v' with |v| <= L.

Take L = 1 and a = (k - p - 1) / 2. The noise has density |S|^a exp(-tr S / 2), so only the difference D of the two sums
matters, and a shift of a log-concave density by c D, c < 1, is never easier to see than the shift by D.

- A row added or removed: D = v v', so |v| = 1 is worst, and the loss is a function of Q = 1 / (v' W^-1 v) ~ chi2_(k-p+1):
  -a log(1 - 1/Q) - 1/2 where the row is absent (infinite for Q <= 1), 1/2 - a log(1 + 1/Q) where it is present.
- A row replaced: D = v v' - w w' has one eigenvalue in [0, 1], one in [-1, 0] and no others. Padded by one coordinate it is
  e1 e1' - e2 e2', and dropping a coordinate of a Wishart matrix leaves a Wishart matrix: dimension p + 1 with orthonormal
  rows is an upper bound. There Y has the same s = sqrt(((y11 + y22 - 1) / 2)^2 - y12^2) for both rows, of density
  s^(2a+2) K_0(s), and given s its (y11 - y22) / 2 is s times a symmetric beta variable, shifted by +1/2 or -1/2.

Proofs: docs/privacy.md, "Wishart noise".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammainc, gammaincc, k0e

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.privacy.gaussian import gdp_mu
from adaprivate.privacy.participation import NEIGHBOURS
from adaprivate.privacy.price import LOSS_GRID, NumericalPrice

Survival = Callable[[Floats], Floats]
"""The probability that the loss exceeds each of these values."""

_TAIL = 1e-15
_LARGEST = round(40 / LOSS_GRID)
_NODES = 64


def least_degrees(dimension: int, neighbours: str) -> int:
    """The fewest degrees of freedom priced here; with fewer the density is not log-concave, or the loss not continuous."""
    check.one_of("neighbours", neighbours, NEIGHBOURS)
    return check.whole("dimension", dimension, at_least=1) + (3 if neighbours == "replace" else 2)


def present_survival(degrees: int, dimension: int) -> Survival:
    """Law of the loss log(present / absent) where the row, of norm L, is present; never above 1/2."""
    a = (degrees - dimension - 1) / 2

    def survival(loss: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):
            q = 1 / np.expm1(np.maximum(0.5 - loss, 0) / a)
        return np.asarray(gammaincc(a + 1, q / 2))

    return survival


def absent_survival(degrees: int, dimension: int) -> Survival:
    """Law of the loss log(absent / present) where the row, of norm L, is absent; infinite with positive probability."""
    a = (degrees - dimension - 1) / 2

    def survival(loss: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            q = -1 / np.expm1(-np.maximum(loss + 0.5, 0) / a)
        return np.asarray(gammainc(a + 1, q / 2))

    return survival


def replaced_survival(degrees: int, dimension: int, nodes: int = _NODES) -> Survival:
    """Law of the loss log(one row / the other), for orthogonal rows of norm L; the same in both directions.

    The integral over s is a trapezoidal sum in log s, which converges geometrically.
    """
    a = (degrees - dimension - 1) / 2
    s, weight = _scale_nodes(a, nodes)

    def survival(loss: Floats) -> Floats:
        total = np.zeros(np.shape(loss))
        with np.errstate(over="ignore"):
            ratio = np.exp(np.minimum(np.asarray(loss) / a, 300.0))
        for node, share in zip(s, weight, strict=True):
            if node <= 0.5:
                total += share
                continue
            root = np.sqrt(ratio + ((ratio - 1) * node) ** 2)
            edge = ((ratio - 1) * node**2 - ratio) / (ratio + root)
            total += share * betainc(a + 1, a + 1, np.clip((1 - edge / node) / 2, 0, 1))
        return total

    return survival


def _scale_nodes(a: float, nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights for s of density s^(2a+2) K_0(s), which has mean near 2a + 3."""
    order = 2 * a + 3

    def log_density(u: Floats) -> Floats:
        s = order * np.exp(u)
        return np.asarray(order * u - s + np.log(k0e(s)))

    # The density of log s is log-concave: where it has fallen to e^-40 of its peak nothing is left beyond.
    reach = 60 / order + 12 / math.sqrt(order)
    grid = np.linspace(-reach, reach, 4001)
    height = log_density(grid)
    kept = grid[height > height.max() - 40]
    u = np.linspace(kept[0], kept[-1], nodes)
    height = log_density(u)
    weight = np.exp(height - height.max())
    return order * np.exp(u), weight / weight.sum()


def _rounded_up(survival: Survival, guard: float = 0.0) -> tuple[dict[int, float], float]:
    """The loss rounded up to the grid, as a mass function, and the mass that is infinite or too far out to keep."""
    infinite = _at(survival, math.inf)
    tail = max(_TAIL, 1e-4 * infinite)
    low = _last(lambda j: _at(survival, j * LOSS_GRID) > 1 - 1e-12)
    high = _last(lambda j: _at(survival, j * LOSS_GRID) > infinite + tail) + 1
    points = _points(low, high)
    above = np.maximum.accumulate(survival(points.astype(np.float64) * LOSS_GRID)[::-1])[::-1]
    above[0] = 1.0
    mass = dict(zip(points[1:].tolist(), (-np.diff(above)).tolist(), strict=True))
    return mass, min(1.0, float(above[-1]) + guard)


def _points(low: int, high: int) -> npt.NDArray[np.int64]:
    """Grid points from low to high: all of them near 0, then a thousandth of the distance from 0 apart."""
    right = [0]
    while right[-1] < max(-low, high):
        right.append(right[-1] + max(1, right[-1] // 1000))
    both = np.array([low, high, *right, *(-j for j in right)])
    return np.unique(both[(both >= low) & (both <= high)])


def _at(survival: Survival, loss: float) -> float:
    return float(survival(np.array([loss]))[0])


def _last(holds: Callable[[int], bool]) -> int:
    """The last grid point at which this still holds, between the smallest and the largest loss kept."""
    low, high = -_LARGEST, _LARGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _quadrature_error(degrees: int, dimension: int) -> float:
    """What the trapezoidal sum may miss: four times its change on doubling the nodes."""
    a = (degrees - dimension - 1) / 2
    losses = np.linspace(-12, 12, 241) / math.sqrt(2 * a + 1)
    coarse, fine = (replaced_survival(degrees, dimension, n)(losses) for n in (_NODES // 2, _NODES))
    return 4 * float(np.abs(coarse - fine).max())


@lru_cache(maxsize=64, typed=True)
def wishart_price(degrees: int, dimension: int, releases: int = 1, *, neighbours: str) -> NumericalPrice:
    """The price of a row that enters ``releases`` matrices of size ``dimension``, each with its own Wishart noise.

    An upper bound: losses are rounded up to the grid, and for replaced rows one dimension is added (module docstring). Many
    releases tend to mu = sqrt(releases / (2 (k - p))) for add-remove and sqrt(releases / (k - p)) for replace; that limit
    is optimistic: (1, 1e-5) over 27 replaced releases takes k - p = 381 where it says 376, (1, 0.1) takes 35, not 32.
    """
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    degrees = check.whole("degrees", degrees, at_least=least_degrees(dimension, neighbours))
    releases = check.whole("releases", releases, at_least=1)
    if neighbours == "replace":
        guard = _quadrature_error(degrees, dimension + 1)
        mass, infinite = _rounded_up(replaced_survival(degrees, dimension + 1), guard)
        single = PrivacyLossDistribution.create_from_rounded_probability(mass, infinite, LOSS_GRID)
    else:
        mass, infinite = _rounded_up(present_survival(degrees, dimension))
        other, other_infinite = _rounded_up(absent_survival(degrees, dimension))
        single = PrivacyLossDistribution.create_from_rounded_probability(
            mass,
            infinite,
            LOSS_GRID,
            rounded_probability_mass_function_add=other,
            infinity_mass_add=other_infinite,
            symmetric=False,
        )
    return NumericalPrice(single.self_compose(releases) if releases > 1 else single)


def wishart_degrees(epsilon: float, delta: float, dimension: int, releases: int = 1, *, neighbours: str) -> int:
    """The fewest degrees of freedom whose price meets (epsilon, delta); one fewer would not.

    More degrees never cost more privacy: they add an independent positive semidefinite matrix to the release.
    """
    least = least_degrees(dimension, neighbours)
    releases = check.whole("releases", releases, at_least=1)
    half = 1 if neighbours == "replace" else 2
    guess = least + math.ceil(releases / (half * gdp_mu(epsilon, delta) ** 2))

    def meets(degrees: int) -> bool:
        return wishart_price(degrees, dimension, releases, neighbours=neighbours).delta(epsilon) <= delta

    if meets(least):
        return least
    low, high, step = least, guess, max(1, guess // 16)
    while not meets(high):
        check.expect(high < 64 * guess, "epsilon", epsilon, f"to be well above releases x {LOSS_GRID:g}, the loss grid")
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        # The first guess is nearly right, so probe next to it before halving.
        middle = max((low + high) // 2, high - step)
        step *= 4
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def published_wishart_degrees(epsilon: float, delta: float, dimension: int, releases: int) -> int:
    """The degrees of freedom of Shariff & Sheffet (2018), Section 4.1, for matrices of size ``dimension`` (their d + 1)."""
    epsilon, delta = check.real("epsilon", epsilon, above=0), check.probability("delta", delta)
    m = check.whole("releases", releases, at_least=1)
    excess = 224 * m / epsilon**2 * math.log(8 * m / delta) * math.log(2 / delta)
    return check.whole("dimension", dimension, at_least=1) + math.ceil(excess)
