"""One thread for BLAS where more get in each other's way: beside our own threads, and on matrices of a few hundred rows.

OpenBLAS has its threads wait in a busy loop: a plan that takes 4 s of processor time on one thread took 46 s and more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import scipy.linalg  # noqa: F401  its library, and NumPy's, must be loaded to be found
from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]

_limited = threading.Lock()


@lru_cache(maxsize=1)
def _controller() -> Any:
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Have BLAS use one thread in this process meanwhile; does nothing if someone, in any thread, already has.

    So whoever limits it also gives the threads back: the number found by two that overlap could be the other's.
    """
    if _limited.acquire(blocking=False):
        try:
            with _controller().limit(limits=1, user_api="blas"):
                yield
        finally:
            _limited.release()
    else:
        yield
