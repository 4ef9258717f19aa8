"""Which of several noisy answers is the largest: only its index is released."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Array, Floats
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, Noise, expect_fine_grid, plain_numbers, whole_numbers
from adaprivate.privacy import GaussianPrice, Participation, Price


class NoisyMax(Mechanism):
    """The index of the largest entry after N(0, sigma_i^2) on entry i, which one unit moves by at most s_i; released once.

    Ou et al. 2024, Algorithm 4. Its price is mu = max_i s_i / sigma_i, whatever the number of entries, when one unit moves
    a single entry: their Theorem 6, which states less, is false (docs/privacy.md, Lemma 7). The index comes as an
    array of one number; equal entries go to the first.
    """

    name = "noisy-max"

    def __init__(
        self,
        *,
        sensitivities: Sequence[float],
        sigmas: Sequence[float],
        noise: Noise,
        participation: Participation | None = None,
    ) -> None:
        self.sensitivities = check.floats("sensitivities", sensitivities, (None,))
        self.dimension = check.whole("entries", len(self.sensitivities), at_least=2)
        self.sigmas = check.floats("sigmas", sigmas, (self.dimension,))
        check.expect(bool((self.sensitivities > 0).all()), "sensitivities", list(sensitivities), "> 0")
        check.expect(bool((self.sigmas > 0).all()), "sigmas", list(sigmas), "> 0")
        self.noise = noise
        who = participation or privacy.arm_events()
        check.expect(who.batches == 1, "participation.batches", who.batches, "== 1")
        conditions = dict.fromkeys((*who.conditions, "one-entry"))
        self.participation = dataclasses.replace(who, change=float(self.sensitivities.max()), conditions=tuple(conditions))
        self.mu = math.nextafter(float((self.sensitivities / self.sigmas).max()), math.inf)
        expect_fine_grid(1 / self.mu, float(self.sigmas.min()), noise)
        self._released = False

    @property
    def price(self) -> Price:
        """An upper bound, which no other improves for all sigmas: it is attained against an entry without noise."""
        slack = math.fsum(self.noise.slack(float(sigma), 1) for sigma in self.sigmas)
        return GaussianPrice(self.mu, slack, exact=False)

    def _ready(self) -> None:
        check.expect(not self._released, "releases", 2, "<= 1: a second release of the same data costs again")

    def _release(self, value: Array) -> Floats:
        shape = (self.dimension,)
        if self.noise.exact:
            prepared: Array = whole_numbers("value", value, shape) * 2**COEFFICIENT_BITS
        else:
            prepared = plain_numbers("value", value, shape)
        noisy = self.noise.gaussian(prepared, self.sigmas)
        self._released = True
        return np.array([float(np.argmax(noisy))])


def _example(noise: Noise) -> NoisyMax:
    return NoisyMax(sensitivities=[1.0] * 40, sigmas=np.linspace(2.0, 2.5, 40).tolist(), noise=noise)


EXAMPLES = (_example,)
