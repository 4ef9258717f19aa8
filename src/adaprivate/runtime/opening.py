"""Policies by name, and from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adaprivate import check, policies
from adaprivate.mechanisms import Secure
from adaprivate.runtime.policy import Policy
from adaprivate.runtime.storage import Lease, restored, unpacked
from adaprivate.runtime.waiting import Waiting


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
    if options.get("dimension") is not None or policies.settings_class(name).fixed_arms:
        return Policy(policies.settings(name, options), **given)
    for shaped, axes in (("catalogue", 2), ("theta_0", 1)):
        if options.get(shaped) is not None:
            dimension = check.floats(shaped, options[shaped], (None,) * axes).shape[-1]
            return Policy(policies.settings(name, options | {"dimension": dimension}), **given)
    return Waiting(lambda dimension: policies.settings(name, options | {"dimension": dimension}), **given)


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
    if loaded.source is not None:
        loaded._lease = Lease(target.resolve(), str(stored["saved"]))
        loaded._lease.take("the process that loaded it")
    return loaded
