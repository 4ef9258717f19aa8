"""Arrays and plain values as bytes, and back: quick, for rows that are written all the time. Only data is read back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from adaprivate import check
from adaprivate.check import Array


def packed(arrays: dict[str, Array], **plain: Any) -> bytes:
    """These arrays and plain values as bytes."""
    header = {"arrays": [(name, a.dtype.str, a.shape) for name, a in arrays.items()], **plain}
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *(np.ascontiguousarray(a).tobytes() for a in arrays.values())])


def unpacked(data: bytes) -> tuple[dict[str, Array], dict[str, Any]]:
    """What :func:`packed` took: arrays (read-only) and plain values."""
    try:
        size = int.from_bytes(data[:4], "little")
        header = json.loads(data[4 : 4 + size])
        place, arrays = 4 + size, {}
        for name, code, shape in header.pop("arrays"):
            dtype = np.dtype(code)
            check.expect(not dtype.hasobject, "dtype", code, "to hold plain numbers")
            length = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, dtype, length, place).reshape(shape)
            place += length * dtype.itemsize
        check.expect(place == len(data), "data", f"{len(data)} bytes", f"to have {place}")
    except check.InputError:
        raise
    except Exception as error:  # whatever damaged bytes provoke
        raise check.InputError(f"Expected data to be what packed wrote ({type(error).__name__}).") from None
    return arrays, header
