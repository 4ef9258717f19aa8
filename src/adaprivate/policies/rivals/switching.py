"""What the rarely switching policies share: a release whenever the public design matrix has grown enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from adaprivate import check, mechanisms
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, record
from adaprivate.mechanisms import PrefixSum
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import most_hopeful, solve
from adaprivate.policies.core.propensities import certain, propensities_of
from adaprivate.policies.core.tables import released_tables, source_of
from adaprivate.policies.rivals.frozen_release import FrozenReleaseSettings, observe, smallest_eigenvalue
from adaprivate.privacy import GaussianPrice, Price


class Bonus(NamedTuple):
    """The width is base + sqrt(confidence + volume log det(A / ridge)) + inflation x noise std / sqrt(least eigenvalue)."""

    base: float
    confidence: float = 0.0
    volume: float = 0.0
    inflation: float = 0.0


class SwitchingState(NamedTuple):
    """Releases b when det A has grown by a factor; chooses by the bound of that moment."""

    root: Floats
    """S, with S S' = A^-1, A = ridge I + sum x x' up to now."""
    frozen: Floats
    """S at the last release."""
    total: Floats
    """The true b: private."""
    statistic: Floats
    """b as last released."""
    parameter: Floats
    """The estimate from the last release."""
    rotated: Floats
    """Scratch."""
    noise: Floats
    """The simulated noise of each release (releases, d)."""
    scales: Floats
    """The public standard deviation of each release's noise."""
    scalars: Record
    """``width`` of the bonus, and its parts by the names of :class:`Bonus`; ``centre``; ``log_det`` of A / ridge now, and
    ``released_log_det`` at the last release; ``trigger``, how much growth makes the next; ``releases`` made."""


@selects.of(SwitchingState, offers=True)
def _select(state: SwitchingState, candidates: Offered, rng: Streams) -> int:
    return most_hopeful(state.frozen, state.parameter, state.scalars[0].width, state.rotated, candidates)


propensities_of(SwitchingState)(certain)


@updates.of(SwitchingState)
def _update(state: SwitchingState, features: Floats, reward: float, rng: Streams) -> None:
    s = state.scalars[0]
    s.log_det -= 2.0 * math.log(observe(state.root, state.total, state.rotated, features, reward - s.centre))
    release = s.releases
    if not s.log_det > s.released_log_det + s.trigger or release >= state.noise.shape[0]:
        return
    d = features.shape[0]
    for i in range(d):
        state.statistic[i] = state.total[i] + state.noise[release, i]
        for j in range(d):
            state.frozen[i, j] = state.root[i, j]
    solve(state.root, state.statistic, state.rotated, state.parameter)
    s.width = s.base + math.sqrt(s.confidence + s.volume * s.log_det)
    if s.inflation > 0.0:
        s.width += s.inflation * state.scales[release] / math.sqrt(smallest_eigenvalue(state.root))
    s.released_log_det = s.log_det
    s.releases += 1


@dataclass(frozen=True, kw_only=True)
class SwitchingSettings(FrozenReleaseSettings):
    """Settings of a policy that releases b when det A exceeds 1 + ``growth`` times that at the last release.

    noise: how the releases share noise, any strategy of ``adaprivate list mechanisms``.
    """

    growth: float = 1.0
    noise: str = "independent"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.real("growth", self.growth, at_least=0, at_most=1e6)
        check.expect(self.growth == 0 or self.growth >= 1e-6, "growth", self.growth, "== 0 or >= 1e-06")
        check.one_of("noise", self.noise, sorted(mechanisms.strategies()))

    @cached_property
    def releases(self) -> int:
        """No run makes more: log det(A / ridge) <= d log(1 + T / (ridge d)) for features of norm at most 1."""
        if self.growth == 0:
            return self.rounds
        largest = self.dimension * math.log1p(self.rounds / (self.ridge * self.dimension))
        return max(1, min(self.rounds, math.floor(largest / math.log1p(self.growth))))

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every running sum (seeds, releases, d)."""
        release = PrefixSum(
            mechanisms.strategy(self.noise, self.releases),
            dimension=self.dimension * len(seeds),
            noise_multiplier=self.noise_multiplier,
            noise=source_of(seeds),
        )
        return released_tables(release, len(seeds))

    @property
    def bonus(self) -> Bonus:
        """The parts of the width."""
        return Bonus(float(self.alpha))

    def start(self, noise: Floats) -> SwitchingState:
        """The state before the first round."""
        strategy = mechanisms.strategy(self.noise, self.releases)
        bonus = self.bonus
        return self.blank(
            SwitchingState,
            root=self.first_root(),
            frozen=self.first_root(),
            noise=noise,
            scales=self.noise_multiplier * strategy.sensitivity() * strategy.prefix_std(),
            scalars=record(
                width=bonus.base + math.sqrt(bonus.confidence),
                **bonus._asdict(),
                centre=float(self.centre),
                log_det=0.0,
                released_log_det=0.0,
                trigger=math.log1p(self.growth),
                releases=0,
            ),
        )

    def price(self) -> Price:
        return GaussianPrice(1 / self.noise_multiplier, exact=mechanisms.strategy(self.noise, self.releases).attained(1))
