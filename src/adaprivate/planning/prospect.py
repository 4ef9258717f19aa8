"""What each epsilon is predicted to cost, where the knee is, what to run, and what would change the answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from adaprivate.planning.confirmed import error_of, outside
from adaprivate.planning.prediction import Curve, Task, predicted
from adaprivate.privacy import remarks

OURS, PLAIN, FREE = "noise-aware", "rr-linucb", "tuned-linucb"
"""The policy to run, the simplest private one, and one without privacy."""
OCTAVES = 0.1 * 2.0 ** np.arange(8)
"""The epsilons between which the knee is looked for."""
WORTH = 0.03
"""Twice the epsilon is worth it if it gains so much learned share: what predictions are confirmed to."""
LEVELS = (0.5, 0.8)


@dataclass(frozen=True)
class Prospect:
    """A plan: :attr:`rows`, one for each epsilon; ``print(plan)`` shows all of it.

    ``plot(path)`` draws it, ``simulate(seeds)`` confirms it in the world it assumes, ``to_dict()`` has all of it as values.
    """

    tasks: tuple[Task, ...]
    rates_known: bool
    source: str = ""
    """The log that public numbers are from,"""
    read: tuple[str, ...] = ()
    """and the columns of it that were read."""
    measured: Mapping[tuple[str, float | None], tuple[float, float | None]] = field(default_factory=dict)
    """The simulated learned share of a policy at an epsilon (None: without privacy), and its standard error."""
    seeds: int = 0

    @property
    def task(self) -> Task:
        """The task at the first epsilon; the others differ in epsilon alone."""
        return self.tasks[0]

    @property
    def unit(self) -> str:
        """Whom it protects."""
        return "user" if self.task.people else "event"

    @property
    def unplayable(self) -> str | None:
        """What no environment plays as it is predicted; None: one plays it all."""
        if self.task.seen.blocks:
            return "class x context (made-table, which is nearest, has one right class in every row)"
        return "people of a log, who come as they did (give users)" if self.source and self.task.often else None

    @cached_property
    def contradicted(self) -> list[tuple[str, float | None, float, float, float | None]]:
        """Policies, at an epsilon, whose prediction and simulation are far apart: both, and its standard error."""
        said: list[tuple[str, float | None, float | None]] = [(FREE, None, self.without_privacy.mean)]
        for row in self.rows:
            said += [(OURS, row["epsilon"], row["learned_share"]), (PLAIN, row["epsilon"], row["rr_linucb_share"])]
        found = []
        for name, epsilon, share in said:
            measured, sem = self.measured.get((name, epsilon), (None, None))
            if share is not None and measured is not None and abs(share - measured) > 2 * (error_of(share) + (sem or 0.0)):
                found.append((name, epsilon, share, measured, sem))
        return found

    @cached_property
    def without_privacy(self) -> Curve:
        """What a policy without privacy is predicted to learn."""
        return predicted(dataclasses.replace(self.task, people=0), FREE)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each epsilon: what it costs, and what will be run."""
        return [self._row(task) for task in self.tasks]

    def _row(self, task: Task) -> dict[str, Any]:
        curve, world, choice = predicted(task), task.world, task.choice
        share, without = curve.mean, self.without_privacy.mean
        reasons, delta = outside(task), 0.0 if self._is_pure(choice.channel) else task.delta
        measured, sem = self.measured.get((OURS, task.epsilon), (None, None))
        return {
            "policy": OURS,
            "unit": self.unit,
            "epsilon": task.epsilon,
            "delta": delta,
            "remarks": remarks(task.epsilon, delta, task.people or task.rounds),
            "learned_share": share,
            "error": None if reasons else error_of(share),
            "measured_share": measured,
            "measured_sem": sem,
            "reward": world.base_rate + share * world.gain,
            "lost_per_1000": 1000 * max(0.0, without - share) * world.gain,
            "channel": choice.channel,
            "flips_first": 0 if choice.channel == "flip" else choice.first,
            "batch_size": {"gaussian": task.first_batch, "items": choice.block}.get(choice.channel, 1),
            "rounds_to_half": curve.until(LEVELS[0]),
            "rounds_to_80": curve.until(LEVELS[1]),
            "rr_linucb_share": self.plain(task),
            "confirmed": not reasons,
            "outside": reasons,
        }

    def _is_pure(self, channel: str) -> bool:
        """Whether the policy is held to this channel, so that delta is 0: so it is on fixed arms."""
        return self.task.world.arms and not self.task.people and channel != "gaussian"

    @staticmethod
    def plain(task: Task) -> float | None:
        """What rr-linucb is predicted to learn of single rewards; None where such predictions are too high."""
        return None if task.world.fixed or task.people else predicted(task, PLAIN).mean

    @cached_property
    def curve(self) -> list[float]:
        """The predicted learned share at :data:`OCTAVES`."""
        return [predicted(dataclasses.replace(self.task, epsilon=float(epsilon))).mean for epsilon in OCTAVES]

    @cached_property
    def knee(self) -> float | None:
        """The epsilon from which on twice as much gains less than 3 points of learned share; None: it never does."""
        gains = np.diff(self.curve)
        worth = np.flatnonzero(gains >= WORTH)
        if not worth.size:
            return float(OCTAVES[0]) if max(self.curve) >= LEVELS[0] else None
        last = int(worth[-1])
        if last + 1 == len(gains):
            return None
        step = (gains[last] - WORTH) / (gains[last] - gains[last + 1])
        return float(OCTAVES[last] * 2.0**step)

    @cached_property
    def advised(self) -> dict[str, Any]:
        """The row to run: the least epsilon at or above the knee, or the largest there is."""
        ordered = sorted(self.rows, key=lambda row: float(row["epsilon"]))
        if self.knee is None:
            return ordered[-1]
        return next((row for row in ordered if row["epsilon"] >= 0.99 * self.knee), ordered[-1])

    @cached_property
    def options(self) -> dict[str, Any]:
        """What to make the advised policy with."""
        row, world = self.advised, self.task.world
        found: dict[str, Any] = {"dimension": world.dimension, "rounds": self.task.rounds}
        found["epsilon"] = row["epsilon"]
        found |= {"channel": row["channel"]} if self._is_pure(row["channel"]) else {"delta": row["delta"]}
        if self.rates_known:
            found["base_rate"] = world.base_rate
        if self.unit == "user":
            found |= {"unit": "user", "counted_visits": self.task.counted_visits}
        return found

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """What the learned share at the advised epsilon would be if one thing were different."""
        task = next(task for task in self.tasks if task.epsilon == self.advised["epsilon"])
        world, now = task.world, float(self.advised["learned_share"])
        others: dict[str, Task] = {
            "twice the rounds": dataclasses.replace(task, rounds=2 * task.rounds),
            "half the rounds": dataclasses.replace(task, rounds=max(2, task.rounds // 2)),
            "twice the epsilon": dataclasses.replace(task, epsilon=2 * task.epsilon),
            "half the epsilon": dataclasses.replace(task, epsilon=task.epsilon / 2),
            "a tenth of the delta": dataclasses.replace(task, delta=task.delta / 10),
            "candidates that differ half as much": dataclasses.replace(
                task, world=dataclasses.replace(world, spread=world.spread / 2)
            ),
        }
        if task.design is None and not world.arms and world.dimension >= 4:
            fewer = dataclasses.replace(world, dimension=world.dimension // 2)
            others["half the dimensions, that say as much"] = dataclasses.replace(task, world=fewer)
        if not world.fixed and task.design is None:
            if math.isfinite(world.items):
                others["candidates that never come again"] = dataclasses.replace(
                    task, world=dataclasses.replace(world, items=math.inf)
                )
            else:
                again = 2.0 * world.candidates
                others[f"candidates that come again (--items {again:.0f})"] = dataclasses.replace(
                    task, world=dataclasses.replace(world, items=again)
                )
        if task.people:
            others["single rewards protected, not people"] = dataclasses.replace(task, people=0)
        elif not world.fixed:
            words = "people who come 10 times each protected, not single rewards"
            others[words] = dataclasses.replace(task, people=max(1, task.rounds // 10), often=())
        found = []
        for words, other in others.items():
            share = predicted(other).mean
            found.append({"change": words, "learned_share": share, "difference": share - now})
        return sorted(found, key=lambda row: -float(row["difference"]))

    def simulate(
        self,
        seeds: int = 12,
        *,
        jobs: int | None = None,
        first_seed: int = 0,
        progress: Callable[[int], None] | None = None,
        cluster: str | None = None,
        results: str | Path | None = None,
    ) -> Prospect:
        """The same plan with what was measured in the world it assumes, beside what it predicts.

        cluster, results: other workers, and a file to go on from, as :func:`adaprivate.simulate` takes them.
        """
        from adaprivate.cluster import using
        from adaprivate.planning.simulated import measure

        with using(cluster, jobs=jobs, results=results):
            found = measure(self, seeds, jobs=jobs, first_seed=first_seed, progress=progress)
        return dataclasses.replace(self, measured=found, seeds=seeds)

    def plot(self, path: str | Path) -> Path:
        """Learned share by epsilon with the knee marked, as .png or .svg (or into a folder, as plan.svg)."""
        from adaprivate.planning.showing import draw

        return draw(self, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """Everything that it says, as plain values."""
        world, task = self.task.world, self.task
        comparison = [{"policy": "random", "epsilon": None, "learned_share": 0.0, "measured_share": None}]
        comparison += [
            {
                "policy": name,
                "epsilon": epsilon,
                "learned_share": share,
                "measured_share": self.measured.get((name, epsilon), (None,))[0],
                "confirmed": not outside(task, name),
            }
            for name, epsilon, share, task in [
                *(
                    (PLAIN, row["epsilon"], row["rr_linucb_share"], task)
                    for row, task in zip(self.rows, self.tasks, strict=True)
                ),
                (FREE, None, self.without_privacy.mean, self.task),
            ]
        ]
        return {
            "rows": self.rows,
            "comparison": comparison,
            "assumed": {
                "dimension": world.dimension,
                "candidates": world.candidates,
                "items": world.items if math.isfinite(world.items) else None,
                "arms": world.arms,
                "rounds": task.rounds,
                "base_rate": world.base_rate,
                "base_rate_known": self.rates_known,
                "best": world.best,
                "users": task.people or None,
                "visits": task.rounds / task.people if task.people else None,
                "log": self.source or None,
                "columns_read": list(self.read) if self.source else None,
            },
            "knee": self.knee,
            "advised": {"policy": OURS, **self.options},
            "changes": self.changes,
            "seeds": self.seeds,
        }

    def __str__(self) -> str:
        from adaprivate.planning.showing import text

        return text(self)


def prospect(
    task: Task, epsilons: Sequence[float], *, rates_known: bool, source: str = "", read: tuple[str, ...] = ()
) -> Prospect:
    """The plan for this task at each of these epsilons."""
    tasks = tuple(dataclasses.replace(task, epsilon=float(epsilon)) for epsilon in epsilons)
    return Prospect(tasks, rates_known, source, read)
