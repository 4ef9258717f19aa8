"""What the checks share: how they are collected, how they fail, and what they play with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from adaprivate import environments
from adaprivate.check import Array, Floats
from adaprivate.runtime.inputs import needs_user
from adaprivate.runtime.policy import Policy

_MARK = "_is_a_check"
PEOPLE = 4
"""So many come, one after the other, to policies that protect people."""


def checks(function: Callable[[Any, Any], None]) -> Callable[..., None]:
    """Make this function of (settings, world) a check: whatever it raises becomes a sentence with its name."""

    @functools.wraps(function)
    def check(settings: Any, world: Any = None) -> None:
        try:
            function(settings, default_world(settings) if world is None else world)
        except Exception as error:  # whatever anyone's policy raises
            said = str(error) if isinstance(error, AssertionError) else f"raised {type(error).__name__}: {error}"
            text = " ".join(said.split()).removesuffix(".")
            raise AssertionError(f"{check_name(function)} of {getattr(settings, 'name', settings)!s}: {text}.") from error

    setattr(check, _MARK, True)
    return check


def check_name(function: Callable[..., Any]) -> str:
    """The name of a check: that of its function, in words."""
    return function.__name__.replace("_", "-")


def collected(*modules: ModuleType) -> dict[str, Callable[..., None]]:
    """All checks of these modules, by name, in the order in which they are written."""
    found = [value for module in modules for value in vars(module).values() if getattr(value, _MARK, False)]
    return {check_name(function): function for function in found}


def expect(condition: object, text: str) -> None:
    """Raise AssertionError with this text unless the condition holds."""
    if not condition:
        raise AssertionError(text)


def fixed_arms(settings: Any) -> bool:
    """Whether the candidates are the unit vectors every round."""
    return bool(getattr(settings, "fixed_arms", False))


def default_world(settings: Any) -> Any:
    """A small environment in which these settings can be simulated."""
    if fixed_arms(settings):
        return environments.environment("bernoulli-arms", {"arms": settings.dimension})
    people = PEOPLE if needs_user(settings) else 0
    options = {"dimension": settings.dimension, "arms": 12, "candidates": 3, "people": people}
    return environments.environment("synthetic", options)


def person(settings: Any, number: int) -> int:
    """Who comes in this round: people in turn, or -1 where a policy does not ask."""
    return number % PEOPLE if needs_user(settings) else -1


def whose(settings: Any, number: int) -> dict[str, Any]:
    """The same as an argument of a decision."""
    return {"user": person(settings, number)} if needs_user(settings) else {}


def offers(settings: Any, seed: int = 0) -> tuple[Floats, Floats]:
    """Candidates (rounds, K, d) of norm around 1/2, or the arms, and a reward for each round."""
    rng = np.random.default_rng([seed, 98])
    if fixed_arms(settings):
        return np.tile(np.eye(settings.dimension), (settings.rounds, 1, 1)), rng.uniform(size=settings.rounds)
    shape = (settings.rounds, 4, settings.dimension)
    return rng.standard_normal(shape) / np.sqrt(settings.dimension) / 2, rng.uniform(size=settings.rounds)


def play(policy: Policy, candidates: Floats, rewards: Any) -> list[int]:
    """Decide and learn once for each row; the actions. Rewards that are None are told as missing."""
    actions = []
    for offered, reward in zip(candidates, rewards, strict=True):
        decision = policy.decide(offered, **whose(policy.settings, policy.decided))
        policy.learn(decision, None if reward is None else float(reward))
        actions.append(decision.action)
    return actions


def leaves(state: Any) -> Iterator[Array]:
    """The plain arrays of a state, nested parts and fields of records included."""
    if isinstance(state, tuple):
        for part in state:
            yield from leaves(part)
    elif isinstance(state, np.ndarray) and state.dtype.names:
        for name in state.dtype.names:
            yield state[name]
    else:
        yield np.asarray(state)


def same_state(one: Any, two: Any) -> bool:
    """Whether two states hold the same numbers, bit for bit."""
    pairs = zip(leaves(one), leaves(two), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
