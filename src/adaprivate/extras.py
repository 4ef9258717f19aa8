"""Packages that an installation may leave out, and what brings each: ``pip install 'adaprivate[data]'``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adaprivate.errors import InputError

EXTRA = {
    "polars": "data",
    "matplotlib": "plot",
    "httpx": "client",
    "psycopg": "postgresql",
    **dict.fromkeys(("dask", "distributed"), "cluster"),
    **dict.fromkeys(
        ("alembic", "cryptography", "fastapi", "httptools", "orjson", "sqlalchemy", "uvicorn", "uvloop"),
        "service",
    ),
}

PAPERS = "adaprivate_papers"
"""The experiments that reproduce papers: a distribution of their own, in the folder papers of a clone."""


class NotInstalledError(InputError, ImportError):
    """Something was asked for that needs an extra; the message says which."""


CLONE = Path(__file__).parents[2]
"""Where a clone of the repository that runs in place has its constraints."""


def _installs(package: str) -> str:
    """The command that brings a package: to a clone from itself, with the versions that it is pinned to."""
    if (CLONE / "constraints.txt").exists():
        what = "papers" if package == PAPERS else f"'.[{EXTRA[package]}]'"
        return f"{sys.executable} -m pip install -c constraints.txt -e {what} in {CLONE}"
    return "pip install adaprivate-papers" if package == PAPERS else f"pip install 'adaprivate[{EXTRA[package]}]'"


@contextmanager
def needed() -> Iterator[None]:
    """What is not installed inside, said with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in (*EXTRA, PAPERS):
            raise
        raise NotInstalledError(f"Expected {package} to be installed: {_installs(package)}.") from None


def expect(*packages: str) -> None:
    """That these are installed, said before the work of which they write the results."""
    with needed():
        for package in packages:
            importlib.import_module(package)
