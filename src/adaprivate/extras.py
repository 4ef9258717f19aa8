"""Packages that an installation may leave out, and the extra that brings each: ``pip install 'adaprivate[data]'``."""

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


class NotInstalledError(InputError, ImportError):
    """Something was asked for that needs an extra; the message says which."""


CLONE = Path(__file__).parents[2]
"""Where a clone of the repository that runs in place has its constraints."""


def _installs(extra: str) -> str:
    """What brings an extra: to a clone what it is pinned to, from itself."""
    if (CLONE / "constraints.txt").exists():
        return f"{sys.executable} -m pip install -c constraints.txt -e '.[{extra}]' in {CLONE}"
    return f"pip install 'adaprivate[{extra}]'"


@contextmanager
def needed() -> Iterator[None]:
    """What is not installed inside, said with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise NotInstalledError(f"Expected {package} to be installed: {_installs(EXTRA[package])}.") from None


def expect(*packages: str) -> None:
    """That these are installed, said before the work of which they write the results."""
    with needed():
        for package in packages:
            importlib.import_module(package)
