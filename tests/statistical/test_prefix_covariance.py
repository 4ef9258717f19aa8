"""The noise of running sums has the covariance that the dense strategy says: an exact test, and its power.

If N is d draws of a K-vector with covariance S, the Cholesky factor T of L^-1 N N' L^-T (S = L L') has independent entries:
T_ii^2 is chi-square with d - i degrees of freedom (i from 0), the entries below are standard normal (Bartlett). Turning
each into a normal score, their squares add to a chi-square with K (K + 1) / 2 degrees of freedom, exactly.
"""

from functools import partial

import numpy as np
import pytest
from scipy.stats import chi2, norm

from adaprivate.mechanisms.blt import Blt
from adaprivate.mechanisms.independent import Independent
from adaprivate.mechanisms.noise import Simulated
from adaprivate.mechanisms.optimal import Optimal
from adaprivate.mechanisms.prefix import PrefixSum
from adaprivate.mechanisms.toeplitz import Banded, SquareRoot
from adaprivate.mechanisms.tree import Honaker, Tree

STEPS, REPLICATES, FALSE_ALARM = 13, 4000, 1e-6
FAMILY = {
    "independent": Independent,
    "tree": Tree,
    "honaker": Honaker,
    "sqrt": SquareRoot,
    "banded": partial(Banded, bands=4),
    "blt": Blt,
    "optimal": Optimal,
}
every_strategy = pytest.mark.parametrize("name", FAMILY)


def rejects(noise, covariance, false_alarm=FALSE_ALARM):
    steps, draws = noise.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), noise)
    factor = np.linalg.cholesky(white @ white.T)
    squares = np.diag(factor) ** 2
    freedom = draws - np.arange(steps)
    upper = chi2.logsf(squares, freedom) < np.log(0.5)
    tail = np.where(upper, chi2.logsf(squares, freedom), chi2.logcdf(squares, freedom))
    scores = norm.isf(np.exp(np.maximum(tail, -700)))
    statistic = (scores**2).sum() + (np.tril(factor, -1) ** 2).sum()
    return statistic > chi2.isf(false_alarm, steps * (steps + 1) // 2)


def covariance(name):
    """Of the running sums' noise, for rows with noise of standard deviation 1, by dense algebra on C."""
    strategy = FAMILY[name](STEPS)
    C, running = strategy.matrix(), np.tril(np.ones((STEPS, STEPS)))
    if name == "tree":  # the blocks that tile 1..k: remove the lowest set bit of the end until nothing is left
        blocks = {(int(np.flatnonzero(row).max()) + 1, int(row.sum())): i for i, row in enumerate(C)}
        decoder = np.zeros((STEPS, len(C)))
        for k in range(1, STEPS + 1):
            end = k
            while end:
                decoder[k - 1, blocks[end, end & -end]] = 1
                end &= end - 1
    else:
        last = np.array([np.flatnonzero(row).max() for row in C])
        decoder = np.zeros((STEPS, len(C)))
        for k in range(STEPS):
            decoder[k, last <= k] = running[k] @ np.linalg.pinv(C[last <= k])
    return decoder @ decoder.T


def released_noise(name, seed, noise_multiplier=1.5):
    mechanism = PrefixSum(
        FAMILY[name](STEPS), dimension=REPLICATES, noise_multiplier=noise_multiplier, noise=Simulated(seed)
    )
    increments = np.random.default_rng(99).normal(size=(STEPS, REPLICATES))
    prefixes = np.array([mechanism.release(increment) for increment in increments])
    return prefixes - np.cumsum(increments, axis=0), mechanism.row_std


@every_strategy
def test_the_noise_has_the_stated_covariance_and_no_other_scale(name):
    noise, row_std = released_noise(name, seed=7)
    assert not rejects(noise, row_std**2 * covariance(name))
    for wrong in (2 / 3, 3 / 2):
        assert rejects(noise, (wrong * row_std) ** 2 * covariance(name))


@pytest.mark.parametrize(
    ("name", "other"), [("sqrt", "independent"), ("honaker", "tree"), ("banded", "sqrt"), ("blt", "banded")]
)
def test_the_noise_of_one_strategy_is_not_taken_for_another(name, other):
    noise, row_std = released_noise(name, seed=8)
    assert rejects(noise, row_std**2 * covariance(other))


def test_false_alarms_are_as_frequent_as_stated():
    """On ideal noise a test at level 1/2 rejects half the time: 2000 trials, five standard deviations (6e-7)."""
    rng = np.random.default_rng(3)
    alarms = sum(rejects(rng.standard_normal((4, 20)), np.eye(4), 0.5) for _ in range(2000))
    assert abs(alarms - 1000) < 5 * np.sqrt(500)
