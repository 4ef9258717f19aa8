"""Policies by name, from files, and by constructors with the options of one name in the signature (``ap.NoiseAware``).

Nothing is typed twice. At run time a signature and its help are made from the settings class, which is imported with the
first use of the constructor. For type checkers, each constructor takes the fields of its settings and those of ``_Use``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from adaprivate import check, policies
from adaprivate.mechanisms import Secure
from adaprivate.runtime.policy import Policy
from adaprivate.runtime.storage import restored, unpacked

if TYPE_CHECKING:
    from adaprivate.policies.adaprivate.batched import AdaPrivateTSSettings, AdaPrivateUCBSettings
    from adaprivate.policies.linear.baselines import LinTSSettings, LinUCBSettings, RandomSettings, TunedLinUCBSettings
    from adaprivate.policies.linear.flips import FlippedLinTSSettings, FlippedLinUCBSettings
    from adaprivate.policies.noise_aware.noise_aware import NoiseAwareDefaultSettings
    from adaprivate.policies.noise_aware.ts import NoiseAwareTSSettings
    from adaprivate.policies.noise_aware.ucb import NoiseAwareUCBSettings

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


def policy(
    name: str,
    *,
    seed: int | None = None,
    source: Secure | None = None,
    reward_window: int = 0,
    propensities: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
    **options: Any,
) -> Policy:
    """A policy by name. Give ``seed=`` for simulation, or ``source=Secure()`` for real people's data.

    ``reward_range``: the public least and greatest reward; by it rewards are scaled to 0 to 1.
    ``options`` are its settings; ``help(policies.settings_class(name))`` explains them. Without ``dimension`` it is that of
    the first candidates shown (``decide``, ``decide_many``, ``observe``); policies on fixed arms are told it.
    """
    given: dict[str, Any] = {
        "seed": seed,
        "source": source,
        "reward_window": reward_window,
        "propensities": propensities,
        "reward_range": reward_range,
    }
    check.known(options, [*policies.options(name), *given], name)
    dimension = options.pop("dimension", None)
    for shaped, axes in (("catalogue", 2), ("theta_0", 1)):
        if dimension is None and options.get(shaped) is not None:
            dimension = check.floats(shaped, options[shaped], (None,) * axes).shape[-1]

    def settings_of(dimension: int) -> Any:
        return policies.settings(name, options | {"dimension": dimension})

    if dimension is not None:
        return Policy(settings_of(dimension), **given)
    fixed = policies.settings_class(name).fixed_arms
    return Policy(policies.settings(name, options) if fixed else settings_of, **given)


def load(path: str | Path) -> Policy:
    """The policy that :meth:`Policy.save` wrote, ready to continue; with exact noise, by one process only."""
    target = Path(path)
    try:
        stored = unpacked(target.read_bytes())
        loaded: Policy = restored(Policy, stored)
    except check.InputError as error:
        raise check.InputError(f"Expected path={str(path)!r} to be a saved policy: {error}") from None
    except OSError as error:
        raise check.InputError(f"Expected path={str(path)!r} to be a saved policy ({type(error).__name__}).") from None
    loaded._stored.loaded(target, str(stored["saved"]))
    return loaded


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
