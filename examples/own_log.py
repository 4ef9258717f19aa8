"""What would a private policy have earned? A log of decisions made at random, and policies that are judged on it.

The log is made up here, so that the true values of its pages are known: 2, 3 and 6 in a hundred click in the morning, 6, 3
and 2 in the evening. Anyone's log will do that says what was shown, with which probability, and what came of it.
"""

import argparse

import numpy as np
import polars as pl

import adaprivate as ap

CLICKS = np.array([[0.02, 0.03, 0.06], [0.06, 0.03, 0.02]])  # morning, evening


def log_of(rows: int, seed: int) -> pl.DataFrame:
    """One decision a row: the time of day, the page that was shown, at random, and whether it was clicked."""
    rng = np.random.default_rng(seed)
    evening, shown = rng.integers(2, size=rows), rng.integers(3, size=rows)
    clicked = (rng.random(rows) < CLICKS[evening, shown]).astype(float)
    columns = {"action": shown, "reward": clicked, "propensity": np.full(rows, 1 / 3), "evening": 2.0 * evening - 1.0}
    return pl.DataFrame(columns)


def run(rows: int, epsilon: float, seed: int) -> pl.DataFrame:
    """What each policy is estimated to earn, and an interval; printed, with what it says."""
    log = log_of(rows, seed)
    table = pl.concat(
        ap.evaluate(log, name, "snips", epsilon=epsilon, context=["evening"], options=options, seed=seed).select(
            "policy", "value", "low", "high", "effective_sample_size"
        )
        for name, options in [
            ("random", {}),
            ("rr-linucb", {}),
            ("noise-aware", {"base_rate": 0.04, "missing": 0.0}),
            ("tuned-linucb", {}),
        ]
    )
    logged = float(log["reward"].mean())
    print(f"{rows:,} rows; as logged {logged:.4f}, the best page at each time {CLICKS.max(axis=1).mean():.4f}\n")
    for one in table.iter_rows(named=True):
        print(f"  {one['policy']:13}{one['value']:8.4f}   {one['low']:.4f} to {one['high']:.4f}")
    better = [one["policy"] for one in table.iter_rows(named=True) if one["low"] > logged]
    print(f"\nShown to earn more than what was done: {', '.join(better) if better else 'none'} (95 % intervals).")
    missed = [one["policy"] for one in table.iter_rows(named=True) if one["low"] <= logged]
    if missed:
        print(f"Not shown, which is not the same as no gain, with a log of this size: {', '.join(missed)}.")
    of = {one["policy"]: one for one in table.iter_rows(named=True)}
    gap = of["noise-aware"]["value"] - of["rr-linucb"]["value"]
    seen = abs(gap) > of["rr-linucb"]["high"] - of["rr-linucb"]["value"]
    print(f"noise-aware and the simplest private policy, rr-linucb, {'differ' if seen else 'cannot be told apart'} here.")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    run(**vars(parser.parse_args()))
