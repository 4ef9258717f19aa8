"""Samples around the mean reward of each arm with exact noise: Thompson sampling for real people's data."""

from __future__ import annotations

import math

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, EVENT_BITS, Noise, expect_fine_grid

LARGEST = 2.0**32
"""Bound on c (n + 1): beyond, the exact sampler's integers could overflow."""


class ArmSampler:
    """theta_i = (S_i + N(0, c (n_i + 1))) / (n_i + 1), S_i the sum and n_i the number of arm i's rewards.

    Rewards are cut to whole multiples of 2^-20, so that one of them moves S_i by at most 1, and the noise is an exact
    discrete Gaussian. A sample costs the rewards of arm i mu = 1 / sqrt(c (n_i + 1)); who samples pays.
    """

    def __init__(self, arms: int, variance: float, noise: Noise) -> None:
        self.variance = check.real("variance", variance, above=0)
        self.noise = noise
        expect_fine_grid(math.sqrt(self.variance), math.sqrt(self.variance), noise)
        check.expect(noise.exact, "noise", noise, "to be exact")
        self._sums = [0] * check.whole("arms", arms, at_least=2)
        self._pulls = [0] * arms

    def add(self, features: Floats, reward: float) -> None:
        """Count a reward (0 to 1) of the arm whose unit vector this is."""
        arm = int(np.argmax(features))
        self._sums[arm] += math.floor(check.reward(reward) * 2**EVENT_BITS)
        self._pulls[arm] += 1

    def samples(self) -> Floats:
        """A fresh sample for every arm."""
        weights = np.array(self._pulls, dtype=np.float64) + 1
        scales = np.sqrt(self.variance * weights) * (1 + 2.0**-50)  # roots and products round up
        check.expect(float(self.variance * weights.max()) < LARGEST, "variance", self.variance, "small enough to go on")
        sums: Array = np.array([total << COEFFICIENT_BITS for total in self._sums], dtype=object)
        samples: Floats = self.noise.gaussian(sums, scales) / weights
        return samples

    def slack(self, rounds: int) -> float:
        """Total variation distance of so many samples of one arm from ideal rounded ones."""
        return rounds * self.noise.slack(math.sqrt(self.variance), 1)

    def state(self) -> Array:
        """The private sums and the numbers of rewards, for saving."""
        return np.array([self._sums, self._pulls], dtype=object)

    def restore(self, state: Array) -> None:
        """Continue from an earlier :meth:`state`."""
        check.expect(state.shape == (2, len(self._sums)), "state.shape", state.shape, f"== (2, {len(self._sums)})")
        self._sums, self._pulls = ([int(number) for number in row] for row in state)
