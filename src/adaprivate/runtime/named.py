"""Constructors of policies, ``ap.NoiseAware(...)``: :func:`policy` of one name, with its options in the signature.

Nothing is typed twice. At run time a signature and its help are made from the settings class, which is imported with the
first use of the constructor. For type checkers, each constructor takes the fields of its settings and those of ``_Use``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec

from adaprivate import policies
from adaprivate.runtime.opening import policy

if TYPE_CHECKING:
    from adaprivate.mechanisms import Secure
    from adaprivate.policies.adaprivate.batched import AdaPrivateTSSettings, AdaPrivateUCBSettings
    from adaprivate.policies.linear.baselines import LinTSSettings, LinUCBSettings, RandomSettings, TunedLinUCBSettings
    from adaprivate.policies.linear.flips import FlippedLinTSSettings, FlippedLinUCBSettings
    from adaprivate.policies.noise_aware.noise_aware import NoiseAwareDefaultSettings
    from adaprivate.policies.noise_aware.ts import NoiseAwareTSSettings
    from adaprivate.policies.noise_aware.ucb import NoiseAwareUCBSettings
    from adaprivate.runtime.policy import Policy

    Options = ParamSpec("Options")

    @dataclass(frozen=True, kw_only=True)
    class _Use:
        """What a constructor takes beside settings; the dimension can be left to the first candidates."""

        dimension: Any = None  # int | None, which the settings' own int does not allow
        seed: int | None = None
        source: Secure | None = None
        reward_window: int = 0
        propensities: bool = False
        reward_range: tuple[float, float] = (0.0, 1.0)

    def _policy(options: Callable[Options, _Use]) -> Callable[Options, Policy]: ...

    @dataclass(frozen=True, kw_only=True)
    class _NoiseAware(_Use, NoiseAwareDefaultSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _NoiseAwareTS(_Use, NoiseAwareTSSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _NoiseAwareUCB(_Use, NoiseAwareUCBSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _AdaPrivateTS(_Use, AdaPrivateTSSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _AdaPrivateUCB(_Use, AdaPrivateUCBSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _RRLinUCB(_Use, FlippedLinUCBSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _RRLinTS(_Use, FlippedLinTSSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _LinUCB(_Use, LinUCBSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _LinTS(_Use, LinTSSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _TunedLinUCB(_Use, TunedLinUCBSettings): ...

    @dataclass(frozen=True, kw_only=True)
    class _RandomPlay(_Use, RandomSettings): ...

    NoiseAware = _policy(_NoiseAware)
    NoiseAwareTS = _policy(_NoiseAwareTS)
    NoiseAwareUCB = _policy(_NoiseAwareUCB)
    AdaPrivateTS = _policy(_AdaPrivateTS)
    AdaPrivateUCB = _policy(_AdaPrivateUCB)
    RRLinUCB = _policy(_RRLinUCB)
    RRLinTS = _policy(_RRLinTS)
    LinUCB = _policy(_LinUCB)
    LinTS = _policy(_LinTS)
    TunedLinUCB = _policy(_TunedLinUCB)
    RandomPlay = _policy(_RandomPlay)

NAMES = {
    "NoiseAware": "noise-aware",
    "NoiseAwareTS": "noise-aware-ts",
    "NoiseAwareUCB": "noise-aware-ucb",
    "AdaPrivateTS": "adaprivate-ts",
    "AdaPrivateUCB": "adaprivate-ucb",
    "RRLinUCB": "rr-linucb",
    "RRLinTS": "rr-lints",
    "LinUCB": "linucb",
    "LinTS": "lints",
    "TunedLinUCB": "tuned-linucb",
    "RandomPlay": "random",
}
"""The constructors, and the policies that they make."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _constructor(name, NAMES[name])
    return made


def _constructor(function: str, name: str) -> Any:
    """The function that makes the policy of this name."""
    settings = policies.settings_class(name)
    others = [each for each in inspect.signature(policy).parameters.values() if each.name not in ("name", "options")]

    def make(**options: Any) -> Any:
        return policy(name, **options)

    made: Any = make
    made.__name__ = made.__qualname__ = function
    made.__doc__ = f"{inspect.getdoc(settings)}\n\n``policy({name!r}, ...)`` with its options in the signature.\n"
    parameters = [*map(_parameter, dataclasses.fields(settings)), *others]
    made.__signature__ = inspect.Signature(parameters, return_annotation="Policy")
    return made


def _parameter(field: dataclasses.Field[Any]) -> inspect.Parameter:
    """A setting as an option. The dimension can be left to the first candidates."""
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    kind = str(field.type)
    if field.name == "dimension":
        default, kind = None, "int | None"
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
