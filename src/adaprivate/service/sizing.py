"""How much one request may ask of a worker: what would tie it up, or fill its memory, is refused. All of it is public.

Sums over batches share noise that is fitted to all batches at once, and a learner keeps a matrix for each of them; a
propensity is counted in draws over all candidates.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from adaprivate import check, policies
from adaprivate.features import Featuriser
from adaprivate.service.bandit import LARGEST_DIMENSION, BanditSpec
from adaprivate.service.deciding import Ask
from adaprivate.service.faults import Fault
from adaprivate.service.room import Room
from adaprivate.service.storing import MOST_NUMBERS as MOST_OFFERED

MOST_FITTED = 512
"""Batches to which noise is fitted: it takes time with their cube."""
MOST_NUMBERS = 5_000_000
"""Batches times the square of the dimension: what a learner keeps, several times over."""
MOST_LISTED = 10_000
"""Items in the option ``catalogue``; so many times the square of the dimension are at most 2^24."""
LEAST_DRAWN = 16
"""A candidate whose propensity is asked for takes as long as so many dimensions, at least."""
FITTED = ("informative", "optimal")


def expect_affordable(spec: BanditSpec) -> None:
    """Raise if planning this bandit would take many seconds or gigabytes. What is wrong otherwise is not looked for."""
    try:
        dimension = spec.dimension or Featuriser.from_dict(spec.featuriser).dimension
        batches = _batches(spec, dimension)
    except Exception:  # values of a wrong kind: whoever makes the bandit says which
        return
    if dimension > LARGEST_DIMENSION:
        return
    most = min(MOST_FITTED, MOST_NUMBERS // (dimension + 1) ** 2)
    words = f"to make at most {most} batches, not {batches}: a larger batch_size or growth, or fewer rounds"
    check.expect(batches <= most, "batch_size", spec.batch_size, words)
    listed = spec.options.get("catalogue")
    count = len(listed) if isinstance(listed, list) else 0
    check.expect(
        count <= min(MOST_LISTED, 2**24 // dimension**2), "len(catalogue)", count, f"to be smaller at dimension {dimension}"
    )


def expect_decidable(room: Room, asks: Sequence[Ask]) -> int:
    """Raise if these asks offer more than is worked on at once, before anything is made of them; how many candidates."""
    items = len(room.catalogue.positions)
    offered = drawn = 0
    for ask in asks:
        count = items if ask.candidates is None else len(ask.candidates)
        offered += count
        drawn += count if ask.propensity else 0
    work = max(offered * room.bandit.dimension, drawn * LEAST_DRAWN)
    if work > MOST_OFFERED:
        words = f"candidates times dimensions ({LEAST_DRAWN} at least, where propensities are asked for)"
        raise Fault("too-large", f"Expected {words} to be at most {MOST_OFFERED} in one request, not {work}.")
    return offered


def _batches(spec: BanditSpec, dimension: int) -> int:
    """To how many batches noise would be fitted."""
    accepted = policies.options(spec.policy)
    size = spec.options.get("batch_size", spec.batch_size)
    if "schedule" in accepted:
        if spec.options.get("noise") not in FITTED:
            return 0
        growth = spec.options.get("growth", 1.5) if spec.options.get("schedule") == "growing" else 1.0
        most = spec.rounds / (size or 300)
        return math.ceil(most if growth <= 1 else math.log1p(most * (growth - 1)) / math.log(growth))
    if "channel" not in accepted:
        return 0
    asked: dict[str, Any] = {"dimension": dimension, "rounds": spec.rounds, "epsilon": spec.epsilon, "delta": spec.delta}
    asked |= {"unit": spec.unit, "batch_size": size}
    asked |= {name: spec.options[name] for name in ("growth", "horizon", "channel", "memory") if name in spec.options}
    settings: Any = policies.settings(spec.policy, asked)
    if spec.local or "gaussian" not in settings.channels:
        return 0
    return len(dataclasses.replace(settings, channel="gaussian").ends)
