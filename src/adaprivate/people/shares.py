"""What people may add over all their visits: public numbers by which :mod:`adaprivate.people.ledger` charges them."""

from __future__ import annotations

import numpy as np

from adaprivate.check import Floats, Integers

MOST_VISITS = 100
"""Of one person, so many are counted at most."""
VECTOR_BITS = 10
GRAM_BITS = 30
WHOLE = 2 ** (GRAM_BITS + 2 * VECTOR_BITS)
"""1 in units of L."""
WAYS = ("directions", "scalar", "equal")
"""How visits are weighted: along what is new in them, along themselves, or all alike as group privacy would."""


def gram(encoder: Floats) -> Integers:
    """|C'C| of an encoder in units of 2^-GRAM_BITS, rounded up."""
    if not encoder.size:
        return np.zeros(encoder.shape, dtype=np.int64)
    products = np.abs(encoder.T @ encoder)
    rounded = np.asarray(np.floor(products * 2.0**GRAM_BITS * (1 + 1e-9)), dtype=np.int64) + 1
    return np.where(products == 0, 0, rounded)  # of mechanisms with noise of their own


def shares(way: str, visits: int) -> Integers:
    """What L may be after each counted visit, in units of 2^-50: harmonic, so that early visits count most."""
    parts = 1 / np.arange(1.0, visits + 1) if way != "equal" else np.arange(1.0, 2 * visits, 2)
    total = np.cumsum(parts) / parts.sum()
    return np.asarray(np.floor(total * (1 - 1e-9) * WHOLE), dtype=np.int64)
