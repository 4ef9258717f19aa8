"""Arms with random features and a logistic or linear mean reward: the world of the AdaPrivate-TS paper, Sec 4.1.

Options make others of it: ``arms`` equal to ``candidates`` offers the same set every round, in another order; ``arms=0``
new feature vectors every round, and ``shared=3`` a part that a round's candidates have in common; ``features="one-hot"``
as many unrelated arms as dimensions; ``base_rate=0.03`` rare clicks; ``norms=0.2`` or ``norms=(0.05, 1)`` other lengths;
``decay`` a spectrum that falls off; ``people=2000`` that many who return, ``visits`` how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, logit

from adaprivate import check
from adaprivate.check import Floats, option
from adaprivate.compiled import Streams, draw_first, kernel, normals, uniform
from adaprivate.environments.protocol import VISITS, PeopledWorld, draws, peopled, rooms
from adaprivate.offered import Offered, how_many, offer, offered

LINKS = ("logistic", "linear")
REWARDS = ("bernoulli", "uniform", "exact")
FEATURES = ("random", "one-hot")
SAMPLE = 4096
"""So many feature vectors stand for all where every round brings new ones."""


class ArmsWorld(NamedTuple):
    """Arms with fixed features, a few of which are offered each round."""

    arms: Floats
    means: Floats
    order: npt.NDArray[np.int64]
    """A permutation of the arms, shuffled as rounds go by."""
    reward: npt.NDArray[np.int64]
    """Which of REWARDS, as a one-element array."""


class FreshWorld(NamedTuple):
    """No arms: every round brings feature vectors of its own."""

    theta: Floats
    weights: Floats
    """What each coordinate is multiplied with before the length is set."""
    numbers: Floats
    """The offset, the least and the largest length, and how large the shared part is."""
    kinds: npt.NDArray[np.int64]
    """Which of REWARDS, and of LINKS."""
    middle: Floats
    """What the candidates of this round share, before it is scaled; empty where they share nothing."""


@kernel
def fill_rewards(kind: int, means: Floats, rewards: Floats, rng: Streams) -> None:
    """One random number decides the reward of every candidate, so that paired runs differ by their choices alone."""
    u = uniform(rng, 1)
    for a in range(means.shape[0]):
        mean = means[a]
        if kind == 0:
            rewards[a] = 1.0 if u < mean else 0.0
        elif kind == 1:
            rewards[a] = mean + (2.0 * u - 1.0) * min(mean, 1.0 - mean)
        else:
            rewards[a] = mean


@rooms.of(ArmsWorld)
def room_of_arms(world: Any, count: int, dimension: int) -> Offered:
    """Room for places in the table of a world's arms."""
    return offered(world.arms, count)


@draws.of(ArmsWorld)
def _draw(world: ArmsWorld, round_index: int, candidates: Offered, means: Floats, rewards: Floats, rng: Streams) -> None:
    count = how_many(candidates)
    draw_first(rng, 0, world.order, count)
    for a in range(count):
        arm = world.order[a]
        means[a] = world.means[np.uint64(arm)]
        offer(candidates, a, world.arms, arm)
    fill_rewards(world.reward[0], means, rewards, rng)


@draws.of(FreshWorld)
def _draw_fresh(
    world: FreshWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams
) -> None:
    offset, low, high = world.numbers[0], world.numbers[1], world.numbers[2]
    normals(rng, 0, candidates)
    if world.middle.shape[0] > 0:
        normals(rng, 0, world.middle)
    for a in range(candidates.shape[0]):
        square = 0.0
        for j in range(candidates.shape[1]):
            if world.middle.shape[0] > 0:
                candidates[a, j] += world.numbers[3] * world.middle[j]
            candidates[a, j] *= world.weights[j]
            square += candidates[a, j] * candidates[a, j]
        size = (low + (high - low) * uniform(rng, 0)) / math.sqrt(max(square, 1e-300))
        score = offset
        for j in range(candidates.shape[1]):
            candidates[a, j] *= size
            score += world.theta[j] * candidates[a, j]
        means[a] = 1.0 / (1.0 + math.exp(-score)) if world.kinds[1] == 0 else min(1.0, max(0.0, 0.5 + score))
    fill_rewards(world.kinds[0], means, rewards, rng)


@dataclass(frozen=True)
class Synthetic:
    """Unit-norm ``arms``, ``candidates`` of them offered each round, mean reward link(theta' x + ``offset``).

    The norm of theta is ``signal``. Features fall off as coordinate^-``decay`` (before they are normalised).
    ``arms=0``: every round has new ones. Then candidate a is (z_a + ``shared`` c) before it is normalised, z and c standard
    normal and c the same for all candidates of a round: two of them have a cosine of about shared^2 / (1 + shared^2).
    ``features="one-hot"``: arm i is the i-th unit vector, and there are as many arms as dimensions.
    ``base_rate``: the mean reward of random play; it chooses the offset (logistic link).
    ``norms``: one length of all features, or the least and largest of lengths drawn evenly between; theta is divided by
    their root mean square, so that rewards differ as much as those of unit-norm arms.
    ``people``: so many come again and again, ``visits`` in {uniform, zipf, sessions}; their tastes are alike. 0: nobody is
    told apart.
    """

    name: ClassVar[str] = "synthetic"
    dimension: int = option(20, check.whole, at_least=1)
    arms: int = option(100, check.whole, at_least=0)
    candidates: int = 5
    link: str = option("logistic", check.one_of, options=LINKS)
    reward: str = option("bernoulli", check.one_of, options=REWARDS)
    signal: float = option(2.0, check.real, above=0)
    offset: float = option(0.0, check.real)
    decay: float = option(0.0, check.real, at_least=0)
    shared: float = option(0.0, check.real, at_least=0)
    base_rate: float | None = None
    norms: tuple[float, float] = (1.0, 1.0)
    features: str = option("random", check.one_of, options=FEATURES)
    people: int = option(0, check.whole, at_least=0)
    visits: str = option("uniform", check.one_of, options=VISITS)

    def __post_init__(self) -> None:
        check.options(self)
        check.whole("candidates", self.candidates, at_least=1, at_most=self.arms or None)
        check.expect(self.shared == 0 or self.arms == 0, "shared", self.shared, "== 0 where arms are fixed (arms > 0)")
        if np.ndim(self.norms) == 0:
            object.__setattr__(self, "norms", (self.norms, self.norms))
        low, high = check.floats("norms", self.norms, (2,)).tolist()
        check.expect(0 < low <= high <= 1, "norms", self.norms, "to be one length, or the least and largest, in (0, 1]")
        object.__setattr__(self, "norms", (low, high))
        if self.features == "one-hot":
            check.expect(self.arms == self.dimension, "arms", self.arms, f"== {self.dimension}, the dimension, if one-hot")
            check.expect(self.decay == 0, "decay", self.decay, "== 0 if one-hot")
        if self.base_rate is not None:
            check.probability("base_rate", self.base_rate)
            check.expect(self.link == "logistic", "link", self.link, "in {logistic} with a base_rate")
            check.expect(self.offset == 0, "offset", self.offset, "== 0 with a base_rate, which chooses it")
        if self.link == "linear":
            check.real("signal", self.signal, at_most=(0.5 - abs(self.offset)) * self._typical / high)

    @property
    def _typical(self) -> float:
        """The root mean square of lengths."""
        low, high = self.norms
        return math.sqrt((low * low + low * high + high * high) / 3)

    def world(self, seed: int) -> ArmsWorld | FreshWorld | PeopledWorld:
        """The world of this seed."""
        return peopled(self._place(seed), self.people, self.visits, seed)

    def _place(self, seed: int) -> ArmsWorld | FreshWorld:
        rng = np.random.default_rng([seed, 0])
        theta = rng.standard_normal(self.dimension)
        theta *= self.signal / self._typical / np.linalg.norm(theta)
        weights = np.arange(1.0, self.dimension + 1) ** -self.decay
        if self.features == "one-hot":
            arms = np.eye(self.dimension)
        else:
            arms = rng.standard_normal((self.arms or SAMPLE, self.dimension)) * weights
            arms /= np.maximum(np.linalg.norm(arms, axis=1, keepdims=True), 1e-300)
        if self.norms != (1.0, 1.0):
            arms *= rng.uniform(*self.norms, (len(arms), 1))
        scores = arms @ theta
        offset = self.offset if self.base_rate is None else offset_for(scores, self.base_rate)
        if self.arms:
            return arms_world(arms, scores + offset, self.link, self.reward)
        kinds = np.array([REWARDS.index(self.reward), LINKS.index(self.link)], dtype=np.int64)
        middle = np.zeros(self.dimension if self.shared else 0)
        return FreshWorld(theta, weights, np.array([offset, *self.norms, self.shared]), kinds, middle)


@dataclass(frozen=True)
class SyntheticLinear(Synthetic):
    """The same with mean reward 1/2 + theta' x, |theta| = 1/2: the linear model holds exactly."""

    name: ClassVar[str] = "synthetic-linear"
    link: str = "linear"
    signal: float = 0.5


def offset_for(scores: Floats, base_rate: float) -> float:
    """What to add to all scores so that their logistic mean rewards have this mean."""
    middle = float(logit(base_rate))
    low, high = middle - float(scores.max()) - 1e-6, middle - float(scores.min()) + 1e-6
    return float(brentq(lambda offset: float(expit(scores + offset).mean()) - base_rate, low, high, xtol=1e-12))


def arms_world(arms: Floats, scores: Floats, link: str, reward: str) -> ArmsWorld:
    """A world of arms with these linear scores."""
    means = 1 / (1 + np.exp(-scores)) if link == "logistic" else 0.5 + scores
    kind = np.array([REWARDS.index(reward)], dtype=np.int64)
    return ArmsWorld(np.ascontiguousarray(arms), means, np.arange(len(arms)), kind)


EXAMPLES = (
    Synthetic(),
    SyntheticLinear(dimension=5, candidates=3, reward="uniform"),
    Synthetic(dimension=4, arms=6, candidates=6, base_rate=0.9),
    Synthetic(dimension=6, arms=6, candidates=3, features="one-hot"),
    Synthetic(dimension=5, arms=0, candidates=4, norms=(0.05, 1.0), decay=0.5),
    Synthetic(dimension=5, arms=0, candidates=4, shared=3.0),
    Synthetic(dimension=4, arms=20, candidates=3, people=30, visits="zipf"),
)
