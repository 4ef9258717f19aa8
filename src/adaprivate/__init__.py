"""Differentially private bandits."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adaprivate import environments, mechanisms, policies, privacy
    from adaprivate.errors import ClippedWarning, InputError, LittleToLearnWarning
    from adaprivate.features import Featuriser
    from adaprivate.logs.evaluate import evaluate
    from adaprivate.mechanisms import Secure
    from adaprivate.mechanisms.laws.randomised_response import flip
    from adaprivate.planning import plan
    from adaprivate.registry import register
    from adaprivate.runtime.catalog import Catalogue
    from adaprivate.runtime.decision import RewardRefusedError
    from adaprivate.runtime.named import (
        AdaPrivateTS,
        AdaPrivateUCB,
        LinTS,
        LinUCB,
        NoiseAware,
        NoiseAwareTS,
        NoiseAwareUCB,
        RandomPlay,
        RRLinTS,
        RRLinUCB,
        TunedLinUCB,
        load,
        policy,
    )
    from adaprivate.simulation import simulate

    __version__: str

__all__ = [
    "AdaPrivateTS",
    "AdaPrivateUCB",
    "Catalogue",
    "ClippedWarning",
    "Featuriser",
    "InputError",
    "LinTS",
    "LinUCB",
    "LittleToLearnWarning",
    "NoiseAware",
    "NoiseAwareTS",
    "NoiseAwareUCB",
    "RRLinTS",
    "RRLinUCB",
    "RandomPlay",
    "RewardRefusedError",
    "Secure",
    "TunedLinUCB",
    "__version__",
    "environments",
    "evaluate",
    "flip",
    "load",
    "mechanisms",
    "plan",
    "policies",
    "policy",
    "privacy",
    "register",
    "simulate",
]

# Loaded on first use, so that accounting never waits for the compiler, nor a client of the service for accounting.
_LAZY = {
    "Catalogue": "adaprivate.runtime.catalog",
    "ClippedWarning": "adaprivate.errors",
    "Featuriser": "adaprivate.features",
    "InputError": "adaprivate.errors",
    "LittleToLearnWarning": "adaprivate.errors",
    "RewardRefusedError": "adaprivate.runtime.decision",
    "Secure": "adaprivate.mechanisms",
    "flip": "adaprivate.mechanisms.laws.randomised_response",
    "environments": "adaprivate.environments",
    "evaluate": "adaprivate.logs.evaluate",
    "mechanisms": "adaprivate.mechanisms",
    "plan": "adaprivate.planning",
    "policies": "adaprivate.policies",
    "policy": "adaprivate.runtime.named",
    "privacy": "adaprivate.privacy",
    "load": "adaprivate.runtime.named",
    "register": "adaprivate.registry",
    "simulate": "adaprivate.simulation",
    **dict.fromkeys(
        (
            "AdaPrivateTS",
            "AdaPrivateUCB",
            "LinTS",
            "LinUCB",
            "NoiseAware",
            "NoiseAwareTS",
            "NoiseAwareUCB",
            "RRLinTS",
            "RRLinUCB",
            "RandomPlay",
            "TunedLinUCB",
        ),
        "adaprivate.runtime.named",
    ),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("adaprivate")
    if name not in _LAZY:
        raise AttributeError(f"module 'adaprivate' has no attribute {name!r}")
    with importlib.import_module("adaprivate.extras").needed():
        module = importlib.import_module(_LAZY[name])
    return getattr(module, name, module)


def __dir__() -> list[str]:
    return sorted(__all__)
