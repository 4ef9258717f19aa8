"""Releases that price themselves.

A mechanism is one file, of this package or of anyone's (docs/extending.md), with ``EXAMPLES``: functions that build a small
one from a noise source. It is then found, listed and tested with no other edit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from adaprivate import check
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.catalogue import Shape, ShapedPrefixSum, error_weight
from adaprivate.mechanisms.contributions import Collector
from adaprivate.mechanisms.gaussian import Gaussian
from adaprivate.mechanisms.laplace import Laplace
from adaprivate.mechanisms.noise import Noise, Secure, Simulated
from adaprivate.mechanisms.noisy_max import NoisyMax
from adaprivate.mechanisms.prefix import PrefixSum, Strategy
from adaprivate.mechanisms.symmetric import GramSum, SymmetricGaussian, gram_rows
from adaprivate.mechanisms.units import EventSum
from adaprivate.mechanisms.units.user import UserSum
from adaprivate.mechanisms.wishart import Wishart
from adaprivate.registry import Registry

if TYPE_CHECKING:
    from adaprivate.mechanisms.calibration import Calibration

__all__ = [
    "Collector",
    "EventSum",
    "Gaussian",
    "GramSum",
    "Laplace",
    "Mechanism",
    "Noise",
    "NoisyMax",
    "PrefixSum",
    "Secure",
    "Shape",
    "ShapedPrefixSum",
    "Simulated",
    "Strategy",
    "SymmetricGaussian",
    "UserSum",
    "Wishart",
    "calibrate",
    "error_weight",
    "examples",
    "gram_rows",
    "strategies",
    "strategy",
]


class Example(NamedTuple):
    """A discovered mechanism: its name, one line about it, its module, and how to build a small one."""

    name: str
    summary: str
    module: str
    build: Callable[[Noise], Mechanism]


class _Found(NamedTuple):
    example: Example
    strategy: type[Strategy] | None


def _offers(module: ModuleType) -> dict[str, _Found]:
    found = {}
    builders: list[Callable[[Noise], Mechanism]] = [build for build in getattr(module, "EXAMPLES", ()) if callable(build)]
    for build in builders:
        mechanism = build(Simulated(0))
        subject = mechanism.strategy if isinstance(mechanism, PrefixSum) else mechanism
        summary = (inspect.getdoc(type(subject)) or "").partition("\n")[0]
        strategy = type(subject) if isinstance(subject, Strategy) else None
        found[subject.name] = _Found(Example(subject.name, summary, module.__name__, build), strategy)
    return found


_registry = Registry("mechanisms", __name__, _offers)


def examples() -> list[Example]:
    """Every mechanism, found by its EXAMPLES."""
    return [found.example for found in _registry.values()]


def strategies() -> dict[str, type[Strategy]]:
    """Every way to correlate the noise of running sums, by name."""
    return {found.example.name: found.strategy for found in _registry.values() if found.strategy is not None}


def strategy(name: str, steps: int) -> Strategy:
    """The strategy of this name for so many batches, with its default parameters."""
    known = strategies()
    build: Callable[[int], Strategy] = known[check.one_of("name", name, sorted(known))]
    return build(check.whole("steps", steps, at_least=1))


def calibrate(*arguments: Any, **options: Any) -> Calibration:
    """The least noise for (epsilon, delta); see :func:`adaprivate.mechanisms.calibration.calibrate`."""
    from adaprivate.mechanisms import calibration

    return calibration.calibrate(*arguments, **options)
