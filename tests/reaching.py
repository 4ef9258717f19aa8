"""What an object leads to: attributes, elements, and the arrays that arrays are views of."""

import gc
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType

import numpy as np

CODE = (type, ModuleType, FunctionType, CodeType, FrameType, TracebackType)
"""What everything leads to sooner or later; the frames of a traceback hold everything."""


def reached(*objects):
    """All objects that these lead to, but for code and what compiles it."""
    found, waiting = {}, list(objects)
    while waiting:
        one = waiting.pop()
        compiles = type(one).__module__.startswith(("numba", "llvmlite"))
        if id(one) in found or isinstance(one, CODE) or compiles:
            continue
        found[id(one)] = one
        waiting += gc.get_referents(one)
        if isinstance(one, np.ndarray):
            waiting.append(one.base)
    return list(found.values())
