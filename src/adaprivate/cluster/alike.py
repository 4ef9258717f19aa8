"""What numbers depend on beside a task: versions, source, other packages' source, and the machine's own arithmetic.

Compiled sums may be reordered, and linear algebra picks its code by the processor: machines of unlike processors can
differ in last bits. A few sums, decompositions and functions are worked out on each; their bits tell machines apart.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import importlib.metadata
import math
import pickle
import platform
import sys
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite
import numba
import numpy as np
import scipy

from adaprivate import blas, code_cache
from adaprivate.check import Floats
from adaprivate.compiled import entry

ARITHMETIC = "arithmetic"
_PACKAGE = Path(__file__).parents[1]


@lru_cache(maxsize=1)
def source() -> str:
    """A digest of every line of the package."""
    found = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        found.update(str(file.relative_to(_PACKAGE)).encode() + file.read_bytes())
    return found.hexdigest()[:16]


@lru_cache(maxsize=1)
def fingerprint() -> dict[str, str]:
    """What this process computes with, by name."""
    try:
        version = importlib.metadata.version("adaprivate")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return {
        "adaprivate": version,
        "source of adaprivate": source(),
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "dp-accounting": importlib.metadata.version("dp-accounting"),
        ARITHMETIC: arithmetic(),
    }


def different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """In what two fingerprints differ, in words."""
    return [
        f"{name} is {theirs.get(name)} there, {value} here" for name, value in ours.items() if theirs.get(name) != value
    ]


@entry
def _sums(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Sums that the compiler may reorder, as in every round, and functions of the mathematics library."""
    product, functions, roots = 0.0, 0.0, 0.0
    for i in range(x.shape[0]):
        product += x[i] * y[i]
        functions += math.exp(-x[i]) * math.log(1.5 + y[i])
        roots += math.sqrt(x[i] * x[i] + y[i] * y[i])
    return product, functions, roots


def arithmetic() -> str:
    """A digest of numbers worked out here: the same on machines that compute alike."""
    found = hashlib.sha256()
    with blas.one_thread():
        for size in (5, 20, 50, 107, 1000):
            x = (np.arange(size) * 7919 % 1009) / 1009
            y = (np.arange(size) * 6007 % 997) / 997
            found.update(np.array(_sums(x, y)).tobytes())
            for values in (np.exp(-x), np.log1p(y), np.sin(x), np.tanh(y), x @ y):
                found.update(np.asarray(values).tobytes())
        for size in (20, 64):
            A = ((np.arange(size * size) * 7919 % 1009) / 1009).reshape(size, size)
            G = A @ A.T + np.eye(size)
            for part in (G, np.linalg.cholesky(G), *np.linalg.eigh(G), np.linalg.inv(G), *scipy.linalg.eigh(G)):
                found.update(np.ascontiguousarray(part).tobytes())
            found.update(scipy.linalg.solve_triangular(np.linalg.cholesky(G), A, lower=True).tobytes())
    return found.hexdigest()[:16]


def packages(things: Collection[Any]) -> dict[str, str]:
    """The source of every package, other than adaprivate, that these settings, worlds and functions are written in."""
    return sources([thing if isinstance(thing, type | FunctionType) else type(thing) for thing in things])


def sources(written: Collection[type | FunctionType]) -> dict[str, str]:
    """The source of every package, other than adaprivate, in which these types, their bases and these functions are."""
    places = {part.__module__ for thing in written for part in (thing.__mro__ if isinstance(thing, type) else (thing,))}
    ours = {*sys.stdlib_module_names, "numpy", "numba", "adaprivate"} - {"__main__"}
    return {root: package(root) for root in sorted({place.partition(".")[0] for place in places} - ours)}


def package(root: str) -> str:
    """The text of every file of this package, as it was when this process first asked."""
    return code_cache._package(root)


def digest(*values: Any) -> str:
    """A name for these values: settings, worlds, arrays, plain ones. Equal values have equal names, in any process."""
    found = hashlib.sha256()
    for value in values:
        _describe(value, found)
    return found.hexdigest()[:32]


def _describe(value: Any, found: Any) -> None:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        found.update(f"({kind} {value.dtype!r} {value.shape} ".encode())
        found.update(np.ascontiguousarray(value).data if value.shape else value.tobytes())
    elif isinstance(value, enum.Enum):
        found.update(f"({kind} {value.name}".encode())
    elif value is None or isinstance(value, bool | int | float | str | bytes):
        found.update(f"({kind} {value!r}".encode())
    elif isinstance(value, type | FunctionType):
        found.update(f"({value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, Mapping):
        found.update(f"({kind} {len(value)}".encode())
        for key in sorted(value, key=repr):
            _describe(key, found)
            _describe(value[key], found)
    elif isinstance(value, tuple | list):
        found.update(f"({kind} {len(value)}".encode())
        for part in value:
            _describe(part, found)
    elif dataclasses.is_dataclass(value):
        found.update(f"({kind}".encode())
        for field in dataclasses.fields(value):
            _describe(field.name, found)
            _describe(getattr(value, field.name), found)
    else:
        found.update(f"({kind} ".encode() + pickle.dumps(value))
    found.update(b")")
