"""Finished rows of a long experiment, kept until all of them are there: an interrupted run continues where it was."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from adaprivate.cluster import Results, alike

Run = Callable[[Mapping[str, Any], int], dict[str, Any]]


class Checkpoint(contextlib.AbstractContextManager["Checkpoint"]):
    """Rows of plain values by their setting and number of seeds, in NAME.kept.jsonl; one process at a time has it.

    A row belongs to the code that made it: that of adaprivate, and that of the package in which ``run`` is written.
    """

    def __init__(self, folder: Path, name: str, run: Run) -> None:
        function: Any = getattr(run, "__func__", run)
        self._code = alike.sources([function])
        self._results = Results(folder / f"{name}.kept.jsonl")

    @property
    def path(self) -> Path:
        """The file."""
        return self._results.path

    def __exit__(self, *error: object) -> None:
        self._results.close()

    def _key(self, setting: Mapping[str, Any], seeds: int) -> str:
        return alike.digest("row", alike.fingerprint(), self._code, json.dumps(dict(setting), sort_keys=True), seeds)

    def get(self, setting: Mapping[str, Any], seeds: int) -> dict[str, Any] | None:
        """The row of this setting, if it was finished by the same code."""
        row: dict[str, Any] | None = self._results.get(self._key(setting, seeds))
        return row

    def put(self, setting: Mapping[str, Any], seeds: int, row: Mapping[str, Any]) -> None:
        """Keep a finished row."""
        self._results.put(self._key(setting, seeds), {None: json.loads(json.dumps(dict(row)))})

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
