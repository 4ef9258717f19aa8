"""A file of finished work: what was interrupted continues from it, and only what is missing is done.

One line for each finished task, with a checksum, added as soon as the task is done. A line that an interruption cut short
is taken off and done again. What is looked up is found only under all that determines it (:mod:`adaprivate.cluster.alike`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.mechanisms import packing

try:
    import fcntl
except ImportError:  # where there is no such lock
    fcntl = None  # type: ignore[assignment]

HEADER = b'{"adaprivate results": 1}\n'


class Results:
    """Finished parts by key, in a file that one process at a time writes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        regular = self.path.is_file() or not self.path.exists()  # a device is read without end, a pipe waited for
        check.expect(regular, "results", str(self.path), "to be a regular file, or a new one")
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._parts: dict[tuple[str, Hashable], Any] = {}
        try:
            self._lock()
            self._read()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # given back when the process ends, however it does
        except OSError:
            check.expect(False, "results", str(self.path), "to be written by one process: another one is writing to it")

    def _read(self) -> None:
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        if HEADER.startswith(content):  # nothing, or what is left of a header
            os.ftruncate(self._file, 0)
            self._add(HEADER)
            return
        check.expect(content.startswith(HEADER), "results", str(self.path), "to be a new file, or one of results")
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # the line that an interruption cut short
            os.ftruncate(self._file, whole)
        for line in content[len(HEADER) : whole].splitlines():
            record = _checked(line)
            if record is not None:
                self._enter(*record)

    def _enter(self, key: str, parts: list[list[Any]]) -> None:
        for part, value in parts:
            self._parts[key, part] = value

    def _add(self, line: bytes) -> None:
        size, written = os.fstat(self._file).st_size, 0
        try:
            while written < len(line):  # a disk that is nearly full takes a part, and refuses the rest
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def get(self, key: str, part: Hashable = None) -> Any:
        """What was finished under this key; None if nothing was."""
        return self._parts.get((key, part))

    def put(self, key: str, parts: Mapping[Any, Any]) -> None:
        """Keep a finished task's parts: numbers, texts, arrays, and lists and dicts of them; others are not kept."""
        rows = [[part, value] for part, value in parts.items()]
        if not _plain(rows):
            return
        data = base64.b64encode(packing.to_bytes(rows)).decode()
        self._add(json.dumps({"key": key, "data": data, "sum": _sum(key, data)}).encode() + b"\n")
        self._enter(key, rows)

    def close(self) -> None:
        """Let others write."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _sum(key: str, data: str) -> str:
    return hashlib.sha256(f"{key} {data}".encode()).hexdigest()[:16]


def _checked(line: bytes) -> tuple[str, list[list[Any]]] | None:
    """A record; None where the line is damaged, so that its task is done again."""
    try:
        record = json.loads(line)
        key, data = record["key"], record["data"]
        return (key, packing.from_bytes(base64.b64decode(data))) if record["sum"] == _sum(key, data) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _plain(value: Any) -> bool:
    """Whether this returns from a file as it was."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(entry) for key, entry in value.items())
    if type(value) is list:
        return all(_plain(entry) for entry in value)
    return value is None or type(value) in (bool, int, float, str) or isinstance(value, np.ndarray)
