"""What both adapters need: a policy that others drive, on features made by public constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaprivate import check, policies
from adaprivate.features import Featuriser
from adaprivate.mechanisms import Secure
from adaprivate.policies.core.settings import exact_guarantee
from adaprivate.privacy import Guarantee
from adaprivate.runtime.inputs import needs_user
from adaprivate.runtime.policy import Policy


def plain_features(context: int, actions: int, norm: float = 1.0) -> Featuriser:
    """A model for each of ``actions`` things, in ``context`` numbers (0: none) whose norm is at most ``norm``, and 1.

    ``norm`` is a public constant: never take it from the people who are protected. Longer contexts are clipped to it.
    """
    length = check.whole("context", context, at_least=0)
    field = {"name": "context", "kind": "vector", "length": length, "norm": norm}
    return Featuriser([field] if length else [], {"kind": "one-hot", "most": actions, "name": "action"}, "blocks")


def settings_of(name: str, featuriser: Featuriser, rounds: int, options: Mapping[str, Any]) -> Any:
    """The settings of a policy that others ask and tell; those that must decide for themselves are refused."""
    for fixed in ("dimension", "rounds"):
        check.expect(fixed not in options, "option", fixed, "not to be given: it follows from the features and rounds")
    settings: Any = policies.settings(name, {**options, "dimension": featuriser.dimension, "rounds": rounds})
    check.expect(not settings.fixed_arms, "policy", name, "not to be one on fixed arms: its own draws are paid for")
    check.expect(not needs_user(settings), "unit", "user", "to be another: nobody here says whose a round is")
    return settings


def promised(settings: Any, seed: int | None) -> Guarantee | None:
    """What :func:`made` will promise, before it is made; None where the policy is not private."""
    if not settings.private:
        return None
    stated: Guarantee = exact_guarantee(settings) if seed is None else settings.guarantee()
    public = seed is not None or (stated.unit == "event" and not getattr(settings, "local", False))
    check.expect(public, "policy", settings.name, "to protect single rewards: harnesses see contexts and actions")
    return stated


def made(settings: Any, seed: int | None) -> Policy:
    """The policy: noise simulated from a seed protects nobody; without one it is exact, from the operating system."""
    promised(settings, seed)
    return Policy(settings, seed=seed, source=Secure() if seed is None else None)
