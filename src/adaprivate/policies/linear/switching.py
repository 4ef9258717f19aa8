"""Rarely switching LinUCB: b is released with noise whenever the public det A has grown by a factor of 1 + growth.

Until the next release it chooses the largest x' A_k^-1 b_k + width sqrt(x' A_k^-1 x), A_k and b_k as last released.
RarelySwitching and AdaC-OFUL differ in the width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

from adaprivate import check, mechanisms
from adaprivate.check import Floats, option
from adaprivate.compiled import Record, Streams, record
from adaprivate.mechanisms import PrefixSum
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import most_hopeful, solve
from adaprivate.policies.core.propensities import certain, propensities_of
from adaprivate.policies.core.settings import known_strategy
from adaprivate.policies.core.tables import released_tables, source_of
from adaprivate.policies.linear.frozen import FrozenReleaseSettings, observe, smallest_eigenvalue
from adaprivate.privacy import GaussianPrice, Price


class Bonus(NamedTuple):
    """The width is base + sqrt(confidence + volume log det(A / ridge)) + inflation x noise std / sqrt(least eigenvalue)."""

    base: float
    confidence: float = 0.0
    volume: float = 0.0
    inflation: float = 0.0


class SwitchingState(NamedTuple):
    """Releases b when det A has grown by a factor; chooses by the bound of that moment."""

    root: Floats  # S, with S S' = A^-1, A = ridge I + sum x x' up to now.
    frozen: Floats  # S at the last release.
    total: Floats  # The true b: private.
    statistic: Floats  # b as last released.
    parameter: Floats  # The estimate from the last release.
    rotated: Floats  # Scratch.
    noise: Floats  # The simulated noise of each release (releases, d).
    scales: Floats  # The public standard deviation of each release's noise.
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

    growth: float = option(1.0, check.real, at_least=0, at_most=1e6)
    noise: str = option("independent", known_strategy)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.expect(self.growth == 0 or self.growth >= 1e-6, "growth", self.growth, "== 0 or >= 1e-06")

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


@dataclass(frozen=True, kw_only=True)
class RarelySwitchingSettings(SwitchingSettings):
    """LinUCB frozen between releases, which come when det A has grown by a factor of 1 + ``growth``.

    Paper: Abbasi-Yadkori, Pal & Szepesvari 2011 (rarely switching OFUL), made private as the AdaPrivate-TS paper names it.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Releases that choose their moment".
    Deviates: reconstructed. No paper defines it beside AdaC-OFUL, which is the private rarely switching OFUL; here it is
        that algorithm without the part of the width that pays for noise, and a frozen ellipsoid instead of a frozen
        optimistic parameter, since candidates change from round to round.
    """

    name: ClassVar[str] = "rarely-switching"


BONUSES = ("theory", "practical")


@dataclass(frozen=True, kw_only=True)
class AdaCOFULSettings(SwitchingSettings):
    """Rarely switching OFUL on noisy sums, width enlarged for the noise: bonus_rule "theory" (the paper's) or "practical".

    Paper: Azize & Basu, concentrated DP in bandits (Azize's thesis, ch. 5), AdaC-OFUL; the private rarely switching OFUL.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Releases that choose their moment".
    Deviates: the algorithm is exact; rewards in [0, 1] need noise for a range of 1, not 2, and the least eigenvalue of
        the design matrix is computed where the paper bounds it from below. bonus_rule="practical" replaces the
        theoretical width by alpha + kappa sigma_l sqrt(d / least eigenvalue), the form that other papers tune.

    confidence: the paper's failure probability. parameter_norm: the public bound on |theta|.
    """

    name: ClassVar[str] = "adac-oful"
    ridge: float = 0.1
    bonus_rule: str = option("theory", check.one_of, options=BONUSES)
    kappa: float = option(0.3, check.real, at_least=0)
    confidence: float = option(1e-3, check.probability)
    parameter_norm: float = option(1.0, check.real, at_least=0)

    @property
    def bonus(self) -> Bonus:
        d = self.dimension
        if self.bonus_rule == "practical":
            return Bonus(float(self.alpha), inflation=self.kappa * math.sqrt(d))
        rare = math.log(self.rounds / self.confidence)
        longest = math.sqrt(d + 2 * math.sqrt(d * rare) + 2 * rare)  # |N(0, I)| with probability 1 - confidence / T
        return Bonus(math.sqrt(self.ridge) * self.parameter_norm, 2 * math.log(1 / self.confidence), 1.0, longest)


EXAMPLES = (
    RarelySwitchingSettings(dimension=4, rounds=60),
    RarelySwitchingSettings(dimension=3, rounds=50, growth=0.5, noise="tree", calibration="exact"),
    AdaCOFULSettings(dimension=4, rounds=60),
    AdaCOFULSettings(dimension=3, rounds=50, growth=3.0, bonus_rule="practical", noise="sqrt", centre=0.5),
)
