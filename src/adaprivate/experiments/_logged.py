"""Experiments with logs share this: rounds drawn from a world, and a fixed policy's true value on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams, borrowed, entry, streams
from adaprivate.environments import Environment
from adaprivate.environments.protocol import draw
from adaprivate.logs.log import Log
from adaprivate.policies.core.propensities import choice_probabilities
from adaprivate.purposes import Purpose


@entry
def _rounds(world: Any, candidates: Floats, means: Floats, rewards: Floats, rng: Streams) -> None:
    for t in range(means.shape[0]):
        draw(borrowed(world), t, candidates[t], means[t], rewards[t], borrowed(rng))


def rounds_of(environment: Environment, seed: int, rounds: int, part: int = 0) -> tuple[Floats, Floats, Floats]:
    """Candidates, mean rewards and rewards of so many rounds of a seed's world that no policy has met."""
    shape = (rounds, environment.candidates)
    candidates, means, rewards = np.empty((*shape, environment.dimension)), np.empty(shape), np.empty(shape)
    rng = streams(seed, Purpose.LOG + 2 * part, Purpose.LOG + 1 + 2 * part)
    _rounds(environment.world(seed), candidates, means, rewards, rng)
    return candidates, means, rewards


def uniform_log(candidates: Floats, rewards: Floats, seed: int) -> Log:
    """The log of uniform choice between candidates whose rewards (n, K) are all known."""
    n, count = rewards.shape
    actions = np.random.default_rng([seed, Purpose.LOG]).integers(0, count, size=(n,))
    return Log(candidates, actions, rewards[np.arange(n), actions], np.full(n, 1 / count))


def true_value(state: Any, candidates: Floats, means: Floats, seed: int = 0) -> float:
    """The mean reward of a policy that stays in this state, on these rounds."""
    found = choice_probabilities(state, candidates, draws=256, seed=seed, lattice=False).probability
    return float((found * means).sum(axis=1).mean())
