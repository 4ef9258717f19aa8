"""Finished rows of a long experiment, kept until all of them are there: an interrupted run continues where it was."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[Mapping[str, Any], int], dict[str, Any]]
_PACKAGE = Path(__file__).parents[1]


def _source() -> str:
    """A digest of every line of the package: rows of other code are never used."""
    digest = hashlib.sha256(f"{sys.version} {np.__version__}".encode())
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Checkpoint:
    """Rows of plain values by their setting and number of seeds, one line each in NAME.kept.jsonl."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.kept.jsonl"
        self._source = _source()
        self._rows: dict[str, Any] = {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self._rows[entry["key"]] = entry["row"]
                except (ValueError, KeyError, TypeError):
                    continue  # the line that an interruption cut short

    def _key(self, setting: Mapping[str, Any], seeds: int) -> str:
        text = json.dumps([dict(setting), seeds, self._source], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, setting: Mapping[str, Any], seeds: int) -> dict[str, Any] | None:
        """The row of this setting, if it was finished by the same code."""
        row: dict[str, Any] | None = self._rows.get(self._key(setting, seeds))
        return row

    def put(self, setting: Mapping[str, Any], seeds: int, row: Mapping[str, Any]) -> None:
        """Keep a finished row."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        line = json.dumps({"key": self._key(setting, seeds), "row": dict(row)})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("" if whole else "\n") + line + "\n")

    def filled(self, run: Run) -> Run:
        """What ``run`` gives for a setting and seeds, run only where that is not finished, and kept."""

        def finished_or_run(setting: Mapping[str, Any], seeds: int) -> dict[str, Any]:
            row = self.get(setting, seeds)
            if row is None:
                row = run(setting, seeds)
                self.put(setting, seeds, row)
            return row

        return finished_or_run

    def clear(self) -> None:
        """Forget all: the experiment is complete."""
        self.path.unlink(missing_ok=True)
