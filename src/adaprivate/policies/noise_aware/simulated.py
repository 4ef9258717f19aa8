"""The channels' book in compiled form, for simulation: it protects nobody. See :mod:`adaprivate.mechanisms.channels`."""

from __future__ import annotations

import math
from typing import NamedTuple

from adaprivate.check import Floats
from adaprivate.compiled import Record, Streams, kernel, uniform
from adaprivate.offered import Offered
from adaprivate.policies.core.books import SimulatedSums
from adaprivate.policies.core.dispatch import collect, counted, read, select, selects, updates
from adaprivate.policies.core.propensities import Propensities, choice_probabilities, propensities_of
from adaprivate.policies.noise_aware.state import FLIP, ITEMS, NoiseAwareState


class SimulatedChannels(NamedTuple):
    """Where rewards go that a learner routes: private, all but what was released."""

    sums: SimulatedSums
    """The Gaussian channel."""
    blocks: Floats
    """The sum of every item's waiting rewards, as bits."""
    counts: Floats
    """How many there are."""
    words: Streams
    """The stream of rounding, flips and whole-number noise."""
    released: Floats
    """The last release: public."""
    scalars: Record
    """The probability that a bit is told truly, epsilon, and the centre."""


class Channelled(NamedTuple):
    """A noise-aware learner and a simulated book, to which it says where every event goes."""

    learner: NoiseAwareState
    book: SimulatedChannels


@kernel
def geometric(words: Streams, epsilon: float) -> float:
    """0, 1, 2, ... with probabilities falling by e^-epsilon."""
    return math.floor(-math.log1p(-uniform(words, 0)) / epsilon)


@kernel
def enter(
    book: SimulatedChannels, channel: int, block: int, closes: bool, features: Floats, reward: float, rng: Streams
) -> bool:
    """Enter an event where the learner says; True if that released something, which is then in ``book.released``."""
    s = book.scalars[0]
    if channel == FLIP:
        bit = uniform(book.words, 0) < reward
        truly = uniform(book.words, 0) < s.keep
        told = 1.0 if bit == truly else 0.0
        book.released[0] = (told - (1.0 - s.keep)) / (2.0 * s.keep - 1.0) - s.centre
        return True
    if channel == ITEMS:
        book.blocks[block] += 1.0 if uniform(book.words, 0) < reward else 0.0
        book.counts[block] += 1.0
        if not closes:
            return False
        noise = geometric(book.words, s.epsilon) - geometric(book.words, s.epsilon)
        book.released[0] = book.blocks[block] + noise - s.centre * book.counts[block]
        book.blocks[block] = 0.0
        book.counts[block] = 0.0
        return True
    if not collect(book.sums, features, reward, rng):
        return False
    for i in range(book.released.shape[0]):
        book.released[i] = book.sums.released[i]
    return True


@selects.of(Channelled, offers=True)
def _select(state: Channelled, candidates: Offered, rng: Streams) -> int:
    return select(state.learner, candidates, rng)


@updates.of(Channelled)
def _update(state: Channelled, features: Floats, reward: float, rng: Streams) -> None:
    counted(state.learner, features)
    s = state.learner.scalars[0]
    if enter(state.book, s.channel, s.block, s.closes, features, reward, rng):
        read(state.learner, state.book.released)


@propensities_of(Channelled)
def _of_learner(state: Channelled, candidates: Floats, **how: object) -> Propensities:
    return choice_probabilities(state.learner, candidates, **how)  # type: ignore[arg-type]
