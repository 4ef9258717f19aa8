"""Group commit: decisions and rewards of all requests that wait are stored together, in one transaction each.

One thread writes. While it waits for the disk, further requests gather; they go together next. Rewards have a time of their
own: a slot at every beat of the clock, in which no decision is stored *whether or not a reward came*. So a decision never
waits for somebody's reward, and how long it took says nothing about one.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from adaprivate.check import InputError
from adaprivate.service.deciding import Decided, Prepared
from adaprivate.service.faults import Fault, facts_of
from adaprivate.service.observing import Log
from adaprivate.service.problems import Refusal

MOST_WAITING = 20_000
"""Decisions that may wait, and as many rewards; who comes then is told that the service is too busy."""
MOST_TOGETHER = 4_096
"""Decisions, and rewards, that go into one transaction; a request is never divided."""
USUAL_CANDIDATES = 100
"""A decision among more than so many counts as several."""
BEAT = 0.025
"""Seconds from one slot for rewards to the next; all processes of a machine have theirs at the same time."""
SLOT = 0.004
"""Seconds that a slot lasts, at least: time enough to commit rewards."""
_SOON = ((b"retry-after", b"1"),)


class Store(Protocol):
    """The part of the service that writes."""

    def decide(self, groups: Sequence[tuple[str, Sequence[Prepared], str | None]]) -> list[list[Decided]]:
        """One transaction for all."""

    def reward(self, entries: Sequence[tuple[str, float | bool]]) -> list[str]:
        """One transaction for all."""


@dataclass(slots=True)
class _Waiting:
    work: Any
    size: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    outcome: Any = None
    error: BaseException | None = None


class _Line:
    """Requests of one kind that wait. Bounded by how many decisions, or rewards, they ask for."""

    def __init__(self, most: int, lock: threading.Lock) -> None:
        self._most, self._lock = most, lock
        self._size = 0
        self._queue: deque[_Waiting] = deque()

    def add(self, waiting: _Waiting) -> None:
        """Put it last; the lock is held."""
        if self._size and self._size + waiting.size > self._most:
            raise Refusal("too-busy", "Expected fewer requests at once; come again in a moment.", _SOON)
        self._size += waiting.size
        self._queue.append(waiting)

    def __bool__(self) -> bool:
        return bool(self._queue)

    def taken(self, most: int) -> list[_Waiting]:
        """The first of them, up to about ``most`` in size."""
        found: list[_Waiting] = []
        size = 0
        with self._lock:
            while self._queue and size < most:
                found.append(self._queue.popleft())
                size += found[-1].size
            self._size -= size
        return found


class Slots:
    """When rewards may be stored: once a beat, for at least ``SLOT`` seconds, and nothing else then.

    A slot begins with the beat, or as soon as the decisions that were being stored then are. Both are the same whatever
    rewards come.
    """

    def __init__(self) -> None:
        self.free = 0.0
        """When the last transaction of decisions ended."""
        self.ends = 0.0
        self._passed = -1
        """The last beat whose slot is over."""

    def left(self, now: float) -> float | None:
        """Seconds until the next slot; None in one."""
        beat = math.floor(now / BEAT)
        if beat != self._passed:
            self.ends = max(beat * BEAT, self.free) + SLOT
            if now < self.ends:
                return None
            self._passed = beat
        return (beat + 1) * BEAT - now

    def fits(self, now: float) -> bool:
        """Whether enough is left of this slot to commit in."""
        return self.ends - now > SLOT / 2

    def over(self, now: float) -> None:
        """It is over; it may have lasted longer, where rewards took longer to store."""
        self._passed = math.floor(now / BEAT)


def wait_for_slot() -> None:
    """Sleep until a slot for rewards begins, unless enough of one is left: for work that no request waits for."""
    since = time.monotonic() % BEAT
    if since > SLOT / 2:
        time.sleep(BEAT - since)


class Writer:
    """The thread that stores. ``decide`` and ``reward`` are awaited by requests; they return after the commit."""

    def __init__(
        self, store: Store, log: Log, *, most_waiting: int = MOST_WAITING, most_together: int = MOST_TOGETHER
    ) -> None:
        self._store, self._log, self._together = store, log, most_together
        self._lock = threading.Lock()
        self._decisions, self._rewards = _Line(most_waiting, self._lock), _Line(most_waiting, self._lock)
        self._bell: SimpleQueue[bool] = SimpleQueue()
        """Rung once for each request, and to stop."""
        self._slots = Slots()
        self._thread = threading.Thread(target=self._run, name="adaprivate-writer", daemon=True)
        self._stopping = False

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, store all that waits, and end."""
        with self._lock:
            self._stopping = True
            self._bell.put(True)
        if self._thread.is_alive():
            self._thread.join()

    async def decide(self, bandit: str, asks: Sequence[Prepared], key: str | None, candidates: int = 0) -> list[Decided]:
        """These decisions of a bandit, stored; with an idempotency key those that it stored before.

        ``candidates``: how many they have to choose from, all together. Of many, fewer are decided and wait at a time.
        """
        size = max(len(asks), candidates // USUAL_CANDIDATES)
        found: list[Decided] = await self._put(self._decisions, (bandit, asks, key), size)
        return found

    async def reward(self, entries: Sequence[tuple[str, float | bool]]) -> list[str]:
        """What became of each of these rewards."""
        found: list[str] = await self._put(self._rewards, entries, len(entries))
        return found

    def _put(self, line: _Line, work: Any, size: int) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        waiting = _Waiting(work, size, loop, loop.create_future())
        with self._lock:  # all that is taken is put before the last ring, and so stored
            if self._stopping:
                raise Refusal("too-busy", "Expected a service that goes on: this process is stopping.", _SOON)
            line.add(waiting)
            self._bell.put(True)
        return waiting.future

    def _run(self) -> None:
        while not self._stopping:
            self._wait(self._turn())
        while self._decisions or self._rewards:
            self._settle(self._decisions.taken(self._together), self._decide)
            self._settle(self._rewards.taken(self._together), self._reward)

    def _turn(self) -> float | None:
        """Store what is to be stored now; the seconds for which there is nothing more, None: until somebody comes."""
        until_slot = self._slots.left(time.monotonic())
        if until_slot is None:
            self._slot()
        elif decisions := self._decisions.taken(self._together):
            self._settle(decisions, self._decide)
            self._slots.free = time.monotonic()
        else:
            return until_slot if self._rewards else None
        return 0.0

    def _wait(self, seconds: float | None) -> None:
        """So long, or until somebody rings; all that rang meanwhile is served by the next turn."""
        try:
            if seconds != 0.0:
                self._bell.get(timeout=seconds)
            while True:
                self._bell.get_nowait()
        except Empty:
            return

    def _slot(self) -> None:
        """Store rewards that wait, and let the slot pass."""
        now = time.monotonic()
        if self._slots.fits(now) and (rewards := self._rewards.taken(self._together)):
            self._settle(rewards, self._reward)
            now = time.monotonic()
        time.sleep(max(self._slots.ends - now, 0.0))
        self._slots.over(time.monotonic())

    def _decide(self, waiting: Sequence[_Waiting]) -> None:
        for one, outcome in zip(waiting, self._store.decide([one.work for one in waiting]), strict=True):
            one.outcome = outcome

    def _reward(self, waiting: Sequence[_Waiting]) -> None:
        answers = self._store.reward([entry for one in waiting for entry in one.work])
        place = 0
        for one in waiting:
            one.outcome = answers[place : place + one.size]
            place += one.size

    def _settle(self, waiting: list[_Waiting], store: Callable[[Sequence[_Waiting]], None]) -> None:
        """Store these together; if one of them cannot be, each by itself, so that it alone fails."""
        if not waiting:
            return
        try:
            store(waiting)
        except Exception as error:
            if _concerns_all(error) or len(waiting) == 1:
                self._failed(waiting, error)
            else:
                for place, one in enumerate(waiting):
                    try:
                        store([one])
                    except Exception as own:
                        if _concerns_all(own):
                            self._failed(waiting[place:], own)
                            break
                        self._failed([one], own)
        _resolve(waiting)

    def _failed(self, waiting: Sequence[_Waiting], error: Exception) -> None:
        if not isinstance(error, Fault | InputError):
            self._log.failure("store", error)
        for one in waiting:
            one.error = error


def _concerns_all(error: Exception) -> bool:
    return isinstance(error, Fault) and error.kind == "unavailable"


def _resolve(waiting: Sequence[_Waiting]) -> None:
    """Wake the requests, with one call into each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
    for one in waiting:
        loops.setdefault(one.loop, []).append(one)
    for loop, own in loops.items():
        try:
            loop.call_soon_threadsafe(_wake, own)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            continue


def _wake(waiting: Sequence[_Waiting]) -> None:
    for one in waiting:
        if one.future.done():
            continue
        if one.error is not None:
            one.future.set_exception(one.error)
        else:
            one.future.set_result(one.outcome)


class Recurring:
    """A thread that does something again and again, and never dies: after an error it waits longer, ``longest`` at most."""

    def __init__(self, name: str, action: Callable[[], object], seconds: float, log: Log, longest: float = 5.0) -> None:
        self._name, self._action, self._seconds, self._log, self._longest = name, action, seconds, log, longest
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"adaprivate-{name}", daemon=True)

    def start(self) -> None:
        """Begin, with a pause first."""
        self._thread.start()

    def stop(self) -> None:
        """End, after what is being done just now."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause, failed, noted = self._seconds, False, -float("inf")
        while not self._ending.wait(pause):
            try:
                self._action()
            except Exception as error:
                pause = min(max(2 * pause, 0.1), self._longest)
                if not failed or time.monotonic() - noted > 60:  # once, then every minute
                    noted = time.monotonic()
                    self._log.failure(self._name, error, **facts_of(error))
                failed = True
            else:
                if failed:
                    self._log.event("info", self._name, recovered=True)
                pause, failed = self._seconds, False
