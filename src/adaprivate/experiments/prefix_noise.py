"""Noise in a running sum of K batches at the same privacy, for every way to correlate it.

Theorem 7 of AdaPrivate-TS rests on the noise of one batch at every time (1 in units of sigma); its Algorithm 1 adds up
independent noises, whose standard deviation grows as the root of the number of batches. Correlated noise comes close to
what the theorem assumed: see the square-root, optimal and BLT rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import mechanisms
from adaprivate.experiments import Cell, Row, compared

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), proof of Theorem 7, Eq. 3.13-3.17"
QUESTION = "How much noise does a running sum need?"
BATCHES = (33, 200, 1000)
LARGEST = {"optimal": 200}
PAPER = {("independent", f"{batches} batches, largest"): 1.0 for batches in BATCHES}
SETTINGS: list[Mapping[str, Any]] = [
    {"noise": name, "batches": batches}
    for name in sorted({*mechanisms.strategies()} - {"informative"})  # that one is not for running sums
    for batches in BATCHES
    if batches <= LARGEST.get(name, batches)
]


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """Standard deviations of the running sums, in units of what one release of the same privacy needs."""
    strategy = mechanisms.strategy(setting["noise"], setting["batches"])
    std = strategy.sensitivity() * strategy.prefix_std()
    return {**setting, "std": std, "largest": float(std.max()), "rms": float(np.sqrt((std**2).mean()))}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The largest and the root-mean-square standard deviation of each."""
    cells = []
    for row in rows:
        for measure in ("largest", "rms"):
            column = f"{row['batches']} batches, {measure}"
            printed = PAPER.get((row["noise"], column))
            cells.append(
                compared(row["noise"], column, printed, row[measure], None, abs(row[measure] - (printed or 0.0)), 0.005)
            )
    return cells


def answer(rows: Sequence[Row]) -> str:
    """The largest noise in the longest sum that all ways were tried on: independent, and the least of all."""
    batches = max(
        b for b in BATCHES if len({r["noise"] for r in rows if r["batches"] == b}) == len({r["noise"] for r in rows})
    )
    largest = {row["noise"]: row["largest"] for row in rows if row["batches"] == batches}
    least = min(largest, key=lambda name: float(largest[name]))
    return (
        f"Over {batches} batches the running sum has up to {largest['independent']:.1f} times the noise of one release "
        f"if noises are independent, as in Algorithm 1, and {largest[least]:.2f} times if they are correlated ({least})."
    )


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Standard deviation against the number of batches so far, at 200 batches."""
    for row in rows:
        if row["batches"] == 200:
            axes.plot(np.arange(1, 201), row["std"], label=row["noise"], lw=1.5)
    axes.axhline(1, color="black", lw=0.8, ls=":", label="Theorem 7's assumption")
    axes.set(xlabel="batches so far (of 200)", ylabel="noise in the running sum / sigma of one release")
    axes.legend(fontsize=8, ncol=2)
