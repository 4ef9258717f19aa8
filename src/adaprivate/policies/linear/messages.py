"""LDP-LinUCB: every person adds noise to their own message, so that not even the server learns their context or reward.

A message is (x x', reward x) plus Gaussian noise. The server adds messages up, shifts the noisy matrix so that it is
positive definite, and chooses by LinUCB's rule with a width that covers the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats, option
from adaprivate.compiled import Record, Streams, kernel, record, routine
from adaprivate.mechanisms.messages import MessagePlan
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import Split, collects, counts, reads, selects
from adaprivate.policies.core.linear import factorise, inverse_root, most_hopeful, solve
from adaprivate.policies.core.propensities import certain, propensities_of
from adaprivate.policies.core.tables import gaussian_tables
from adaprivate.policies.linear.frozen import FrozenReleaseSettings


class LocalState(NamedTuple):
    """Adds up noisy messages: what the server sees."""

    root: Floats  # S, with S S' the inverse of the shifted noisy matrix.
    gram: Floats  # The sum of x x' in the messages, noise and all.
    statistic: Floats  # The sum of reward x in the messages, noise and all.
    parameter: Floats  # The estimate.
    rotated: Floats  # Scratch.
    factor: Floats  # Room for a Cholesky factor.
    scalars: Record
    """``width`` of the bonus; ``alpha``, the factor on the paper's; ``sigma``, the noise's standard deviation; ``spread``:
    the matrix is shifted by sigma sqrt(messages) times it; ``log_rounds``; ``round``, messages received."""


class SimulatedMessages(NamedTuple):
    """Makes people's messages in simulation: protects nobody."""

    noise: Floats  # The noise of each message (rounds, d + d (d + 1) / 2).
    released: Floats  # The last message.
    scalars: Record  # The public ``centre``; ``round``, rounds seen.


@selects.of(LocalState, offers=True)
def _select(state: LocalState, candidates: Offered, rng: Streams) -> int:
    return most_hopeful(state.root, state.parameter, state.scalars[0].width, state.rotated, candidates)


propensities_of(LocalState)(certain)


@kernel
def shifted_root(state: LocalState, shift: float) -> bool:
    """Make the root that of (gram + shift I)^-1; False if that is not positive definite."""
    factor = state.factor
    for i in range(factor.shape[0]):
        for j in range(i + 1):
            factor[i, j] = state.gram[i, j]
        factor[i, i] += shift
    positive = factorise(factor, 0.0, 1.0) == 0
    inverse_root(factor, state.root)
    return positive


@routine
def raised_root(matrix: Floats, shift: float, out: Floats) -> None:
    """A root of (matrix + 2 shift I)^-1, eigenvalues below the shift raised to it."""
    values, basis = np.linalg.eigh(matrix.copy())
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            out[i, j] = basis[i, j] / math.sqrt(max(values[j] + 2.0 * shift, shift))


@collects.of(SimulatedMessages)
def _collect(book: SimulatedMessages, features: Floats, reward: float, rng: Streams) -> bool:
    s = book.scalars[0]
    t, d = s.round, features.shape[0]
    if t >= book.noise.shape[0]:
        return False
    weight = reward - s.centre
    place = d
    for i in range(d):
        book.released[i] = weight * features[i] + book.noise[t, i]
        for j in range(i, d):
            book.released[place] = features[i] * features[j] + book.noise[t, place]
            place += 1
    s.round += 1
    return True


@counts.of(LocalState)
def _counted(state: LocalState, features: Floats) -> None:
    return  # contexts are private: nothing is learned but from messages


@reads.of(LocalState)
def _read(state: LocalState, released: Floats) -> None:
    s, gram = state.scalars[0], state.gram
    d = gram.shape[0]
    place = d
    for i in range(d):
        state.statistic[i] += released[i]
        for j in range(i, d):
            entry = released[place]
            gram[i, j] += entry
            if j > i:
                gram[j, i] += entry
            place += 1
    s.round += 1
    n = float(s.round)
    shift = s.sigma * math.sqrt(n) * s.spread
    covered = shifted_root(state, shift)  # no eigenvalue below -shift
    if not covered or not shifted_root(state, 2.0 * shift):
        raised_root(gram, shift, state.root)
    solve(state.root, state.statistic, state.rotated, state.parameter)
    theory = 2.0 * s.sigma * math.sqrt(d * s.log_rounds)
    theory += (math.sqrt(3.0 * shift) + s.sigma * math.sqrt(d * n / shift)) * d * s.log_rounds
    s.width = s.alpha * theory


@dataclass(frozen=True, kw_only=True)
class LDPLinUCBSettings(FrozenReleaseSettings):
    """LinUCB on noisy messages (x x', reward x), its matrix shifted by what the noise may take off.

    Paper: Zheng et al. 2020, locally differentially private contextual linear bandits.
    Guarantee: (epsilon, delta), local, replace a message's context and reward, by docs/privacy.md "Local messages".
    Deviates: near-exact, from the authors' code and a derivation of its constants: sigma = 4 sqrt(2 log(2.5 / delta)) /
        epsilon (the code drops the 2 under the root and has 1.25), the bonus uses |x| in the norm of V^-1, not its
        square. Eigenvalues of the shifted matrix below the shift, improbable by the paper's bound, are raised to it. With
        exact noise contexts and rewards are truncated to 2^-20 before they are multiplied.

    calibration: "published", or "exact", the least noise for the message as a whole. alpha: factor on the paper's width.
    confidence: the paper's failure probability. In simulation the noise of all messages is drawn beforehand:
    rounds x d (d + 3) / 2 numbers.
    """

    name: ClassVar[str] = "ldp-linucb"
    statistics: ClassVar[str] = "message"
    calibration: str = "published"
    confidence: float = option(0.01, check.probability)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.expect(self.ridge == 1, "ridge", self.ridge, "== 1: the noise decides the shift")

    @classmethod
    def calibrations(cls) -> tuple[str, ...]:
        return ("published", "exact")

    @cached_property
    def noise_multiplier(self) -> float:
        if self.calibration == "exact":
            return privacy.gaussian_sigma(self.epsilon, self.delta)
        published = 4 * math.sqrt(2 * math.log(2.5 / self.delta)) / self.epsilon
        return published / self.participation.change

    @property
    def sigma(self) -> float:
        """The standard deviation of every number in a message."""
        return self.noise_multiplier * self.participation.change

    @property
    def unsound(self) -> bool:
        return self.price().epsilon(self.delta) > self.epsilon

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every message (seeds, rounds, d + d (d + 1) / 2)."""
        return gaussian_tables(seeds, (self.rounds, self.dimension * (self.dimension + 3) // 2), self.sigma)

    def released(self, state: Split) -> Floats:
        """The sum of reward x in the messages."""
        statistic: Floats = state.learner.statistic
        return statistic

    def transcript(self, state: Split) -> Floats:
        """The sums of all messages."""
        return np.append(state.learner.gram[np.tril_indices(self.dimension)], state.learner.statistic)

    def start(self, noise: Floats) -> Split:
        return Split(
            self.learner(),
            SimulatedMessages(noise, np.zeros(self.plan.size), record(centre=float(self.centre), round=0)),
        )

    def learner(self) -> LocalState:
        """The server before the first message: public."""
        d = self.dimension
        return self.blank(
            LocalState,
            root=self.first_root(),
            gram=np.zeros((d, d)),
            factor=np.zeros((d, d)),
            scalars=record(
                width=float(self.alpha),
                alpha=float(self.alpha),
                sigma=self.sigma,
                spread=4 * math.sqrt(d) + 2 * math.log(2 * self.rounds / self.confidence),
                log_rounds=math.log(self.rounds),
                round=0,
            ),
        )

    @property
    def attained(self) -> bool:
        """Whether two messages can be as far apart as the noise is made for."""
        return self.dimension > 1 and self.centre in (0, 1)

    def price(self) -> privacy.Price:
        return privacy.GaussianPrice(1 / self.noise_multiplier, exact=self.attained)

    @property
    def participation(self) -> privacy.Participation:
        return privacy.messages()

    @cached_property
    def plan(self) -> MessagePlan:
        return MessagePlan(
            delta=self.delta,
            nominal_epsilon=self.stated_epsilon,
            dimension=self.dimension,
            rounds=self.rounds,
            noise_multiplier=self.noise_multiplier,
            centre=self.centre,
            attained=self.attained,
        )


EXAMPLES = (
    LDPLinUCBSettings(dimension=4, rounds=60),
    LDPLinUCBSettings(dimension=3, rounds=50, calibration="exact", centre=0.5),
)
