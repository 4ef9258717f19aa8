"""Where rewards come from in simulation.

An environment is one file, of this package or of anyone's (docs/extending.md): a frozen settings class with
``world(seed)``, the state it returns, and a compiled ``draw``; with ``EXAMPLES`` it is found, listed and simulated with no
other edit.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar, Protocol

from adaprivate import check
from adaprivate.registry import Registry, has

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


def _offers(module: ModuleType) -> dict[str, type[Any]]:
    parts = ("name", "dimension", "candidates", "world")
    return {example.name: type(example) for example in getattr(module, "EXAMPLES", ()) if has(example, *parts)}


_registry = Registry("environments", __name__, _offers)


def names() -> list[str]:
    """Every environment, by name."""
    return _registry.names()


def describe(name: str) -> str:
    """One line about the environment."""
    return (inspect.getdoc(_registry.find(name)) or "").partition("\n")[0]


def options(name: str) -> list[str]:
    """The settings an environment takes, by name."""
    return [field.name for field in dataclasses.fields(_registry.find(name))]


def environment(name: str, values: Mapping[str, Any] | None = None) -> Environment:
    """The environment of this name with these settings; unknown ones are refused."""
    check.known(values or {}, options(name), name)
    built: Environment = _registry.find(name)(**(values or {}))
    return built
