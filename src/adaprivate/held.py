"""States that compiled code finds by their address: handing it the arrays of a state one by one costs more than a round.

A :class:`Held` writes down where the arrays of a state are, once; compiled code is given the place of that and takes the
state from there (:func:`taken`), without owners, as :func:`~adaprivate.compiled.borrowed` gives it. Whoever holds it keeps
the state alive, and holds anew what is replaced: arrays change in place, a tuple of them never does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import NativeValue, intrinsic, register_model, unbox
from numba.np.arrayobj import populate_array


class HeldType(numba.types.Type):  # type: ignore[misc]
    """The address of a state of this type."""

    def __init__(self, held: Any) -> None:
        self.held = held
        super().__init__(name=f"held({held})")


@register_model(HeldType)
class _Model(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: HeldType) -> None:
        super().__init__(manager, kind, ir.IntType(64))


@unbox(HeldType)  # type: ignore[untyped-decorator]
def _unboxed(kind: HeldType, address: Any, c: Any) -> NativeValue:
    return NativeValue(c.pyapi.long_as_longlong(address))


@intrinsic  # type: ignore[untyped-decorator]
def taken(context: Any, handle: HeldType) -> Any:
    """The state that is held there."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        place = 0

        def word() -> Any:
            nonlocal place
            place += 1
            return builder.load(cgutils.gep_inbounds(builder, words, place - 1))

        def read(kind: Any) -> Any:
            if isinstance(kind, numba.types.BaseTuple):
                return context.make_tuple(builder, kind, [read(part) for part in kind])
            if not isinstance(kind, numba.types.Array):
                value = word()
                if isinstance(kind, numba.types.Float):
                    return builder.bitcast(value, ir.DoubleType())
                return builder.trunc(value, ir.IntType(1)) if isinstance(kind, numba.types.Boolean) else value
            array = context.make_array(kind)(context, builder)
            data = builder.inttoptr(word(), array.data.type)
            shape, strides = ([word() for _ in range(kind.ndim)] for _ in range(2))
            itemsize = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
            return array._getvalue()

        return read(signature.args[0].held)

    return handle.held(handle), generate


def _words(value: Any) -> list[int]:
    if isinstance(value, tuple):
        return [word for part in value for word in _words(part)]
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape, *value.strides]
    if isinstance(value, float):
        return [int(np.float64(value).view(np.int64))]
    if not isinstance(value, int):
        raise TypeError(f"a {type(value).__name__} is not held")
    return [int(value)]


class Held:
    """What compiled code finds by its address: nested tuples of arrays and numbers, kept alive."""

    __slots__ = ("_words", "address", "type", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.type = HeldType(numba.typeof(value))
        self._words = np.array(_words(value), dtype=np.int64)
        self.address: int = self._words.ctypes.data

    def __reduce__(self) -> tuple[type[Held], tuple[Any]]:
        return Held, (self.value,)  # a copy is somewhere else

    def bound(self, function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
        """An entry whose first parameter is held, compiled or fetched for this and for other arguments of these types.

        It is called with ``address`` in its place, for as long as this object lives, and with nothing of another type.
        """
        types = (self.type, *(numba.typeof(argument) for argument in arguments))
        function.compile(types)  # type: ignore[attr-defined]
        found: Callable[..., Any] = function.overloads[types].entry_point  # type: ignore[attr-defined]
        return found
