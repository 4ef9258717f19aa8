"""Decisions: what a choice says about itself, and how a reward finds the way back to it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any, NamedTuple

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.notebook import facts_html


class RewardRefusedError(check.InputError):
    """A reward that cannot be taken; ``reason`` is "late", "repeated", "lost" or "foreign"."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Origin:
    """Which policy made a decision, in which of its lives: after a restart, rounds that were lost are decided anew.

    Its key stays with the policy: whoever lacks it cannot make up a token.
    """

    __slots__ = ("_key", "id", "life")

    def __init__(self, id: str, key: bytes, life: str | None = None) -> None:
        self.id = id
        self.life = secrets.token_hex(4) if life is None else life
        self._key = key

    def token(self, number: int) -> str:
        """The text that stands for the decision of this round, with a mark that proves it was made here."""
        if not self._key:
            raise check.InputError("Expected the token to be asked of the decision itself: copies do not carry the key.")
        text = f"{self.id}.{self.life}.{number}"
        return f"{text}.{hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()[:20]}"

    def read(self, token: str) -> tuple[str, int] | None:
        """The life and the round of a token that this policy made; None for any other text."""
        parts = token.split(".")
        whole = len(parts) == 4 and token.isascii() and parts[2].isdecimal() and len(parts[2]) < 20
        if not whole or parts[0] != self.id:
            return None
        made = Origin(self.id, self._key, parts[1]).token(int(parts[2]))
        return (parts[1], int(parts[2])) if hmac.compare_digest(token.encode(), made.encode()) else None

    def __repr__(self) -> str:
        return self.id

    def __reduce__(self) -> tuple[type[Origin], tuple[str, bytes, str]]:
        return Origin, (self.id, b"", self.life)  # copies of a decision do not carry the key


class Decision(NamedTuple):
    """A choice: its index, how many batches had been released, its probability if asked for, its round, its features.

    ``item``: the id of what was chosen, where that was from a catalogue with ids; not kept when a policy is saved.
    """

    action: int
    version: int
    propensity: float | None
    round: int
    features: Floats
    origin: Origin
    item: Any = None

    def __repr__(self) -> str:
        # neither features, which may be long and private, nor where it comes from
        item = "" if self.item is None else f", item={self.item!r}"
        shown = f"action={self.action}, version={self.version}, propensity={self.propensity}, round={self.round}"
        return f"Decision({shown}{item})"

    def _repr_html_(self) -> str:
        return facts_html("Decision", {name: getattr(self, name) for name in self._fields[:4]})

    @property
    def token(self) -> str:
        """A text that stands for this decision: ``policy.learn(token, reward)``. It can be sent away and come back."""
        return self.origin.token(self.round)


class Open:
    """A decision that waits for its reward; ``features`` are out of the caller's reach. ``person``: whose it is, or -1."""

    __slots__ = ("decision", "features", "person", "reward")

    def __init__(self, decision: Decision, features: Floats, person: int = -1, reward: float | None = None) -> None:
        self.decision = decision
        self.features = features
        self.person = person
        self.reward = reward


def life_and_round(decision: object, origin: Origin) -> tuple[str, int]:
    """The life and round of a decision of this policy, or of its token; anything else is refused."""
    if type(decision) is Decision:
        if decision.origin is origin or decision.origin.id == origin.id:
            return decision.origin.life, decision.round
        text = f"Expected decision to be one of policy {origin}, not of {decision.origin}."
        raise RewardRefusedError("foreign", text)
    found = origin.read(decision) if isinstance(decision, str) else None
    if found is None:
        shown = "a text that is no token of it" if isinstance(decision, str) else type(decision).__name__
        text = f"Expected decision={shown} to be a decision of policy {origin}, or its token."
        raise RewardRefusedError("foreign", text)
    return found
