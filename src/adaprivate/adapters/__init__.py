"""Policies in other people's harnesses (docs/harnesses.md): learners of coba, classifiers of scikit-learn.

Neither package is needed until its adapter is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adaprivate.adapters.coba import CobaLearner, plain_features
    from adaprivate.adapters.scikit import PrivateBanditClassifier

__all__ = ["CobaLearner", "PrivateBanditClassifier", "plain_features"]

_LAZY = {"CobaLearner": "coba", "plain_features": "coba", "PrivateBanditClassifier": "scikit"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'adaprivate.adapters' has no attribute {name!r}")
    return getattr(importlib.import_module(f"adaprivate.adapters.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
