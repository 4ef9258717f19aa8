"""Laws of noise: each owns its draw, its price and its exact sampler, one file each."""

from __future__ import annotations

from types import ModuleType

from adaprivate.mechanisms.laws.base import AdditiveLaw, CountLaw, Law, RewardLaw
from adaprivate.mechanisms.laws.gaussian import GaussianLaw
from adaprivate.registry import Registry

__all__ = ["AdditiveLaw", "CountLaw", "GaussianLaw", "Law", "RewardLaw", "named", "names"]


def _offers(module: ModuleType) -> dict[str, type[Law]]:
    offered = getattr(module, "LAW", None)
    return {offered.name: offered} if isinstance(offered, type) and issubclass(offered, Law) else {}


_registry = Registry("laws", __name__, _offers)


def names() -> list[str]:
    """Every law, by name."""
    return _registry.names()


def named(name: str) -> type[Law]:
    """The law of this name."""
    return _registry.find(name)
