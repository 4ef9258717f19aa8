"""Theorem 7: how the regret that privacy adds grows with T.

It is not logarithmic for Algorithm 1. Its noises add up, and on two arms of opposite features in one dimension, at a gap of
sigma / (B sqrt(K)), they cost 0.516 sigma sqrt(K) over K batches: a lower bound, exact, by summing the chance that noise
alone turns the better arm into the worse ("two arms"; at the worst gap a little more). On the synthetic world the regret
that noise adds, against the same policy without noise on the same seeds, grows as a power of T too: about the square root
from T = 20,000 on when rewards are centred, faster as published (without an intercept noise also feeds the linear regret of
the misfit). Correlated noise at the same privacy does reach the theorem's growth: with sqrt or BLT noise the exponent is
that of a logarithm, and at T = 160,000 about a sixth of the regret is added.

Exponents are least-squares slopes of the log of the mean, errors by the jackknife over seeds. The paper's value is the
slope of the theorem's own sum 1 + 1/2 + ... + 1/K over the same range; Algorithm 1 agrees within three standard errors (the
paper's error taken to be like ours).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from adaprivate import mechanisms
from adaprivate.check import Floats
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import runs
from adaprivate.experiments._synthetic import PAPER_SEEDS, cell, growth_exponent, with_our_spread
from adaprivate.simulation import mean_sem

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Theorem 7"
QUESTION = "Does the regret that privacy adds grow as slowly as Theorem 7 says?"
SEEDS = PAPER_SEEDS
NOISES = ("independent", "tree", "sqrt", "blt")
BATCHES = (64, 256, 1_024, 4_096, 16_384)
ROUNDS = tuple(2_500 * 2**i for i in range(7))
BATCH_SIZE = 300
TAIL = 3
"""Exponents leave out so many of the smallest T, and of the smallest K but one."""
_SILENT: dict[str, Any] = {"epsilon": 1e4, "calibration": "exact"}
_WORLDS = {"as published": 0.0, "centred": 0.5}
TWO_ARMS = "two arms, {} noise"
EXPONENT = "growth exponent"


def harmonic_exponent(sizes: Sequence[int]) -> float:
    """The slope that the theorem's sum 1 + ... + 1/K shows over these K."""
    sums = np.array([[(1 / np.arange(1, size + 1)).sum() for size in sizes]])
    return growth_exponent(sizes, sums)[0]


def two_arms_regret(gaps: Floats, std: Floats) -> Floats:
    """Regret, in sigma, on arms +x and -x at gaps of u sigma / B, when the k-th running sum carries noise std[k] sigma."""
    k = np.arange(1, len(std) + 1)
    return np.array([2 * u * ndtr(-u * k / std).sum() for u in gaps])


_TAILS = {"two arms": BATCHES[TAIL - 1 :], "world": [rounds // BATCH_SIZE for rounds in ROUNDS[TAIL:]]}
_PUBLISHED = "synthetic, as published, independent noise"
PAPER = {
    (TWO_ARMS.format("independent"), EXPONENT): harmonic_exponent(_TAILS["two arms"]),
    **{(f"synthetic, {world}, independent noise", EXPONENT): harmonic_exponent(_TAILS["world"]) for world in _WORLDS},
}
SETTINGS: list[Mapping[str, Any]] = [
    *(
        {"kind": "two arms", "row": TWO_ARMS.format(noise), "noise": noise, "batches": batches}
        for noise in NOISES
        for batches in BATCHES
    ),
    *(
        {"kind": "world", "row": f"synthetic, {world}, {noise} noise", "noise": noise, "world": world, "rounds": rounds}
        for world, noise in (("as published", "independent"), *(("centred", noise) for noise in NOISES))
        for rounds in ROUNDS
    ),
]


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """The regret that noise adds: exact for two arms, one value a seed on the synthetic world."""
    if setting["kind"] == "two arms":
        strategy = mechanisms.strategy(setting["noise"], setting["batches"])
        std = strategy.sensitivity() * strategy.prefix_std()
        worst = two_arms_regret(np.geomspace(1e-4, 10, 200), std).max()
        stated = two_arms_regret(np.array([1 / math.sqrt(setting["batches"])]), std)[0]
        return {**setting, "added": np.array([worst]), "stated": float(stated)}
    options: dict[str, Any] = {"rounds": setting["rounds"], "batch_size": BATCH_SIZE, "centre": _WORLDS[setting["world"]]}
    private = runs("adaprivate-ts", seeds, **options, epsilon=1.0, noise=setting["noise"])
    silent = runs("adaprivate-ts", seeds, **options, **_SILENT)
    return {**setting, "added": np.array([a.regret - b.regret for a, b in zip(private, silent, strict=True)])}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Exponents against the claim, then the regret at every size."""
    cells: list[Cell] = []
    for name in dict.fromkeys(row["row"] for row in rows):
        ours = [row for row in rows if row["row"] == name]
        kind = ours[0]["kind"]
        tail = ours[-len(_TAILS[kind]) :]
        slope, sem = growth_exponent(_sizes(tail), np.array([row["added"] for row in tail]).T)
        printed = PAPER.get((name, EXPONENT))
        pair = None if printed is None else with_our_spread(printed, sem, len(ours[0]["added"]))
        cells.append(replace(cell(name, EXPONENT, pair, slope, sem), computed=kind == "two arms"))
        for row in ours:
            if kind == "two arms":
                cells.append(cell(name, f"worst gap, K = {row['batches']}, in sigma", None, float(row["added"][0]), None))
                if row["noise"] == "independent":
                    scaled = row["stated"] / math.sqrt(row["batches"])
                    cells.append(cell(name, f"lower bound, K = {row['batches']}, in sigma sqrt K", None, scaled, None))
            else:
                cells.append(cell(name, f"added regret, T = {row['rounds']}", None, *mean_sem(row["added"])))
    return cells


def _sizes(rows: Sequence[Row]) -> list[int]:
    return [row["batches"] if row["kind"] == "two arms" else row["rounds"] // BATCH_SIZE for row in rows]


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Added regret against the number of batches, on log scales."""
    for name in dict.fromkeys(row["row"] for row in rows):
        ours = [row for row in rows if row["row"] == name]
        colour = "0.4" if name == _PUBLISHED else f"C{NOISES.index(ours[0]['noise'])}"
        style = "--" if ours[0]["kind"] == "two arms" else "-"
        added = [max(row["added"].mean(), 1.0) for row in ours]
        axes.plot(_sizes(ours), added, style, marker=".", color=colour, label=name)
    sizes = np.array(BATCHES)
    axes.plot(sizes, [(1 / np.arange(1, size + 1)).sum() for size in sizes], ":", color="black", label="1 + ... + 1/K")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="batches (T / 300 on the synthetic world)",
        ylabel="regret added by noise (two arms: in units of sigma)",
    )
    axes.legend(fontsize=7)
