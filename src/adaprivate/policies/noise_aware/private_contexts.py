"""The posterior where contexts are private: the design is released with noise too, and nothing else of it is known.

Rows e = (sqrt(1 - b^2) x, b) are summed up over batches, A_j = sum e e' and s_j = sum (r - 1/2) e, and released as rows of
C A and C s with noise (mechanisms/units/joint.py). With public weights w and a = C'w, as where contexts are public,

    w'y ~ N(H theta, M),   H = sum a_j A_j,   M = v sum a_j^2 A_j + |w|^2 sigma^2 I  (sigma larger for a centre off 1/2),

but H is known only as w'Y, with noise of 2 sigma |w| off its diagonal: its eigenvalues reach 4 sigma |w| sqrt(D) by noise
alone, and are raised to that. The error of H times theta adds 4 sigma^2 |w|^2 E|theta|^2 to M, and sum a_j^2 A_j is taken
to be H (sum a_j^2 n_j) / (sum a_j n_j). All of it is computed from releases: a learner's state holds nothing of a context,
scratch included, and a round that is counted moves its number alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adaprivate.check import Floats, Integers
from adaprivate.compiled import Record, Streams, kernel, record, routine
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.mechanisms.units.joint import GRID, JointUnit
from adaprivate.offered import Offered
from adaprivate.policies.core.books import release
from adaprivate.policies.core.dispatch import collects, counts, reads, selects
from adaprivate.policies.core.linear import dot, highest, sample_parameter
from adaprivate.policies.core.propensities import Propensities, gaussian_best, propensities_of
from adaprivate.policies.noise_aware.state import settled


class PrivateContextsState(NamedTuple):
    """Everything a learner knows of private rounds: public. D is the dimension, and one more with an intercept."""

    root: Floats
    """S, with S S' the covariance of theta."""
    coordinates: Floats
    """w, with S w its mean."""
    mean: Floats
    parameter: Floats
    """The last sampled theta."""
    rotated: Floats
    """What it was sampled with."""
    rows: Floats
    """The noisy rows as released (batches, size)."""
    ends: Integers
    """The round after which each batch is released."""
    decoder: Floats
    """Row k: the weights w of the rows in the statistic after batch k."""
    influence: Floats
    """Row k: a = C'w, the weight of each batch's sums in that statistic."""
    plan: Record
    """The noise of a row, b and sqrt(1 - b^2), the centre, the prior, and how choices explore."""
    scalars: Record
    """The variance of rewards and the mean square of theta, as far as known; rounds and batches."""


@routine
def noisy_design(width: int, row: Floats, corner: float, design: Floats) -> None:
    """The symmetric matrix whose upper triangle begins this row; its last entry is ``corner`` where that is public."""
    place = 0
    for i in range(width):
        for j in range(i, width):
            if corner > 0.0 and i == width - 1:
                design[i, j] = corner
            else:
                design[i, j] = row[place]
                design[j, i] = row[place]
                place += 1


@routine
def add_private_rows(
    k: int,
    rows: Floats,
    ends: Integers,
    decoder: Floats,
    influence: Floats,
    sigma: float,
    louder: float,
    constant: float,
    stretch: float,
    reward_variance: float,
    moment: float,
    information: Floats,
    weighted: Floats,
) -> None:
    """Add what the rows up to k tell about theta to ``information`` and ``weighted``."""
    size = weighted.shape[0]
    read = np.zeros(rows.shape[1])
    spread, total, squares, before = 0.0, 0.0, 0.0, 0
    for j in range(k + 1):
        w, a, n = decoder[k, j], influence[k, j], ends[j] - before
        before = ends[j]
        spread += w * w
        total += a * n
        squares += a * a * n
        for i in range(read.shape[0]):
            read[i] += w * rows[j, i]
    design = np.zeros((size, size))
    noisy_design(size, read, total * constant * constant, design)
    statistic = read[read.shape[0] - size :]
    values, basis = np.linalg.eigh(design)
    edge = 4.0 * sigma * math.sqrt(spread * size)
    noise = spread * sigma * sigma * (louder * louder + 4.0 * moment)
    for i in range(size):
        value = max(values[i], edge)
        along = 0.0
        for j in range(size):
            along += basis[j, i] * statistic[j]
        spent = reward_variance * (squares / total) * value + noise
        for j in range(size):
            one = basis[j, i] / (stretch if constant == 0.0 or j < size - 1 else constant)
            weighted[j] += one * along * value / spent
            for m in range(size):
                other = basis[m, i] / (stretch if constant == 0.0 or m < size - 1 else constant)
                information[j, m] += one * other * value * value / spent


@selects.of(PrivateContextsState, offers=True)
def _select(state: PrivateContextsState, candidates: Offered, rng: Streams) -> int:
    sample_parameter(state.root, state.coordinates, state.plan[0].v, state.rotated, state.parameter, rng)
    return highest(candidates, state.parameter)


@counts.of(PrivateContextsState)
def _counted(state: PrivateContextsState, features: Floats) -> None:
    state.scalars[0].round += 1


@reads.of(PrivateContextsState)
def _read(state: PrivateContextsState, released: Floats) -> None:
    s, p = state.scalars[0], state.plan[0]
    k, size = s.batch, state.mean.shape[0]
    if k >= state.rows.shape[0]:
        return
    for i in range(released.shape[0]):
        state.rows[k, i] = released[i]
    information, weighted = np.zeros((size, size)), np.zeros(size)
    add_private_rows(
        k,
        state.rows,
        state.ends,
        state.decoder,
        state.influence,
        p.sigma,
        p.louder,
        p.constant,
        p.stretch,
        s.variance,
        s.moment,
        information,
        weighted,
    )
    settled(state, information, weighted)
    s.moment = 0.0
    for i in range(size):
        scale = p.stretch if p.constant == 0.0 or i < size - 1 else p.constant
        s.moment += (state.mean[i] ** 2 + dot(state.root[i], state.root[i])) / (scale * scale)
    s.batch += 1


@propensities_of(PrivateContextsState)
def _propensities(state: PrivateContextsState, candidates: Floats, **how: Any) -> Propensities:
    """A function of the person's own candidates, as the action is: for their eyes alone."""
    rotated = candidates @ state.root[: candidates.shape[2]]
    return gaussian_best(rotated @ state.coordinates, state.plan[0]["v"] * rotated, **how)


class SimulatedRows(NamedTuple):
    """Sums of (e e', (r - centre) e) over batches, for simulation, private but for releases: it protects nobody."""

    sums: Floats
    """The sum of each batch (batches + 1, size), the last of what follows."""
    noise: Floats
    """The noise of each release (batches, size)."""
    ends: Integers
    encoder: Floats
    """C."""
    event: Floats
    """Room for e."""
    released: Floats
    """The last release: public."""
    scalars: Record
    """b and sqrt(1 - b^2), the centre, rounds seen, batches released."""


def simulated_rows(plan: BatchPlan, noise: Floats) -> SimulatedRows:
    """The empty book of a plan with the joint unit, with the noise of one seed."""
    unit = plan.unit
    assert isinstance(unit, JointUnit)
    return SimulatedRows(
        sums=np.zeros((len(plan.ends) + 1, plan.size)),
        noise=noise,
        ends=np.array(plan.ends, dtype=np.int64),
        encoder=plan.encoder(),
        event=np.zeros(unit.width(plan.dimension)),
        released=np.zeros(plan.size),
        scalars=record(constant=unit.constant / GRID, stretch=unit.stretch, centre=unit.middle / GRID, round=0, batch=0),
    )


@kernel
def on_row_grid(value: float) -> float:
    """The value without what is finer than rows are."""
    return float(np.trunc(value * GRID) / GRID)


@collects.of(SimulatedRows)
def _collect(book: SimulatedRows, features: Floats, reward: float, rng: Streams) -> bool:
    s, e = book.scalars[0], book.event
    batch, size, d = s.batch, book.event.shape[0], features.shape[0]
    s.round += 1
    if batch >= book.sums.shape[0]:
        return False
    for i in range(d):
        e[i] = on_row_grid(features[i] * s.stretch)
    if size > d:
        e[d] = s.constant
    weight = math.floor(reward * GRID + 0.5) / GRID - s.centre
    place = 0
    for i in range(d):
        for j in range(i, size):
            book.sums[batch, place] += e[i] * e[j]
            place += 1
    for i in range(size):
        book.sums[batch, place + i] += weight * e[i]
    if batch >= book.ends.shape[0] or s.round != book.ends[batch]:
        return False
    release(batch, book.sums, book.noise, book.encoder, book.released)
    s.batch += 1
    return True
