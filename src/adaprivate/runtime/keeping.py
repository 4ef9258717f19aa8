"""How a policy is kept: as bytes, in files, and by one process at a time."""

from __future__ import annotations

import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from adaprivate import check
from adaprivate.mechanisms.book import COPY_REFUSED, Book
from adaprivate.mechanisms.noise import Secure
from adaprivate.runtime.storage import Lease, packed, restored, unpacked, write_private


class Kept(ABC):
    """What a policy does to be kept; see :class:`~adaprivate.runtime.policy.Policy`."""

    _lock: threading.RLock
    _busy: bool
    _process: int
    _lease: Lease | None
    _count_until: Callable[[int], None]

    @property
    @abstractmethod
    def source(self) -> Secure | None:
        """The source of exact noise; None where noise is simulated."""

    @property
    @abstractmethod
    def book(self) -> Book:
        """The private part of a policy with exact noise."""

    @property
    @abstractmethod
    def _begun(self) -> int:
        """How many rounds were counted or, by exact noise, begun to be."""

    def _expect_idle(self) -> None:
        """Raise in what interrupts this very thread in the middle of a call, as a signal's handler: the lock lets it in."""
        if self._busy:
            raise check.InputError("Expected a policy not to be used or saved by what interrupts a call of it.")

    def to_bytes(self, saved: str = "") -> bytes:
        """Everything, the open decisions too: PRIVATE. With exact noise, go on from one copy only."""
        with self._lock:
            self._expect_idle()
            self._busy = True
            try:
                return self._packed(saved)
            finally:
                self._busy = False

    def _packed(self, saved: str) -> bytes:
        if self.source is not None:
            self._count_until(self._begun)  # a round that an interruption left half counted
        return packed(self, saved)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The policy that :meth:`to_bytes` wrote. With exact noise, go on from one copy only."""
        policy: Self = restored(cls, unpacked(data))
        return policy

    def save(self, path: str | Path) -> None:
        """Write everything to one file, whole or not at all, readable by its owner alone: it holds private sums.

        A policy with exact noise is continued once: by whoever loads the file, or by this one when it releases again.
        """
        target = Path(path).resolve()
        with self._lock:
            self._expect_idle()
            self._busy = True
            try:
                self._write(target)
            finally:
                self._busy = False

    def _write(self, target: Path) -> None:
        lease, older = Lease(target, secrets.token_hex(8)), self._lease

        def hand_over() -> None:
            """Now nobody goes on from the older file, nor this policy without the new lease."""
            self._claim()
            self._lease = lease if self.source is not None else None

        try:
            write_private(target, self._packed(lease.saved), hand_over)
        except BaseException:
            if not lease.stands():  # the older file is still the last one
                self._lease = older
            raise
        if older is not None and older.path == target:
            older.drop()

    def _claim(self) -> None:
        """Before noise is drawn: nobody else may go on from the file that was saved last."""
        self._expect_alone()
        if self._lease is not None:
            self._lease.take("the policy that saved it")
            self._lease.draws()

    def _expect_alone(self) -> None:
        """Raise where another goes on in place of this policy: a forked process, or whoever loaded its file."""
        if self.source is None:
            return
        if self._process != os.getpid():
            raise check.InputError(
                "Expected a policy with exact noise to stay in the process that made it: after a fork both would release "
                "the same batch. Make or load it in the one process that shall go on."
            )
        if self._lease is not None:
            self._lease.expect_free()

    def __reduce_ex__(self, protocol: object) -> Any:
        if self.source is not None:
            raise check.InputError(COPY_REFUSED)
        return type(self).from_bytes, (self.to_bytes(),)
