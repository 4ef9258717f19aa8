"""What the policies of an experiment promise when they draw exact noise, each kind of promise once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.privacy import Guarantee

USUAL = 1.0


def _statement(setting: Mapping[str, Any]) -> tuple[str, Guarantee] | None:
    """The policy that a setting names, and its guarantee with exact noise, or simulated where it has no other."""
    from adaprivate.experiments._measured import prepared

    if not isinstance(setting.get("policy"), str) or "choice" in setting:
        return None
    policy = prepared(setting)[0]
    try:
        stated = policy.guarantee(exact_noise=True)
    except InputError:
        stated = policy.guarantee()
    return None if stated is None else (policy.name, stated)


def promises(settings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Who promises what: one sentence for each policy and unit, at the epsilon nearest to 1 of those that were run."""
    found: dict[tuple[Any, ...], list[Guarantee]] = {}
    for setting in settings:
        named = _statement(setting)
        if named is not None:
            name, stated = named
            found.setdefault((name, stated.unit, stated.protects, stated.simulated), []).append(stated)
    told = []
    for (name, *_), statements in found.items():
        epsilons = sorted({statement.epsilon for statement in statements})
        nearest = min(statements, key=lambda statement: abs(statement.epsilon - USUAL))
        others = f", here with epsilon {', '.join(f'{e:.3g}' for e in epsilons)}" if len(epsilons) > 1 else ""
        told.append({"who": f"{name}{others}", **privacy.stated(nearest)})
    return told
