"""Releases that price themselves.

A mechanism is one file of this package with ``EXAMPLES``: functions that build a small one from a noise source. It is then
found, listed and tested with no other edit (CONTRIBUTING.md).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from adaprivate import check
from adaprivate.mechanisms.base import Mechanism
from adaprivate.mechanisms.catalogue import Shape, ShapedPrefixSum, error_weight
from adaprivate.mechanisms.contributions import Collector, EventSum, UserSum
from adaprivate.mechanisms.gaussian import Gaussian
from adaprivate.mechanisms.laplace import Laplace
from adaprivate.mechanisms.noise import Noise, Secure, Simulated
from adaprivate.mechanisms.noisy_max import NoisyMax
from adaprivate.mechanisms.prefix import PrefixSum, Strategy
from adaprivate.mechanisms.symmetric import GramSum, SymmetricGaussian, gram_rows
from adaprivate.mechanisms.wishart import Wishart

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


def _modules() -> list[ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


def examples() -> list[Example]:
    """Every mechanism of the package, found by its EXAMPLES."""
    found = []
    for module in _modules():
        for build in getattr(module, "EXAMPLES", ()):
            mechanism = build(Simulated(0))
            subject = mechanism.strategy if isinstance(mechanism, PrefixSum) else mechanism
            summary = (inspect.getdoc(type(subject)) or "").partition("\n")[0]
            found.append(Example(subject.name, summary, module.__name__, build))
    return found


@lru_cache(maxsize=1)
def strategies() -> dict[str, type[Strategy]]:
    """Every way to correlate the noise of running sums, by name."""
    built = [example.build(Simulated(0)) for example in examples()]
    found = [type(mechanism.strategy) for mechanism in built if isinstance(mechanism, PrefixSum)]
    return {kind.name: kind for kind in found}


def strategy(name: str, steps: int) -> Strategy:
    """The strategy of this name for so many batches, with its default parameters."""
    known = strategies()
    build: Callable[[int], Strategy] = known[check.one_of("name", name, sorted(known))]
    return build(check.whole("steps", steps, at_least=1))


def calibrate(*arguments: Any, **options: Any) -> Calibration:
    """The least noise for (epsilon, delta); see :func:`adaprivate.mechanisms.calibration.calibrate`."""
    from adaprivate.mechanisms import calibration

    return calibration.calibrate(*arguments, **options)
