"""Unit-norm arms with a logistic or linear mean reward: the world of the AdaPrivate-TS paper, Sec 4.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.compiled import Streams, below, kernel, uniform
from adaprivate.environments.protocol import draws

LINKS = ("logistic", "linear")
REWARDS = ("bernoulli", "uniform", "exact")


class ArmsWorld(NamedTuple):
    """Arms with fixed features, a few of which are offered each round."""

    arms: Floats
    means: Floats
    order: npt.NDArray[np.int64]
    """A permutation of the arms, shuffled as rounds go by."""
    reward: npt.NDArray[np.int64]
    """Which of REWARDS, as a one-element array."""


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


@draws.of(ArmsWorld)
def _draw(world: ArmsWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams) -> None:
    count = world.arms.shape[0]
    for a in range(candidates.shape[0]):
        swap = a + below(rng, 0, count - a)
        arm = world.order[swap]
        world.order[swap] = world.order[a]
        world.order[a] = arm
        means[a] = world.means[arm]
        for j in range(candidates.shape[1]):
            candidates[a, j] = world.arms[arm, j]
    fill_rewards(world.reward[0], means, rewards, rng)


@dataclass(frozen=True)
class Synthetic:
    """Unit-norm ``arms``, ``candidates`` of them offered each round, mean reward link(theta' x + ``offset``).

    The norm of theta is ``signal``. Features fall off as coordinate^-``decay`` (before they are normalised).
    """

    name: ClassVar[str] = "synthetic"
    dimension: int = 20
    arms: int = 100
    candidates: int = 5
    link: str = "logistic"
    reward: str = "bernoulli"
    signal: float = 2.0
    offset: float = 0.0
    decay: float = 0.0

    def __post_init__(self) -> None:
        check.whole("dimension", self.dimension, at_least=1)
        check.whole("arms", self.arms, at_least=1)
        check.whole("candidates", self.candidates, at_least=1, at_most=self.arms)
        check.one_of("link", self.link, LINKS)
        check.one_of("reward", self.reward, REWARDS)
        check.real("signal", self.signal, above=0)
        check.real("offset", self.offset)
        check.real("decay", self.decay, at_least=0)
        if self.link == "linear":
            check.real("signal", self.signal, at_most=0.5 - abs(self.offset))

    def world(self, seed: int) -> ArmsWorld:
        """The world of this seed."""
        rng = np.random.default_rng([seed, 0])
        theta = rng.standard_normal(self.dimension)
        theta *= self.signal / np.linalg.norm(theta)
        arms = rng.standard_normal((self.arms, self.dimension)) * np.arange(1.0, self.dimension + 1) ** -self.decay
        arms /= np.maximum(np.linalg.norm(arms, axis=1, keepdims=True), 1e-300)
        return arms_world(arms, arms @ theta + self.offset, self.link, self.reward)


@dataclass(frozen=True)
class SyntheticLinear(Synthetic):
    """The same with mean reward 1/2 + theta' x, |theta| = 1/2: the linear model holds exactly."""

    name: ClassVar[str] = "synthetic-linear"
    link: str = "linear"
    signal: float = 0.5


def arms_world(arms: Floats, scores: Floats, link: str, reward: str) -> ArmsWorld:
    """A world of arms with these linear scores."""
    means = 1 / (1 + np.exp(-scores)) if link == "logistic" else 0.5 + scores
    kind = np.array([REWARDS.index(reward)], dtype=np.int64)
    return ArmsWorld(np.ascontiguousarray(arms), means, np.arange(len(arms)), kind)


EXAMPLES = (Synthetic(), SyntheticLinear(dimension=5, candidates=3, reward="uniform"))
