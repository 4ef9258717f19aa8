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
from typing import ClassVar

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.compiled import Streams
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.linear import PARAMETER, ROTATED, TOTAL
from adaprivate.policies.rivals.frozen_release import (
    OWN,
    ROUND,
    WIDTH,
    FrozenReleaseSettings,
    SnapshotState,
    event_conditions,
    independent_noise,
    most_hopeful,
    observe,
    smallest_eigenvalue,
    solve,
)

FORMS = ("per-round", "tree-unsound", "laplace-tree-unsound")
FORM = OWN


class DynamicState(SnapshotState):
    """Releases the estimate every round; ``memory`` holds the noise of the tree's current node of each size."""


@selects.of(DynamicState)
def _select(state: SnapshotState, candidates: Floats, rng: Streams) -> int:
    vectors = state.vectors
    return most_hopeful(candidates, vectors[PARAMETER], state.root, state.numbers[WIDTH], vectors[ROTATED])


@updates.of(DynamicState)
def _update(state: SnapshotState, features: Floats, reward: float, rng: Streams) -> None:
    observe(state, features, reward)
    vectors, form, t = state.vectors, state.numbers[FORM], state.counts[ROUND]
    if t > state.noise.shape[0]:
        return
    solve(state.root, vectors[TOTAL], vectors[ROTATED], vectors[PARAMETER])
    d = features.shape[0]
    sensitivity = 1.0 / t if form > 1.5 else 1.0 / smallest_eigenvalue(state.root)
    if form < 0.5:
        for j in range(d):
            vectors[PARAMETER, j] += sensitivity * state.noise[t - 1, j]
        return
    level = 0
    while not (t >> level) & 1:
        level += 1
    for j in range(d):
        state.memory[level, j] = sensitivity * state.noise[t - 1, j]  # the node that ends now
    for node in range(level, state.memory.shape[0]):
        if (t >> node) & 1:
            for j in range(d):
                vectors[PARAMETER, j] += state.memory[node, j]


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
        if self.form == "laplace-tree-unsound":
            scale = math.log2(max(2, self.rounds)) / self.epsilon
            return independent_noise(seeds, self.rounds, self.dimension, scale, "laplace")
        parts = self.rounds if self.form == "per-round" else self.levels
        return independent_noise(seeds, self.rounds, self.dimension, math.sqrt(parts) * self.noise_multiplier)

    def start(self, noise: Floats) -> SnapshotState:
        """The state before the first round."""
        memory = np.zeros((self.levels, self.dimension))
        return self.fresh(DynamicState, noise, memory=memory, own=(float(FORMS.index(self.form)),))

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
