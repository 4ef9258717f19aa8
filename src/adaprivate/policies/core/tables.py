"""Simulated privacy noise, drawn before the first round: a table for each seed, as if that seed were drawn alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaprivate.check import Floats
from adaprivate.compiled import Streams, streams
from adaprivate.mechanisms import PrefixSum
from adaprivate.mechanisms.noise import SimulatedReplicas
from adaprivate.purposes import Purpose


def source_of(seeds: Sequence[int], purpose: Purpose = Purpose.NOISE) -> SimulatedReplicas:
    """The seeds' noise side by side."""
    return SimulatedReplicas([(seed, purpose) for seed in seeds])


def gaussian_tables(seeds: Sequence[int], shape: tuple[int, int], scale: float) -> Floats:
    """Independent Gaussian noise of this standard deviation: (seeds, *shape)."""
    return per_seed(source_of(seeds).gaussian(np.zeros((shape[0], shape[1] * len(seeds))), scale), len(seeds))


def laplace_tables(seeds: Sequence[int], shape: tuple[int, int], scale: float) -> Floats:
    """Independent Laplace noise of this scale: (seeds, *shape)."""
    return per_seed(source_of(seeds).laplace(np.zeros((shape[0], shape[1] * len(seeds))), scale), len(seeds))


def released_tables(release: PrefixSum, seeds: int) -> Floats:
    """What a mechanism over the seeds' noise, side by side, releases of nothing: (seeds, releases, numbers of one seed)."""
    nothing = np.zeros(release.dimension)
    return per_seed(np.array([release.release(nothing) for _ in range(release.strategy.steps)]), seeds)


def per_seed(table: Floats, seeds: int) -> Floats:
    """A table whose columns hold the seeds side by side, as (seeds, rows, columns)."""
    rows, columns = table.shape
    return np.ascontiguousarray(table.reshape(rows, seeds, columns // seeds).swapaxes(0, 1))


def stream_tables(seeds: Sequence[int], purpose: Purpose) -> Floats:
    """The start of each seed's noise stream, in whole numbers that floats hold exactly: (seeds, 1, 8)."""
    words = [map(int, streams(seed, purpose)[0, :4]) for seed in seeds]
    return np.array([[[float(word >> shift & 0xFFFFFFFF) for word in four for shift in (32, 0)]] for four in words])


def stream_of(table: Floats) -> Streams:
    """The stream whose start is in this table of :func:`stream_tables`; one of zeros if the table is empty."""
    words = np.zeros((1, 16), dtype=np.uint64)
    for place in range(4 if table.size else 0):
        words[0, place] = (int(table[0, 2 * place]) << 32) | int(table[0, 2 * place + 1])
    return words
