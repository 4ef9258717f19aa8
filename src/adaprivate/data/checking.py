"""What is at a path: recognised, read and checked, with the facts that tell whether it is what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adaprivate.check import InputError
from adaprivate.data.label_tables import LABELS, labelled
from adaprivate.data.logs import is_log, log, table_of
from adaprivate.data.rating_sets import find, is_ratings, ratings
from adaprivate.data.reading import File, arrays

Facts = dict[str, Any]


def check_path(
    path: str | Path,
    *,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    features: Sequence[str] = (),
    candidates: str | None = None,
    user: str | None = None,
    label: str | None = None,
) -> Facts:
    """Facts about the data at this path; raises one line naming file, line and column where something is wrong."""
    place = Path(path)
    if label is not None:
        return _labelled(place, label)
    if action is not None or reward is not None or user is not None:
        named = {"action": action, "reward": reward, "propensity": propensity, "candidates": candidates, "user": user}
        return _log(place, features=features, **named)
    if place.is_dir() and not (place / "data.npz").exists():
        logs = sorted(file for file in place.iterdir() if file.suffix in (".csv", ".parquet") and _looks_like_log(file))
        if logs:
            return {"kind": "folder of logs", "path": str(place), "logs": [_log(file) for file in logs]}
        return _ratings(place)
    file = File(place / "data.npz") if place.is_dir() else find(place)
    if is_ratings(file):
        return _ratings(place)
    if file.suffix == ".npz" and "X" in arrays(file):
        return _labelled(place, None)
    if file.suffix in (".csv", ".parquet"):
        columns = table_of(file).columns
        if is_log(columns):
            return _log(place)
        if set(LABELS) & set(columns):
            return _labelled(place, None)
    raise InputError(
        f"Expected {place} to be ratings, a log (--action, --reward) or a labelled table (--label); it looks like none."
    )


def _looks_like_log(path: Path) -> bool:
    return is_log(table_of(File(path)).columns)


def _ratings(path: Path) -> Facts:
    found = ratings(path)
    values = found.table["rating"].to_numpy()
    return {
        "kind": "ratings",
        "path": str(found.file),
        "set": found.known_as or f"{found.kind}, not one of the published sets",
        **found.counts._asdict(),
        "lowest": float(values.min()),
        "highest": float(values.max()),
        "mean": round(float(values.mean(dtype=np.float64)), 6),
        "duplicates": 0,
    }


def _log(path: Path, **columns: Any) -> Facts:
    found = log(path, **columns)
    return {
        "kind": "log",
        "path": str(found.file),
        "rows": len(found),
        "actions": len(found.actions),
        "reward_mean": float(found.reward.mean()),
        "least_propensity": None if found.propensity is None else float(found.propensity.min()),
        "context": found.context.shape[1],
        "candidates": list(found.candidates.shape[1:]),
        "positions": int(found.position.max()) + 1,
        "people": found.people,
    }


def _labelled(path: Path, label: str | None) -> Facts:
    found = labelled(path, label=label)
    counts = np.bincount(found.label)
    return {
        "kind": "labelled table",
        "path": str(found.file),
        "rows": len(found.label),
        "columns": found.rows.shape[1],
        "classes": {name: int(count) for name, count in zip(found.classes, counts, strict=True)},
    }
