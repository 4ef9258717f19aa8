"""Broken mechanisms, each caught by the attack that finds nothing wrong with its sound twin."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adaprivate import cluster, mechanisms, privacy
from adaprivate.audit.attack import Finding, audited
from adaprivate.audit.bounds import CONFIDENCE
from adaprivate.audit.faults import BookTarget, Fault, FaultySettings
from adaprivate.audit.scripts import CONTEXT, MISSING, REWARD, Pair, Script
from adaprivate.audit.targets import Claim, PolicyTarget, Target, small_settings
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.noise import Simulated
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.mechanisms.units import EventUnit, Unit
from adaprivate.mechanisms.units.ledger import UserLedgerUnit
from adaprivate.mechanisms.units.user import UserUnit

EPSILON, DELTA = 5.0, 1e-5
TRIALS = 3000


@dataclass(frozen=True)
class Exhibit:
    """A mistake, where it comes from, and what is the same but for it."""

    name: str
    what: str
    broken: Callable[[], Target]
    sound: Callable[[], Target]


def gaussian_claim(epsilon: float = EPSILON) -> Claim:
    """Gaussian noise for (epsilon, delta)."""
    price = privacy.GaussianPrice(privacy.gdp_mu(epsilon, DELTA))
    return Claim(epsilon, DELTA, price.mu, True, price)


def _faulty(fault: Fault, neighbour: str) -> Callable[[], Target]:
    return lambda: PolicyTarget(FaultySettings(dimension=2, rounds=12, fault=fault), neighbour)


def _planted(name: str, what: str, fault: Fault, neighbour: str = REWARD) -> Exhibit:
    return Exhibit(name, what, _faulty(fault, neighbour), _faulty(Fault.NONE, neighbour))


def _sampled(calibration: str) -> Target:
    settings = small_settings("adaprivate-ts-amp", {"epsilon": 2.0, "delta": DELTA, "calibration": calibration})
    return PolicyTarget(settings, REWARD, Claim(2.0, DELTA, None, False))


def _contexts(name: str, **values: Any) -> Target:
    settings = small_settings(name, {"epsilon": EPSILON, "delta": DELTA, **values})
    return PolicyTarget(settings, CONTEXT, gaussian_claim())


# --- books ---------------------------------------------------------------------------------------------------------------


def _plan(unit: Unit, multiplier: float, ends: tuple[int, ...], noise: str = "independent") -> BatchPlan:
    return BatchPlan(
        delta=DELTA,
        dimension=2,
        ends=ends,
        noise_multiplier=multiplier,
        epochs=(Epoch(0, len(ends), mechanisms.strategy(noise, len(ends))),),
        unit=unit,
        decoded=noise == "independent",
    )


def _events(features: Sequence[Sequence[float]], one: Sequence[float], two: Sequence[float], who: Sequence[int]) -> Pair:
    """The same features, other rewards."""
    rows = np.array(features, dtype=np.float64)[:, None, :]
    first, second = (Script(rows, np.array(rewards, dtype=np.float64), tuple(who)) for rewards in (one, two))
    what = "one reward: 0 or 1" if len(set(who)) == len(who) else "all rewards of one person"
    return Pair(first, second, what, tuple(t for t in range(len(one)) if one[t] != two[t]))


_X, _Y = (1.0, 0.0), (-1.0, 0.0)
_SIGMA = privacy.gaussian_sigma(EPSILON, DELTA)


def _restored(lives: int) -> Target:
    pair = _events([_X, (0.0, 1.0)], [0.0, 1.0], [1.0, 1.0], [1, 2])
    return BookTarget("a batch", _plan(EventUnit(), _SIGMA, (2,)), gaussian_claim(), pair, Simulated, lives=lives)


def _float_noise(source: Callable[[int], Any]) -> Target:
    pair = _events([_X], [0.0], [1.0], [1])
    return BookTarget("a batch", _plan(EventUnit(), _SIGMA, (1,)), gaussian_claim(), pair, source, low_bits=True)


def _clipped(published: bool) -> Target:
    """Four events of one person in a batch, clipped at sqrt(4): half of them along x, half along -x, rewards swapped."""
    clip = 2.0
    unit = UserUnit(batches=1, clip=clip)
    rho = privacy.zcdp_rho(EPSILON, DELTA)
    multiplier = clip / math.sqrt(2 * rho) / unit.participation.change if published else _SIGMA
    claim = Claim(EPSILON, DELTA, math.sqrt(2 * rho), True) if published else gaussian_claim()
    pair = _events([_X, _X, _Y, _Y], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0, 0, 0, 0])
    return BookTarget("sums clipped per person", _plan(unit, multiplier, (4,)), claim, pair, Simulated)


def _squares_only(book: Any) -> None:
    """Leave a ledger of people the squares of what they added, without products of different batches."""
    people = book._collector.people
    people.gram = np.diag(np.diag(people.gram))


def _ledger(cross_terms: bool) -> Target:
    """One person in each of eight batches whose noise is shared, always along the same features."""
    batches = 8
    plan = _plan(UserLedgerUnit(visits=batches), _SIGMA, tuple(range(1, batches + 1)), "sqrt")
    pair = _events([_X] * batches, [0.0] * batches, [1.0] * batches, [0] * batches)
    spoil = None if cross_terms else _squares_only
    return BookTarget("a ledger of people", plan, gaussian_claim(), pair, Simulated, spoil=spoil)


EXHIBITS = (
    Exhibit(
        "amplified-noise",
        "the noise of AdaPrivate-TS Eq. 3.6 for sampled rewards, which claims too much of sampling",
        lambda: _sampled("published-unsound"),
        lambda: _sampled("exact"),
    ),
    Exhibit(
        "redrawn-noise",
        "a batch released again, with fresh noise, by a copy restored after a crash",
        lambda: _restored(2),
        lambda: _restored(1),
    ),
    _planted("count-of-rewards", "batches that close after so many rewards came", Fault.COUNTS_REWARDS, MISSING),
    _planted("release-on-arrival", "a release in the call that brings the last reward", Fault.ON_ARRIVAL, MISSING),
    _planted("wide-rewards", "rewards from -1 to 1 under noise for 0 to 1", Fault.WIDE_RANGE),
    Exhibit(
        "clear-contexts",
        "noise on b alone (AdaPrivate-UCB) where contexts are to be private too",
        lambda: _contexts("adaprivate-ucb", calibration="exact"),
        lambda: _contexts("jdp-linucb-gaussian", calibration="tight", release="batched", batch_size=3),
    ),
    Exhibit(
        "clipped-people",
        "the published per-person clipping (Sec 6.1): a replaced person moves twice the clip",
        lambda: _clipped(True),
        lambda: _clipped(False),
    ),
    Exhibit(
        "float-noise",
        "ordinary floating-point noise: some outputs are impossible for one of two neighbours",
        lambda: _float_noise(Simulated),
        lambda: _float_noise(lambda seed: Secure()),
    ),
    _planted("same-noise", "the same noise in every batch", Fault.SAME_NOISE),
    _planted("never-reset", "a batch's sum that goes on into the next", Fault.NEVER_RESET),
    Exhibit(
        "squares-only",
        "the ledger of people without its cross terms, which noise shared between batches has",
        lambda: _ledger(False),
        lambda: _ledger(True),
    ),
    _planted("half-noise", "noise of half the size", Fault.HALF_NOISE),
)


@dataclass(frozen=True)
class Shown:
    """An exhibit, attacked, and its sound twin."""

    name: str
    what: str
    broken: Finding
    sound: Finding

    @property
    def caught(self) -> bool:
        """Whether the mistake was found, and nothing in its twin."""
        return not self.broken.holds and self.sound.holds

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        findings = {"broken": self.broken.to_dict(), "sound": self.sound.to_dict()}
        return {"name": self.name, "what": self.what, "caught": self.caught, **findings}


def show_all(
    *, trials: int = TRIALS, confidence: float = CONFIDENCE, seed: int = 1, progress: Callable[[int], None] | None = None
) -> list[Shown]:
    """Attack every exhibit and its twin, each exhibit by a worker where there are others."""
    workers, found = cluster.current(), dict[int, Shown]()
    asked = [(exhibit.name, trials, confidence, seed) for exhibit in EXHIBITS]
    tasks = [cluster.Task(f"the exhibit {name}", _named, (name, *how)) for name, *how in asked]
    apart = (
        workers.completed(tasks) if workers.far else ((n, task.function(*task.arguments)) for n, task in enumerate(tasks))
    )
    with contextlib.closing(apart):
        for n, shown in apart:
            found[n] = shown
            if progress:
                progress(1)
    return [found[n] for n in range(len(tasks))]


def _named(name: str, trials: int, confidence: float, seed: int) -> Shown:
    (exhibit,) = (one for one in EXHIBITS if one.name == name)
    return show(exhibit, trials=trials, confidence=confidence, seed=seed)


def show(exhibit: Exhibit, *, trials: int = TRIALS, confidence: float = CONFIDENCE, seed: int = 1) -> Shown:
    """Attack an exhibit and its twin."""
    found = [
        dataclasses.replace(audited(make(), trials=trials, confidence=confidence, seed=seed), policy=exhibit.name)
        for make in (exhibit.broken, exhibit.sound)
    ]
    return Shown(exhibit.name, exhibit.what, *found)


__all__ = ["EXHIBITS", "Exhibit", "Shown", "show", "show_all"]
