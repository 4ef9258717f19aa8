"""What callers give with a decision, checked: bad input gets one clear error, and nothing has changed."""

from __future__ import annotations

import hashlib
from numbers import Integral
from typing import Any, NoReturn
from uuid import UUID

import numpy as np

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.features.clipping import Clipping
from adaprivate.mechanisms.plan import SamplingPlan
from adaprivate.people.identity import user_text

FARTHEST = 1e300 * (1 - 2**-30)
"""Squared norms up to this are within 1e300 in whatever order they are added up."""
ENOUGH_SEEN = 100
"""Fewer candidates than this are no reason to warn that many were clipped, unless one decision's are all too long."""
LARGEST = 2**256
"""Whole numbers that stand for people are smaller."""


def offered_of(candidates: object, axes: int, dimension: int | None) -> Floats:
    """A copy of the candidates with this many axes, of any dimension if that is None; anything else is refused."""
    try:
        offered = np.array(candidates, np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        offered = None
    if offered is None:  # not while the first error is handled, whose text may quote a number
        offered = check.floats("candidates", candidates, (None,) * (axes - 1) + (dimension,))
    shape = offered.shape
    if len(shape) != axes or 0 in shape or (shape[-1] != dimension and dimension is not None):
        last = "dimension" if dimension is None else dimension
        wanted = f"(K, {last}) with K >= 1" if axes == 2 else f"(n, K, {last}) with n, K >= 1"
        rows = ": one row per candidate, for example [[1, 0, 0]]" if len(shape) == 1 and axes == 2 else ""
        check.expect(False, "candidates.shape", shape, f"== {wanted}{rows}")
    return offered


class ClippedCount(Clipping):
    """How many candidates were longer than 1, of all that were shown."""

    _said = False

    def add(self, clipped: int, seen: int) -> str | None:
        """Count those of one call; a sentence to warn with, once, where more than a few percent were clipped."""
        self.count("candidates", clipped, seen)
        if self._said:
            return None
        if clipped == seen > 1:
            which = f"All {seen:,} candidates shown at once"
        elif self.seen >= ENOUGH_SEEN and self.warning() is not None:
            which = f"{self.share:.0%} of {self.seen:,} candidates"
        else:
            return None
        self._said = True
        return (
            f"{which} were longer than 1 and were clipped: the guarantee holds, but their lengths "
            "are lost. Scale features by public constants; ap.Featuriser does."
        )


def expect_finite(offered: Floats, candidates: object) -> None:
    """Raise, naming the entry, if a candidate's norm is not a finite number."""
    with np.errstate(over="ignore"):
        if not ((offered * offered).sum(axis=-1) <= FARTHEST).all():
            refuse_infinite(offered, candidates)


def refuse_infinite(offered: Floats, candidates: object) -> NoReturn:
    """Say which entry makes a candidate's norm no finite number."""
    check.floats("candidates", candidates, offered.shape)
    raise check.InputError("Expected candidates to have norms <= 1e150.")


def expect_arms(offered: Floats, arms: Floats) -> None:
    """Raise unless these are the fixed arms."""
    if not np.array_equal(offered, arms):
        raise check.InputError(f"Expected candidates to be the {len(arms)} unit vectors: the arms are fixed.")


def expect_public_choice(settings: Any) -> None:
    """Raise where a choice is itself the noise: its probabilities would tell the rewards."""
    released = not isinstance(settings.plan, SamplingPlan)
    check.expect(released, "policy", settings.name, "to choose by what it released, for its probabilities to be public")


def expect_observes(reward_window: int) -> None:
    """Raise where the decisions of others cannot be taken in."""
    check.expect(reward_window == 0, "reward_window", reward_window, "== 0 to observe others' decisions")


def needs_user(settings: Any) -> bool:
    """Whether a policy protects people, and so must be told whose decisions are."""
    return bool(getattr(getattr(getattr(settings, "plan", None), "unit", None), "needs_user", False))


def users_of(users: object, count: int) -> list[object]:
    """As many users as there are decisions, in order."""
    ordered = isinstance(users, list | tuple) or (isinstance(users, np.ndarray) and users.ndim == 1)
    if not ordered:
        kind = type(users).__name__
        raise check.InputError(f"Expected users of type {kind} to be a list, tuple or array, one user a decision.")
    found: list[object] = list(users)  # type: ignore[call-overload]
    check.expect(len(found) == count, "len(users)", len(found), f"== {count}, one for each decision")
    return found


def person_of(user: object, needed: bool, key: bytes, policy: str) -> int:
    """The number by which a person is known here, -1 where the policy does not ask whose decisions are.

    :func:`~adaprivate.people.identity.user_text` says which spellings are one person.
    Who lacks the key cannot tell whose it is. Two people with the same number, one in 2^63 pairs, are protected as one.
    """
    if needed:
        if user is None:
            raise check.InputError(
                "Expected user to be given with every decision: this policy protects people. Who is not known may have "
                "an id of that visit's own, and is then protected for it alone."
            )
        known = isinstance(user, str | Integral | UUID) and not isinstance(user, bool)
        if not known or user == "" or (isinstance(user, Integral) and abs(int(user)) >= LARGEST):
            kind = type(user).__name__
            raise check.InputError(f"Expected user of type {kind} to be a non-empty str, a whole number or a UUID.")
        text = user_text(user).encode("utf-8", "surrogatepass")  # type: ignore[arg-type]
        return int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest()) >> 1
    if user is not None:
        raise check.InputError(f"Expected user not to be given: {policy} was not made to protect people.")
    return -1
