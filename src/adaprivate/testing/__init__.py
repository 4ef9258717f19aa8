"""The conformance suite of policies, for anyone's: what a policy must do, and that it is as private as it says.

``check_policy(settings)`` runs everything on one settings object of a registered policy; ``policy_checks()`` lists the
single checks, for a test that is parametrised over them. The suite plays the policy with rewards of its own making.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adaprivate.testing import (
    behaviour,
    blocks,
    books,
    channels,
    choices,
    compiled_channels,
    messages,
    people,
    public,
    releases,
)
from adaprivate.testing.suite import collected

__all__ = ["check_policy", "policy_checks"]


def policy_checks() -> dict[str, Callable[..., None]]:
    """Every check by name: call it with settings, and perhaps ``world=`` an environment to be simulated in.

    A check raises AssertionError with one sentence that names it and the policy; it passes where it does not apply.
    """
    return collected(behaviour, books, releases, choices, channels, compiled_channels, blocks, messages, people, public)


def check_policy(settings: Any, *, world: Any = None) -> None:
    """Run the whole suite on these settings; AssertionError, one sentence, on the first failure.

    The policy must be found by its name: by an entry point, or by :func:`adaprivate.register`. ``world``: the environment
    to simulate it in; by default a small one that fits.
    """
    for check in policy_checks().values():
        check(settings, world=world)
