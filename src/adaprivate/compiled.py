"""Compiled code: numba's settings, random streams, and dispatch on the type of a state."""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import numba
import numba.extending
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.np.arrayobj import populate_array

from adaprivate import check, code_cache

Streams = npt.NDArray[np.uint64]
Record = npt.NDArray[Any]
"""One record with named fields, as :func:`record` makes it."""
Function = TypeVar("Function", bound=Callable[..., Any])
# Sums may be reordered (for vector instructions); NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def kernel(function: Function) -> Function:
    """A small compiled function, inlined where it is used."""
    compiled: Function = numba.njit(nogil=True, forceinline=True, fastmath=_FAST, error_model="numpy")(function)
    return compiled


def entry(function: Function) -> Function:
    """A compiled function called from Python: kept on disk, so that a second run starts at once."""
    compiled = numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")(function)
    compiled._cache = code_cache.KeptOnDisk(function)
    kept: Function = compiled
    return kept


def routine(function: Function) -> Function:
    """A compiled function for the rare and long steps, like a factorisation at the end of a batch: not inlined.

    Give it arrays and numbers, not a state: it is then compiled once for all policies and worlds, and kept on disk. Its
    arithmetic is not reordered. Of ``np.linalg`` use what compiles in a moment (``eigh``, ``cholesky``, ``inv``).
    """
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    compiled._cache = code_cache.KeptOnDisk(function)
    code_cache.share(compiled)
    kept: Function = compiled
    return kept


def scan(function: Function) -> Function:
    """As :func:`routine`, but its sums may be reordered: for long loops over candidates."""
    compiled = numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")(function)
    compiled._cache = code_cache.KeptOnDisk(function)
    code_cache.share(compiled)
    kept: Function = compiled
    return kept


def bound(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """An :func:`entry` compiled, or fetched from the disk, for arguments of these types alone.

    It does not find out types at every call, which costs more than most calls: give it nothing of another type.
    """
    types = tuple(numba.typeof(argument) for argument in arguments)
    function.compile(types)  # type: ignore[attr-defined]
    found: Callable[..., Any] = function.overloads[types].entry_point  # type: ignore[attr-defined]
    return found


_named: dict[str, type] = {}


def _tell_apart(state: type) -> None:
    """Give a state type a name of its own: numba names compiled code by that, and takes equal names for equal code."""
    if _named.get(state.__name__) is state:
        return
    if state.__module__.partition(".")[0] != "adaprivate" or state.__name__ in _named:
        home = hashlib.sha256(f"{state.__module__}.{state.__qualname__}".encode()).hexdigest()[:8]
        name = f"{state.__qualname__.rpartition('.')[2]}_{home}"
        state.__name__ = name if name not in _named else f"{name}_{sum(known.startswith(name) for known in _named)}"
    _named[state.__name__] = state


class Dispatch:
    """A function that compiled code calls without knowing which: each state type brings its own.

    ``Dispatch(stub)`` is made once per function; ``@dispatch.of(State)`` registers the one for a state type. ``otherwise``:
    the one for types that bring none. ``by``: the argument whose type decides, where that is not the first.
    """

    def __init__(
        self, stub: Callable[..., Any], otherwise: Callable[..., Any] | None = None, *, by: str | None = None
    ) -> None:
        self.known: dict[type, Callable[..., Any]] = {}
        code_cache.dispatched[stub] = self.known
        names = stub.__code__.co_varnames[: stub.__code__.co_argcount]
        namespace: dict[str, Any] = {"known": self.known}
        if otherwise is not None:
            self.of(object)(otherwise)
        found = f"known.get(getattr({by or names[0]}, 'instance_class', None), known.get(object))"
        source = f"def choose({', '.join(names)}):\n    return {found}\n"
        exec(source, namespace)  # numba wants a typing function with the stub's own argument names
        options = {"nogil": True, "forceinline": True, "fastmath": _FAST, "error_model": "numpy"}
        numba.extending.overload(stub, jit_options=options)(namespace["choose"])

    def of(self, state: type) -> Callable[[Function], Function]:
        """Register the function for this state type."""

        if state is not object:
            _tell_apart(state)

        def register(function: Function) -> Function:
            code, names = function.__code__, function.__globals__  # numba refuses annotations here
            bare = FunctionType(code, names, function.__name__, None, function.__closure__)
            self.known[state] = bare
            return function

        return register


def record(**fields: float | int | bool) -> Record:
    """One record with these named numbers, as compiled code reads and changes them: ``s = state.scalars[0]; s.width``.

    A field has the type of what it is given: give ``float(alpha)`` where a setting may be a whole number. A bool becomes 0
    or 1. Every field thus fills a word, and no byte lies between fields: NumPy never writes such bytes, and they would show
    what the memory held before, perhaps a reward.
    """
    kinds = [(name, np.int64 if isinstance(v, int) else np.float64) for name, v in fields.items()]
    return np.array([tuple(fields.values())], dtype=np.dtype(kinds, align=True))


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def borrowed(context: Any, value: Any) -> Any:
    """The same array, or tuple of arrays, without an owner: compiled code then skips the counting of references.

    Counting them costs more than the arithmetic of a round. The caller must keep the original alive.
    """
    del context

    def strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, numba.types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()
        if isinstance(kind, numba.types.BaseTuple):
            parts = cgutils.unpack_tuple(builder, value)
            return context.make_tuple(
                builder, kind, [strip(context, builder, k, p) for k, p in zip(kind, parts, strict=True)]
            )
        return value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return strip(context, builder, signature.args[0], arguments[0])

    return value(value), generate


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def on_stack(context: Any, count: Any) -> Any:
    """An array of so many numbers, a constant, on the stack: room that costs nothing; it ends with the function."""
    del context
    if not isinstance(count, types.IntegerLiteral):
        return None
    length, kind = count.literal_value, types.Array(types.float64, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature, arguments
        number = context.get_value_type(types.float64)
        with builder.goto_entry_block():  # not by alloca_once, which fills it with zeros at every call
            data = builder.alloca(ir.ArrayType(number, length))
        data.align = 64
        array = context.make_array(kind)(context, builder)
        shape, stride = context.get_constant(types.intp, length), context.get_constant(types.intp, 8)
        place = builder.bitcast(data, number.as_pointer())
        populate_array(array, data=place, shape=(shape,), strides=(stride,), itemsize=stride, meminfo=None)
        return array._getvalue()

    return kind(count), generate


@kernel
def held(owner: Any) -> None:
    """Nothing; but what is made in compiled code and then borrowed lives until it was given to this."""


class _Announcer(event.Listener):  # type: ignore[misc]
    """Says once, after a second of compiling, that it takes a moment."""

    def __init__(self) -> None:
        self._depth = 0
        self._patience = 1.0
        self._started = 0.0
        self._timer: threading.Timer | None = None
        self._said = False

    def on_start(self, event: Any) -> None:
        ours = isinstance(getattr(event.data.get("dispatcher"), "_cache", None), code_cache.KeptOnDisk)
        if self._depth or ours:
            self._depth += 1
        if self._depth == 1 and not self._said:
            self._started = time.perf_counter()
            self._timer = threading.Timer(self._patience, self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._timer is not None:
            self.stop()
            self._patience = max(0.0, self._patience - (time.perf_counter() - self._started))

    def stop(self) -> None:
        """Say nothing from here on; a thread that speaks while Python ends would take it down."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join(1.0)

    def _say(self) -> None:
        self._said = True
        if os.environ.get("ADAPRIVATE_QUIET"):
            return
        try:
            sys.stderr.write("compiling (once; later runs start at once) ...\n")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # there is no stderr, or it is closed
            pass


_announcer = _Announcer()
event.register("numba:compile", _announcer)
atexit.register(_announcer.stop)

# Rows are passed as (words, row): slicing one off costs more than the random number itself.
# --- random streams: xoshiro256++ (Blackman & Vigna) and a 256-layer ziggurat (Marsaglia & Tsang) -----------------------

_WORDS = 16
"""Words per stream: four of state, padded so that two streams never share a cache line."""


def streams(seed: int, *purposes: int) -> Streams:
    """Independent random streams, one row for each purpose, the same for the same (seed, purpose)."""
    words = np.zeros((len(purposes), _WORDS), dtype=np.uint64)
    for row, purpose in enumerate(purposes):
        key = [check.whole("seed", seed, at_least=0), purpose]
        words[row, :4] = np.random.SeedSequence(key).generate_state(4, np.uint64)
    return words


def _ziggurat() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    edge, area, unit = 3.6541528853610088, 0.00492867323399, 2.0**52
    limits, widths, heights = np.zeros(256, np.uint64), np.zeros(256), np.zeros(256)
    base = area / math.exp(-edge * edge / 2)
    limits[0], widths[0], heights[0] = int(edge / base * unit), base / unit, 1.0
    widths[255], heights[255] = edge / unit, math.exp(-edge * edge / 2)
    x = edge
    for i in range(254, 0, -1):
        inner = math.sqrt(-2 * math.log(area / x + math.exp(-x * x / 2)))
        limits[i + 1], widths[i], heights[i] = int(inner / x * unit), inner / unit, math.exp(-inner * inner / 2)
        x = inner
    return limits, widths, heights


_LIMITS, _WIDTHS, _HEIGHTS = _ziggurat()
_EDGE = 3.6541528853610088
_U = np.uint64


@kernel
def _advanced(a: Any, b: Any, c: Any, d: Any) -> Any:
    """64 random bits, and the state of the stream after them."""
    total = a + d
    word = ((total << _U(23)) | (total >> _U(41))) + a
    shifted = b << _U(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = (d << _U(45)) | (d >> _U(19))
    return word, a, b, c, d


@kernel
def bits(words: Streams, row: int) -> np.uint64:
    """64 random bits."""
    word, a, b, c, d = _advanced(words[row, 0], words[row, 1], words[row, 2], words[row, 3])
    words[row, 0], words[row, 1], words[row, 2], words[row, 3] = a, b, c, d
    return np.uint64(word)


@kernel
def uniform(words: Streams, row: int) -> float:
    """A number in [0, 1)."""
    return (bits(words, row) >> _U(11)) * (1.0 / 9007199254740992.0)


@kernel
def below(words: Streams, row: int, count: int) -> int:
    """A whole number in 0 .. count - 1."""
    return int(uniform(words, row) * count)


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _rare(words: Streams, row: int, layer: int, x: float) -> tuple[bool, float]:
    if layer == 0:
        while True:
            far = -math.log1p(-uniform(words, row)) / _EDGE
            height = -math.log1p(-uniform(words, row))
            if 2 * height > far * far:
                return True, _EDGE + far if x > 0 else -_EDGE - far
    return (_HEIGHTS[layer - 1] - _HEIGHTS[layer]) * uniform(words, row) + _HEIGHTS[layer] < math.exp(-0.5 * x * x), x


@kernel
def _sign(word: np.uint64) -> float:
    """1 or -1 by a bit: without a branch, which would be guessed wrong half of the time."""
    return 1.0 - 2.0 * np.int64((word >> _U(8)) & _U(1))


@kernel
def normal(words: Streams, row: int) -> float:
    """A standard normal number."""
    while True:
        word = bits(words, row)
        layer = np.int64(word & _U(255))
        size = (word >> _U(9)) & _U(0x000FFFFFFFFFFFFF)
        x = size * _WIDTHS[layer] * _sign(word)
        if size < _LIMITS[layer]:
            return float(x)
        accepted, x = _rare(words, row, layer, x)
        if accepted:
            return float(x)


@kernel
def normals(words: Streams, row: int, out: npt.NDArray[np.float64]) -> None:
    """Fill an array with what :func:`normal` would give one by one; the stream stays in registers meanwhile."""
    numbers = out.reshape(out.size)
    a, b, c, d = words[row, 0], words[row, 1], words[row, 2], words[row, 3]
    for i in range(numbers.shape[0]):
        while True:
            word, a, b, c, d = _advanced(a, b, c, d)
            layer = np.int64(word & _U(255))
            size = (word >> _U(9)) & _U(0x000FFFFFFFFFFFFF)
            x = size * _WIDTHS[layer] * _sign(word)
            if size < _LIMITS[layer]:
                numbers[i] = x
                break
            words[row, 0], words[row, 1], words[row, 2], words[row, 3] = a, b, c, d
            accepted, x = _rare(words, row, layer, x)
            a, b, c, d = words[row, 0], words[row, 1], words[row, 2], words[row, 3]
            if accepted:
                numbers[i] = x
                break
    words[row, 0], words[row, 1], words[row, 2], words[row, 3] = a, b, c, d


@kernel
def draw_first(words: Streams, row: int, order: npt.NDArray[np.int64], count: int) -> None:
    """Shuffle so far that the first ``count`` entries are drawn evenly, as by :func:`below` one after another."""
    a, b, c, d = words[row, 0], words[row, 1], words[row, 2], words[row, 3]
    for place in range(count):
        word, a, b, c, d = _advanced(a, b, c, d)
        left = order.shape[0] - place
        here, swap = _U(place), _U(place + int((word >> _U(11)) * (1.0 / 9007199254740992.0) * left))
        order[here], order[swap] = order[swap], order[here]
    words[row, 0], words[row, 1], words[row, 2], words[row, 3] = a, b, c, d
