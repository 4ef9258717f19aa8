"""Where predictions were held against simulation (docs/planning.md): elsewhere a plan says that it is outside of that."""

from __future__ import annotations

from adaprivate.planning.prediction import Task

DIMENSIONS, CANDIDATES, ROUNDS, RATES = (3, 50), (2, 20), (1_000, 100_000), (0.01, 0.8)
SIGNALS, EPSILONS, DELTAS, VISITS = (0.5, 5.0), (0.05, 5.0), (1e-6, 1e-4), (1.0, 50.0)
LEAST_ITEMS, ROUNDS_PER_DIMENSION = 30, 100
RARE = 0.1
"""Where random play earns less than this of fixed arms, tuned-linucb explores more than its prediction knows."""
DEVIATION, DEVIATION_UNLEARNED = 0.02, 0.05
"""How far predictions may be off: the first, and the second times what is not learned. 64 of 68 confirmed ones were not."""


def error_of(share: float) -> float:
    """How far from simulation a prediction may be."""
    return DEVIATION + DEVIATION_UNLEARNED * (1 - min(max(share, 0.0), 1.0))


def outside(task: Task, policy: str = "noise-aware") -> list[str]:
    """Why a prediction is not covered by what was confirmed; empty if it is."""
    free = policy == "tuned-linucb"  # without epsilon, delta and people
    world = task.world
    within = (
        ("dimension", float(world.dimension), DIMENSIONS),
        ("candidates", float(world.candidates), CANDIDATES),
        ("rounds", float(task.rounds), ROUNDS),
        ("base rate", world.base_rate, RATES),
        ("|theta|", world.signal, SIGNALS),
        *(() if free else (("epsilon", task.epsilon, EPSILONS), ("delta", task.delta, DELTAS))),
    )
    found = [
        f"{name} {value:g} is not within {low:g} to {high:g}"
        for name, value, (low, high) in within
        if not low <= value <= high
    ]
    if free and world.unrelated and min(world.base_rate, 1 - world.base_rate) < RARE:
        found.append("rewards are rare among fixed arms, of which tuned-linucb earns less than predicted")
    people = 0 if free else task.people
    if people and not VISITS[0] <= task.rounds / people <= VISITS[1]:
        found.append(f"people come {task.rounds / people:.3g} times, not {VISITS[0]:g} to {VISITS[1]:g}")
    if people and task.often:
        found.append("people do not come evenly")
    if people and world.fixed:
        found.append("people among fixed candidates")
    if task.design is not None:
        blocks = "class x context, of which a linear model may miss much"
        found.append(f"features of a log, {blocks if task.design.blocks else 'not spread evenly'}")
    elif world.fixed and not world.arms:
        found.append("the same candidates with features come every round")
    elif not world.fixed and world.items < LEAST_ITEMS:
        found.append(f"there are fewer than {LEAST_ITEMS} items")
    if not world.arms and task.rounds < ROUNDS_PER_DIMENSION * world.dimension:
        found.append(f"fewer than {ROUNDS_PER_DIMENSION} rounds for each dimension")
    return found
