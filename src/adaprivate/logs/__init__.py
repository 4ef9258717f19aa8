"""Logs of decisions: read, checked, and what policies would have earned on them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from adaprivate import extras

if TYPE_CHECKING:
    from adaprivate.logs.estimators import Estimate
    from adaprivate.logs.facts import check_path
    from adaprivate.logs.intervals import Paired, Summary, paired, summary
    from adaprivate.logs.log import Log
    from adaprivate.logs.log_table import read_log

__all__ = ["Estimate", "Log", "Paired", "Summary", "check_path", "paired", "read_log", "summary"]

# Loaded on first use: not all of these need polars.
_LAZY = {
    "Estimate": "estimators",
    "Log": "log",
    "Paired": "intervals",
    "Summary": "intervals",
    "check_path": "facts",
    "paired": "intervals",
    "read_log": "log_table",
    "summary": "intervals",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'adaprivate.logs' has no attribute {name!r}")
    with extras.needed():
        return getattr(importlib.import_module(f"adaprivate.logs.{_LAZY[name]}"), name)
