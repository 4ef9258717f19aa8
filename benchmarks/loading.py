"""How fast ratings load, beside reading the same bytes: ``python benchmarks/loading.py [RATINGS]``.

Prints seconds and memory of a made ratings.csv, loaded and checked from text and then from the cache.
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl


def main(count: int) -> None:
    rng = np.random.default_rng(0)
    users, items = max(2, count // 150), 59_047
    pairs = np.unique(rng.integers(0, users * items, int(count * 1.02)))[:count]
    columns = {"userId": pairs // items + 1, "movieId": pairs % items + 1, "rating": rng.integers(1, 11, len(pairs)) / 2}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratings.csv"
        pl.DataFrame({**columns, "timestamp": rng.integers(789652009, 1574327703, len(pairs))}).write_csv(file)
        del columns, pairs
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        os.environ["ADAPRIVATE_CACHE"] = folder
        from adaprivate import data

        started = time.perf_counter()
        size = len(file.read_bytes())
        bytes_only = time.perf_counter() - started
        for what in ("text", "cache"):
            started = time.perf_counter()
            found = data.ratings(file)
            seconds = time.perf_counter() - started
            ratio = f"{seconds / bytes_only:.0f} x reading {size >> 20} MB"
            print(f"{what}: {found.counts.ratings:,} ratings in {seconds:.1f} s, {ratio}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"memory: at most {peak:,.0f} MB ({before:,.0f} MB of it from making the file)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
