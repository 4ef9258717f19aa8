"""Packages that an installation may leave out, and the extra that brings each: ``pip install 'adaprivate[data]'``."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def needed() -> Iterator[None]:
    """What is not installed inside, said with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise NotInstalledError(
            f"Expected {package} to be installed: pip install 'adaprivate[{EXTRA[package]}]'."
        ) from None


def expect(*packages: str) -> None:
    """That these are installed, said before the work of which they write the results."""
    with needed():
        for package in packages:
            importlib.import_module(package)
