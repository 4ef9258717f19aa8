"""Where privacy noise comes from: one switch, chosen by the caller, never by default.

``Simulated(seed)`` draws ordinary floating-point noise from a seed: fast, repeatable, for experiments; it protects nobody.
``Secure()`` draws exact integer noise from the operating system's randomness through OpenDP: for real people's data. It
takes no seed and works on integers only, because floating-point noise betrays its input (docs/privacy.md, "Exact noise").

The grid: features, and so one event's contribution, are whole multiples of 2^-20 (:data:`EVENT_BITS`); the coefficients of
correlated mechanisms are whole multiples of 2^-20 (:data:`COEFFICIENT_BITS`); so everything that receives noise is a whole
multiple of 2^-40 (:data:`NOISE_BITS`), and the noise is an exact discrete Gaussian on that grid.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.grid import EVENT_BITS as EVENT_BITS
from adaprivate.grid import LARGEST

COEFFICIENT_BITS = 20
NOISE_BITS = EVENT_BITS + COEFFICIENT_BITS


class Noise(ABC):
    """A source of privacy noise. ``exact`` sources add to whole numbers of 2^-NOISE_BITS, others to floats."""

    exact: bool

    @abstractmethod
    def gaussian(self, values: Array, scale: float | Floats) -> Floats:
        """``values`` plus independent Gaussian noise of standard deviation ``scale`` (one for all, or one per entry)."""

    @abstractmethod
    def laplace(self, values: Array, scale: float | Floats) -> Floats:
        """``values`` plus independent Laplace noise of this scale (mean absolute value)."""

    @abstractmethod
    def slack(self, scale: float, draws: int) -> float:
        """Total variation distance of this many Gaussian draws from ideal rounded ones."""


class Simulated(Noise):
    """Floating-point noise from a seed, for simulation. Protects nobody."""

    exact = False

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(check.whole("seed", seed, at_least=0))

    def gaussian(self, values: Array, scale: float | Floats) -> Floats:
        values = np.asarray(values, dtype=np.float64)
        return values + scale * self.generator.standard_normal(values.shape)

    def laplace(self, values: Array, scale: float | Floats) -> Floats:
        values = np.asarray(values, dtype=np.float64)
        return values + scale * self.generator.laplace(size=values.shape)

    def slack(self, scale: float, draws: int) -> float:
        return 0.0


class SimulatedReplicas(Noise):
    """Independent simulated sources side by side: the last axis is split evenly between them.

    Each draws what it would have drawn alone, so many replicas can share one mechanism.
    """

    exact = False

    def __init__(self, keys: Sequence[Sequence[int]]) -> None:
        self.generators = [np.random.default_rng([*key]) for key in keys]

    def _draw(self, shape: tuple[int, ...], one: str) -> Floats:
        width = shape[-1] // len(self.generators)
        parts = [getattr(generator, one)(size=(*shape[:-1], width)) for generator in self.generators]
        return np.concatenate(parts, axis=-1)

    def gaussian(self, values: Array, scale: float | Floats) -> Floats:
        values = np.asarray(values, dtype=np.float64)
        return values + scale * self._draw(values.shape, "standard_normal")

    def laplace(self, values: Array, scale: float | Floats) -> Floats:
        values = np.asarray(values, dtype=np.float64)
        return values + scale * self._draw(values.shape, "laplace")

    def slack(self, scale: float, draws: int) -> float:
        return 0.0


class Secure(Noise):
    """Exact noise from the operating system, for production. Never seeded, never logged."""

    exact = True

    def gaussian(self, values: Array, scale: float | Floats) -> Floats:
        return _add(values, scale, _gaussian_sampler)

    def laplace(self, values: Array, scale: float | Floats) -> Floats:
        return _add(values, scale, _laplace_sampler)

    def slack(self, scale: float, draws: int) -> float:
        return draws * discrete_gaussian_distance(check.real("scale", scale, above=0) * 2**NOISE_BITS)


def discrete_gaussian_distance(scale: float) -> float:
    """Total variation distance between a discrete Gaussian of this scale and a rounded continuous one: an upper bound.

    By the midpoint rule, at most (4 phi(1) / S^2 + V / S^3) / 48 plus the error of the normalising sum, where V is the
    total variation of |phi''|; docs/privacy.md has the steps. Valid from scale 2 on.
    """
    scale = check.real("scale", scale, at_least=2)
    peak, shoulder = 1 / math.sqrt(2 * math.pi), 2 * math.exp(-1.5) / math.sqrt(2 * math.pi)
    curvature = 4 * math.exp(-0.5) / math.sqrt(2 * math.pi)
    normaliser = 3 * math.exp(-2 * math.pi**2 * scale**2)
    return (curvature / scale**2 + 2 * (peak + 2 * shoulder) / scale**3) / 48 + normaliser


def whole_numbers(name: str, value: object, shape: tuple[int, ...]) -> Array:
    """An array of Python integers of this shape, small enough for exact noise; floats, NaN and overflow are refused."""
    array = np.asarray(value)
    check.expect(array.shape == shape, f"{name}.shape", array.shape, f"== {shape}")
    if array.dtype.kind == "f":
        check.floats(name, array, array.shape)
    whole = array.dtype == object and all(isinstance(v, int) and not isinstance(v, bool) for v in array.ravel())
    check.expect(
        whole, f"{name}.dtype", str(array.dtype), "to be whole numbers of the grid (dtype object), or release a collector"
    )
    integers = np.array([int(v) for v in array.ravel()], dtype=object).reshape(shape)
    for index, entry in enumerate(integers.ravel()):
        if not abs(entry) < LARGEST:
            raise check.InputError(
                f"Expected {name}[{index}] to be below 2^62 in size; it is private and not repeated here."
            )
    return integers


def plain_numbers(name: str, value: object, shape: tuple[int, ...]) -> Floats:
    """Floats of this shape for simulated noise; whole numbers of the grid, as exact collectors give them, are refused."""
    mixed = isinstance(value, np.ndarray) and value.dtype == object
    check.expect(not mixed, f"{name}.dtype", "object", "to be numbers: this sum was made for exact noise")
    return check.floats(name, value, shape)


def expect_fine_grid(noise_multiplier: float, scale: float, noise: Noise) -> None:
    """Refuse noise so small that the grid of exact noise would show."""
    check.kind("noise", noise, Noise)
    fine = not noise.exact or scale * 2**NOISE_BITS >= 2**20
    check.expect(fine, "noise_multiplier", noise_multiplier, "large enough for noise of 2^-20 or more")


def _add(values: Array, scale: float | Floats, sampler: Any) -> Floats:
    values = np.asarray(values)
    check.expect(values.dtype == object, "values.dtype", str(values.dtype), "to be whole numbers of the grid")
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), values.shape).ravel()
    noise = np.empty(values.size, dtype=object)
    for one in np.unique(scales):
        places = np.flatnonzero(scales == one)
        grid_scale = check.real("scale", float(one), above=0) * 2**NOISE_BITS
        check.expect(grid_scale * 64 < LARGEST, "scale", float(one), f"< {LARGEST / 64 / 2**NOISE_BITS:g}")
        for place, draw in zip(places, sampler(grid_scale, len(places))([0] * len(places)), strict=True):
            noise[place] = draw
    total = values.ravel() + noise
    return np.array([entry / 2**NOISE_BITS for entry in total], dtype=np.float64).reshape(values.shape)


# OpenDP accepts vectors of a wrong length, NaN and infinity, and its default integer saturates at 2^31; so it is only ever
# given zeros of the right number and type, and the noise it returns is added to the values in Python's integers.
@lru_cache(maxsize=64)
def _gaussian_sampler(scale: float, size: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64"), size=size), dp.l2_distance(T="f64"), scale=scale)


@lru_cache(maxsize=64)
def _laplace_sampler(scale: float, size: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64"), size=size), dp.l1_distance(T="i64"), scale=scale)
