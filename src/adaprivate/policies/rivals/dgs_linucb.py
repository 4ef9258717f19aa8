"""DGS-LinUCB: LinUCB whose estimate is released with noise every round, less of it as the estimate converges.

Paper: Wang, Zhao & Wang 2022, dynamic global sensitivity, in the form of Riyazat & Ukwatta, AdaPrivate-TS, Sec 4.1.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Estimates released again".
Deviates: reconstructed from abstracts and a co-author's prototype. form="per-round" (default) noises every estimate afresh
    and divides the budget by the rounds: sound. The prototype's tree takes estimates for running sums, which they are
    not: "tree-unsound" (Gaussian, sensitivity 1 / least eigenvalue) and "laplace-tree-unsound" (sensitivity 1 / round,
    as in the prototype, whose own defaults were alpha 0.3, ridge 0.1) print the bound that can be proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, record
from adaprivate.offered import Offered
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import most_hopeful, solve
from adaprivate.policies.core.propensities import certain, propensities_of
from adaprivate.policies.core.tables import gaussian_tables, laplace_tables
from adaprivate.policies.joint.trees import completed
from adaprivate.policies.rivals.frozen_release import FrozenReleaseSettings, event_conditions, observe, smallest_eigenvalue

FORMS = ("per-round", "tree-unsound", "laplace-tree-unsound")


class DynamicState(NamedTuple):
    """Releases the estimate every round."""

    root: Floats
    """S, with S S' = A^-1, A = ridge I + sum x x' up to now."""
    total: Floats
    """The true sum of reward x: private."""
    parameter: Floats
    """The estimate as last released."""
    rotated: Floats
    """Scratch."""
    nodes: Floats
    """The noise of the tree's current node of each size (levels, d): private."""
    noise: Floats
    """The simulated noise of each round (rounds, d), to be multiplied by that round's sensitivity."""
    scalars: Record
    """``width`` of the bonus; ``centre``; whether noise comes from a ``tree``, and whether it is scaled ``by_round``, by
    1 / round instead of 1 / the least eigenvalue of A; ``round``, rounds seen."""


@selects.of(DynamicState, offers=True)
def _select(state: DynamicState, candidates: Offered, rng: Streams) -> int:
    return most_hopeful(state.root, state.parameter, state.scalars[0].width, state.rotated, candidates)


propensities_of(DynamicState)(certain)


@updates.of(DynamicState)
def _update(state: DynamicState, features: Floats, reward: float, rng: Streams) -> None:
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

    form: "per-round", or a tree of noises, which does not give the stated privacy; see the file.
    """

    name: ClassVar[str] = "dgs-linucb"
    form: str = "per-round"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("form", self.form, FORMS)

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
        """The state before the first round."""
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


EXAMPLES = (
    DGSLinUCBSettings(dimension=4, rounds=60),
    DGSLinUCBSettings(dimension=3, rounds=50, form="tree-unsound"),
    DGSLinUCBSettings(dimension=3, rounds=50, form="laplace-tree-unsound", alpha=0.3, ridge=0.1),
)
