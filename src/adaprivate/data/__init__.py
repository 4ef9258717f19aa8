"""Data sets of recorded worlds: loaders that recognize, check and cache them, and features made of ratings.

Worlds of recorded data look for their files in ``ADAPRIVATE_DATA``, one folder per set (ml-1m, jester-1, ...).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaprivate import extras
from adaprivate.check import InputError

if TYPE_CHECKING:
    from adaprivate.data.label_tables import Labelled, labelled
    from adaprivate.data.rating_sets import Ratings, ratings

__all__ = ["Labelled", "Ratings", "folder", "labelled", "ratings"]

# Loaded on first use: features are made where no table is read, and polars need not be installed there.
_LAZY = {
    "Labelled": "label_tables",
    "Ratings": "rating_sets",
    "labelled": "label_tables",
    "ratings": "rating_sets",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'adaprivate.data' has no attribute {name!r}")
    with extras.needed():
        return getattr(importlib.import_module(f"adaprivate.data.{_LAZY[name]}"), name)


def folder(sets: Sequence[str], given: str | None = None) -> Path:
    """The folder (or file) ``given``, or the first of these sets in the folder that ADAPRIVATE_DATA names."""
    if given is not None:
        path = Path(given)
        inside = [path / name for name in sets if (path / name).exists()]
        return inside[0] if inside else path
    base = os.environ.get("ADAPRIVATE_DATA")
    if not base:
        raise InputError(
            "Expected data=PATH, or the variable ADAPRIVATE_DATA to name a folder with " + " or ".join(sets) + "."
        )
    for name in sets:
        if (Path(base) / name).exists():
            return Path(base) / name
    raise InputError(f"Expected ADAPRIVATE_DATA={base!r} to hold a folder {' or '.join(sets)}.")
