"""The worlds in which exploration was studied: candidates that vary or do not, many and few, hidden prizes."""

from __future__ import annotations

from typing import Any

WORLDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "the paper's": ("synthetic", {}, 10_000),
    "linear": ("synthetic-linear", {}, 10_000),
    "short": ("synthetic", {}, 2_000),
    "two of many, d 5": ("synthetic", {"dimension": 5, "candidates": 2}, 10_000),
    "twenty of many, d 50": ("synthetic", {"dimension": 50, "candidates": 20}, 10_000),
    "five fixed": ("synthetic", {"arms": 5, "candidates": 5}, 10_000),
    "twenty fixed, d 5": ("synthetic", {"dimension": 5, "arms": 20, "candidates": 20}, 10_000),
    "two fixed, d 5": ("synthetic", {"dimension": 5, "arms": 2, "candidates": 2}, 10_000),
    "rank-deficient": ("rank-deficient", {}, 10_000),
    "needle": ("needle", {}, 10_000),
    "needle, twenty fixed": ("needle", {"arms": 20, "candidates": 20}, 10_000),
    "needle, two fixed": ("needle", {"dimension": 5, "arms": 2, "candidates": 2, "gap": 0.1}, 10_000),
    "gap": ("gap", {}, 10_000),
    "drifting": ("drifting", {}, 10_000),
}
"""Name: environment, its options, rounds."""
