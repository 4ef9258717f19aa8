"""Programs that some tests need and a machine may lack: such a test is skipped, and says how to get its program.

Where a program's ``required`` variable is set, as .ci/run sets it, a test without the program is an error instead.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

import pytest


class Absent(pytest.skip.Exception):
    """A test is skipped because a program is not here; conftest.py tells of each program in one line."""


@dataclass(frozen=True)
class Program:
    """A program outside Python."""

    tests: str
    """Which tests need it."""
    name: str
    commands: tuple[str, ...]
    """What it may be called."""
    package: str
    """The package of Debian and Ubuntu."""
    required: str
    """The variable that forbids skipping."""
    place: str | None = None
    """The variable that may say where it is; a file that is not there counts as no program."""

    def find(self) -> str | None:
        """Where it is."""
        named = self.place and os.environ.get(self.place)
        return next(filter(None, map(shutil.which, [named] if named else self.commands)), None)

    def need(self) -> str:
        """Where it is; without it the test is skipped, or fails where it is required."""
        found = self.find()
        if found is not None:
            return found
        told = f"{self.tests} tests skipped: no {self.name}; apt-get install {self.package}"
        told += f" or set {self.place}" if self.place else ""
        if os.environ.get(self.required):
            pytest.fail(f"{told} (an error, because {self.required} is set)", pytrace=False)
        raise Absent(told)


BROWSER = Program(
    "browser",
    "Chromium",
    ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "chromium",
    "REQUIRE_BROWSER",
    "CHROMIUM",
)
GIT = Program("git", "git", ("git",), "git", "REQUIRE_GIT")
