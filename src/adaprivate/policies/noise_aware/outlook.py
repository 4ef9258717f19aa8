"""What is chosen once the first offers were seen: channel, prior, exploration. Public rules on public numbers.

A forecast says how far each channel would get: choosing by a posterior mean that explains a share e of the variance of
scores earns sqrt(e) of what knowing them would, and e follows from the information that the channel brings along every
direction of the design. docs/noise-aware.md has the formulas, and what was measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from adaprivate import blas
from adaprivate.check import Floats, Integers

CONTINUAL = 3.0
"""What releasing again and again costs the Gaussian channel, in noise variance, with fitted rows."""
FAVOUR, FEW = 0.02, 20
"""Added to the forecast of items where there are at most so many for each dimension: the best of them are played most."""
FIRST_BLOCKS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 100)
POINTS = 64
LITTLE, ENOUGH = 0.15, 0.3
"""Forecasts below the first are worth a warning, which looks for the second."""
SHORTEST = 1e-12
"""A candidate that is shorter is 0."""
CHANGING = 0.25
"""The turnover of candidates from which on they explore by themselves."""
MODEST, FORESEEN = 1 / 4, 1 / 6
"""How much less scores of class x context deviate where not one class is right: in the prior, and in forecasts."""
EXACTLY = 0.02
"""The deviation of what is known but for a bad fit."""
NEARLY = 0.25
"""A base rate is that of one right class if it is so near to one in as many as there are, relative to that."""
WIDE = 0.5
"""How wide upper bounds are then."""
MIDDLE, INTERCEPT_DEVIATION = 0.5, 0.2
"""The prior mean and standard deviation of the mean reward, where no base rate is known."""
SHARED = 2.0
"""How much more than by chance rounds must differ for their candidates to count as sharing a component."""


@dataclass(frozen=True)
class Design:
    """What the offers so far show: public.

    ``items``: about how many feature vectors there are to choose from, if they come back; infinity if they do not.
    ``turnover``: the share of a round's candidates that were not there the round before. ``blocks``: whether candidates
    never share a coordinate (class x context). ``spectrum``: eigenvalues of the design of one round, along which releases
    tell of scores. ``spread``: the mean squared length of differences (of the features, for blocks). ``effective``: how
    many directions really vary. ``shares``: where the candidates of a round share a component, the spectrum is that of
    all candidates, and these are the shares of differences along it; else empty: as the spectrum.
    """

    dimension: int
    candidates: float
    items: float
    turnover: float
    blocks: bool
    spectrum: tuple[float, ...]
    spread: float
    length: float
    effective: float
    shares: tuple[float, ...] = ()

    @property
    def shared(self) -> float:
        """Mean squared length of all that varies, relative to that of differences within a round (1: nothing is shared)."""
        return sum(self.spectrum) / self.spread if self.shares else 1.0

    @property
    def scale(self) -> float:
        """The mean squared length whose scores the prior speaks of: between that of differences and that of all."""
        return self.spread * math.sqrt(self.shared)


@dataclass(frozen=True)
class Choice:
    """What a noise-aware policy does from ``first`` on, ``channel``; before, rewards are flipped.

    ``block``, ``growth``: an item is released when this many rewards wait, and growth - 1 times those released.
    ``most_items``: rewards of further ones are flipped: where more come than were foreseen, few come back.
    ``intercept``: whether the mean reward is learned. For class x context ``one_right`` is how likely it is that one class
    of each round is right, and the mean reward is ``rate`` give or take ``deviation``.
    ``precision``: the prior precision of scores of typical candidates, ``ridge`` that of theta. ``changing``: whether
    other candidates come every round. ``width``: of upper bounds, times sqrt(log t). ``forecast``: the learned share.
    """

    channel: str
    first: int
    block: int = 1
    growth: float = 1.1
    most_items: int = 2**62
    precision: float = 0.0
    ridge: float = 0.0
    intercept: bool = True
    rate: float = 0.5
    deviation: float = 0.0
    one_right: float = 0.0
    changing: bool = True
    width: float = 0.3
    forecast: float = 1.0


def _flattened(values: Any, effective: float) -> Floats:
    """Eigenvalues found on few rows, drawn together until they speak of this many directions."""
    values = np.maximum(values, 0.0)
    mean = values.mean()
    seen = float(((values - mean) ** 2).sum())
    wanted = max(0.0, float(values.sum() ** 2) / max(effective, 1.0) - len(values) * mean**2)
    shrunk = mean + (values - mean) * math.sqrt(min(1.0, wanted / seen) if seen > 0 else 0.0)
    return np.asarray(np.maximum(shrunk, 1e-3 * mean), dtype=np.float64)


def _items(total: int, distinct: int) -> float:
    """How many there are if so many of so many draws were distinct."""
    if distinct >= total:
        return math.inf
    if distinct == 1:
        return 1.0

    def excess(count: float) -> float:
        return -count * math.expm1(total * math.log1p(-1 / count)) - distinct

    return float(brentq(excess, distinct - 0.5, 1e3 * total * total)) if excess(distinct - 0.5) < 0 else float(distinct)


@blas.one_thread()
def design(offers: Floats, rounds: Integers, catalogue: int | None = None) -> Design:
    """What these candidates (rows), each offered in this round, show; unit vectors stand in if there are none but 0."""
    dimension = offers.shape[1]
    if not (offers * offers).sum(axis=1).max(initial=0.0) >= SHORTEST**2:
        offers, rounds = np.eye(dimension), np.arange(dimension)
    groups = [offers[rounds == number] for number in np.unique(rounds)]
    mean_count = len(offers) / len(groups)
    keys = [{row.tobytes() for row in group + 0.0} for group in groups]  # + 0.0: there is one zero
    distinct = len(set().union(*keys))
    turnover = 1.0
    if len(groups) > 1:
        turnover = float(np.mean([len(now - before) / len(now) for before, now in pairwise(keys)]))
    nonzero = offers != 0
    shared = any((group != 0).sum(axis=0).max(initial=0) > 1 for group in groups)
    blocks = not shared and mean_count >= 2 and float(nonzero.sum(axis=1).mean()) > 1.5
    length = float((offers * offers).sum(axis=1).mean())
    items = _items(len(offers), distinct) if catalogue is None else float(catalogue)
    shares = np.zeros(0)
    if blocks:
        products = (offers @ offers.T) ** 2
        apart = rounds[:, None] != rounds
        same_block = (nonzero.astype(float) @ nonzero.T.astype(float)) > 0
        pairs = products[apart & same_block]
        effective = length**2 / max(float(pairs.mean()), 1e-12 * length**2) if pairs.size else float(dimension)
        per_block = max(1.0, float((nonzero.sum(axis=1)).max()))
        effective = float(np.clip(effective, 1.0, per_block))
        values = np.linalg.eigvalsh(offers.T @ offers / len(offers))
        spectrum = _flattened(values, effective * mean_count)
        spread = length
    else:
        centred = np.concatenate([group - group.mean(axis=0) for group in groups])
        freedom = len(offers) - len(groups)
        differ = float((centred * centred).sum()) > 1e-12 * length * len(offers)
        if not differ:  # no two of a round: then rounds do
            centred, freedom = offers, len(offers)
        covariance = centred.T @ centred / freedom
        spread = float(np.trace(covariance))
        values = np.linalg.eigvalsh(covariance)
        square = float((values**2).sum())
        effective = spread**2 / square if square > 0 else 1.0
        if items > freedom:
            effective = 1 / max(1 / effective - 1 / freedom, 1 / dimension)
        effective = float(np.clip(effective, 1.0, dimension))
        spectrum = _flattened(values, effective)
        if differ:
            spectrum, shares = _with_shared(groups, covariance) or (spectrum, shares)
    return Design(
        dimension,
        mean_count,
        items,
        turnover,
        blocks,
        tuple(spectrum.tolist()),
        spread,
        length,
        effective,
        tuple(shares.tolist()),
    )


def _with_shared(groups: Sequence[Floats], within: Floats) -> tuple[Floats, Floats] | None:
    """The spectrum of all candidates and the share of differences along it, where those of a round share a component.

    None where the means of rounds differ no more than means of candidates drawn one by one would, or not much more.
    """
    if len(groups) == 1:
        return None
    chance = float(np.mean([1 / len(group) for group in groups]))
    between = np.atleast_2d(np.cov([group.mean(axis=0) for group in groups], rowvar=False))
    spread, common, apart = (float(np.trace(part)) for part in (within, between, (1 - chance) * within))
    if common <= SHARED * chance * spread:
        return None
    values, basis = np.linalg.eigh((1 - chance) * within + between)
    freedom = sum(map(len, groups)) - len(groups)
    excess = apart**2 / freedom + common**2 / (len(groups) - 1)  # what few rows add to the sum of squares
    square = max(float((values**2).sum()) - excess, (apart + common) ** 2 / len(values))
    spectrum = _flattened(values, (apart + common) ** 2 / square)
    return spectrum, np.einsum("ij,ij->j", basis, within @ basis) / spread


def _gained(start: int, growth: float, variance: float | Floats, noise: float, counts: Floats) -> Floats:
    """The information about an item after so many rounds of it: the sum of b^2 / (v b + noise) over released blocks.

    ``counts`` (times, kinds of items); ``variance`` one number, or one for each time.
    """
    released, total = blocks(start, growth, variance, noise, float(counts.max(initial=0.0)))
    places = np.searchsorted(released, counts, side="right") - 1
    return np.take_along_axis(np.broadcast_to(total, (len(counts), len(released))), places, axis=1)


def blocks(start: int, growth: float, variance: float | Floats, noise: float, limit: float) -> tuple[Floats, Floats]:
    """How many rounds of an item are released after each block, until beyond a limit, and what they tell of it."""
    released, sizes = [0.0], [0.0]
    while released[-1] <= limit:
        sizes.append(float(max(start, math.ceil((growth - 1) * released[-1]))))
        released.append(released[-1] + sizes[-1])
    told = np.square(sizes) / np.maximum(np.reshape(variance, (-1, 1)) * np.array(sizes) + noise, 1e-300)  # no noise at 0
    return np.array(released), np.cumsum(told, axis=1)


@dataclass(frozen=True)
class Outlook:
    """The public numbers a forecast needs beside the design."""

    rounds: int
    epsilon: float
    noise_variance: float
    """Of the Gaussian noise in one direction, for one release."""
    reward_variance: float
    first_batch: int

    @property
    def flip_information(self) -> float:
        """What one flipped reward tells about its mean."""
        return 1 / (self.reward_variance + self.flip_noise)

    @property
    def flip_noise(self) -> float:
        """The variance that flipping adds."""
        return (1 / math.tanh(self.epsilon / 2) ** 2 - 1) / 4

    @property
    def item_noise(self) -> float:
        """The variance of the whole-number noise on an item's sum."""
        q = math.exp(-self.epsilon)
        return 2 * q / (1 - q) ** 2


Plan = tuple[str, int, int]
"""A channel, the rounds that are flipped before it, and the rewards in an item's first block."""


def midpoints(rounds: float) -> tuple[Floats, Floats]:
    """Moments at which forecasts look, denser at the start, and the share of all rounds that each stands for."""
    edges = rounds * (np.arange(POINTS + 1) / POINTS) ** 2
    return (edges[1:] + edges[:-1]) / 2, np.diff(edges) / rounds


def information(
    seen: Design,
    outlook: Outlook,
    plan: Plan,
    t: Floats,
    *,
    variance: Floats | None = None,
    spectrum: Floats | None = None,
    continual: float = CONTINUAL,
) -> Floats:
    """What a plan has told along every direction of the design after t rounds (times, directions).

    ``variance`` of a reward and ``spectrum`` of the design, at every time, if they are not those foreseen.
    """
    channel, n1, start = plan
    v = np.full((1, 1), outlook.reward_variance) if variance is None else variance[:, None]
    lam = np.array(seen.spectrum)[None] if spectrum is None else spectrum
    flipped = lam / (v + outlook.flip_noise)
    told = np.minimum(t, n1)[:, None] * flipped
    if channel == "gaussian":
        noise = continual * outlook.noise_variance * seen.length
        rows = np.where(t - n1 < outlook.first_batch, 0.0, (t - n1) / 1.05)[:, None] * lam
        told = told + rows**2 / (v * rows + noise)
    elif channel == "items" and seen.items < outlook.rounds / 3:
        counts = np.outer(np.maximum(t - n1, 0.0) / seen.items, _rates(seen))
        gained = _gained(start, growth_of(start), v, outlook.item_noise, counts).mean(axis=1)
        told = told + (seen.items * gained)[:, None] * lam
    elif channel == "items":  # hardly any comes twice: a block for each reward
        told = t[:, None] * lam / (v + outlook.item_noise)
    return told


def plans(seen: Design, outlook: Outlook) -> list[Plan]:
    """What may be chosen."""
    flips = [0]
    step = outlook.first_batch
    while step < 0.6 * outlook.rounds:
        flips.append(step)
        step *= 2
    items = [("items", n1, start) for n1 in flips[:4] for start in FIRST_BLOCKS]
    return [
        ("flip", outlook.rounds, 1),
        *(("gaussian", n1, 1) for n1 in flips),
        *(items if seen.items < outlook.rounds / 3 else [("items", 0, 1)]),
    ]


def explained(seen: Design, outlook: Outlook, precision: float, told: Floats, right: bool = True) -> Floats:
    """The share of the scores' variance that this information (times, directions) explains."""
    lam = np.array(seen.spectrum)
    if seen.blocks:
        scale = 4 * outlook.reward_variance
        variance = scale**2 * (1 / (4 * seen.effective) + 1 / 12) * (1.0 if right else FORESEEN**2)
        scales = variance / (len(lam) * lam)
        weights = np.full(len(lam), 1 / len(lam))
    else:
        scales = np.full(len(lam), 1 / (precision * seen.scale))
        weights = np.array(seen.shares) if seen.shares else lam / lam.sum()
    known = told * scales
    return np.asarray(np.maximum((known / (1 + known)) @ weights, 0.0))


def forecasts(seen: Design, outlook: Outlook, precision: float, one_right: float = 1.0) -> dict[Plan, float]:
    """The learned share that each plan is expected to reach: the mean over time of the root of the share explained."""
    t, dt = midpoints(outlook.rounds)
    cases = {True: one_right, False: 1 - one_right} if seen.blocks else {True: 1.0}
    found = {}
    for plan in plans(seen, outlook):
        told = information(seen, outlook, plan, t)
        found[plan] = sum(
            weight * float(dt @ np.sqrt(explained(seen, outlook, precision, told, right)))
            for right, weight in cases.items()
            if weight
        )
    return found


def _rates(seen: Design) -> Floats:
    """How often items of each eighth are played, relative to all: half of the time the best of those offered is."""
    if seen.turnover < CHANGING:
        return np.ones(1)
    edges = np.linspace(0, 1, 9) ** max(1.0, seen.candidates)
    return np.asarray(0.5 + 0.5 * 8 * np.diff(edges))


def growth_of(block: int) -> float:
    """How much an item's released rewards grow with every release."""
    return 1.1 + 0.2 * math.log10(block)


def _between(other: float, one_right: float) -> float:
    """1 while it may well be that one class is right, this other number if it cannot be."""
    return 1.0 - (1.0 - other) * max(0.0, 1.0 - 2.0 * one_right)


def score_precision(seen: Design, reward_variance: float, one_right: float = 1.0) -> float:
    """The prior precision of the score of a typical candidate, relative to that of others."""
    if seen.blocks:
        deviation = math.sqrt((1 / (4 * seen.effective) + 1 / 6) * _between(MODEST**2, one_right))
    elif seen.items >= 1.5 * seen.dimension:
        deviation = 0.5 / math.sqrt(seen.dimension)
    else:
        deviation = (0.5 if seen.turnover >= CHANGING else 0.7) / math.sqrt(seen.effective)
    return 1 / (4 * reward_variance * deviation) ** 2


def most_items(seen: Design, channels: tuple[str, ...]) -> int:
    """So many items are told apart: twice those foreseen, and a few; all where there is no other channel."""
    return 2 * math.ceil(seen.items) + 8 if len(channels) > 1 and math.isfinite(seen.items) else 2**62


def width_of(seen: Design, one_right: float = 1.0) -> float:
    """How wide upper bounds are, relative to the posterior's spread times sqrt(log t).

    Candidates that change explore by themselves; among many classes, and items that are the same in every context, less.
    """
    if seen.turnover < CHANGING:
        return 0.85
    if not seen.blocks:
        return 0.3
    classes = float(np.clip(0.3 * math.sqrt(seen.candidates / 10), 0.3, 0.5))
    return classes * _between(WIDE / classes, one_right)


@blas.one_thread()
def one_right(seen: Design, offers: Floats, rounds: Integers, told: Floats, weighted: Floats, centre: float) -> float:
    """How likely it is, by what flips released, that one class of each round is right, in sixteenths; before them 1/2.

    Then mean rewards of the K candidates of a round have the mean 1/K, and over all rounds classes earn 1/K give or take
    as much. Else the mean is any, and they differ less.
    ``told`` and ``weighted``: the precision that flips add, and what they add to precision x mean; with an intercept.
    """
    middles = np.array([offers[rounds == number].mean(axis=0) for number in np.unique(rounds)])
    nonzero = (offers != 0).astype(float)
    count, block = connected_components(csr_array(nonzero.T @ nonzero), directed=False)
    mine = block[np.argmax(nonzero, axis=1)]
    of_classes = np.array([offers[mine == one].mean(axis=0) for one in range(count) if (mine == one).any()])
    size, evidence = len(weighted), []
    for rate, deviation, right in ((1 / seen.candidates, EXACTLY, 1.0), (MIDDLE, INTERCEPT_DEVIATION, 0.0)):
        prior = np.diag(np.full(size, seen.spread * score_precision(seen, 0.25, right)))
        prior[:-1, :-1] += right * (middles.T @ middles / EXACTLY**2 + seen.candidates**2 * of_classes.T @ of_classes)
        prior[-1, -1], mean = deviation**-2, np.append(np.zeros(size - 1), rate - centre)
        root, before = np.linalg.cholesky(told + prior), np.linalg.cholesky(prior)
        pull = np.linalg.solve(root, weighted - told @ mean)
        fit = mean @ weighted - mean @ told @ mean / 2 + pull @ pull / 2
        evidence.append(float(fit + np.log(np.diag(before)).sum() - np.log(np.diag(root)).sum()))
    return round(16 / (1 + math.exp(min(50.0, evidence[1] - evidence[0])))) / 16


def right_by_rate(seen: Design, rate: float) -> float:
    """The same by a base rate that is told."""
    return 1.0 if abs(rate * seen.candidates - 1) < NEARLY else 0.0


def rate_of(seen: Design, one_right: float) -> tuple[float, float]:
    """The prior mean and standard deviation of the mean reward of class x context."""
    first = 1 / seen.candidates
    variance = (1 - one_right) * (INTERCEPT_DEVIATION**2 + one_right * (MIDDLE - first) ** 2)
    return one_right * first + (1 - one_right) * MIDDLE, math.sqrt(variance)


@lru_cache(maxsize=256)
def choose(
    seen: Design, outlook: Outlook, channels: tuple[str, ...], ridge: float | None, one_right: float = 1.0
) -> Choice:
    """What the rules say; ``one_right`` matters for class x context alone."""
    precision = score_precision(seen, outlook.reward_variance, one_right)
    foreseen = forecasts(seen, outlook, precision, one_right)
    found = {plan: value for plan, value in foreseen.items() if plan[0] in channels}
    favour = FAVOUR if seen.items <= FEW * seen.dimension else 0.0
    favoured = {plan: value + favour * (plan[0] == "items") for plan, value in found.items()}
    best = max(favoured, key=lambda plan: favoured[plan])
    rate, deviation = rate_of(seen, one_right) if seen.blocks else (MIDDLE, 0.0)
    return Choice(
        channel=best[0],
        first=best[1],
        block=best[2],
        growth=growth_of(best[2]),
        most_items=most_items(seen, channels),
        precision=2 ** (round(4 * math.log2(precision / math.sqrt(seen.shared))) / 4),
        ridge=seen.scale * precision if ridge is None else ridge,
        intercept=not seen.blocks or deviation > 0,
        rate=rate,
        deviation=deviation,
        one_right=one_right if seen.blocks else 0.0,
        changing=seen.turnover >= CHANGING,
        width=width_of(seen, one_right),
        forecast=found[best],
    )


def best_forecast(seen: Design, outlook: Outlook, channels: tuple[str, ...], one_right: float = 1.0) -> float:
    """The learned share that the best of these channels is expected to reach."""
    found = forecasts(seen, outlook, score_precision(seen, outlook.reward_variance, one_right), one_right)
    return max((value for plan, value in found.items() if plan[0] in channels), default=0.0)


def _first(values: Sequence[float], forecast: Callable[[float], float]) -> float | None:
    """The first of these values with which enough can be learned."""
    return next((value for value in values if forecast(value) >= ENOUGH), None)


def little_to_learn(
    seen: Design,
    outlook: Outlook,
    channels: tuple[str, ...],
    choice: Choice,
    noise: Callable[[float], float],
) -> str:
    """What to say where the forecast is low: the number, and what alone would help.

    ``noise``: the variance of the Gaussian noise at an epsilon.
    """

    def at(rounds: float = outlook.rounds, epsilon: float = outlook.epsilon) -> float:
        other = dataclasses.replace(outlook, rounds=int(rounds), epsilon=epsilon, noise_variance=noise(epsilon))
        return best_forecast(seen, other, channels, choice.one_right)

    def leading(dimension: float) -> float:
        order = np.argsort(seen.shares or seen.spectrum)[-int(dimension) :]
        lam, shares = np.array(seen.spectrum)[order], np.array(seen.shares)[order] if seen.shares else np.zeros(0)
        fewer = dataclasses.replace(
            seen,
            dimension=len(order),
            spectrum=tuple(lam.tolist()),
            effective=min(seen.effective, float(len(order))),
            shares=tuple((shares / shares.sum()).tolist()),
        )
        return best_forecast(fewer, outlook, channels)

    helps = []
    rounds = _first([outlook.rounds * 2.0**k for k in range(1, 15)], lambda value: at(rounds=value))
    if rounds is not None:
        helps.append(f"{rounds:,.0f} rounds")
    epsilon = _first(
        [value for value in (0.5, 1.0, 2.0, 5.0, 10.0) if value > outlook.epsilon], lambda value: at(epsilon=value)
    )
    if epsilon is not None:
        helps.append(f"epsilon {epsilon:g}")
    if not seen.blocks and seen.dimension > 2:
        shorter = [float(seen.dimension // 2**k) for k in range(1, 12) if seen.dimension // 2**k >= 2]
        dimension = _first(shorter, leading)
        if dimension is not None:
            helps.append(f"features of {dimension:g} dimensions that say as much (a projection on the leading ones, say)")
    hint = f" What would help, each alone: {'; '.join(helps)}." if helps else ""
    return (
        f"Little can be learned: about {choice.forecast:.2f} of what there is between random play (0) and the best "
        f"candidate (1) is foreseen, with {seen.dimension} dimensions, {outlook.rounds:,} rounds "
        f"and epsilon {outlook.epsilon:g}.{hint}"
    )
