"""What the policies of an experiment promise when they draw exact noise, each kind of promise once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from adaprivate import environments, privacy
from adaprivate.check import InputError
from adaprivate.experiments import ROUNDS
from adaprivate.privacy import Guarantee
from adaprivate.simulation import policy_settings

USUAL = 1.0


@cache
def _place(name: str, options: str) -> Any:
    return environments.environment(name, json.loads(options))


def _statement(row: Mapping[str, Any]) -> Guarantee | None:
    """The guarantee of a row's policy with exact noise, or with simulated noise where it has no other; None without one."""
    place = _place(row.get("environment", "synthetic"), json.dumps(row.get("world")))
    settings = policy_settings(row["policy"], place, row.get("rounds", ROUNDS), row.get("options", {}))
    try:
        return settings.guarantee(exact_noise=True)
    except InputError:
        return settings.guarantee()


def promises(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Who promises what: one sentence for each policy and unit, at the epsilon nearest to 1 of those that were run.

    Rows that choose their settings by themselves, and policies that look at no reward, are passed over.
    """
    found: dict[tuple[Any, ...], list[tuple[Guarantee, int]]] = {}
    seen = set()
    for row in rows:
        key = json.dumps([row.get(part) for part in ("policy", "options", "environment", "world", "rounds")], default=str)
        if not isinstance(row.get("policy"), str) or "choice" in row or key in seen:
            continue
        seen.add(key)
        stated = _statement(row)
        if stated is not None and stated.epsilon > 0:
            of = found.setdefault((row["policy"], stated.unit, stated.protects, stated.simulated), [])
            of.append((stated, row.get("rounds", ROUNDS)))
    told = []
    for (name, *_), statements in found.items():
        epsilons = sorted({statement.epsilon for statement, _ in statements})
        nearest, rounds = min(statements, key=lambda one: abs(one[0].epsilon - USUAL))
        others = f", here with epsilon {', '.join(f'{e:.3g}' for e in epsilons)}" if len(epsilons) > 1 else ""
        told.append({"who": f"{name}{others}", **privacy.stated(nearest, rounds)})
    return told
