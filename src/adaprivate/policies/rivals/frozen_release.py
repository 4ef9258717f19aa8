"""What policies share that release at moments of their own: the last release, and the ellipsoid that measures their bonus.

The public design matrix is kept up to date every round; what rewards have taught is frozen between releases.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numba
import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import kernel
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.policies.adaprivate.batched import CALIBRATIONS
from adaprivate.policies.core.linear import PARAMETER, TOTAL, Integers, absorb, dot, rotate
from adaprivate.policies.core.releasing import refuse_exact_noise
from adaprivate.privacy import Guarantee, Participation
from adaprivate.purposes import Purpose

# the first positions of SnapshotState.numbers; a policy adds its own from OWN on
WIDTH, CENTRE, LOG_DET, RELEASED_LOG_DET, TRIGGER, OWN = range(6)
# positions in SnapshotState.counts
ROUND, RELEASES, STARTED = range(3)


class SnapshotState(NamedTuple):
    """Everything such a policy remembers."""

    root: Floats
    """S, with S S' = A^-1, A = ridge I + sum x x' up to now."""
    frozen: Floats
    """The root that measures the bonus between releases."""
    memory: Floats
    """What else a policy keeps: each says what."""
    vectors: Floats
    """Six vectors (6, d) by the names of ``linear``: TOTAL is the private sum, PARAMETER what was released of it."""
    noise: Floats
    """The noise of each release (releases, d)."""
    scales: Floats
    """The public standard deviation of each release's noise."""
    numbers: Floats
    """Width of the bonus, centre, log det(A / ridge) now and at the last release, how much growth triggers the next."""
    counts: Integers
    """Rounds seen, releases made, the round at which the current episode started."""


@kernel
def most_hopeful(candidates: Floats, theta: Floats, root: Floats, width: float, scratch: Floats) -> int:
    """The candidate with the largest theta' x + width |root' x|, the first among equals (up to rounding)."""
    best = 0
    top = 0.0
    for a in range(candidates.shape[0]):
        rotate(root, candidates[a], scratch)
        score = dot(theta, candidates[a]) + width * math.sqrt(dot(scratch, scratch))
        if a == 0 or score > top + 1e-12 * (1.0 + abs(top)):
            top = score
            best = a
    return best


@kernel
def observe(state: SnapshotState, features: Floats, reward: float) -> None:
    """Count one event: x x' into A and its determinant, (reward - centre) x into the private sum."""
    shrink = absorb(state, features)  # type: ignore[arg-type]  # it has the root and vectors that absorb needs
    state.numbers[LOG_DET] -= 2.0 * math.log(shrink)
    weight = reward - state.numbers[CENTRE]
    for j in range(features.shape[0]):
        state.vectors[TOTAL, j] += weight * features[j]
    state.counts[ROUND] += 1


@kernel
def solve(root: Floats, vector: Floats, scratch: Floats, out: Floats) -> None:
    """out = S S' vector."""
    rotate(root, vector, scratch)
    for i in range(vector.shape[0]):
        total = 0.0
        for j in range(vector.shape[0]):
            total += root[i, j] * scratch[j]
        out[i] = total


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def smallest_eigenvalue(root: Floats) -> float:
    """That of A = (S S')^-1."""
    d = root.shape[0]
    square = np.zeros((d, d))
    for m in range(d):
        for i in range(d):
            for j in range(d):
                square[i, j] += root[m, i] * root[m, j]
    return 1.0 / float(np.linalg.eigvalsh(square)[d - 1])


def independent_noise(seeds: Sequence[int], releases: int, width: int, scale: float, law: str = "gaussian") -> Floats:
    """Fresh noise for each release (seeds, releases, width), each seed's as if it were drawn alone."""
    source = SimulatedReplicas([(seed, Purpose.NOISE) for seed in seeds])
    nothing = np.zeros((releases, width * len(seeds)))
    table = source.gaussian(nothing, scale) if law == "gaussian" else source.laplace(nothing, scale)
    return np.ascontiguousarray(table.reshape(releases, len(seeds), width).swapaxes(0, 1))


def event_conditions(*, own_schedule: bool = False, one_release: bool = True) -> Participation:
    """One replaced reward, when releases may come at moments that earlier releases decide, or hold it several times."""
    base = privacy.events()
    names = [name for name in base.conditions if one_release or name != "one-batch"]
    if own_schedule:
        names = ["released-schedule" if name == "public-schedule" else name for name in names]
    return dataclasses.replace(base, conditions=tuple(names))


@dataclass(frozen=True, kw_only=True)
class FrozenReleaseSettings:
    """Settings that these policies share.

    calibration: "zcdp" is the papers' Eq. 2.8 (sound, loose), "exact" the least noise for (epsilon, delta).
    alpha: the width of the bonus. centre: a public constant taken off every reward.
    """

    name: ClassVar[str]
    private: ClassVar[bool] = True
    statistics: ClassVar[str] = "b"

    dimension: int
    rounds: int
    epsilon: float = 1.0
    delta: float = 1e-5
    ridge: float = 1.0
    alpha: float = 1.0
    centre: float = 0.0
    calibration: str = "zcdp"

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("rounds", self.rounds, at_least=1)
        check.budget(self.epsilon)
        check.probability("delta", self.delta)
        check.regulariser(self.ridge)
        check.real("alpha", self.alpha, at_least=0)
        check.real("centre", self.centre, at_least=0, at_most=1)
        check.one_of("calibration", self.calibration, self.calibrations())

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        """The calibrations this policy offers."""
        return CALIBRATIONS

    @property
    def unsound(self) -> bool:
        """Whether these settings spend more than the epsilon they are given, as published; the guarantee says how much."""
        return False

    @property
    def first_release(self) -> int:
        """The first round after which something may be released."""
        return 1

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise relative to what one reward can move, were it released once."""
        if self.calibration == "exact":
            return privacy.gaussian_sigma(self.epsilon, self.delta)
        return privacy.zcdp_sigma(self.epsilon, self.delta)

    def price(self) -> privacy.Price:
        """What one reward pays over the whole run."""
        return privacy.GaussianPrice(1 / self.noise_multiplier)

    @property
    def participation(self) -> Participation:
        """Whom the noise protects, and what that rests on."""
        return event_conditions(own_schedule=True)

    def guarantee(self, *, exact_noise: bool = False) -> Guarantee:
        """What the policy promises with exact and secret noise, which are left to the caller."""
        refuse_exact_noise(self.name, exact_noise)
        kept = [name for name in self.participation.conditions if name in _KEPT]
        nominal = None if self.calibration == "exact" and not self.unsound else self.epsilon
        return privacy.guarantee(
            self.price(),
            self.participation,
            self.delta,
            enforced=kept,
            conditions=("exact-noise",),
            nominal_epsilon=nominal,
            simulated=True,
        )

    def fresh(
        self,
        kind: type[SnapshotState],
        noise: Floats,
        *,
        scales: Floats | None = None,
        memory: Floats | None = None,
        width: float | None = None,
        trigger: float = 0.0,
        own: Sequence[float] = (),
    ) -> SnapshotState:
        """The state before the first round."""
        root = np.eye(self.dimension) / math.sqrt(self.ridge)
        return kind(
            root=root,
            frozen=root.copy(),
            memory=np.zeros((0, self.dimension)) if memory is None else memory,
            vectors=np.zeros((PARAMETER + 1, self.dimension)),
            noise=noise,
            scales=np.zeros(0) if scales is None else scales,
            numbers=np.array([self.alpha if width is None else width, self.centre, 0.0, 0.0, trigger, *own]),
            counts=np.zeros(3, dtype=np.int64),
        )


_KEPT = ("reward-range", "feature-norm", "one-batch", "public-schedule", "released-schedule")
"""What policies themselves see to."""
