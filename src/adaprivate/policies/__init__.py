"""Policies: how a private statistic becomes a choice.

A policy is one file, of this package or of anyone's (docs/extending.md): a frozen settings class, a state, and compiled
functions that choose and learn; with ``EXAMPLES`` it is found, listed, simulated and tested with no other edit.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.privacy import Guarantee
from adaprivate.registry import Registry, has

if TYPE_CHECKING:
    from adaprivate.policies.core.overview import Overview

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


def _offers(module: ModuleType) -> dict[str, type[Any]]:
    parts = ("name", "private", "dimension", "rounds", "noise_tables", "start", "guarantee")
    return {example.name: type(example) for example in getattr(module, "EXAMPLES", ()) if has(example, *parts)}


_registry = Registry("policies", __name__, _offers, by_text=True)


def names() -> list[str]:
    """Every policy, by name."""
    return _registry.names()


def settings_class(name: str) -> type[Any]:
    """The settings class of the policy of this name."""
    return _registry.find(name)


def describe(name: str) -> tuple[str, str]:
    """One line about the policy, and all that its settings class says, or its file where that has the three fields."""
    from adaprivate.policies.core.settings import about

    kind = settings_class(name)
    return (inspect.getdoc(kind) or "").partition("\n")[0], about(kind, _registry.module(name))


def examples(name: str) -> list[Any]:
    """Small settings of the policy of this name, as its file gives them."""
    return [example for example in _registry.module(name).EXAMPLES if example.name == name]


def overview(name: str) -> Overview:
    """Whom the policy of this name protects, how, and whether it can have production noise: asked of its examples."""
    from adaprivate.policies.core.overview import overview as of_examples

    return of_examples(name, examples(name))


def options(name: str) -> list[str]:
    """The settings a policy takes, by name."""
    return [field.name for field in dataclasses.fields(settings_class(name))]


def budgets(name: str, epsilon: float | Sequence[float] | None, given: Mapping[str, Any]) -> list[float | None]:
    """The epsilons to run a policy at: those asked for, or 1; None where it takes none, or these options say another way.

    An epsilon that is asked for comes before options that exclude it: the settings then refuse the two together.
    """
    if "epsilon" not in options(name):
        return [None]
    if epsilon is not None:
        return list(epsilon) if isinstance(epsilon, Sequence) else [epsilon]
    other_way = any(given.get(option) is not None for option in getattr(settings_class(name), "instead_of_epsilon", ()))
    return [None] if other_way else [1.0]


def settings(name: str, values: Mapping[str, Any]) -> Settings:
    """The settings of a policy; unknown ones are refused."""
    kind = settings_class(name)
    check.known(values, options(name), name)
    missing = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING and f.name not in values]
    if missing:
        raise check.InputError(f"Expected {' and '.join(missing)} to be given for {name}.")
    built: Settings = kind(**values)
    return built
