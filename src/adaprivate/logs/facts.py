"""What is at a path: recognised, read and checked, with the facts that tell whether it is what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from adaprivate.check import InputError
from adaprivate.data.files import LINES, File, arrays, table_of
from adaprivate.data.label_tables import LABELS, labelled
from adaprivate.data.rating_sets import find, is_ratings, ratings
from adaprivate.logs.columns import Columns, columns_of, expect_kinds, is_log, listed
from adaprivate.logs.draft import draft, why_hashed
from adaprivate.logs.findings import FALSE_ALARM
from adaprivate.logs.inspection import Inspection, inspect
from adaprivate.logs.tables import TABLES, Source, source_of

Facts = dict[str, Any]


def check_path(
    path: str | Path,
    *,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    user: str | None = None,
    time: str | None = None,
    id: str | None = None,
    context: Sequence[str] = (),
    candidates: str | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    label: str | None = None,
) -> Facts:
    """Facts about the data at this path. Of a log, ``faults`` lists all that is wrong, ``remarks`` what is worth knowing.

    Of rewards it says how many are wrong and where. What is no log raises one line naming file, line and column where
    something is wrong.
    """
    place = Path(path)
    if label is not None:
        return _labelled(place, label)
    named = {"action": action, "reward": reward, "propensity": propensity, "user": user, "time": time, "id": id}
    asked: Facts = {**named, "context": context, "candidates": candidates, "reward_range": reward_range}
    if any(value is not None for value in named.values()) or place.suffix in (".dsjson", ".json", *LINES):
        return check_log(place, **asked)
    if place.is_dir() and not (place / "data.npz").exists():
        logs = sorted(file for file in place.iterdir() if file.suffix in TABLES and _looks_like_log(file))
        if logs:
            return {"kind": "folder of logs", "path": str(place), "logs": [check_log(file) for file in logs]}
        return _ratings(place)
    file = File(place / "data.npz") if place.is_dir() else find(place)
    if is_ratings(file):
        return _ratings(place)
    if file.suffix == ".npz" and "X" in arrays(file):
        return _labelled(place, None)
    if file.suffix in (".csv", ".parquet"):
        columns = source_of(place).columns if file.path == place else table_of(file).columns
        if is_log(columns):
            return check_log(place, **asked)
        if set(LABELS) & set(columns):
            return _labelled(place, None)
        raise InputError(
            f"Expected {place} to be ratings, a log (--action, --reward) or a labelled table (--label); by its columns "
            f"({listed(columns)}) it looks like none."
        )
    raise InputError(
        f"Expected {place} to be ratings, a log (--action, --reward) or a labelled table (--label); it looks like none."
    )


def _looks_like_log(path: Path) -> bool:
    return is_log(source_of(path).columns)


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


def check_log(
    log: Any,
    *,
    reward_range: tuple[float, float] = (0.0, 1.0),
    **columns: Any,
) -> Facts:
    """Facts about a log, and all its faults; ``columns`` are named as in :func:`adaprivate.logs.columns.columns_of`."""
    source = source_of(log)
    named = columns_of(source, **columns)
    expect_kinds(source, named)
    found = inspect(source, named, reward_range=reward_range, thorough=True)
    remarks = [finding._asdict() for finding in found.findings if not finding.serious]
    if named.propensity is None:
        words = "no column of propensities: replay assumes uniform choice, and ips, snips and dr cannot be had"
        remarks.append({"column": None, "wrong": words, "rows": found.rows, "places": ()})
    remarks += _hashed(source, named, found)
    for remark in remarks:
        remark.pop("serious", None)
    faults = [finding._asdict() for finding in found.faults]
    for fault in faults:
        fault.pop("serious")
    return {
        "kind": "log",
        "path": str(source.file),
        "rows": found.rows,
        "actions": len(found.shares),
        "least_propensity": found.least_propensity,
        "candidates": _candidates(found, named),
        "context": list(named.context),
        "people": found.people,
        "columns": named.single,
        "places_are": f"{source.of}s",
        "false_alarm": FALSE_ALARM,
        "faults": faults,
        "remarks": remarks,
    }


def _hashed(source: Source, columns: Columns, found: Inspection) -> list[Facts]:
    """The contexts that a draft would hash, and why."""
    if not columns.context or columns.candidates or not found.rows:
        return []
    count = max(2, len(found.names if columns.offered else found.shares))
    fields: Any = []
    with suppress(InputError):  # of columns that cannot be used, which are faults
        fields = draft(source, columns.context, None, columns.item_columns, count)["context"]
    hashed = [field["name"] for field in fields if field["kind"] == "hashed"]
    return [
        dict(zip(("column", "wrong", "rows", "places"), (name, *why_hashed(source, name)), strict=True)) for name in hashed
    ]


def _candidates(found: Inspection, columns: Columns) -> str:
    if found.most_candidates is None:
        return f"the {len(found.shares)} actions, in every row"
    most = found.most_candidates
    if columns.candidates:
        return f"up to {most} in a row, {len(columns.candidates[0])} features each"
    return f"up to {most} in a row, listed in {columns.offered or columns.item_columns[0]}"


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
