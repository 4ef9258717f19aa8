"""Compiled code kept on disk: found again while all that it is made of is the same, compiled anew when any of it changes.

numba's own cache looks only at the file of the outermost function. Here a function compiled for given argument types is
kept under a key of everything that the compiler reads: the bytecode of every function that it reaches, those registered for
the state types among its arguments included, and the values of the globals they use. So an edit to one policy is seen by
what uses that policy, in whichever package it is, and by nothing else. The bytecode is that of the running process: a file
that is edited after its import cannot mislead anyone.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import hashlib
import os
import pickle
import pkgutil
import re
import shutil
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba.core import caching, compiler, registry, sigutils
from numba.core.base import OverloadSelector
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.serialize import dumps

dispatched: dict[Callable[..., Any], Mapping[Any, Callable[..., Any]]] = {}
"""For each function that compiled code calls without knowing which: the one for each state type."""

_shared: dict[str, Any] = {}
"""The functions that :func:`share` was called for, by name."""
_symbols: dict[str, tuple[str, Any]] = {}
"""The shared function, and its argument types, behind each name that compiled code calls."""
_PREFIX = "adaprivate:"
_MOST_FOLDERS = 2000
_LONGEST_UNUSED = 30 * 86400.0
_OWN_FOLDER = re.compile(r"[0-9a-f]{16}(\.old-[0-9a-f]{32})?")
_VERSIONED = {*sys.stdlib_module_names, "numpy", "numba", "llvmlite"}
"""Packages whose version stands for what is in them."""
_HERE = [
    hashlib.sha256(pkgutil.get_data(__package__, f"{name}.py") or b"").hexdigest()
    for name in ("code_cache", "compiled", "held")
]


class KeptOnDisk(caching._Cache):  # type: ignore[misc]
    """What numba asks for compiled code before it compiles this function, and gives what it compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._files: dict[Any, Path] = {}

    @property
    def cache_path(self) -> str:
        """The folder of all compiled code."""
        return str(folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for this signature; None if there is none, or none that is still right."""
        target_context.refresh()
        types = sigutils.normalize_signature(sig)[0]
        file = self.file(types)
        try:
            kept_for, calls, payload = pickle.loads(file.read_bytes())
            if kept_for != (types, target_context.codegen().magic_tuple()) or not all(_provide(*call) for call in calls):
                return None
            result = compiler.CompileResult._rebuild(target_context, *payload)
        except Exception:  # no file, or whatever a damaged one provokes: the code is compiled, and replaces it
            return None
        _mark_used(file.parent)
        return result

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it; where that fails, the next process compiles again."""
        if data.library.has_dynamic_globals:
            name = self._function.__qualname__
            warnings.warn(f"{name} reads a global array too large to be kept compiled", numba.NumbaWarning, stacklevel=2)
            return
        types = sigutils.normalize_signature(sig)[0]
        calls = [(f.name, *_symbols[f.name]) for f in data.library._final_module.functions if f.name in _symbols]
        content = dumps(((types, data.codegen.magic_tuple()), calls, data._reduce()))
        file = self.file(types)
        partial = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
        with contextlib.suppress(OSError):
            new = not file.parent.exists()
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_bytes(content)
                partial.replace(file)
            finally:
                partial.unlink(missing_ok=True)
            _mark_used(file.parent)
            if new:
                remove_unused(file.parent.parent)

    def file(self, types: Any) -> Path:
        """Where the code for arguments of these types is, once it is compiled."""
        if types not in self._files:
            machine = registry.cpu_target.target_context.codegen().magic_tuple()
            name = hashlib.sha256(f"{types} {machine}".encode()).hexdigest()[:16]
            self._files[types] = folder() / key(self._function, types) / f"{self._function.__name__}-{name}.nbc"
        return self._files[types]

    def enable(self) -> None:
        """Nothing: it always is."""

    def disable(self) -> None:
        """Nothing: it always is enabled."""

    def flush(self) -> None:
        """Nothing: a key says what is in a file."""


def share(compiled: Any) -> None:
    """Have compiled code call this compiled function by a name, where numba would copy its code into every caller.

    Every copy is optimised again, in each of the functions around it. The name says what the code is made of; a caller that
    comes from the disk is given the same.
    """
    name = f"{compiled.py_func.__module__}.{compiled.py_func.__qualname__}"
    add = compiled.add_overload

    def add_overload(result: Any) -> None:
        add(result)
        file = compiled._cache.file(result.signature.args)
        symbol = f"{_PREFIX}{name}:{file.parent.name}:{file.stem}"
        address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        llvmlite.binding.add_symbol(symbol, address)
        named = copy.copy(result.fndesc)
        named.mangled_name = symbol
        result.target_context._defns[result.entry_point] = OverloadSelector()
        result.target_context.insert_user_function(result.entry_point, named, [])
        _symbols[symbol] = (name, result.signature.args)

    compiled.add_overload = add_overload
    _shared[name] = compiled


def _provide(symbol: str, name: str, types: Any) -> bool:
    """Whether compiled code that calls this name can: the shared function is fetched or compiled if need be."""
    if symbol not in _symbols and name in _shared:
        _shared[name].compile(types)
    return symbol in _symbols


@lru_cache(maxsize=1)
def folder() -> Path:
    """Where compiled code is kept; a new folder of this process where that cannot be made."""
    base = os.environ.get("ADAPRIVATE_CACHE") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    chosen = Path(base) / "adaprivate"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError:
        chosen = Path(tempfile.mkdtemp(prefix="adaprivate-"))  # nobody else's: cached code is code
    return chosen


def _mark_used(place: Path) -> None:
    marker = place / "used"
    with contextlib.suppress(OSError):
        if not marker.exists() or time.time() - marker.stat().st_mtime > 86400:
            marker.touch()


def remove_unused(
    base: Path, *, most: int = _MOST_FOLDERS, longest: float = _LONGEST_UNUSED, now: float | None = None
) -> None:
    """Delete folders of compiled code not used for ``longest`` seconds, and the longest unused beyond ``most``.

    Only what this module made. A folder is renamed before it is emptied, so no process finds half of it; one that is using
    it has its code in memory, and makes the folder anew for more.
    """
    used: list[tuple[float, Path]] = []
    with contextlib.suppress(OSError):
        for place in base.iterdir():
            if _OWN_FOLDER.fullmatch(place.name) and place.is_dir() and not place.is_symlink():
                with contextlib.suppress(OSError):
                    marker = place / "used"
                    at = 0.0 if ".old-" in place.name else (marker if marker.exists() else place).stat().st_mtime
                    used.append((at, place))
    used.sort(key=lambda entry: entry[0], reverse=True)
    current = time.time() if now is None else now
    for rank, (at, place) in enumerate(used):
        if rank >= most or current - at > longest:
            with contextlib.suppress(OSError):
                if ".old-" not in place.name:
                    place = place.rename(place.with_name(f"{place.name}.old-{uuid.uuid4().hex}"))
                shutil.rmtree(place, ignore_errors=True)


def key(function: Callable[..., Any], types: Iterable[Any]) -> str:
    """A name for everything that this function, compiled for these numba types, is made of."""
    return _Contents(function, types).digest()


class _Contents:
    """Everything a compiled function is made of, written down in a fixed order."""

    def __init__(self, function: Callable[..., Any], types: Iterable[Any]) -> None:
        config = numba.config
        self._lines = [
            f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version}",
            f"{config.OPT} {config.BOUNDSCHECK} {config.USING_SVML}",
            *_HERE,
        ]
        self._numbers: dict[int, int] = {}
        self._kinds: set[type] = set()
        self._stubs: dict[Callable[..., Any], str] = {}
        self._alive: list[object] = []
        self._in_python = False
        """Whether what is written runs while code is compiled, as an intrinsic does: numba looks for no overload of it."""
        for kind in types:
            self._add_type(kind)
        self._lines.append(self._text(function, function))
        self._add_registered()

    def digest(self) -> str:
        return hashlib.sha256("\n".join(self._lines).encode()).hexdigest()[:16]

    def _add_type(self, kind: Any) -> None:
        if hasattr(kind, "held"):  # :class:`adaprivate.held.HeldType`, which is among what is always written
            self._add_type(kind.held)
            return
        if _root(type(kind).__module__) not in _VERSIONED:
            self._lines.append(_package(type(kind).__module__))
        if hasattr(kind, "instance_class"):
            self._text(kind.instance_class, kind.instance_class)
        if isinstance(kind, numba.types.BaseTuple):
            for part in kind:
                self._add_type(part)

    def _add_registered(self) -> None:
        """The functions registered for the state types met so far; they may lead to more of both."""
        written: set[tuple[str, Any]] = set()
        before = -1
        while before != len(written):
            before = len(written)
            for stub, name in list(self._stubs.items()):
                for state, function in sorted(dispatched[stub].items(), key=lambda entry: str(entry[0])):
                    if (name, state) not in written and self._met(state):
                        written.add((name, state))
                        self._lines.append(f"{name} for {state} is {self._text(function, function)}")

    def _met(self, state: Any) -> bool:
        if isinstance(state, tuple):
            return all(self._met(part) for part in state)
        return not isinstance(state, type) or state is object or any(issubclass(kind, state) for kind in self._kinds)

    def _text(self, value: Any, reader: Any, names: Iterable[str] = ()) -> str:
        """What stands for this value in the text. ``reader`` is the function that uses it, with these ``names``."""
        if isinstance(value, enum.Enum):
            return f"{self._text(type(value), reader)} {value.name}"
        if value is None or value is ... or isinstance(value, bool | int | float | complex | str | bytes):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
            content = hashlib.sha256(value.tobytes()).hexdigest()
            return f"{type(value).__name__} {value.dtype!r} {value.shape} {content}"
        if isinstance(value, np.dtype):
            return repr(value)
        if isinstance(value, set | frozenset):
            return f"{type(value).__name__} {sorted(self._text(part, reader) for part in value)}"
        if isinstance(value, dict):
            return f"dict {sorted((self._text(k, reader), self._text(v, reader)) for k, v in value.items())}"
        if isinstance(value, tuple | list):
            return f"{self._text(type(value), reader)} {[self._text(part, reader) for part in value]}"
        if isinstance(value, ModuleType):
            return self._module(value, reader, names)
        own = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        name = f"{getattr(value, '__module__', None)}.{own or repr(value)}"
        if isinstance(value, np.ufunc) and getattr(np, value.__name__, None) is value:
            return name
        if _root(name) in _VERSIONED and (own or " at 0x" not in name) and not isinstance(value, Dispatcher):
            return name
        if id(value) in self._numbers:
            return f"#{self._numbers[id(value)]}"
        number = self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        self._lines.append(f"#{number} is {self._described(value, name, reader)}")
        return f"#{number}"

    def _described(self, value: Any, name: str, reader: Any) -> str:
        if isinstance(value, Dispatcher):
            return f"compiled {self._text(value.targetoptions, reader)} {self._text(value.py_func, None)}"
        if isinstance(value, _Intrinsic):
            before, self._in_python = self._in_python, True
            text = f"intrinsic {self._text(value._defn, None)}"
            self._in_python = before
            return text
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            self._kinds.add(value)
            return f"state {name} {value._fields}"
        if isinstance(value, type) and issubclass(value, enum.Enum):
            return f"enum {name} {[(member.name, self._text(member.value, reader)) for member in value]}"
        if isinstance(value, FunctionType) and value in dispatched:
            self._stubs[value] = name
            return f"dispatch {name}"
        if self._in_python and isinstance(value, type):
            methods = {part: own for part, own in vars(value).items() if isinstance(own, FunctionType)}
            return f"class {name} {[self._text(base, None) for base in value.__bases__]} {self._text(methods, None)}"
        if isinstance(value, FunctionType):
            known = (
                self._in_python or reader is None or reader is value
            )  # else numba looks for an overload, which may be anywhere
            return f"function {name} {self._function(value)} {'' if known else self._packages(value, reader)}"
        return f"unknown {type(value)} {self._packages(value, reader)}"

    def _function(self, function: FunctionType) -> str:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        closed = {name: cell.cell_contents for name, cell in cells}
        used = sorted(_names(function.__code__))
        parts = [self._code(function.__code__, function)]
        parts += [f"{name} = {self._text(value, function, used)}" for name, value in closed.items()]
        for name in used:
            if name in function.__globals__:
                parts.append(f"{name} = {self._text(function.__globals__[name], function, used)}")
        parts.append(self._text((function.__defaults__, function.__kwdefaults__), function))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _code(self, code: CodeType, reader: Any) -> str:
        constants = [
            self._code(part, reader) if isinstance(part, CodeType) else self._text(part, reader) for part in code.co_consts
        ]
        layout = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        named = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {layout} {named} {constants}"

    def _module(self, module: ModuleType, reader: Any, names: Iterable[str]) -> str:
        """A module, and whatever in it has one of these names."""
        if _root(module.__name__) in _VERSIONED:
            return module.__name__
        inside = [name for name in names if name in vars(module)]
        left = [name for name in names if name not in inside]  # or else a module that holds itself would never end
        return f"{module.__name__} {[(name, self._text(vars(module)[name], reader, left)) for name in inside]}"

    def _packages(self, value: Any, reader: Any) -> str:
        places = {getattr(part, "__module__", None) or type(part).__module__ for part in (value, type(value), reader)}
        return " ".join(_package(place) for place in sorted(places) if _root(place) not in _VERSIONED)


def _names(code: CodeType) -> set[str]:
    """The names of globals and attributes that code may read."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*(_names(part) for part in inner))


def _root(module: str) -> str:
    return module.partition(".")[0]


@lru_cache(maxsize=64)
def _package(module: str) -> str:
    """The text of every file in the package of this module: for what cannot be read more closely."""
    file = getattr(sys.modules.get(_root(module)), "__file__", None)
    if file is None:
        return f"{module} of process {os.getpid()} at {time.time_ns()}"  # nothing to tell an edit by: never found again
    place = Path(file)
    files = sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]
    content = hashlib.sha256(b"".join(part.read_bytes() for part in files if part.exists())).hexdigest()
    return f"{_root(module)} {content}"
