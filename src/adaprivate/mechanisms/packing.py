"""Plain values and arrays as bytes and back: what books, learners and policies are stored as.

Nothing but data is ever read back: no code, no types, no pickles. Floats return bit for bit; whole numbers of any size too.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.check import Array

_MARK = "array"
WIDEST = 80
"""Characters that a number takes at most: a sum of 2^60 events in the finest units that any strategy keeps has 60."""


def to_bytes(value: Any) -> bytes:
    """Nested dicts, lists and tuples of plain values and arrays, as bytes."""
    return compressed(json.dumps(_plain(value), allow_nan=True).encode())


def compressed(document: bytes) -> bytes:
    """The bytes of a document that :func:`document_of` took out of them."""
    return zlib.compress(document, 1)


def document_of(data: bytes) -> bytes:
    """The document in what :func:`to_bytes` wrote, not compressed: its length still depends on the numbers in it."""
    return zlib.decompress(data)


def longest(document: bytes) -> int:
    """Length that a document of this shape has at most: the same whatever numbers, compressed or not, it holds."""
    return len(json.dumps(_widest(json.loads(document))))


def _widest(value: Any) -> Any:
    """The same structure with every number and text at its widest; arrays of a fixed width stay as they are."""
    if isinstance(value, dict) and value.get(_MARK) not in (None, "whole", "dict"):
        return value
    if isinstance(value, dict):
        return {key: _widest(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_widest(entry) for entry in value]
    return "0" * max(len(value) if isinstance(value, str) else 0, WIDEST)


def from_bytes(data: bytes) -> Any:
    """What :func:`to_bytes` took; tuples return as lists."""
    try:
        return _arrays(json.loads(zlib.decompress(data)))
    except check.InputError:
        raise
    except Exception as error:  # whatever damaged bytes provoke in zlib, JSON or NumPy
        raise check.InputError(f"Expected data to be what to_bytes wrote ({type(error).__name__}).") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {_MARK: "whole", "shape": value.shape, "data": [int(entry) for entry in value.ravel()]}
        kind = [[name, value.dtype[name].str] for name in value.dtype.names] if value.dtype.names else value.dtype.str
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {_MARK: kind, "shape": value.shape, "data": data}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        plain = {key: _plain(entry) for key, entry in value.items()}
        return {_MARK: "dict", "data": [[key, entry] for key, entry in plain.items()]} if _MARK in plain else plain
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [_arrays(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if _MARK not in value:
        return {key: _arrays(entry) for key, entry in value.items()}
    if value[_MARK] == "dict":  # one that has the mark among its own keys
        return {key: _arrays(entry) for key, entry in value["data"]}
    kind, shape = value[_MARK], tuple(value["shape"])
    if kind == "whole":
        return np.array([int(entry) for entry in value["data"]] or [0], dtype=object)[: len(value["data"])].reshape(shape)
    dtype = np.dtype([(name, code) for name, code in kind], align=True) if isinstance(kind, list) else np.dtype(kind)
    check.expect(not dtype.hasobject, "dtype", str(dtype), "to hold plain numbers")
    stored = np.frombuffer(base64.b64decode(value["data"]), dtype).reshape(shape)
    if not isinstance(kind, list):
        return stored.copy()
    words = [(name, np.int64 if code == "|b1" else code) for name, code in kind]  # records once held bools of one byte
    return stored.astype(np.dtype(words, align=True))


def fitted(template: Any, value: Any, *, grows: bool = False) -> Any:
    """The stored value in the form of the template, nested tuples of arrays; what could not have come from it is refused.

    Of an array the template fixes the dtype and the shape: compiled code trusts both. ``grows``: all but the first length.
    """
    if isinstance(template, tuple):
        check.expect(isinstance(value, list) and len(value) == len(template), "stored part", type(value).__name__, "to fit")
        items = [fitted(one, other, grows=grows) for one, other in zip(template, value, strict=True)]
        return type(template)(*items) if hasattr(template, "_fields") else tuple(items)
    if not isinstance(template, np.ndarray):
        return type(template)(value)
    stored: Array = value if isinstance(value, np.ndarray) else np.zeros(0)
    same = stored.shape == template.shape or (grows and stored.ndim > 0 and stored.shape[1:] == template.shape[1:])
    check.expect(
        same and stored.dtype == template.dtype,
        "stored array",
        f"{stored.dtype}{stored.shape}",
        f"to fit {template.dtype}{template.shape}",
    )
    return stored
