"""The Gaussian channel's plan: when its batches end, which rows of C s are released, and how they are read. Public."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from adaprivate import mechanisms
from adaprivate.check import Floats, Integers
from adaprivate.mechanisms import Strategy
from adaprivate.mechanisms.informative import LARGEST, Informative, Reader
from adaprivate.mechanisms.plan import Epoch, encoder_of

MOST_BATCHES = 2048


class Tables(NamedTuple):
    """How rows are read, for all batches; see :class:`~adaprivate.policies.noise_aware.state.NoiseAwareState`."""

    decoder: Floats
    influence: Floats
    relevance: Floats
    drift: Floats


@dataclass(frozen=True)
class Rows:
    """Batches from round ``first`` on, planned to the last of ``boundaries``, after each of which a new epoch starts.

    ``batch_size``: of the first batch; each is ``growth`` times the one before. ``prior_precision``: of theta along the
    directions that are summed. ``known``: that plus what was told before the first batch.
    """

    first: int
    boundaries: tuple[int, ...]
    batch_size: int
    growth: float
    dimension: int
    noise: str
    noise_multiplier: float
    prior_precision: float
    known: float
    reward_variance: float
    memory: float | None
    weight: float = 1.0
    """What an event is expected to be weighted with; C is fitted for it."""
    released: tuple[Epoch, ...] = dataclasses.field(default=(), compare=False)
    """Epochs that stay as they are, whatever a fit would find today."""

    @cached_property
    def ends(self) -> Integers:
        """The round after which each batch is released."""
        size = float(self.batch_size)
        ends = [self.first]
        for boundary in self.boundaries:
            growth = self.growth if boundary == self.boundaries[0] else max(self.growth, 1.1)
            while ends[-1] + math.floor(size) <= boundary and len(ends) <= MOST_BATCHES + 1000:
                ends.append(ends[-1] + math.floor(size))
                size *= growth
        return np.array(ends[1:], dtype=np.int64)

    def _reader(self, first: int, last: int, known: float) -> Reader:
        """What the batches of an epoch are for: each direction gets an equal share of every batch's rounds."""
        ends = self.ends[first:last]
        sizes = np.diff(self.ends, prepend=self.first)[first:last]
        boundary = self.boundaries[int(np.searchsorted(self.boundaries, ends[-1]))]
        return Reader(
            information=tuple((sizes / self.dimension).tolist()),
            served=tuple(np.diff(ends, append=boundary).astype(float).tolist()),
            prior_precision=known,
            noise_variance=self.reward_variance,
            times=tuple(ends.astype(float).tolist()),
            memory=math.inf if self.memory is None else self.memory,
        )

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """The mechanisms, one after the other, each fitted to what is known by then."""
        return tuple(epoch for epoch, _ in self._planned())

    @property
    def learned_share(self) -> float:
        """The share of what can be earned that choosing by these rows is foreseen to earn."""
        total = 0.0
        for epoch, reader in self._planned():
            explained = 1 - self.known * self._variances(epoch, reader)
            total += float(np.array(reader.served) @ np.sqrt(np.maximum(explained, 0.0)))
        return total / self.boundaries[-1]

    def _planned(self) -> list[tuple[Epoch, Reader]]:
        """The mechanisms, and the reader to whom each is fitted."""
        edges = np.searchsorted(self.ends, self.boundaries, side="right").tolist()
        found: list[tuple[Epoch, Reader]] = []
        known = self.known
        for first, last in zip([0, *edges], edges, strict=False):
            if last == first:
                continue
            reader = self._reader(first, last, known)
            kept = self.released[len(found)] if len(found) < len(self.released) else None
            found.append((kept or Epoch(first, last, self._strategy(reader)), reader))
            if self.memory is None:
                known = 1 / float(self._variances(*found[-1])[-1])
        return found

    def _variances(self, epoch: Epoch, reader: Reader) -> Floats:
        """The posterior variance in one direction after each batch of an epoch."""
        encoder = np.asarray(epoch.strategy.matrix() / epoch.strategy.sensitivity())
        return reader.variances(encoder, self.noise_multiplier / self.weight)

    def _strategy(self, reader: Reader) -> Strategy:
        if self.noise != "informative":
            return mechanisms.strategy(self.noise, reader.steps)
        if reader.steps > LARGEST:
            return mechanisms.strategy("sqrt", reader.steps)
        return Informative(reader.steps, reader, self.noise_multiplier / self.weight)

    @cached_property
    def encoder(self) -> Floats:
        """C of all batches, its columns of norm 1 at most."""
        return encoder_of(len(self.ends), self.epochs)

    @cached_property
    def tables(self) -> Tables:
        """How rows are read: public, and the same for every run."""
        count = len(self.ends)
        if count == 0:
            return Tables(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0))
        reader = self._reader(0, count, self.known)
        decoder = reader.weights(self.encoder, self.noise_multiplier)
        influence = decoder @ self.encoder
        relevance = influence * reader.correlation
        drift = np.zeros(count)
        if self.memory is not None:
            g, R = np.array(reader.information), reader.correlation
            for k in range(count):  # Var(sum a_j g_j (theta_j - R_jk theta_k)) / (sum a_j R_jk g_j)^2
                weights = influence[k] * g
                change = weights @ (R - np.outer(R[k], R[k])) @ weights / self.prior_precision
                drift[k] = max(float(change), 0.0) / float(relevance[k] @ g) ** 2
        return Tables(decoder, influence, relevance, drift)
