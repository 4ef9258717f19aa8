"""How much one caller may ask for: a bucket of tokens each for decisions, another for rewards, filled at a steady rate.

A refusal may be seen by whoever shares a bucket. So what decisions are refused never depends on rewards, and buckets of
rewards are told apart by address too: a key that many browsers share would else show one visitor whether others send
rewards.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable

from adaprivate import check
from adaprivate.service.faults import Fault

MOST_CALLERS = 100_000
"""Buckets that are kept; a full one is as good as none."""


class Buckets:
    """A bucket for each caller: ``rate`` tokens a second, at most those of one second. Larger calls go into debt."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = check.real("rate", rate, above=0)
        self._most = max(self._rate, 1.0)
        self._clock = clock
        self._full_at: dict[Hashable, float] = {}
        """When each caller's bucket will be full again."""
        self._lock = threading.Lock()

    def take(self, caller: Hashable, amount: int) -> float:
        """Take so many tokens; 0, or, if nothing is left, after how many seconds to come again."""
        with self._lock:
            now = self._clock()
            full_at = max(self._full_at.get(caller, now), now)
            wait = full_at - now - (self._most - 1) / self._rate  # until there is a whole token
            if wait > 1e-9:
                return wait
            if len(self._full_at) >= MOST_CALLERS:
                self._forget(now)
            self._full_at[caller] = full_at + amount / self._rate
            return 0.0

    def _forget(self, now: float) -> None:
        """Let go of full buckets, and where all are in use of those that are full first."""
        self._full_at = {caller: at for caller, at in self._full_at.items() if at > now}
        if len(self._full_at) >= MOST_CALLERS:
            kept = sorted(self._full_at.items(), key=lambda pair: pair[1])[MOST_CALLERS // 2 :]
            self._full_at = dict(kept)


class Limits:
    """At most ``rate`` decisions a second for each caller, and as many rewards; None: as many as they like."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._decisions = None if rate is None else Buckets(rate, clock)
        self._rewards = None if rate is None else Buckets(rate, clock)

    def decisions(self, key: str | None, address: str, amount: int) -> None:
        """Raise unless so many decisions may be asked for: by key, or by address where no key is needed."""
        if self._decisions is not None:
            _expect(self._decisions.take(key or address, amount), "decisions")

    def rewards(self, key: str | None, address: str, amount: int) -> None:
        """Raise unless so many rewards may be sent: by key and address."""
        if self._rewards is not None:
            _expect(self._rewards.take((key, address), amount), "rewards")


def _expect(wait: float, what: str) -> None:
    if wait > 0:
        raise Fault(
            "too-many", f"Expected fewer {what} a second from one caller; come again later.", retry_after=math.ceil(wait)
        )
