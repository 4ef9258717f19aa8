"""Policies: how a private statistic becomes a choice.

A policy is one file of this package: a frozen settings class, a state, and compiled functions that choose and learn; with
``EXAMPLES`` it is found, listed, simulated and tested with no other edit (CONTRIBUTING.md).
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Protocol

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.privacy import Guarantee

__all__ = ["Settings", "names", "settings", "settings_class"]


class Settings(Protocol):
    """What every policy's settings offer."""

    name: ClassVar[str]
    private: ClassVar[bool]

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""

    @property
    def rounds(self) -> int:
        """How many rounds the policy is made for."""

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The privacy noise of every release, for each seed."""

    def start(self, noise: Floats) -> Any:
        """The state before the first round."""

    def guarantee(self, *, exact_noise: bool = False) -> Guarantee | None:
        """What the policy promises; None for a policy without privacy."""


@lru_cache(maxsize=1)
def _registry() -> dict[str, tuple[type[Any], str]]:
    found: dict[str, tuple[type[Any], str]] = {}
    for info in sorted(pkgutil.walk_packages(__path__, f"{__name__}."), key=lambda module: module.name):
        module = importlib.import_module(info.name)
        for example in getattr(module, "EXAMPLES", ()):
            found[example.name] = (type(example), module.__name__)
    return found


def names() -> list[str]:
    """Every policy, by name."""
    return sorted(_registry())


def settings_class(name: str) -> type[Any]:
    """The settings class of the policy of this name."""
    check.one_of("policy", name, names())
    return _registry()[name][0]


def describe(name: str) -> tuple[str, str]:
    """One line about the policy, and the documentation of its file."""
    kind = settings_class(name)
    return (inspect.getdoc(kind) or "").partition("\n")[0], inspect.getdoc(
        importlib.import_module(_registry()[name][1])
    ) or ""


def options(name: str) -> list[str]:
    """The settings a policy takes, by name."""
    return [field.name for field in dataclasses.fields(settings_class(name))]


def settings(name: str, values: Mapping[str, Any]) -> Settings:
    """The settings of a policy; unknown ones are refused."""
    kind = settings_class(name)
    known = options(name)
    for key in values:
        check.expect(key in known, "option", key, "in {" + ", ".join(known) + "} for " + name)
    missing = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING and f.name not in values]
    check.expect(not missing, "missing options", missing, "to be empty for " + name)
    built: Settings = kind(**values)
    return built
