"""LinUCB on an estimate A^-1 b that is released with noise: every round (DGS-LinUCB) or once an episode (zCDP-Episodic).

One reward moves the estimate by at most 1 / the least eigenvalue of A; the noise of a release is scaled to that.
Rewards are in many releases, unless an episode forgets the ones before: the budget is shared, or the guarantee says
what is really spent.
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
from adaprivate.compiled import Record, Streams, record, routine
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import most_hopeful, solve
from adaprivate.policies.core.propensities import certain, propensities_of
from adaprivate.policies.core.tables import gaussian_tables, laplace_tables
from adaprivate.policies.joint.perturbed import completed
from adaprivate.policies.linear.frozen import FrozenReleaseSettings, event_conditions, observe, smallest_eigenvalue

FORMS = ("per-round", "tree-unsound", "laplace-tree-unsound")


class DynamicState(NamedTuple):
    """Releases the estimate every round."""

    root: Floats  # S, with S S' = A^-1, A = ridge I + sum x x' up to now.
    total: Floats  # The true sum of reward x: private.
    parameter: Floats  # The estimate as last released.
    rotated: Floats  # Scratch.
    nodes: Floats  # The noise of the tree's current node of each size (levels, d): private.
    noise: Floats  # The simulated noise of each round (rounds, d), to be multiplied by that round's sensitivity.
    scalars: Record
    """``width`` of the bonus; ``centre``; whether noise comes from a ``tree``, and whether it is scaled ``by_round``, by
    1 / round instead of 1 / the least eigenvalue of A; ``round``, rounds seen."""


@selects.of(DynamicState, offers=True)
def _choose_dynamic(state: DynamicState, candidates: Offered, rng: Streams) -> int:
    return most_hopeful(state.root, state.parameter, state.scalars[0].width, state.rotated, candidates)


propensities_of(DynamicState)(certain)


@updates.of(DynamicState)
def _release_each_round(state: DynamicState, features: Floats, reward: float, rng: Streams) -> None:
    s, nodes, noise, estimate = state.scalars[0], state.nodes, state.noise, state.parameter
    observe(state.root, state.total, state.rotated, features, reward - s.centre)
    s.round += 1
    t, d = s.round, features.shape[0]
    if t > noise.shape[0]:
        return
    solve(state.root, state.total, state.rotated, estimate)
    sensitivity = 1.0 / t if s.by_round else 1.0 / smallest_eigenvalue(state.root)
    if not s.tree:
        for j in range(d):
            estimate[j] += sensitivity * noise[t - 1, j]
        return
    level = completed(t)
    for j in range(d):
        nodes[level, j] = sensitivity * noise[t - 1, j]  # the node that ends now
    for node in range(level, nodes.shape[0]):
        if (t >> node) & 1:
            for j in range(d):
                estimate[j] += nodes[node, j]


@dataclass(frozen=True, kw_only=True)
class DGSLinUCBSettings(FrozenReleaseSettings):
    """LinUCB on an estimate with fresh noise every round, scaled to how far one reward can still move it.

    Paper: Wang, Zhao & Wang 2022, dynamic global sensitivity, in the form of Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.1.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Estimates released again".
    Deviates: reconstructed from abstracts and a co-author's prototype. form="per-round" (default) noises every estimate
        afresh and divides the budget by the rounds: sound. The prototype's tree takes estimates for running sums, which
        they are not: "tree-unsound" (Gaussian, sensitivity 1 / least eigenvalue) and "laplace-tree-unsound" (sensitivity
        1 / round, as in the prototype, whose own defaults were alpha 0.3, ridge 0.1) print the bound that can be proved.

    form: "per-round", or a tree of noises, which does not give the stated privacy; see the file.
    """

    name: ClassVar[str] = "dgs-linucb"
    form: str = option("per-round", check.one_of, options=FORMS)

    @property
    def unsound(self) -> bool:
        return self.form != "per-round"

    @property
    def levels(self) -> int:
        """Sizes of node in the tree."""
        return self.rounds.bit_length()

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every round (seeds, rounds, d), to be multiplied by that round's sensitivity."""
        shape = self.rounds, self.dimension
        if self.form == "laplace-tree-unsound":
            return laplace_tables(seeds, shape, math.log2(max(2, self.rounds)) / self.epsilon)
        parts = self.rounds if self.form == "per-round" else self.levels
        return gaussian_tables(seeds, shape, math.sqrt(parts) * self.noise_multiplier)

    def start(self, noise: Floats) -> DynamicState:
        return self.blank(
            DynamicState,
            root=self.first_root(),
            nodes=np.zeros((self.levels, self.dimension)),
            noise=noise,
            scalars=record(
                width=float(self.alpha),
                centre=float(self.centre),
                tree=self.form != "per-round",
                by_round=self.form == "laplace-tree-unsound",
                round=0,
            ),
        )

    def price(self) -> privacy.Price:
        if self.form == "per-round":
            return privacy.GaussianPrice(1 / self.noise_multiplier, exact=False)
        if self.form == "laplace-tree-unsound":
            moves = math.sqrt(self.dimension) * self.rounds * (self.rounds + 1) / 2 / self.ridge
            return privacy.PurePrice(self.epsilon * moves / math.log2(max(2, self.rounds)))
        t = np.arange(1, self.rounds + 1)
        size = (t & -t).astype(np.float64)
        later = float(((1 + size / self.ridge) ** 2)[size != t].sum())  # nodes without the reward, which moves them too
        return privacy.GaussianPrice(math.sqrt(1 + later / self.levels) / self.noise_multiplier, exact=False)

    @property
    def participation(self) -> privacy.Participation:
        return event_conditions(one_release=False)


MODES = ("forget", "split", "published-unsound")


class EpisodicState(NamedTuple):
    """Releases the estimate once an episode."""

    root: Floats  # S, with S S' = A^-1, A = ridge I + sum x x' up to now.
    frozen: Floats  # S at the last release.
    gram: Floats  # The sum of x x' in this episode if the mode forgets, else zero.
    total: Floats  # The true sum of reward x, of this episode alone if the mode forgets: private.
    parameter: Floats  # The estimate as last released.
    rotated: Floats  # Scratch.
    noise: Floats
    """The simulated noise of each release (releases, d), to be divided by the least eigenvalue of its design matrix."""
    scalars: Record
    """``width`` of the bonus; ``centre``; ``ridge``; ``log_det`` of A / ridge now, and ``released_log_det`` at the last
    release; ``trigger``, how much it must grow; the ``length`` of this episode at least, its ``growth`` from one to the
    next; whether the mode ``forgets``; ``round``, rounds seen, and when this episode ``started``; ``releases`` made."""


@selects.of(EpisodicState, offers=True)
def _choose_episodic(state: EpisodicState, candidates: Offered, rng: Streams) -> int:
    s = state.scalars[0]
    if s.forgets:
        return most_hopeful(state.root, state.parameter, s.width, state.rotated, candidates)
    return most_hopeful(state.frozen, state.parameter, s.width, state.rotated, candidates)


propensities_of(EpisodicState)(certain)


@routine
def episode_estimate(gram: Floats, ridge: float, total: Floats, estimate: Floats) -> float:
    """The estimate from one episode alone; returns the least eigenvalue of ridge I + gram, and empties the sums."""
    d = gram.shape[0]
    values, basis = np.linalg.eigh(gram.copy())
    estimate[:] = 0.0
    for m in range(d):
        along = 0.0
        for i in range(d):
            along += basis[i, m] * total[i]
        for i in range(d):
            estimate[i] += basis[i, m] * along / (values[m] + ridge)
    total[:] = 0.0
    gram[:] = 0.0
    return float(values[0] + ridge)


@updates.of(EpisodicState)
def _release_each_episode(state: EpisodicState, features: Floats, reward: float, rng: Streams) -> None:
    s = state.scalars[0]
    s.log_det -= 2.0 * math.log(observe(state.root, state.total, state.rotated, features, reward - s.centre))
    s.round += 1
    d = features.shape[0]
    if s.forgets:
        for i in range(d):
            x = features[i]
            for j in range(d):
                state.gram[i, j] += x * features[j]
    release = s.releases
    long_enough = s.round - s.started >= s.length
    grown = s.log_det >= s.released_log_det + s.trigger
    if not long_enough or not grown or release >= state.noise.shape[0]:
        return
    if s.forgets:
        least = episode_estimate(state.gram, s.ridge, state.total, state.parameter)
    else:
        solve(state.root, state.total, state.rotated, state.parameter)
        least = smallest_eigenvalue(state.root)
    for i in range(d):
        state.parameter[i] += state.noise[release, i] / least
        for j in range(d):
            state.frozen[i, j] = state.root[i, j]
    s.released_log_det = s.log_det
    s.length *= s.growth
    s.started = s.round
    s.releases += 1


@dataclass(frozen=True, kw_only=True)
class ZCDPEpisodicSettings(FrozenReleaseSettings):
    """LinUCB on an estimate released once an episode, with noise that covers its worst direction.

    Paper: a baseline of Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.1, named after Azize & Basu, who have no such algorithm.
    Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Estimates released again".
    Deviates: reconstructed from that description (noise on the estimate, episodes closed by the determinant, geometric
        growth). As described every estimate holds all rewards and spends the whole budget, which costs the number of
        episodes times the budget: only as mode="published-unsound", whose guarantee prints what it really gives. "split"
        divides the budget by the number of episodes that can end, 6 in 10^4 rounds (the description's ceil(log2(T / L1))
        + 1 would be 8); "forget" (default) estimates from the last episode alone, and needs no division.

    An episode ends when it has lasted ``first_episode`` rounds (each next one ``growth`` times as many) and det A has grown
    by ``trigger``. mode: which rewards an estimate uses, and what it may spend; see the file.
    """

    name: ClassVar[str] = "zcdp-episodic"
    mode: str = option("forget", check.one_of, options=MODES)
    trigger: float = option(2.0, check.real, at_least=1, at_most=1e6)
    first_episode: int = option(100, check.whole, at_least=1)
    growth: float = option(2.0, check.real, at_least=1, at_most=1e6)

    @property
    def unsound(self) -> bool:
        return self.mode == "published-unsound" and self.releases > 1

    @property
    def first_release(self) -> int:
        return min(self.first_episode, self.rounds)

    @cached_property
    def releases(self) -> int:
        """How many episodes can end in so many rounds."""
        count, end, length = 0, 0, float(self.first_episode)
        while end + math.ceil(length) <= self.rounds:
            count, end, length = count + 1, end + math.ceil(length), length * self.growth
        return count

    @property
    def shares(self) -> int:
        """Into how many parts the budget (rho, or mu^2) is divided."""
        return max(1, self.releases) if self.mode == "split" else 1

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The noise of every release (seeds, releases, d), to be divided by the least eigenvalue of its design matrix."""
        scale = math.sqrt(self.shares) * self.noise_multiplier
        return gaussian_tables(seeds, (self.releases, self.dimension), scale)

    def start(self, noise: Floats) -> EpisodicState:
        return self.blank(
            EpisodicState,
            root=self.first_root(),
            frozen=self.first_root(),
            gram=np.zeros((self.dimension, self.dimension)),
            noise=noise,
            scalars=record(
                centre=float(self.centre),
                ridge=float(self.ridge),
                growth=float(self.growth),
                width=float(self.alpha),
                log_det=0.0,
                released_log_det=0.0,
                trigger=math.log(self.trigger),
                length=float(self.first_episode),
                forgets=self.mode == "forget",
                round=0,
                started=0,
                releases=0,
            ),
        )

    def price(self) -> privacy.Price:
        repeats = 1 if self.mode == "forget" else max(1, self.releases)
        return privacy.GaussianPrice(math.sqrt(repeats / self.shares) / self.noise_multiplier, exact=False)

    @property
    def participation(self) -> privacy.Participation:
        return event_conditions(own_schedule=True, one_release=self.mode == "forget")


EXAMPLES = (
    DGSLinUCBSettings(dimension=4, rounds=60),
    DGSLinUCBSettings(dimension=3, rounds=50, form="tree-unsound"),
    DGSLinUCBSettings(dimension=3, rounds=50, form="laplace-tree-unsound", alpha=0.3, ridge=0.1),
    ZCDPEpisodicSettings(dimension=4, rounds=60, first_episode=5),
    ZCDPEpisodicSettings(dimension=3, rounds=50, first_episode=4, growth=1.5, mode="split", calibration="exact"),
    ZCDPEpisodicSettings(dimension=3, rounds=50, first_episode=4, mode="published-unsound"),
)
