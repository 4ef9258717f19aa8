"""Labelled tables: an .npz with X and y, a CSV or parquet file with a column of labels, or one of scikit-learn's own."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Array, Floats, InputError
from adaprivate.data.files import PRIVATE, File, arrays, context_of, fault, look_like_names, table_of

LABELS = ("label", "class", "target", "y")
BUNDLED, BUNDLES = "sklearn:", ("breast_cancer", "digits", "iris", "wine")
"""Tables that scikit-learn brings along: "sklearn:digits"."""


@dataclass(frozen=True)
class Labelled:
    """Rows of numbers, and the class of each, counted from 0."""

    file: File
    rows: Floats
    label: Array
    classes: tuple[str, ...]


def find_table(path: Path) -> File:
    """The file at this path, or data.npz in this folder."""
    if path.is_dir():
        path = path / "data.npz"
    if not path.is_file():
        raise InputError(f"Expected {path} to be a file.")
    return File(path)


def labelled(path: str | Path, *, label: str | None = None) -> Labelled:
    """The table at this path; text columns become one column of 0 and 1 for each value."""
    rows: Array
    if str(path).startswith(BUNDLED):
        rows, labels = _bundled(str(path).removeprefix(BUNDLED))
        return _counted(File(Path(path)), rows, labels)
    file = find_table(Path(path))
    if file.suffix == ".npz":
        found = arrays(file)
        if not {"X", "y"} <= set(found) or found["X"].ndim != 2 or found["y"].shape != found["X"].shape[:1]:
            fault(file, None, None, {name: a.shape for name, a in found.items()}, "to hold X (n, d) and y (n,)")
        rows, labels = found["X"].astype(np.float64), found["y"]
        wrong = np.argwhere(~np.isfinite(rows))
        if len(wrong):
            row, column = (int(place) for place in wrong[0])
            fault(file, row + 1, str(column), float(rows[row, column]), "to be finite", of="row")
    else:
        table = table_of(file)
        name = label or next((word for word in LABELS if word in table.columns), None)
        if name is None or name not in table.columns:
            shown = table.columns[:8] if look_like_names(table.columns) else PRIVATE
            fault(file, 1, label, shown, "to name the column of labels")
        values = table[name]
        of = "row" if file.suffix == ".parquet" else "line"
        if values.null_count():
            row = int(values.is_null().arg_max() or 0) + (1 if of == "row" else 2)
            fault(file, row, name, None, "to be there", of=of)
        rows, _ = context_of(file, table, [column for column in table.columns if column != name], of)
        labels = values.cast(pl.String).to_numpy() if values.dtype in (pl.Categorical, pl.Enum) else values.to_numpy()
    return _counted(file, rows, labels)


def _bundled(name: str) -> tuple[Floats, Array]:
    check.one_of("table", name, BUNDLES)
    try:
        datasets = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise InputError(f"Expected data={BUNDLED + name!r} to be read where scikit-learn is installed.") from None
    rows, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(rows, dtype=np.float64), labels


def _counted(file: File, rows: Floats, labels: Array) -> Labelled:
    known, classes = np.unique(labels, return_inverse=True)
    if len(known) < 2 or rows.shape[1] == 0:
        fault(file, None, None, (len(known), rows.shape[1]), "classes and columns to be at least 2 and 1")
    return Labelled(file, rows, classes.astype(np.int64), tuple(str(value) for value in known))
