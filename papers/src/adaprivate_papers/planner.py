"""How near does `adaprivate plan` come? What it predicts beside what is simulated, where it was not fitted.

Learned share in percent: 0 is random play, 100 the best candidate in every round. Worlds, epsilons and seeds are others
than those on which the planner's constants were chosen, and were looked at once, when these were decided: whoever changes
something needs new ones. New feature vectors every round ("fresh"), catalogues, fixed arms, and people all of whose rewards
are protected (`unit="user"`). rr-linucb and tuned-linucb (without privacy) are told the base rate as their centre.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate.experiments import Cell, Row
from adaprivate.planning.prediction import Task, predicted
from adaprivate.planning.prospect import FREE, OURS, PLAIN, prospect
from adaprivate.planning.worlds import World
from adaprivate_papers._cells import unprinted

QUESTION = "How near does `adaprivate plan` come to what is simulated, where it was not fitted?"

SOURCE = "our own planner against simulation; no table is printed"
SEEDS = 40
KEPT = True
PARTIAL = True
EPSILONS = (0.2, 0.7, 1.5, 4.0)
DELTA, NEAR = 1e-5, 0.03
FIRST_SEED, FIRST_SEED_QUICK = 3_000_000, 0
WORLDS: dict[str, tuple[int, int, float, float, float, int, int]] = {
    "fresh, d 8, K 4": (8, 4, math.inf, 0.5, 2.0, 6_000, 0),
    "fresh, d 15, K 3": (15, 3, math.inf, 0.5, 2.0, 2_000, 0),
    "fresh, d 30, K 15": (30, 15, math.inf, 0.5, 2.0, 20_000, 0),
    "fresh, d 12, K 6, 5 % clicks": (12, 6, math.inf, 0.05, 2.0, 20_000, 0),
    "fresh, d 25, K 8, 2 % clicks": (25, 8, math.inf, 0.02, 2.5, 40_000, 0),
    "fresh, d 6, K 3, 70 % clicks": (6, 3, math.inf, 0.7, 1.5, 4_000, 0),
    "fresh, d 40, K 5, strong": (40, 5, math.inf, 0.5, 4.0, 8_000, 0),
    "200 items, d 15, K 6": (15, 6, 200, 0.5, 2.0, 8_000, 0),
    "60 items, d 8, K 4, 5 % clicks": (8, 4, 60, 0.05, 2.0, 30_000, 0),
    "80 items, d 25, K 10": (25, 10, 80, 0.5, 2.0, 15_000, 0),
    "500 items, d 10, K 3, strong": (10, 3, 500, 0.5, 3.0, 3_000, 0),
    "8 arms": (8, 8, 8, 0.5, 2.0, 6_000, 0),
    "15 arms, 5 % clicks": (15, 15, 15, 0.05, 3.0, 30_000, 0),
    "4 arms, weak": (4, 4, 4, 0.5, 1.0, 2_000, 0),
    "2,000 people, d 15, K 6": (15, 6, math.inf, 0.5, 2.0, 12_000, 2_000),
    "1,000 people, d 8, K 4, 20 % clicks": (8, 4, math.inf, 0.2, 2.0, 15_000, 1_000),
    "6,000 people, d 30, K 8": (30, 8, math.inf, 0.5, 2.0, 24_000, 6_000),
}
"""Dimension, candidates, items, base rate (told to policies unless 1/2), |theta|, rounds, people."""


def _settings(
    names: Sequence[str], epsilons: Sequence[float], first_seed: int, rounds: int | None
) -> list[Mapping[str, Any]]:
    return [
        {"row": name, "column": f"epsilon {epsilon:g}", "epsilon": epsilon, "first_seed": first_seed, "rounds": rounds}
        for name in names
        for epsilon in epsilons
    ]


SETTINGS = _settings(list(WORLDS), EPSILONS, FIRST_SEED, None)
QUICK = _settings(["fresh, d 8, K 4", "8 arms"], (1.0,), FIRST_SEED_QUICK, 1_000)


def task_of(setting: Mapping[str, Any]) -> Task:
    """What is predicted and simulated."""
    dimension, candidates, items, base_rate, signal, rounds, people = WORLDS[setting["row"]]
    spread = signal / math.sqrt(dimension)
    world = World(dimension, candidates, items, base_rate, spread, arms=items == dimension == candidates)
    return Task(world, setting["rounds"] or rounds, setting["epsilon"], DELTA, base_rate != 0.5, people)


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """The predicted learned share of every policy, the simulated one, and its standard error."""
    task = task_of(setting)
    plan = prospect(task, [task.epsilon], rates_known=task.told_rate)
    found = plan.simulate(seeds, first_seed=setting["first_seed"]).measured
    known = {OURS: predicted(task).mean, PLAIN: plan.plain(task), FREE: plan.without_privacy.mean}
    shares = {name: (known[name], *share) for (name, _), share in found.items()}
    return {**setting, "shares": shares}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """How often predictions are near; then every setting: what was simulated, with what was predicted in the heading."""
    cells = []
    for name in (OURS, PLAIN, FREE):
        found = {(row["row"], errors_of(row, name)) for row in rows}  # without privacy epsilons are all alike
        errors = np.array([error for _, error in found if error is not None])
        if errors.size:
            near = float(np.mean(np.abs(errors) <= NEAR))
            cells.append(unprinted(f"{name}, {errors.size} predictions", "within 3 points, %", 100 * near))
            cells.append(
                unprinted(f"{name}, {errors.size} predictions", "root mean square error, points", 100 * _rms(errors))
            )
            worst = 100 * float(np.abs(errors).max())
            cells.append(unprinted(f"{name}, {errors.size} predictions", "largest error, points", worst))
    for row in rows:
        for name, (known, share, sem) in row["shares"].items():
            words = "not predicted" if known is None else f"predicted {100 * known:.1f}"
            cells.append(unprinted(row["row"], f"{row['column']}: {name}, {words}", 100 * share, sem and 100 * sem))
    return cells


def errors_of(row: Row, name: str) -> float | None:
    """Predicted less simulated, where both are there."""
    known, share, _ = row["shares"].get(name, (None, None, None))
    return None if known is None or share is None else float(known) - float(share)


def _rms(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Simulated against predicted, with the lines of 3 points."""
    for name, colour in ((OURS, "tab:blue"), (PLAIN, "tab:orange"), (FREE, "tab:gray")):
        found = [row["shares"][name] for row in rows if errors_of(row, name) is not None]
        if found:
            known, share, sem = (np.array([values[k] or 0.0 for values in found]) for k in range(3))
            axes.errorbar(100 * known, 100 * share, 200 * sem, fmt="o", ms=3, lw=0.8, color=colour, label=name)
    for off in (-3, 0, 3):
        axes.plot([0, 100], [off, 100 + off], color="black", lw=0.5, ls="-" if off == 0 else ":")
    axes.set(xlabel="predicted learned share, %", ylabel="simulated, %", xlim=(0, 100), ylim=(0, 100))
    axes.legend(fontsize=8)
