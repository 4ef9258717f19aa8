"""Differentially private bandits."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from adaprivate import privacy

if TYPE_CHECKING:
    from adaprivate import mechanisms

__version__ = "0.1.0"
__all__ = ["__version__", "mechanisms", "privacy"]

_LAZY = {"mechanisms": "adaprivate.mechanisms"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'adaprivate' has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name])
    return getattr(module, name, module)
