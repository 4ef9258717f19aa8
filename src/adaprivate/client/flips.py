"""Bits told in place of rewards, of bandits that let no reward leave the client.

Touches rewards: each is flipped here and forgotten. What is kept is the bit that is told, which protects the reward by
itself; a second bit of the same reward would weaken it, so there is none.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from functools import lru_cache

from adaprivate import check

REMEMBERED = 100_000
"""So many acknowledged decisions are remembered, so that no second bit is told of them."""


class Flips:
    """One bit for each decision, drawn once, whatever is reported of it later; shared by threads."""

    def __init__(self, most: float | None) -> None:
        """most: the largest epsilon of a bit, and nothing but bits may leave; None: what the decision says."""
        self._most = None if most is None else check.budget(most)
        self._lock = threading.Lock()
        self._told: dict[str, int] = {}
        self._acknowledged: OrderedDict[str, None] = OrderedDict()

    def sent(self, decision_id: str, keep: float | None, reward: float) -> float | None:
        """What is sent of this reward: itself unless it must be flipped; None where its bit has been acknowledged."""
        if keep is None:
            check.expect(self._most is None, "keep", keep, "to be a number: only flipped bits leave this client")
            local = decision_id.lstrip("0123456789abcdef")[:1].isupper()
            check.expect(not local, "keep", keep, "to come with the id of a local bandit's decision: it says how to flip")
            return reward
        with self._lock:
            if decision_id in self._acknowledged:
                return None
            if decision_id not in self._told:
                self._told[decision_id] = self._flip(keep, reward)
            return self._told[decision_id]

    def acknowledge(self, decision_id: str) -> None:
        """The service has it, or will never take it."""
        with self._lock:
            if self._told.pop(decision_id, None) is not None:
                self._acknowledged[decision_id] = None
                if len(self._acknowledged) > REMEMBERED:
                    self._acknowledged.popitem(last=False)

    def _flip(self, keep: float, reward: float) -> int:
        from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse, flip

        if self._most is not None:
            allowed = RandomisedResponse(self._most).keep
            check.expect(keep <= allowed, "keep", keep, f"<= {allowed}: local_epsilon={self._most:g} allows no more")
        return flip(reward, epsilon(keep))


@lru_cache(maxsize=64)
def epsilon(keep: float) -> float:
    """At which bits are told truly with this probability, or with one that rounding makes smaller."""
    from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse

    check.expect(0.5 < check.probability("keep", keep) < 1, "keep", keep, "> 0.5 and < 1")
    found, shrink = math.log(keep) - math.log1p(-keep), 2.0**-52
    while RandomisedResponse(found).keep > keep:
        found, shrink = found * (1 - shrink), 2 * shrink
    return found
