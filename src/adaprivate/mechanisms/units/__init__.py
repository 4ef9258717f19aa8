"""Units of privacy: each pairs how far one protected unit reaches with the collector that enforces it, one file each."""

from __future__ import annotations

from types import ModuleType

from adaprivate.mechanisms.units.base import Event, Unit
from adaprivate.mechanisms.units.event import EventSum, EventUnit
from adaprivate.registry import Registry

__all__ = ["Event", "EventSum", "EventUnit", "Unit", "named", "names"]


def _offers(module: ModuleType) -> dict[str, type[Unit]]:
    offered = getattr(module, "UNIT", None)
    return {offered.name: offered} if isinstance(offered, type) and issubclass(offered, Unit) else {}


_registry = Registry("units", __name__, _offers)


def names() -> list[str]:
    """Every unit, by name."""
    return _registry.names()


def named(name: str) -> type[Unit]:
    """The unit of this name."""
    return _registry.find(name)
