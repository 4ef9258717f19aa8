"""The mathematics of privacy: pure functions, no randomness.

Every function here is deterministic and exact or errs on the safe side; docs/privacy.md has the proofs.
"""

from adaprivate.privacy.concentrated import (
    gdp_rho,
    rdp_compose,
    rdp_epsilon,
    zcdp_compose,
    zcdp_epsilon,
    zcdp_epsilon_tight,
    zcdp_rho,
    zcdp_sigma,
)
from adaprivate.privacy.filters import BudgetError, GdpFilter, GdpOdometer
from adaprivate.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    gdp_compose,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
)
from adaprivate.privacy.guarantee import CONDITIONS, Guarantee, guarantee
from adaprivate.privacy.participation import (
    NEIGHBOURS,
    Participation,
    UserLedger,
    events,
    group_mu,
    group_rho,
    joint_sensitivity,
    matrix_sensitivity,
    rows,
    toeplitz_sensitivity,
    users,
)
from adaprivate.privacy.price import GaussianPrice, NumericalPrice, Price, PurePrice, SampledGaussianPrice, compose
from adaprivate.privacy.sampling import (
    published_renyi,
    published_sampled_gaussian_sigma,
    sampled_gaussian_delta,
    sampled_gaussian_epsilon,
    sampled_gaussian_sigma,
)
from adaprivate.privacy.wishart import published_wishart_degrees, wishart_degrees, wishart_price

__all__ = [
    "CONDITIONS",
    "NEIGHBOURS",
    "BudgetError",
    "GaussianPrice",
    "GdpFilter",
    "GdpOdometer",
    "Guarantee",
    "NumericalPrice",
    "Participation",
    "Price",
    "PurePrice",
    "SampledGaussianPrice",
    "UserLedger",
    "compose",
    "events",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "gdp_compose",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gdp_rho",
    "group_mu",
    "group_rho",
    "guarantee",
    "joint_sensitivity",
    "matrix_sensitivity",
    "published_renyi",
    "published_sampled_gaussian_sigma",
    "published_wishart_degrees",
    "rdp_compose",
    "rdp_epsilon",
    "rows",
    "sampled_gaussian_delta",
    "sampled_gaussian_epsilon",
    "sampled_gaussian_sigma",
    "toeplitz_sensitivity",
    "users",
    "wishart_degrees",
    "wishart_price",
    "zcdp_compose",
    "zcdp_epsilon",
    "zcdp_epsilon_tight",
    "zcdp_rho",
    "zcdp_sigma",
]
