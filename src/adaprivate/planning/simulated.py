"""A plan held against simulation: the policies it speaks of, in the world it assumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adaprivate import check
from adaprivate.environments import environment
from adaprivate.simulation import mean_sem, policy_settings, run_all

if TYPE_CHECKING:
    from adaprivate.planning.prospect import Prospect


def policies_of(plan: Prospect) -> list[tuple[str, float | None, dict[str, Any]]]:
    """Every policy that a plan compares: its name, its epsilon and its options."""
    from adaprivate.planning.prospect import FREE, OURS, PLAIN

    own = {key: value for key, value in plan.options.items() if key in ("base_rate", "unit", "counted_visits", "channel")}
    centre = {"centre": plan.task.world.base_rate}
    found: list[tuple[str, float | None, dict[str, Any]]] = []
    for task in plan.tasks:
        budget = {"epsilon": task.epsilon, "delta": task.delta}
        found.append((OURS, task.epsilon, {**budget, **own}))
        if not task.people:  # a flip of one reward protects one reward
            found.append((PLAIN, task.epsilon, {"epsilon": task.epsilon, **centre}))
    return [*found, (FREE, None, centre)]


def measure(
    plan: Prospect, seeds: int, *, jobs: int | None, first_seed: int, progress: Callable[[int], None] | None = None
) -> dict[tuple[str, float | None], tuple[float, float | None]]:
    """The mean learned share of every policy in the assumed world, and its standard error."""
    check.whole("seeds", seeds, at_least=2)
    task = plan.task
    check.expect(plan.unplayable is None, "simulate", seeds, f"not to be asked for {plan.unplayable}")
    place = environment("synthetic", {**task.world.options(), **task.people_options})
    named = policies_of(plan)
    chosen = [policy_settings(name, place, task.rounds, options) for name, _, options in named]
    runs = run_all(chosen, place, range(first_seed, first_seed + seeds), jobs=jobs, progress=progress)
    shares = [mean_sem([run.learned_share for run in found]) for found in runs]
    return {(name, epsilon): share for (name, epsilon, _), share in zip(named, shares, strict=True)}
