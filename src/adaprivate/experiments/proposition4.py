"""Proposition 4: the covariance of the sampled parameter is v^2 A^-1 + sigma^2 A^-2.

True after one batch. Algorithm 1 adds the noise of every batch to b, so after k batches the privacy part is k sigma^2 A^-2,
which is not what Theorem 7 goes on with; correlated noise ("sqrt") at the same privacy grows far less. Every replica meets
the same features and rewards, so A is fixed and only privacy and exploration noise differ.

"Privacy part" is the coefficient of sigma^2 A^-2, estimated from the mean of (theta - mean)' A^2 (theta - mean); it agrees
within three standard errors. The p-values are of a likelihood-ratio test that the covariance is the stated one (chi-squared
with d (d + 1) / 2 degrees; a p-value below 0.001 is a rejection, false alarm 0.1 %).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

from adaprivate import mechanisms
from adaprivate.check import Floats
from adaprivate.compiled import Streams, entry, streams
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._synthetic import PAPER_SEEDS, cell
from adaprivate.policies.adaprivate.batched import AdaPrivateTSSettings
from adaprivate.policies.core.dispatch import select, update
from adaprivate.purposes import Purpose
from adaprivate.simulation import mean_sem

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Prop. 4 and Eq. 3.13"
QUESTION = "Is the covariance of Proposition 4 that of Algorithm 1?"
SEEDS = PAPER_SEEDS
REPLICAS = 500
"""Replicas for each seed asked for."""
DIMENSION, BATCH, V = 4, 40, 1.0
PART = "privacy part, in sigma^2 A^-2"
SETTINGS: list[Mapping[str, Any]] = [
    {"row": "1 batch", "batches": 1, "noise": "independent"},
    {"row": "4 batches", "batches": 4, "noise": "independent"},
    {"row": "16 batches", "batches": 16, "noise": "independent"},
    {"row": "16 batches, sqrt noise", "batches": 16, "noise": "sqrt"},
]
PAPER = {(setting["row"], PART): 1.0 for setting in SETTINGS if setting["noise"] == "independent"}


@entry
def learn_and_sample(state: Any, features: Floats, rewards: Floats, rng: Streams) -> None:
    """Feed a policy all rows and let it choose once more: its sampled parameter is then in its state."""
    for t in range(features.shape[0]):
        update(state, features[t], rewards[t], rng)
    select(state, features, rng)


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """The sampled parameters of all replicas, and the mean and matrices they should follow."""
    rounds = setting["batches"] * BATCH
    rng = np.random.default_rng(4)
    features = rng.standard_normal((rounds, DIMENSION)) * np.array([1.0, 0.7, 0.5, 0.3])
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    rewards = rng.random(rounds)
    policy = AdaPrivateTSSettings(dimension=DIMENSION, rounds=rounds, batch_size=BATCH, v=V, noise=setting["noise"])
    replicas = REPLICAS * seeds
    samples = np.empty((replicas, DIMENSION))
    for i, noise in enumerate(policy.noise_tables(range(replicas))):
        state = policy.start(noise)
        learn_and_sample(state, features, rewards, streams(i, Purpose.EXPLORATION, Purpose.CHOICE))
        samples[i] = state.learner.parameter
    design = policy.ridge * np.eye(DIMENSION) + features.T @ features
    strategy = mechanisms.strategy(setting["noise"], setting["batches"])
    factor = float((strategy.sensitivity() * strategy.prefix_std()[-1]) ** 2)
    return {
        **setting,
        "deviations": samples - np.linalg.solve(design, features.T @ rewards),
        "design": design,
        "sigma": policy.noise_multiplier,
        "factor": factor,
    }


def covariance(row: Row, factor: float) -> Floats:
    """v^2 A^-1 + factor sigma^2 A^-2."""
    inverse = np.linalg.inv(row["design"])
    return np.asarray(V**2 * inverse + factor * row["sigma"] ** 2 * inverse @ inverse)


def p_value(deviations: Floats, expected: Floats) -> float:
    """Likelihood-ratio test that these independent normal vectors of mean zero have the expected covariance."""
    n, d = deviations.shape
    root = np.linalg.cholesky(expected)
    white = np.linalg.solve(root, deviations.T)
    observed = white @ white.T / n
    statistic = n * (np.trace(observed) - np.linalg.slogdet(observed)[1] - d)
    return float(chi2.sf(statistic, d * (d + 1) / 2))


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The privacy part; then tests of the proposition's covariance and of the one that accumulates."""
    cells: list[Cell] = []
    for row in rows:
        moved = row["deviations"] @ row["design"]
        scale = DIMENSION * row["sigma"] ** 2
        part, sem = mean_sem(((moved**2).sum(axis=1) - V**2 * np.trace(row["design"])) / scale)
        printed = PAPER.get((row["row"], PART))
        cells.append(cell(row["row"], PART, None if printed is None else (printed, 0.0), part, sem))
        observed = row["deviations"].T @ row["deviations"] / len(row["deviations"])
        for name, factor in (("Prop. 4", 1.0), ("accumulated noise", row["factor"])):
            expected = covariance(row, factor)
            error = float(np.linalg.norm(observed - expected) / np.linalg.norm(expected))
            cells.append(cell(row["row"], f"relative error of {name}", None, error, None))
            cells.append(cell(row["row"], f"p-value of {name}", None, p_value(row["deviations"], expected), None))
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """The privacy part after each number of batches beside the claim."""
    cells = [found for found in compare(rows) if found.column == PART]
    at = range(len(rows))
    bars = [2 * (found.sem or 0.0) for found in cells]
    axes.errorbar(at, [found.ours for found in cells], yerr=bars, fmt="o", capsize=4, label="measured")
    axes.plot(at, [row["factor"] for row in rows], "_", ms=24, color="black", label="noise of the released sum")
    axes.axhline(1, ls=":", color="tab:red", label="Prop. 4 as Theorem 7 uses it")
    axes.set_xticks(at, [row["row"] for row in rows])
    axes.set(yscale="log", ylabel="privacy part of the covariance, in sigma^2 A^-2")
    axes.legend(fontsize=8)
