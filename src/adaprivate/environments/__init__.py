"""Where rewards come from in simulation.

An environment is one file of this package: a frozen settings class with ``world(seed)``, the state it returns, and a
compiled ``draw``; with ``EXAMPLES`` it is found, listed and simulated with no other edit (CONTRIBUTING.md).
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Protocol

from adaprivate import check

__all__ = ["Environment", "environment", "names"]


class Environment(Protocol):
    """What every environment's settings offer."""

    name: ClassVar[str]

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""

    @property
    def candidates(self) -> int:
        """How many candidates each round offers."""

    def world(self, seed: int) -> Any:
        """The world of this seed: a NamedTuple of arrays that compiled ``draw`` reads."""


@lru_cache(maxsize=1)
def _registry() -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for example in getattr(module, "EXAMPLES", ()):
            found[example.name] = type(example)
    return found


def names() -> list[str]:
    """Every environment, by name."""
    return sorted(_registry())


def describe(name: str) -> str:
    """One line about the environment."""
    return (inspect.getdoc(_registry()[check.one_of("environment", name, names())]) or "").partition("\n")[0]


def options(name: str) -> list[str]:
    """The settings an environment takes, by name."""
    return [field.name for field in dataclasses.fields(_registry()[check.one_of("environment", name, names())])]


def environment(name: str, values: Mapping[str, Any] | None = None) -> Environment:
    """The environment of this name with these settings; unknown ones are refused."""
    check.known(values or {}, options(name), name)
    built: Environment = _registry()[name](**(values or {}))
    return built
